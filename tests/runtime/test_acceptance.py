"""In-model acceptance against a package of plain Python: what is run, what is timed, what is compared."""

import sys
import textwrap
from pathlib import Path

import pytest
import torch

from kforge_mcp.runtime import acceptance, acceptance_outputs
from kforge_mcp.runtime.failures import Refusal

MODEL = """
import torch

def scaled(x):
    return x * 2

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        return {"out": self.linear(scaled(x)), "steps": (torch.arange(3), None)}

def make():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(4, 16),)
"""

PACKAGE = """
import contextlib, sys
from . import _attach

def attach(model):
    return _attach.attach()

def detach():
    _attach.detach()

def stats():
    return {"scaled": {"hits": _attach.hits, "misses": {}}}
"""

ATTACH = """
import sys
from collections import namedtuple
Point = namedtuple("Point", "card holder attribute dispatch original")
Report = namedtuple("Report", "modules functions left_alone")
hits, original = 0, None

def kernel(x):
    global hits
    hits += 1
    return KERNEL

def attach():
    global original
    holder = sys.modules["MODULE"]
    original = holder.scaled
    holder.scaled = kernel
    return Report({}, {"scaled": ["MODULE:scaled"]}, {})

def detach():
    sys.modules["MODULE"].scaled = original

def points():
    return [Point("scaled", sys.modules["MODULE"], "scaled", kernel, original)]
"""


@pytest.fixture
def measured(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Runs an acceptance of a kernel given as an expression in `x`."""
    number = abs(hash(request.node.name)) % 10**9
    module, package = f"net_{number}", f"package_{number}"
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(kernel: str, **changes):
        (tmp_path / f"{module}.py").write_text(MODEL)
        folder = tmp_path / "packages" / package
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(PACKAGE)
        (folder / "_attach.py").write_text(ATTACH.replace("KERNEL", kernel).replace("MODULE", module))
        payload = {
            "stage": "measure", "entry": f"{module}.py:make", "project_dir": str(tmp_path),
            "package": str(folder.parent), "name": package, "cards": ["scaled"], "seed": 1, "budget_s": 0.0,
            "least_rounds": 3, "most_rounds": 5, **changes,
        }  # fmt: skip
        events = []
        return acceptance.accept(payload, events.append), events

    return run


def test_every_round_runs_every_arrangement_and_clocks_the_card(measured) -> None:
    answer, events = measured("x + x")
    arrangements = {"without", "without_again", "with", "with_again", "off:scaled"}
    assert len(answer["rounds"]) == 3
    assert len(events) == 4
    for item in answer["rounds"]:
        assert set(item["order"]) == set(item["runs"]) == arrangements
        assert item["runs"]["without"]["cards"] == {}
        for name in arrangements - {"without", "without_again"}:
            card = item["runs"][name]["cards"]["scaled"]
            assert card["count"] == len(card["calls"]) == answer["repeats"]
            assert {shapes for shapes, _ in card["calls"]} == {"4x16"}
            assert 0 < card["us"] < item["runs"][name]["total_us"] * answer["repeats"]
    assert answer["served"] == {"scaled": {"hits": 1, "misses": {}}}
    assert answer["outputs"]["equal"]
    assert answer["outputs"]["bitwise"]
    assert answer["attached"]["functions"]


def test_a_kernel_that_is_wrong_is_found_and_named(measured) -> None:
    answer, _ = measured("x * 2.001")
    assert not answer["outputs"]["equal"]
    assert answer["outputs"]["equal_without"] == ["scaled"]
    assert "allowed" in answer["outputs"]["difference"]


def test_rounding_of_a_right_kernel_is_within_tolerance(measured) -> None:
    answer, _ = measured("x * 2 * (1 + 2**-23)")
    assert answer["outputs"]["equal"]
    assert not answer["outputs"]["bitwise"]


def test_a_package_name_that_exists_in_the_environment_is_refused(measured) -> None:
    with pytest.raises(Refusal, match="choose another package name"):
        measured("x", name="json")


def test_digest_is_that_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib
    import inspect

    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "net_identify.py").write_text(MODEL)
    reference = {"imports": [{"name": "net_identify", "path": str(tmp_path / "net_identify.py")}], "sys_path": []}
    names = ("net_identify:scaled", "net_identify:Net", "net_identify:gone", "math:sin")
    cards = [{"card_id": name, "qualified_name": name, "reference": reference} for name in names]
    digests = acceptance.accept({"stage": "identify", "cards": cards}, lambda event: None)["digests"]
    text = textwrap.dedent(inspect.getsource(sys.modules["net_identify"].Net))
    assert digests["net_identify:Net"] == hashlib.sha256(text.encode()).hexdigest()
    assert digests["net_identify:gone"] == digests["math:sin"] == ""


def yardstick(eager, oracle=None, disturbed=None) -> acceptance_outputs.Yardstick:
    made = acceptance_outputs.Yardstick(eager, lambda: eager, lambda relative: disturbed or eager)
    made.__dict__["_oracle"] = (oracle, "float64" if oracle else "no oracle here")
    return made


def test_tolerance_follows_from_eager_s_own_error() -> None:
    torch.manual_seed(0)
    truth = torch.randn(1000, dtype=torch.float64)
    noise = torch.randn(1000, dtype=torch.float64)
    eager = (truth + 1e-4 * noise).float()
    ruler = yardstick([eager], oracle=[truth])
    assert ruler.compare([(truth - 1.9e-4 * noise).float()])["equal"]
    worse = ruler.compare([(truth - 2.2e-4 * noise).float()])
    assert not worse["equal"]
    assert worse["oracle"] == "float64"


def test_a_float64_run_that_computes_something_else_is_no_oracle() -> None:
    eager = [torch.ones(100)]
    assert acceptance_outputs._oracle(lambda: [torch.full((100,), 1.0 + 1e-6, dtype=torch.float64)], eager)[0]
    assert acceptance_outputs._oracle(lambda: [torch.full((100,), 1.01, dtype=torch.float64)], eager)[0] is None
    assert acceptance_outputs._oracle(lambda: [torch.ones(99)], eager)[0] is None
    oracle, note = acceptance_outputs._oracle(lambda: [][0], eager)
    assert oracle is None
    assert "IndexError" in note


def test_without_an_oracle_the_disturbed_model_is_the_measure() -> None:
    eager = torch.ones(100)
    ruler = yardstick([eager], disturbed=[eager * (1 + 1e-3)])
    assert ruler.compare([eager * (1 + 1.9e-3)])["equal"]
    assert not ruler.compare([eager * (1 + 2.1e-3)])["equal"]


@pytest.mark.parametrize(
    ("eager", "packaged"),
    [
        (torch.tensor([1, 2]), torch.tensor([1, 3])),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0])),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, float("inf")])),
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
    ],
)
def test_other_differences_are_not_tolerated(eager: torch.Tensor, packaged: torch.Tensor) -> None:
    answer = yardstick([eager]).compare([packaged])
    assert not answer["equal"]
    assert answer["difference"]


def test_tensors_are_found_in_caches_and_outputs_of_any_class() -> None:
    class Cache:
        def __init__(self) -> None:
            self.layers = [{"keys": torch.ones(1)}, self]
            self.length = 3

    found = acceptance_outputs.tensors_of([{"logits": torch.zeros(2)}, (Cache(), None, "text")])
    assert [tensor.tolist() for tensor in found] == [[0.0, 0.0], [1.0]]


def test_disturbance_has_the_size_asked_for() -> None:
    noise = torch.Generator().manual_seed(0)
    value = (torch.ones(1000), {"index": torch.arange(3)}, None)
    floating, kept, nothing = acceptance_outputs.disturb(value, 1e-3, noise)
    assert 0.5e-3 < (floating - 1).abs().max() <= 1.001e-3
    assert torch.equal(kept["index"], torch.arange(3))
    assert nothing is None
