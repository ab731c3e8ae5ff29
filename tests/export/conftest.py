"""A package made by hand: a user's model file, two cards, two kernels, and figures in the place of the judge's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.candidate.plan import parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.outcome import Binary
from kforge_mcp.export.baseline import baseline_of
from kforge_mcp.export.building import TorchPaths, stage
from kforge_mcp.export.kernels import Kernel, assemble
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.result import VariantVerdict
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Argument, Variant

ROWS, WIDTH = 64, 256

MODEL = f"""
import torch


class TinyNorm(torch.nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, hidden_states):
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        return self.weight * (hidden_states * torch.rsqrt(variance + self.eps))


def scaled_pair(first, second, scale=2.0):
    return first * scale, second + first


def doubled(values):
    return values + values


class TinyModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList([TinyNorm({WIDTH}) for _ in range(3)])
        self.mix = torch.nn.Linear({WIDTH}, {WIDTH})

    def forward(self, x):
        for norm in self.norms:
            a, b = scaled_pair(norm(x), x)
            x = self.mix(a + b)
        return x


def make():
    torch.manual_seed(0)
    return TinyModel().eval(), (torch.randn(1, {ROWS}, {WIDTH}),)
"""

NORM = """// /// kforge
// entry = "norm"
// args = [
//   "hidden_states", "weight", "eps", "hidden_states.numel // hidden_states.shape[-1]", "hidden_states.shape[-1]",
//   "out", "scratch",
// ]
// [workspace]
// scratch = {dtype = "fp32", shape = ["hidden_states.shape[-1]"], init = "zero"}
// ///
#include <cmath>
static void helper(float* y, float v) { *y = v; }
extern "C" void norm(const float* x, const float* w, float eps, int64_t rows, int64_t n, float* out, float* scratch) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += double(x[r * n + i]) * x[r * n + i];
    const float scale = 1.0f / std::sqrt(float(sum / n) + eps);
    for (int64_t i = 0; i < n; ++i) helper(&out[r * n + i], w[i] * (x[r * n + i] * scale) + scratch[i]);
  }
}
"""

PAIR = """// /// kforge
// entry = "norm"
// args = ["first", "second", "scale", "first.numel", "out0", "out1"]
// ///
static void helper(float* y, float v) { *y = v; }
extern "C" void norm(const float* a, const float* b, float scale, int64_t n, float* out0, float* out1) {
  for (int64_t i = 0; i < n; ++i) {
    helper(&out0[i], a[i] * scale);
    helper(&out1[i], b[i] + a[i]);
  }
}
"""

DOUBLED = """// /// kforge
// entry = "norm"
// args = ["values", "values.numel", "out"]
// nondeterministic = true
// ///
extern "C" void norm(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + x[i];
}
"""


def spec(*shape: int) -> TensorSpec:
    stride, step = [], 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    return TensorSpec(dtype="fp32", shape=list(shape), stride=stride)


def norm_card(**changes: Any) -> OperatorCard:
    variant = Variant(
        variant_id="v_norm",
        tensors=[spec(1, ROWS, WIDTH), spec(WIDTH)],
        arguments=[
            Argument(name="hidden_states", kind="tensor", role="input", tensors=[0], path="args[0]"),
            Argument(name="weight", kind="tensor", role="parameter", tensors=[1], path="self.weight"),
            Argument(name="eps", kind="constant", role="constant", value=1e-6, path="self.eps"),
        ],
        outputs=[spec(1, ROWS, WIDTH)],
        call={"args": [{"t": 0}], "kwargs": {}, "parameters": {"weight": 1}},
        output_tree={"t": 0},
        calls=3,
        eager_us=100.0,
    )
    return card("card_norm", "module", "TinyNorm", variant).model_copy(update=changes)


def pair_card(**changes: Any) -> OperatorCard:
    variant = Variant(
        variant_id="v_pair",
        tensors=[spec(1, ROWS, WIDTH), spec(1, ROWS, WIDTH)],
        arguments=[
            Argument(name="first", kind="tensor", role="input", tensors=[0], path="args[0]"),
            Argument(name="second", kind="tensor", role="input", tensors=[1], path="args[1]"),
            Argument(name="scale", kind="constant", role="constant", value=2.0, path="args[2]"),
        ],
        outputs=[spec(1, ROWS, WIDTH), spec(1, ROWS, WIDTH)],
        call={"args": [{"t": 0}, {"t": 1}], "kwargs": {}},
        output_tree={"tuple": [{"t": 0}, {"t": 1}]},
        calls=3,
        eager_us=50.0,
    )
    made = card("card_pair", "function", "scaled_pair", variant)
    return made.model_copy(update={"patch_sites": ["tiny_model:scaled_pair"], **changes})


def doubled_card() -> OperatorCard:
    values = spec(8, 16)
    variant = Variant(
        variant_id="v_doubled",
        tensors=[values],
        arguments=[Argument(name="values", kind="tensor", role="input", tensors=[0], path="args[0]")],
        outputs=[values],
        call={"args": [{"t": 0}], "kwargs": {}},
        output_tree={"t": 0},
        calls=1,
        eager_us=10.0,
    )
    made = card("card_doubled", "function", "doubled", variant)
    return made.model_copy(update={"patch_sites": ["tiny_model:doubled"]})


def card(card_id: str, level: Any, name: str, variant: Variant) -> OperatorCard:
    return OperatorCard(
        card_id=card_id,
        project_id="project_sample",
        level=level,
        name=name,
        qualified_name=f"tiny_model:{name}",
        eligible=True,
        calls=3,
        eager_us=variant.eager_us * 3,
        share=0.3,
        gain_ceiling=1.4,
        worth_it=True,
        variants=[variant],
        reference={"kind": level, "module": "tiny_model", "qualname": name},
    )


def verdict(variant_id: str, word: Any = "faster") -> VariantVerdict:
    return VariantVerdict(
        variant_id=variant_id, verdict=word, speedup=2.0, ci_low=1.8, ci_high=2.2, eager_us=100.0, candidate_us=50.0
    )


@dataclass(frozen=True)
class Toolbox:
    """What tests make packages with."""

    folder: Path
    model_python: str
    torch: TorchPaths
    scripts: Scripts

    def compile(self, name: str, source: str) -> Binary:
        path = self.folder / f"{name}.so"
        if not path.exists():
            unit = self.folder / f"{name}.cpp"
            unit.write_text("#include <cstdint>\n" + source)
            command = ["g++", "-std=c++17", "-O3", "-fPIC", "-shared", "-fopenmp", "-c", str(unit), "-o", f"{unit}.o"]
            subprocess.run(command, check=True)
            subprocess.run(["g++", "-shared", f"{unit}.o", "-o", str(path)], check=True)
        return Binary(path=str(path), digest="", config={}, variants=["v_norm", "v_pair", "v_doubled"], entry="norm")

    def kernel(self, of: OperatorCard, source: str, name: str, sha256: str) -> Kernel:
        plan = parse_plan(source, of, "cpu")
        assert not isinstance(plan, Rejected), plan
        shown = [verdict(variant.variant_id) for variant in of.variants]
        made = assemble(
            of, plan, {}, [self.compile(name, source)], candidate_id=f"cand_{name}", holdout=shown[0], verdicts=shown
        )
        assert isinstance(made, Kernel), made
        return replace(made, source_sha256=sha256)

    def kernels(self) -> list[Kernel]:
        digests = json.loads(self.python(_DIGESTS))
        return [
            self.kernel(norm_card(), NORM, "norm", digests["TinyNorm"]),
            self.kernel(pair_card(), PAIR, "pair", digests["scaled_pair"]),
        ]

    def doubled(self) -> Kernel:
        """A third kernel, which declares itself nondeterministic."""
        return self.kernel(doubled_card(), DOUBLED, "doubled", json.loads(self.python(_DIGESTS))["doubled"])

    def stage(self, folder: Path, kernels: list[Kernel], name: str = "tinykernels") -> Path:
        folder.mkdir(parents=True)
        stage(folder, name, kernels, baseline=baseline_of("x86-64"), compiler=["g++"], torch=self.torch, run=run)
        return folder

    def python(self, script: str, *paths: Path) -> str:
        """Run a script in the model interpreter with the user's model and `paths` importable."""
        return self.scripts.run(script, [str(self.folder), *map(str, paths)])


class Scripts:
    """A model interpreter that has imported torch and forks for every script: no test waits for the import."""

    def __init__(
        self, python: str, folder: Path, environment: dict[str, str] | None = None, *, strict: bool = True
    ) -> None:
        self._folder = folder
        least = {"PATH": "/usr/bin:/bin", "OMP_WAIT_POLICY": "passive", "PYTHONDONTWRITEBYTECODE": "1"}
        environment = environment or least
        program = _FORKING if strict else _FORKING.replace('warnings.simplefilter("error")', "pass")
        self._process = subprocess.Popen(
            [python, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, script: str, paths: list[str]) -> str:
        output = self._folder / "output.txt"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"script": script, "paths": paths, "output": str(output)}) + "\n")
        self._process.stdin.flush()
        status = self._process.stdout.readline().strip()
        assert status == "0", output.read_text()
        return output.read_text()

    def close(self) -> None:
        self._process.communicate()


_FORKING = """
import json, os, sys, traceback, warnings
import torch
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        file = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, 1), os.dup2(file, 2)
        sys.path[:0] = request["paths"]
        warnings.simplefilter("error")
        code = 0
        try:
            exec(compile(request["script"], "<script>", "exec"), sys.modules["__main__"].__dict__)
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

_PATHS = """
import json
from torch.utils import cpp_extension
print(json.dumps([cpp_extension.include_paths(), cpp_extension.library_paths()]))
"""
_DIGESTS = """
import hashlib, inspect, json, textwrap, tiny_model
names = ("TinyNorm", "scaled_pair", "doubled")
texts = {name: textwrap.dedent(inspect.getsource(getattr(tiny_model, name))) for name in names}
print(json.dumps({name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}))
"""


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False


def run(command: Any, *, cwd: Path, timeout_s: float) -> Done:
    done = subprocess.run(command, cwd=cwd, timeout=timeout_s, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def toolbox(tmp_path_factory: pytest.TempPathFactory, model_python: str) -> Iterator[Toolbox]:
    folder = tmp_path_factory.mktemp("sample")
    (folder / "tiny_model.py").write_text(MODEL)
    scripts = Scripts(model_python, folder)
    paths = json.loads(scripts.run(_PATHS, []))
    yield Toolbox(folder, model_python, TorchPaths(*paths), scripts)
    scripts.close()


@pytest.fixture(scope="session")
def package(toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A staged package `tinykernels` with both kernels."""
    return toolbox.stage(tmp_path_factory.mktemp("package") / "tinykernels", toolbox.kernels())


@pytest.fixture
def in_model(toolbox: Toolbox, package: Path) -> Callable[[str], str]:
    """Run a script where `model`, `x`, `tiny_model` and the package `tk` are at hand."""
    start = """
import torch, tiny_model, tinykernels as tk
torch.set_grad_enabled(False)
model, (x,) = tiny_model.make()
"""
    return lambda script: toolbox.python(start + script, package)


@pytest.fixture
def sample_cards() -> tuple[OperatorCard, OperatorCard]:
    """The cards of the user's norm and pair function."""
    return norm_card(), pair_card()


@pytest.fixture
def sample_source() -> str:
    """The norm's candidate."""
    return NORM


@pytest.fixture
def pair_source() -> str:
    """The pair function's candidate."""
    return PAIR
