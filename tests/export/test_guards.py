"""What a kernel does not serve goes to the original, bit for bit, with the reason counted."""

import pytest

NORM = "TinyNorm"
PAIR = "scaled_pair"

DEVIATIONS = {
    "shape": ("norm", "(torch.randn(1, 63, 256),)"),
    "more rows": ("norm", "(torch.randn(2, 64, 256),)"),
    "rank": ("norm", "(torch.randn(64, 256),)"),
    "stride": ("norm", "(torch.randn(1, 256, 64).transpose(1, 2),)"),
    "expanded": ("norm", "(torch.randn(1, 1, 256).expand(1, 64, 256),)"),
    "dtype": ("norm", "(torch.randn(1, 64, 256, dtype=torch.float64),)"),
    "subclass": ("norm", "(Tagged(torch.randn(1, 64, 256)),)"),
    "constant": ("pair", "(y, y, 3.0)"),
    "constant of another type": ("pair", "(y, y, 2)"),
    "tensor for a constant": ("pair", "(y, y, torch.tensor(2.0))"),
    "not a tensor": ("pair", "(1.5, y)"),
    "sparse": ("pair", "(y.to_sparse(), y.to_sparse())"),
    "mkldnn": ("pair", "(y.to_mkldnn(), y.to_mkldnn())"),
    "meta": ("pair", "(y.to('meta'), y.to('meta'))"),
    "object": ("pair", "(y, y, Two())"),
}
REASONS = {
    "shape": "shape", "more rows": "shape", "rank": "shape", "stride": "stride", "expanded": "stride",
    "dtype": "dtype", "subclass": "subclass", "constant": "constant", "constant of another type": "constant",
    "tensor for a constant": "form", "not a tensor": "form", "sparse": "layout", "mkldnn": "layout", "meta": "device",
    "object": "argument type",
}  # fmt: skip

PROLOGUE = """
class Tagged(torch.Tensor):
    pass

class Two:
    def __rmul__(self, other):
        return other * 2

y = torch.randn(1, 64, 256)
norm, pair = model.norms[0], lambda *args, **kwargs: tiny_model.scaled_pair(*args, **kwargs)

def same(one, two):
    if isinstance(one, tuple):
        return all(map(same, one, two))
    if not isinstance(one, torch.Tensor):
        return one == two
    if one.layout is not torch.strided:
        one, two = one.to_dense(), two.to_dense()
    return type(one) is type(two) and one.stride() == two.stride() and (one.is_meta or torch.equal(one, two))
"""


def test_deviating_calls_give_the_original_result_and_the_right_reason(in_model) -> None:
    in_model(
        PROLOGUE
        + f"""
deviations, reasons = {DEVIATIONS!r}, {REASONS!r}
prepared = {{name: (who, eval(text)) for name, (who, text) in deviations.items()}}
expected = {{name: {{"norm": norm, "pair": pair}}[who](*args) for name, (who, args) in prepared.items()}}
tk.attach(model)
for name, (who, args) in prepared.items():
    card = {{"norm": "{NORM}", "pair": "{PAIR}"}}[who]
    before = tk.stats()[card]
    with tk.enabled():
        got = {{"norm": norm, "pair": pair}}[who](*args)
    after = tk.stats()[card]
    assert same(got, expected[name]), name
    assert after["hits"] == before["hits"], name
    new = {{k: v - before["misses"].get(k, 0) for k, v in after["misses"].items()}}
    assert {{k: v for k, v in new.items() if v}} == {{reasons[name]: 1}}, (name, new)
"""
    )


def test_every_way_of_passing_the_captured_values_is_served(in_model) -> None:
    in_model(
        PROLOGUE
        + """
with tk.enabled():
    for result in (pair(y, y), pair(y, y, 2.0), pair(y, second=y), pair(second=y, first=y, scale=2.0)):
        assert torch.equal(result[0], y * 2)
assert tk.stats()["scaled_pair"] == {"hits": 4, "misses": {}, "cloned_inputs": 0, "errors": 0}
"""
    )


def test_a_call_that_does_not_fit_raises_what_the_original_raises(in_model) -> None:
    in_model(
        PROLOGUE
        + """
def message(call):
    try:
        call()
    except TypeError as error:
        return str(error)

calls = [lambda: pair(y), lambda: pair(y, y, 2.0, 3.0), lambda: pair(y, y, y=1), lambda: pair(y, y, first=y)]
expected = [message(call) for call in calls]
assert all(expected), expected
with tk.enabled():
    assert [message(call) for call in calls] == expected
assert tk.stats()["scaled_pair"]["misses"] == {"form": 4}
"""
    )


def test_a_changed_module_goes_to_its_own_code(in_model) -> None:
    in_model(
        PROLOGUE
        + """
tk.attach(model)
norm.eps = 1e-5
changed = norm(y)
assert torch.equal(changed, tiny_model.TinyNorm.forward(norm, y))
assert tk.stats()["TinyNorm"]["misses"] == {"constant": 1}
del norm.eps
norm.register_buffer("eps", torch.tensor(1e-6))
norm(y)
assert tk.stats()["TinyNorm"]["misses"] == {"constant": 1, "form": 1}
"""
    )


def test_grad_autocast_and_functorch_go_to_the_original(in_model) -> None:
    in_model(
        PROLOGUE
        + """
tk.attach(model)
with torch.enable_grad():
    norm(y).sum().backward()
assert norm.weight.grad is not None
with torch.autocast("cpu", dtype=torch.bfloat16):
    norm(y)
batched = torch.randn(5, 1, 64, 256)
got = torch.vmap(norm)(batched)
assert torch.equal(got[3], torch.vmap(tiny_model.TinyNorm.forward, in_dims=(None, 0))(norm, batched)[3])
assert tk.stats()["TinyNorm"] == {
    "hits": 0, "misses": {"grad": 1, "autocast": 1, "functorch": 1}, "cloned_inputs": 0, "errors": 0
}, tk.stats()
with torch.inference_mode():
    assert norm(y).is_inference()
norm.weight.requires_grad_(False)
with torch.enable_grad():
    assert not norm(y).requires_grad
torch.use_deterministic_algorithms(True)
norm(y)
assert tk.stats()["TinyNorm"]["hits"] == 3
"""
    )


def test_a_misaligned_input_is_cloned_and_counted(in_model) -> None:
    in_model(
        PROLOGUE
        + """
tk.attach(model)
expected = norm(y)
shifted = torch.empty(y.numel() + 1)[1:].view(y.shape)
shifted.copy_(y)
assert torch.equal(norm(shifted), expected)
assert tk.stats()["TinyNorm"]["cloned_inputs"] == 1 and tk.stats()["TinyNorm"]["hits"] == 2
"""
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("y[:, :32], w, 0", "hidden_states has shape [1, 32, 256], not [1, 64, 256]"),
        ("y.transpose(1, 2).contiguous().transpose(1, 2), w, 0", "hidden_states has strides"),
        ("y.double(), w, 0", "hidden_states has another dtype"),
        ("y, w[None], 0", "weight has another rank"),
        ("y, w, 1", "there is no such variant"),
        ("y, w, -1", "there is no such variant"),
    ],
)
def test_the_operator_itself_refuses_what_it_was_not_judged_on(in_model, arguments: str, words: str) -> None:
    in_model(
        PROLOGUE
        + f"""
tk.attach(model)
w = norm.weight.detach()
operator = torch.ops.tinykernels.tiny_norm
operator(y, w, 0)
try:
    operator({arguments})
except RuntimeError as error:
    assert {words!r} in str(error), error
else:
    raise AssertionError("served")
"""
    )


def test_an_error_inside_a_kernel_is_raised_or_counted_as_the_caller_wants(in_model) -> None:
    in_model(
        PROLOGUE
        + """
import logging, tinykernels._attach
records = []
logging.getLogger("tinykernels").addFilter(lambda record: records.append(record.getMessage()))
expected = norm(y)
def broken(*arguments):
    raise RuntimeError("no memory")
tk.attach(model)
tinykernels._attach.cards()[0].operator = broken
try:
    norm(y)
except RuntimeError as error:
    assert str(error) == "no memory"
else:
    raise AssertionError("not raised")
tk.detach()
tk.attach(model, on_error="fallback")
assert torch.equal(norm(y), expected) and torch.equal(norm(y), expected)
assert tk.stats()["TinyNorm"]["errors"] == 2 and len(records) == 1, records
"""
    )


def test_fake_tensors_and_schema_of_the_operator(in_model) -> None:
    in_model("""
from torch._subclasses.fake_tensor import FakeTensorMode
tk.attach(model)
operator = torch.ops.tinykernels.scaled_pair.default
assert str(operator._schema) == "tinykernels::scaled_pair(Tensor first, Tensor second, int variant) -> (Tensor, Tensor)"
with FakeTensorMode():
    first, second = operator(torch.empty(1, 64, 256), torch.empty(1, 64, 256), 0)
assert first.shape == (1, 64, 256) and second.stride() == (64 * 256, 256, 1) and first.dtype is torch.float32
torch.library.opcheck(operator, (x, x, 0), test_utils=("test_schema", "test_faketensor"))
""")


def test_compiled_code_runs_the_model_s_own_code(in_model) -> None:
    in_model("""
expected = model(x)
tk.attach(model)
compiled = torch.compile(model, backend="eager", fullgraph=True)
assert torch.equal(compiled(x), expected)
assert tk.stats()["TinyNorm"]["hits"] == 0
model(x)
assert tk.stats()["TinyNorm"]["hits"] == 3
""")


def test_a_changed_library_or_an_unfit_machine_is_refused_before_anything_is_loaded(toolbox, package, tmp_path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(package, copy)
    library = next((copy / "tinykernels" / "kernels").glob("*.so"))
    library.write_bytes(library.read_bytes() + b"\0")
    toolbox.python(
        """
import torch, tiny_model, tinykernels as tk
import tinykernels._library as library
model, _ = tiny_model.make()
try:
    tk.attach(model)
except tk.UnsupportedError as error:
    assert "is not the file that was packaged" in str(error)
else:
    raise AssertionError("attached")
assert type(model) is tiny_model.TinyModel and not hasattr(torch.ops.tinykernels, "tiny_norm")
content = {**library.manifest(), "cpu_features": ["avx9000"], "baseline": "x86-64-v9"}
for changed, words in (
    (content, "x86-64-v9, and this processor lacks avx9000"),
    ({**content, "torch_minimum": "99.1"}, "too old"),
    ({**content, "machine": "sparc"}, "Linux on sparc"),
):
    try:
        library.check_machine(changed)
    except tk.UnsupportedError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
""",
        copy,
    )
