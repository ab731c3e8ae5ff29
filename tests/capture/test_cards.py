"""Speed-of-light times, reasons, rows and their order."""

from __future__ import annotations

import pytest

from kforge_mcp.capture.cards import build_cards, mutated_argument, reason_text
from kforge_mcp.capture.ceilings import allowed, known_or_measured, matrix_dtype, raised, speed_of_light_us
from kforge_mcp.capture.listing import card_row, sort_cards
from kforge_mcp.capture.times import merge_times
from kforge_mcp.errors import UsageError
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Ceilings, DeviceInfo, Interpreter
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Argument, Variant

_CEILINGS = Ceilings(bandwidth_gbs={1 << 18: 100.0, 1 << 26: 10.0}, gflops={"fp32": 50.0})


def _card(name: str, **changes: object) -> OperatorCard:
    fields = {"eligible": True, "calls": 1, "eager_us": 1.0, "share": 0.1, "gain_ceiling": 1.1, "worth_it": True}
    return OperatorCard(
        card_id=f"card_{name}",
        project_id="proj_1",
        level="module",
        name=name,
        qualified_name=f"m:{name}",
        variants=[],
        **{**fields, **changes},  # type: ignore[arg-type]
    )


def test_the_longer_of_moving_and_computing_bounds_a_call():
    assert speed_of_light_us(_CEILINGS, 100_000, 0, "fp32") == pytest.approx(1.0)
    assert speed_of_light_us(_CEILINGS, 100_000, 500_000, "fp32") == pytest.approx(10.0)
    assert speed_of_light_us(_CEILINGS, 100_000_000, 0, "fp32") == pytest.approx(10_000.0)
    assert speed_of_light_us(_CEILINGS, 0, 500_000, "bf16") == pytest.approx(10.0)


def test_a_rate_that_eager_reached_raises_the_ceiling():
    assert raised(_CEILINGS, {"fp32": 70.0, "fp64": 20.0}).gflops == {"fp32": 70.0, "fp64": 20.0}
    assert raised(_CEILINGS, {"fp32": 30.0}).gflops == {"fp32": 50.0}


def test_the_largest_floating_tensor_names_the_matrix_rate():
    small = TensorSpec(dtype="fp64", shape=[2], stride=[1])
    large = TensorSpec(dtype="bf16", shape=[9], stride=[1])
    indices = TensorSpec(dtype="int64", shape=[99], stride=[1])
    assert matrix_dtype([small, large, indices]) == "bf16"
    assert matrix_dtype([indices]) == "fp32"


def test_ceilings_are_measured_once_per_device_and_thread_count(workspace):
    interpreter = Interpreter(executable="python", found_by="server", python_version="3.11", torch_version="2.13.0")
    measured = []

    def measure() -> dict:
        measured.append(1)
        return _CEILINGS.model_dump(mode="json")

    for threads in (2, 2, 4):
        device = DeviceInfo(target="cpu", name="a processor", threads=threads)
        assert known_or_measured(workspace, device, interpreter, measure) == _CEILINGS
    assert len(measured) == 2


def test_ceilings_of_a_gpu_are_measured_once_per_device_driver_and_torch(workspace):
    interpreter = Interpreter(executable="p", found_by="server", python_version="3.12", torch_version="2.11")
    device = DeviceInfo(target="cuda", name="H200", uuid="GPU-1", driver="580.1, CUDA 13.0")
    others = [
        (device.model_copy(update={"uuid": "GPU-2"}), interpreter),
        (device.model_copy(update={"driver": "590.1, CUDA 13.1"}), interpreter),
        (device, interpreter.model_copy(update={"torch_version": "2.12"})),
    ]
    measured = []

    def measure():
        measured.append(1)
        return _CEILINGS.model_dump(mode="json")

    for _ in range(2):
        for at, by in [(device, interpreter), *others]:
            assert known_or_measured(workspace, at, by, measure) == _CEILINGS
    assert len(measured) == 4


@pytest.mark.parametrize(
    ("flags", "rate"),
    [
        ({"cuda_matmul_fp32": "tf32", "cudnn_conv_fp32": "ieee"}, 400.0),
        ({"cuda_matmul_fp32": "none", "cudnn_conv_fp32": "tf32"}, 400.0),
        ({"cuda_matmul_fp32": "none", "cudnn_conv_fp32": "ieee"}, 50.0),
        ({}, 50.0),
    ],
)
def test_where_a_workload_lets_fp32_run_as_tf32_that_is_its_rate(flags, rate):
    ceilings = _CEILINGS.model_copy(update={"gflops": {"fp32": 50.0, "tf32": 400.0}})
    assert allowed(ceilings, flags).gflops["fp32"] == rate
    assert allowed(_CEILINGS, flags) == _CEILINGS


def test_reasons_come_most_frequent_first():
    assert reason_text({}, True) == ""
    assert reason_text({"draws random numbers": 1, "keeps state": 3}, False) == "keeps state; draws random numbers"
    assert reason_text({"keeps state": 3}, True) == "3 of its calls are left to eager: keeps state"
    assert reason_text({"a": 1, "b": 2, "c": 3}, False) == "c; b; and 1 more reasons"


def _draft(label: str, parts: list[tuple[str, int, int]]) -> dict:
    """A card as the sampling pass says it; `parts` are `(variant key, unique bytes, operations)`."""
    level, _, name = label.partition(" ")
    tensor = {"dtype": "fp32", "shape": [4], "stride": [1]}
    variants = [
        {
            "key": key,
            "tensors": [tensor],
            "arguments": [],
            "outputs": [tensor],
            "call": {},
            "unique_bytes": moved,
            "flops": flops,
        }
        for key, moved, flops in parts
    ]
    names = {"label": label, "level": level, "name": name, "qualified_name": name, "parents": [], "children": []}
    texts = {"reference": {}, "reference_source": "", "source_location": "", "patch_sites": []}
    return {**names, **texts, "refused": {}, "variants": variants}


def test_gain_ceilings_follow_amdahl_from_measured_limits():
    """A run of 1000 us: an operator of 2 x 300 us that needs 30 us for its bytes, one of 100 us that needs 100 us for
    its operations, one of 1 us; all in one module, of which 150 us are its own."""
    labels = ["module m:All", "torch torch:slow", "torch torch:bound", "torch torch:tiny"]
    calls = [[0, -1], [1, 0], [1, 0], [2, 0], [3, 0]]
    durations = [[851.0, 300.0, 300.0, 100.0, 1.0]]
    timing = {
        "labels": labels,
        "calls": calls,
        "durations": durations,
        "observed_us": [1000.0],
        "plain_us": [1000.0],
    }
    keyed = [[labels[label], "k" if label else "", parent] for label, parent in calls]
    times = merge_times(timing, keyed)
    drafts = [
        _draft(labels[0], []),
        _draft(labels[1], [("k", 3_000_000 // 10, 0)]),
        _draft(labels[2], [("k", 0, 5_000_000)]),
        _draft(labels[3], [("k", 100, 0)]),
    ]
    flat = Ceilings(bandwidth_gbs={1 << 26: 10.0}, gflops={"fp32": 50.0})
    cards = {card.name: card for card in build_cards("proj_1", {"cards": drafts, "calls": keyed}, times, flat)}
    slow = cards["torch:slow"]
    assert slow.variants[0].speed_of_light_us == pytest.approx(30.0)
    assert (slow.share, slow.own_share, slow.calls, slow.eager_us) == pytest.approx((0.6, 0.6, 2, 600.0))
    assert slow.gain_ceiling == pytest.approx(1 / (1 - 0.6 * 0.9))
    assert cards["torch:bound"].gain_ceiling == pytest.approx(1.0)
    assert not cards["torch:bound"].worth_it
    assert not cards["torch:tiny"].worth_it
    whole = cards["m:All"]
    assert (whole.share, whole.own_share, whole.gain_ceiling, whole.eligible) == (0.851, 0.851, 1.0, False)
    # A call takes at least the 1 us of the cheapest; a product at the device's rate is the vendor's.
    assert slow.headroom == pytest.approx(0.6 - 2 * 0.031)
    assert [cards[f"torch:{name}"].headroom for name in ("bound", "tiny")] == [0.0, 0.0]
    assert times.idle_share == pytest.approx(1 - 0.701)
    order = [card.name for card in sort_cards(list(cards.values()))]
    assert order == ["torch:slow", "torch:bound", "torch:tiny", "m:All"]


def test_without_paired_calls_no_headroom_is_known():
    timing = {
        "labels": ["torch torch:mul"],
        "calls": [[0, -1]],
        "durations": [[10.0]],
        "observed_us": [100.0],
        "plain_us": [100.0],
    }
    keyed = [["torch torch:mul", "k", -1], ["torch torch:mul", "k", -1]]
    drafts = [_draft("torch torch:mul", [("k", 1000, 0)])]
    flat = Ceilings(bandwidth_gbs={1 << 26: 10.0}, gflops={"fp32": 50.0})
    sampled = {"cards": drafts, "calls": keyed}
    assert build_cards("proj_1", sampled, merge_times(timing, keyed), flat)[0].headroom is None


def test_cards_sort_by_headroom_before_their_ceilings():
    cards = [
        _card("layer", gain_ceiling=2.5, share=0.9, headroom=0.01),
        _card("linear", gain_ceiling=1.6, share=0.7, headroom=0.0),
        _card("norm", gain_ceiling=1.03, share=0.04, headroom=0.025),
        _card("tiny", gain_ceiling=1.001, share=0.8, headroom=0.0, worth_it=False),
        _card("older", gain_ceiling=1.25, share=0.3),
    ]
    assert [card.name for card in sort_cards(cards)] == ["older", "norm", "layer", "linear", "tiny"]


def test_cards_sort_by_what_is_asked():
    cards = [
        _card("a", gain_ceiling=1.0, share=0.9, eligible=False, calls=3),
        _card("b", gain_ceiling=1.2, share=0.1, calls=2),
        _card("c", gain_ceiling=1.3, share=0.2, calls=1),
    ]
    assert [card.name for card in sort_cards(cards)] == ["c", "b", "a"]
    assert [card.name for card in sort_cards(cards, "share")] == ["a", "c", "b"]
    assert [card.name for card in sort_cards(cards, "calls")] == ["a", "b", "c"]
    assert [card.name for card in sort_cards(cards, "name")] == ["a", "b", "c"]
    with pytest.raises(UsageError, match="gain, share, calls, name"):
        sort_cards(cards, "speed")


def test_a_row_has_the_fields_of_a_listing():
    row = card_row(_card("a"))
    assert row["card_id"] == "card_a"
    assert row["variants"] == 0
    assert row["gain_ceiling"] == 1.1


def _overwriting(name: str, indices: list[int]) -> Variant:
    spec = TensorSpec(dtype="fp32", shape=[4], stride=[1])
    arguments = [
        Argument(name=argument, kind="tensor", role="input", tensors=[index])
        for index, argument in enumerate(("input", "other"))
    ]
    return Variant(
        variant_id=name, tensors=[spec, spec], arguments=arguments, outputs=[spec], call={}, calls=1, eager_us=1.0,
        overwritten=indices,
    )  # fmt: skip


def test_the_argument_that_eager_overwrites_is_named():
    assert mutated_argument([_overwriting("a", [0]), _overwriting("b", [0])]) == "input"
    assert mutated_argument([_overwriting("a", [1])]) == "other"


def test_nothing_is_named_where_variants_disagree_or_return_new_tensors():
    assert mutated_argument([_overwriting("a", [])]) == ""
    assert mutated_argument([_overwriting("a", [0]), _overwriting("b", [])]) == ""
    assert mutated_argument([_overwriting("a", [0]), _overwriting("b", [1])]) == ""
