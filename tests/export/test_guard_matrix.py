"""Every kind of deviation from a captured call gives the original's result bit for bit, and counts its reason."""

from pathlib import Path

import pytest

GROUPS = ("dtype", "rank", "shape", "stride", "kind", "constant", "state", "form", "context", "lazy")
LEAST = 200

START = """
import warnings
warnings.simplefilter("ignore")
import torch, tiny_model, deviations, matrixkernels as mk
torch.set_grad_enabled(False)
torch.manual_seed(0)
model, _ = tiny_model.make()
groups = deviations.groups(model)
"""


@pytest.fixture(scope="module")
def in_matrix(toolbox, tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix") / "matrixkernels"
    toolbox.stage(folder, [*toolbox.kernels(), toolbox.doubled()], "matrixkernels")
    return lambda script: toolbox.python(START + script, folder, Path(__file__).parent)


@pytest.mark.parametrize("group", GROUPS)
def test_deviating_calls_give_the_original_s_result_and_count_the_reason(in_matrix, group: str) -> None:
    in_matrix(
        f"""
complaints = deviations.check(mk, model, groups[{group!r}])
assert not complaints, "\\n".join(complaints)
"""
    )


def test_the_matrix_is_whole(in_matrix) -> None:
    in_matrix(
        f"""
assert tuple(groups) == {GROUPS!r}
names = [deviation.name for group in groups.values() for deviation in group]
assert len(names) >= {LEAST}, len(names)
assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
print(len(names))
"""
    )


def test_states_that_change_no_result_are_served(in_matrix) -> None:
    in_matrix("""
y = torch.randn(1, 64, 256)
norm = model.norms[0]
mk.attach(model)
expected = norm(y)
shifted = torch.cat([torch.zeros(16), y.flatten()])[16:].view(y.shape)
contexts = (torch.inference_mode, lambda: torch.device("meta"), torch.autograd.forward_ad.dual_level,
            torch.autograd.detect_anomaly, deviations._deterministic, torch.autograd.profiler.profile)
for count, context in enumerate(contexts, 2):
    with context():
        assert torch.equal(norm(shifted), expected), context
    assert mk.stats()["TinyNorm"] == {"hits": count, "misses": {}, "cloned_inputs": 0, "errors": 0}, context
norm.weight = torch.nn.Parameter(norm.weight.clone())
norm.train()
assert torch.equal(norm(y), expected)
del norm.weight
norm.register_buffer("weight", torch.ones(256))
assert torch.equal(norm(y), expected)
assert mk.stats()["TinyNorm"]["misses"] == {}, mk.stats()
""")
