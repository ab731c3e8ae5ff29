"""Putting a package into a model and taking it out again, in the model interpreter."""

import subprocess


def test_attached_model_is_served_and_detached_model_is_the_original(in_model) -> None:
    in_model("""
expected = model(x)
before = {name: type(module) for name, module in model.named_modules()}
function = tiny_model.scaled_pair
report = tk.attach(model)
assert report.active and report.modules == {"TinyNorm": 3}, report
assert report.functions == {"scaled_pair": ["tiny_model:scaled_pair"]} and not report.left_alone
got = model(x)
assert (got - expected).abs().max() < 1e-4
counts = tk.stats()
assert counts["TinyNorm"] == {"hits": 3, "misses": {}, "cloned_inputs": 0, "errors": 0}
assert counts["scaled_pair"]["hits"] == 3
assert isinstance(model, tiny_model.TinyModel) and type(model).__name__ == "TinyModel"
tk.detach()
assert {name: type(module) for name, module in model.named_modules()} == before
assert all(type(module) is before[name] for name, module in model.named_modules())
assert tiny_model.scaled_pair is function
assert torch.equal(model(x), expected)
assert tk.stats()["TinyNorm"]["hits"] == 3
""")


def test_functions_are_served_only_while_an_attached_model_runs_or_inside_enabled(in_model) -> None:
    in_model("""
y = torch.randn(1, 64, 256)
tk.attach(model)
tiny_model.scaled_pair(y, y)
assert tk.stats()["scaled_pair"]["hits"] == 0
tk.detach()
function = tiny_model.scaled_pair
with tk.enabled():
    first, second = tiny_model.scaled_pair(y, y)
assert tk.stats()["scaled_pair"]["hits"] == 1
assert torch.equal(first, y * 2) and torch.equal(second, y + y)
assert tiny_model.scaled_pair is function
""")


def test_deepcopy_pickle_and_save_give_back_the_original_classes(in_model) -> None:
    in_model("""
import copy, io, pickle
expected = model(x)
state = {name: value.clone() for name, value in model.state_dict().items()}
tk.attach(model)
copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)]
file = io.BytesIO()
torch.save(model, file)
file.seek(0)
copies.append(torch.load(file, weights_only=False))
for other in copies:
    assert type(other) is tiny_model.TinyModel, type(other)
    assert other is copies[2] or type(other.norms[0]) is tiny_model.TinyNorm
    assert other.state_dict().keys() == state.keys()
assert torch.equal(copies[0](x), expected) and torch.equal(copies[1](x), expected)
assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
model.load_state_dict(state)
assert tk.stats()["TinyNorm"]["hits"] == 0
""")


def test_hooks_run_and_conversions_keep_the_swap(in_model) -> None:
    in_model("""
tk.attach(model)
seen = []
handle = model.norms[1].register_forward_hook(lambda module, args, result: seen.append(result.shape))
model(x)
assert seen == [torch.Size([1, 64, 256])]
handle.remove()
model.double()
model(x.double())
assert tk.stats()["TinyNorm"]["misses"] == {"dtype": 3}
model.float()
before = tk.stats()["TinyNorm"]["hits"]
model(x)
assert tk.stats()["TinyNorm"]["hits"] == before + 3
""")


def test_subclasses_patched_instances_and_changed_sources_are_left_alone(in_model) -> None:
    in_model("""
class TinyNorm(tiny_model.TinyNorm):
    def forward(self, hidden_states):
        return hidden_states * 0

model.norms[0] = TinyNorm(256)
old = model.norms[1].forward
model.norms[1].forward = lambda hidden_states: old(hidden_states) + 1
report = tk.attach(model)
assert report.modules == {"TinyNorm": 1}
assert report.left_alone == {
    "norms.0": "the source of its class differs from the captured one",
    "norms.1": "its forward is patched",
}, report
assert torch.equal(model.norms[0](x), x * 0)
assert torch.equal(model.norms[1](x), old(x) + 1)
""")


def test_a_module_shared_in_two_places_is_swapped_once_and_restored(in_model) -> None:
    in_model("""
model.norms[2] = model.norms[0]
assert tk.attach(model).modules == {"TinyNorm": 2}
model(x)
assert tk.stats()["TinyNorm"]["hits"] == 3
tk.detach()
assert type(model.norms[2]) is tiny_model.TinyNorm
""")


def test_attaching_twice_is_attaching_once_and_models_detach_one_by_one(in_model) -> None:
    in_model("""
other, _ = tiny_model.make()
function = tiny_model.scaled_pair
assert tk.attach(model) is tk.attach(model)
tk.attach(other)
tk.detach(model)
assert type(model) is tiny_model.TinyModel and type(other) is not tiny_model.TinyModel
assert tiny_model.scaled_pair is not function
other(x)
assert tk.stats()["scaled_pair"]["hits"] == 3
tk.detach(other)
assert tiny_model.scaled_pair is function
tk.detach(other)
tk.detach()
""")


def test_a_script_run_as_main_is_found_by_its_source(toolbox, package, tmp_path) -> None:
    script = tmp_path / "infer.py"
    script.write_text(
        (toolbox.folder / "tiny_model.py").read_text()
        + f"""
import sys
sys.path.insert(0, {str(package)!r})
import tinykernels as tk
torch.set_grad_enabled(False)
model, (x,) = make()
report = tk.attach(model)
assert report.modules == {{"TinyNorm": 3}} and report.functions, report
model(x)
assert tk.stats()["scaled_pair"]["hits"] == 3
"""
    )
    done = subprocess.run([toolbox.model_python, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_threads_share_an_attached_model(in_model) -> None:
    in_model("""
import threading
expected = model(x)
tk.attach(model)
results, errors = [], []

def work():
    try:
        with torch.no_grad():
            for _ in range(20):
                results.append(model(x))
    except Exception as error:
        errors.append(error)

threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not errors and len(results) == 80
assert all((result - expected).abs().max() < 1e-4 for result in results)
assert tk.stats()["TinyNorm"] == {"hits": 240, "misses": {}, "cloned_inputs": 0, "errors": 0}
""")


def test_two_packages_attach_and_detach_in_any_order(toolbox, package, tmp_path) -> None:
    other = toolbox.stage(tmp_path / "otherkernels", toolbox.kernels(), "otherkernels")
    for first, second in (("tk", "ok"), ("ok", "tk")):
        toolbox.python(
            f"""
import torch, tiny_model, tinykernels as tk, otherkernels as ok
torch.set_grad_enabled(False)
model, (x,) = tiny_model.make()
expected, function = model(x), tiny_model.scaled_pair
tk.attach(model)
ok.attach(model)
model(x)
assert ok.stats()["TinyNorm"]["hits"] == 3 and tk.stats()["TinyNorm"]["hits"] == 0
{first}.detach()
model(x)
assert {second}.stats()["scaled_pair"]["hits"] >= 3
{second}.detach()
assert tiny_model.scaled_pair is function
assert type(model) is tiny_model.TinyModel and type(model.norms[0]) is tiny_model.TinyNorm
assert torch.equal(model(x), expected)
""",
            package,
            other,
        )


def test_a_device_that_joins_later_is_served_in_models_attached_before(in_model) -> None:
    in_model(
        """
from tinykernels._attach import cards
there = tiny_model.TinyModel().eval().to("meta")
tk.attach(there)
x = torch.empty(1, 64, 256, device="meta")
there.norms[0](x)
assert tk.stats()["TinyNorm"]["misses"] == {"device": 1} and tk.stats()["TinyNorm"]["hits"] == 0
for card in cards():
    card.serve_on(torch.device("meta"))
assert there.norms[0](x).device.type == "meta"
assert tk.stats()["TinyNorm"]["hits"] == 1
tk.attach(model)
model(torch.randn(1, 64, 256))
assert tk.stats()["TinyNorm"]["hits"] == 4
"""
    )
