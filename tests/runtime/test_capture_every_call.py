"""What every call is watched for: containers it changes, calls that differ from the first, tensors in objects."""

from __future__ import annotations

import pytest

EXTRA = """
import collections
import dataclasses
import typing
@dataclasses.dataclass
class Record:
    value: torch.Tensor
    scale: float = 2.0
class Pair(typing.NamedTuple):
    value: torch.Tensor
    other: torch.Tensor
class Holder:
    def __init__(self, value):
        self.value = value
class Slotted:
    __slots__ = ("value",)
    def __init__(self, value):
        self.value = value
class Output(collections.OrderedDict):
    pass
def of_object(thing):
    value = thing.value
    return (value if isinstance(value, torch.Tensor) else value[0]['a']) * 2.0
def gives_holder(x):
    return Holder(x * 2.0)
def appends(x, many):
    many.append(x * 3.0)
    return x * 2.0
def stores(x, table):
    table["seen"] = 1
    return x * 2.0
def sets_field(x, record):
    record.scale = 4.0
    return x * record.scale
def sorts(x, numbers):
    numbers.sort()
    return x * 2.0
TURN = []
def writes_later(x):
    TURN.append(1)
    if len(TURN) % 3 == 0:
        x.mul_(1.0)
    return x * 2.0
def draws_later(x):
    TURN.append(1)
    return x * 2.0 + (torch.rand(()) * 0.0 if len(TURN) % 3 == 0 else 0.0)
def gives_view_later(x):
    TURN.append(1)
    return x if len(TURN) % 3 == 0 else x * 2.0
def grows(x):
    TURN.append(1)
    return x.new_zeros(1 + len(TURN) % 3) if len(TURN) > 1 else x.new_zeros(2)
def twice(x):
    return x * 2.0
def conjugate_result(x):
    return torch.complex(x, x).conj()
"""


@pytest.mark.parametrize("thing", ["Record(x)", "Holder(x)", "Slotted(x)", "Record([{'a': x}])"])
def test_a_tensor_inside_an_object_makes_a_card_with_its_reason(sample, thing):
    card = sample(f"model(lambda self, x: [of_object({thing}), x + 1][1])", extra=EXTRA).card("of_object")
    assert card["variants"] == []
    assert "takes" in str(card["refused"])


def test_a_named_tuple_of_tensors_is_an_argument_like_a_list(sample):
    card = sample("model(lambda self, x: of_object(Pair(x, x + 1)))", extra=EXTRA).card("of_object")
    assert [argument["kind"] for argument in card["variants"][0]["arguments"]] == ["tensors"]


def test_a_result_inside_an_object_makes_a_card_with_its_reason(sample):
    card = sample("model(lambda self, x: gives_holder(x).value + 1)", extra=EXTRA).card("gives_holder")
    assert "returns a value of type" in str(card["refused"])


@pytest.mark.parametrize("wrap", ["Record", "Holder", "Slotted", "lambda x: Pair(x, x)", "lambda x: Output(a=[x])"])
def test_a_workload_that_changes_inside_its_own_result_objects_is_noticed(sample, wrap):
    captured = sample(f"model(lambda self, x: ({wrap})(x + torch.rand(1)))", extra=EXTRA)
    assert any("it is not deterministic" in note for note in captured.answer["notes"])


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("appends(x, [x])", "changes a list, a dictionary or an object that it is given"),
        ("appends(x, [])", "changes a list, a dictionary or an object that it is given"),
        ("sorts(x, [2, 1])", "changes a list, a dictionary or an object that it is given"),
        ("stores(x, {})", "takes table as a dict whose parts have no names of their own"),
        ("sets_field(x, Record(x))", "takes record as a Record whose parts have no names of their own"),
    ],
)
def test_a_call_that_changes_a_container_is_not_eligible(sample, call, reason):
    card = sample(f"model(lambda self, x: {call} + 1)", extra=EXTRA).card(call.partition("(")[0])
    assert card["variants"] == []
    assert reason in str(card["refused"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("writes_later", "writes into an input in place without returning just that input"),
        ("draws_later", "draws random numbers"),
        ("gives_view_later", "returns a view of its input"),
        ("grows", "different structure or shapes"),
    ],
)
def test_a_later_call_that_is_not_like_the_first_makes_its_variant_ineligible(sample, name, reason):
    forward = f"model(lambda self, x: TURN.clear() or [{name}(x.clone()) for _ in range(4)])"
    card = sample(forward, extra=EXTRA).card(name)
    assert card["variants"] == []
    assert reason in str(card["refused"])


def test_equal_later_calls_stay_eligible(sample):
    card = sample("model(lambda self, x: [twice(x) for _ in range(4)])", extra=EXTRA).card("twice")
    assert len(card["variants"]) == 1
    assert card["refused"] == {}


def test_conjugated_and_negated_views_are_no_plain_tensors(sample):
    forward = "model(lambda self, x: (twice(torch.complex(x, x)), twice(torch.complex(x, x).conj())))"
    card = sample(forward, extra=EXTRA).card("twice")
    assert len(card["variants"]) == 1
    assert "conjugated or negated view as args[0]" in str(card["refused"])


def test_a_conjugated_result_is_refused(sample):
    card = sample("model(lambda self, x: conjugate_result(x) + 1)", extra=EXTRA).card("conjugate_result")
    assert "returns a conjugated or negated view" in str(card["refused"])
