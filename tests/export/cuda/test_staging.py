"""The files of a package for CUDA, which GPUs it serves, and what is said of it, without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kforge_mcp.compile.outcome import Binary, KernelResources
from kforge_mcp.export.baseline import device_baseline
from kforge_mcp.export.building import stage
from kforge_mcp.export.kernels import Kernel, assemble
from kforge_mcp.records.result import VariantVerdict
from tests.candidate.cards import candidate_text, dense, make_variant, tensor
from tests.export.cuda.conftest import Item, item, run

SOURCE = candidate_text(
    '[[step]]\nkernel = "k"\ngrid = ["1"]\nblock = ["32"]\nargs = ["x", "out"]\n',
    "__global__ void k(const x_t* x, out_t* out) {}\n",
)
VARIANT = make_variant("v0", [dense(8)], [tensor("x", 0)], [dense(8)])


def plain() -> Item:
    return item("Plain", SOURCE, VARIANT)


def binary(folder: Path, arch: str, content: str) -> Binary:
    path = folder / f"{arch}-{content}.bin"
    path.write_text(content)
    resources = [KernelResources(kernel="k", symbol=f"_k_{arch}")]
    return Binary(path=str(path), digest="", config={}, variants=["v0"], entry="", arch=arch, kernels=resources)


def portable(folder: Path) -> Kernel:
    """A kernel judged on sm_80, compiled for a further GPU and to PTX."""
    one = plain()
    shown = VariantVerdict(variant_id="v0", verdict="faster", speedup=2.0)
    judged = [binary(folder, "sm_80", "judged")]
    further = [binary(folder, "sm_90a", "further"), binary(folder, "compute_80", "ptx"), binary(folder, "sm_80", "no")]
    made = assemble(one.card, one.plan, {}, judged, candidate_id="c", holdout=shown, verdicts=[shown], further=further)
    assert isinstance(made, Kernel)
    return made


@pytest.fixture
def folder(toolbox, tmp_path: Path) -> Path:
    made = portable(tmp_path)
    (tmp_path / "package").mkdir()
    stage(
        tmp_path / "package", "gpukernels", [made],
        baseline=device_baseline("13.1"), compiler=["g++"], torch=toolbox.torch, run=run, target="cuda",
    )  # fmt: skip
    return tmp_path / "package"


def test_a_package_has_the_judged_cubin_others_and_ptx(folder: Path, toolbox) -> None:
    package = folder / "gpukernels"
    content = json.loads((package / "manifest.json").read_text())
    assert content["target"] == "cuda"
    assert content["architectures"] == {"sm_80": True, "sm_90a": False, "compute_80": False}
    assert content["driver_minimum"] == {"cubin": "13.0", "ptx": "13.1"}
    (card,) = content["cards"]
    assert card["source"] == "sources/plain.cu" and (package / card["source"]).exists()
    assert card["modes"] == ["eager", "cuda_graph"] and card["device"] == "cuda"
    files = {one["arch"]: one["file"] for one in card["variants"][0]["kernels"]}
    assert (package / files["sm_80"]).read_text() == "judged"
    assert files["compute_80"].endswith(".compute_80.ptx") and files["sm_90a"].endswith(".sm_90a.cubin")
    symbols = [one["symbols"] for one in card["variants"][0]["kernels"]]
    assert symbols == [["_k_sm_80"], ["_k_sm_90a"], ["_k_compute_80"]]
    assert set(content["libraries"]) == {"_operators.so", *files.values()}
    assert b"libcuda.so.1" in (package / "_operators.so").read_bytes()
    toolbox.python(
        """
import torch, gpukernels
from gpukernels import _library
_library.load()
fake = torch.ops.gpukernels.plain(torch.empty(8, device="meta"), 0)
assert fake.shape == (8,) and fake.device.type == "meta"
for ask in (lambda: gpukernels.attach(torch.nn.Linear(2, 2)), lambda: gpukernels.enabled().__enter__()):
    try:
        ask()
    except gpukernels.UnsupportedError as error:
        assert "this torch finds no usable GPU" in str(error)
    else:
        raise AssertionError("attached without a GPU")
try:
    torch.ops.gpukernels.plain(torch.empty(8), 0)
except NotImplementedError as error:
    assert "CPU" in str(error)
""",
        folder,
    )


def test_each_gpu_gets_the_binary_made_for_it(folder: Path, toolbox) -> None:
    toolbox.python(
        """
from gpukernels._devices import best, usable
made = ["sm_80", "sm_90a", "compute_80", "sm_86", "sm_100f", "compute_90"]
wanted = {(8, 0): "sm_80", (8, 6): "sm_86", (8, 9): "sm_86", (9, 0): "sm_90a", (10, 0): "sm_100f", (10, 3): "sm_100f",
          (12, 0): "compute_90", (7, 5): None}
assert {one: best(made, one) for one in wanted} == wanted
assert best(["sm_90a"], (9, 1)) is None and best(["sm_90a"], (10, 0)) is None and best([], (9, 0)) is None
content = {"architectures": made, "driver_minimum": {"cubin": "12.0", "ptx": "12.8"}}
assert usable(content, (11, 8)) == [] and usable(content, (13, 0)) == made
assert usable(content, (12, 4)) == ["sm_80", "sm_90a", "sm_86", "sm_100f"]
""",
        folder,
    )


def test_a_variant_with_a_tensor_elsewhere_is_left_to_the_original() -> None:
    one = plain()
    (variant,) = one.card.variants
    there = variant.model_copy(update={"tensors": [variant.tensors[0].model_copy(update={"device": "cpu"})]})
    card = one.card.model_copy(update={"variants": [there]})
    shown = VariantVerdict(variant_id="v0", verdict="faster", speedup=2.0)
    made = assemble(card, one.plan, {}, [], candidate_id="c", holdout=shown, verdicts=[shown])
    assert "not all of its tensors are on the GPU" in made.reason  # pyright: ignore[reportAttributeAccessIssue]
