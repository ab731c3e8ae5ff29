from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforge_mcp.candidate.plan import Plan, Rejected, claims, configurations, parse_plan, source_key
from kforge_mcp.candidate.steps import Call, Launch
from tests.candidate.cards import candidate_text, make_card, rms_norm

CARD = make_card(rms_norm(2, 8, 64), rms_norm(1, 32, variant_id="v1"))
GOOD = """entry = "k"
args = ["hidden_states", "weight", "variance_epsilon", "hidden_states.shape[-1]", "out"]"""
CUDA = """where = "hidden_states.shape[-1] % 4 == 0"
options = ["--use_fast_math", "-maxrregcount=64"]
[[step]]
call = "aten::sort"
args = ["hidden_states", "-1", true]
out = ["h", "order"]
[[step]]
kernel = "norm<BLOCK>"
grid = ["hidden_states.numel // hidden_states.shape[-1]", 1]
block = ["BLOCK"]
shared_bytes = "4 * BLOCK"
repeat = "3"
args = ["h", "scratch", "step", "sm_count", "map_x", "out"]
[workspace]
scratch = { dtype = "fp32", shape = ["BLOCK", "2"], init = "zero" }
[tunables]
BLOCK = [128, 256]
[tensor_maps]
map_x = { tensor = "h", shape = ["h.numel // h.shape[-1]", "h.shape[-1]"], box = ["1", "32"], swizzle = "128B" }"""
CUDA_CODE = "template <int B> __global__ void norm() {}\n__global__ void k() {}\n"


def accepted(metadata: str, code: str = "", target: str = "cpu") -> Plan:
    plan = parse_plan(candidate_text(metadata, code), CARD, target)  # pyright: ignore[reportArgumentType]
    assert isinstance(plan, Plan), plan.message
    return plan


def refused(metadata: str, target: str = "cpu") -> Rejected:
    code = CUDA_CODE if target == "cuda" else ""
    rejected = parse_plan(candidate_text(metadata, code), CARD, target)  # pyright: ignore[reportArgumentType]
    assert isinstance(rejected, Rejected)
    assert len(rejected.message) <= 1500
    return rejected


def test_a_cpu_plan_is_read_whole() -> None:
    plan = accepted(
        'where = "hidden_states.ndim == 3"\noptions = ["-ffast-math"]\n' + GOOD + "\n[tunables]\nA = [1, 2]\nB = [true]"
    )
    assert plan.entry == "k"
    assert [expression.text for expression in plan.args][3:] == ["hidden_states.shape[-1]", "out"]
    assert configurations(plan) == [{"A": 1, "B": True}, {"A": 2, "B": True}]
    assert [claims(plan, variant, {"A": 1, "B": True}) for variant in CARD.variants] == [True, False]
    assert plan.metadata_lines == (1, 9)


def test_a_cuda_plan_is_read_whole() -> None:
    plan = accepted(CUDA, CUDA_CODE, target="cuda")
    call, launch = plan.steps
    assert isinstance(call, Call)
    assert (call.call, call.outs) == ("aten::sort", ("h", "order"))
    assert isinstance(launch, Launch)
    assert [size.text for size in launch.grid] == ["hidden_states.numel // hidden_states.shape[-1]", "1"]
    assert launch.repeat is not None
    assert plan.workspace[0].init == "zero"
    assert plan.tensor_maps[0].swizzle == "128B"


@pytest.mark.parametrize(
    ("metadata", "line", "column", "part"),
    [
        ('args = ["out"]', 1, 1, "`entry` is missing"),
        ('entry = "k"', 1, 1, "`args` is missing"),
        ('entry = "class"\nargs = []', 2, 13, "a word of C++"),
        ('entry = "2k"\nargs = []', 2, 13, "no C identifier"),
        ('entry = "weight"\nargs = []', 2, 13, "has that name"),
        ('entry = "kforge_x"\nargs = []', 2, 13, "reserved"),
        ("entry = 3\nargs = []", 2, 12, "in quotes"),
        ('entry = "k"\nargs = "out"', 3, 12, "array of expressions"),
        ('entry = "k"\nargs = ["wieght", "out"]', 3, 13, "did you mean `weight`?"),
        ('entry = "k"\nargs = ["out", "weight.numel + wait"]', 3, 35, "unknown name `wait`"),
        ('entry = "k"\nargs = ["out.size(0)"]', 3, 13, "write x.shape[i]"),
        ('entry = "k"\nargs = ["out", 1.5]', 3, 19, "in quotes"),
        ('entry = "k"\nargs = ["out", "hidden_states.shape[2]"]', 3, 20, "in variant v1"),
        ('entry = "k"\nargs = ["hidden_states.numel / 64"]', 3, 13, "32 / 64 is not exact in variant v1"),
        ('entry = "k"\nargs = ["out.numel ** 20"]', 3, 13, "64 bits"),
        ('entry = "k"\nargs = ["out.dtype"]', 3, 13, "cannot be passed"),
        ('entry = "k"\nwhere = "hidden_states.ndim"\nargs = []', 3, 13, "condition"),
        ('entry = "k"\nwhere = "hidden_states.ndim == 5"\nargs = []', 3, 13, "none of the card's 2 variants"),
        (GOOD + '\noptions = ["-march=native"]', 4, 16, "one instruction set"),
        (GOOD + '\noptions = ["-funrol-loops"]', 4, 16, "did you mean `-funroll-loops`?"),
        (GOOD + "\noptions = 3", 4, 14, "array of compiler options"),
        (GOOD + "\ninplace = true", 4, 14, "returns new tensors"),
        (GOOD + "\ninplace = 1", 4, 14, "true or false"),
        (GOOD + "\nnondeterministic = 'yes'", 4, 24, "true or false, not text"),
        (GOOD + '\nwher = "x"', 4, 4, "did you mean `where`?"),
        (GOOD + "\nblock = [128]", 4, 4, "belongs under [[step]]"),
        (GOOD + "\n[tunable]\nA = [1]", 4, 4, "did you mean `tunables`?"),
        (GOOD + "\n[tunables]\nA = 1", 5, 8, "array of its values"),
        (GOOD + "\n[tunables]\nA = []", 5, 8, "array of its values"),
        (GOOD + "\n[tunables]\nA = [1, 1]", 5, 12, "given twice"),
        (GOOD + "\n[tunables]\nA = [1, 'x']", 5, 13, "same type"),
        (GOOD + "\n[tunables]\nout = [1]", 5, 4, "has that name"),
        (GOOD + "\n[tunables]\nA = [99999999999999999999]", 5, 9, "64 bits"),
        (GOOD + "\n[tunables]\nA = [nan]", 5, 9, "finite"),
        (GOOD + "\n[tunables]\nA = ['int main() {}']", 5, 10, "type or function"),
        (GOOD + "\n[[step]]\nkernel = 'k'", 4, 4, "belongs to candidates for CUDA"),
        (GOOD + "\n[tensor_maps]\nm = {}", 4, 4, "belongs to candidates for CUDA"),
        (GOOD + "\n[workspace]\nh = {dtype = 'fp33', shape = ['1']}", 5, 18, "did you mean `fp"),
        (GOOD + "\n[workspace]\nh = {dtype = 'fp32', shape = ['-1']}", 5, 35, "not negative"),
        (GOOD + "\n[workspace]\nh = {dtype = 'fp32'}", 5, 8, "`shape` is missing"),
        (GOOD + "\n[workspace]\nh = {dtype = 'fp32', shape = ['1'], zero = true}", 5, 40, "unknown key `zero`"),
    ],
)
def test_a_fault_is_named_with_line_and_column(metadata: str, line: int, column: int, part: str) -> None:
    rejected = refused(metadata)
    first = rejected.diagnostics[0]
    assert rejected.reason in ("contract_error", "syntax_error")
    assert part in rejected.message
    assert (first.line, first.column) == (line, column)


@pytest.mark.parametrize(
    ("metadata", "line", "part"),
    [
        ("entry = 'k'", 1, "belongs to candidates for the CPU"),
        ("options = []", 1, "no [[step]]"),
        ("[[step]]\ncall = 'aten::lineer'\nargs = []\nout = 'h'", 3, "did you mean `aten::linear`?"),
        ("[[step]]\nkernel = 'k'\nblock = ['1']\nargs = []", 2, "`grid` is missing"),
        ("[[step]]\nkernel = 'k'\ngrid = ['1', '1', '1', '1']\nblock = ['1']\nargs = []", 4, "at most 3"),
        ("[[step]]\ngrid = ['1']\nblock = ['1']\nargs = []", 2, "has a `kernel`"),
        ("[[step]]\nkernel = 'k'\ngrid = ['1']\nblock = ['1']\nargs = ['h']", 6, "unknown name `h`"),
        ("[step]\nkernel = 'k'", 2, "double brackets"),
    ],
)
def test_faults_of_steps_are_named(metadata: str, line: int, part: str) -> None:
    rejected = refused(metadata, "cuda")
    assert part in rejected.message
    assert rejected.diagnostics[0].line == line


@pytest.mark.parametrize(
    "key", ["where = 'weight.ndim == 1'", "options = []", "args = ['out']", "inplace = true", "nondeterministic = true"]
)
def test_a_top_level_key_that_slipped_into_a_table_is_told_so(key: str) -> None:
    rejected = refused(GOOD + "\n[tunables]\nA = [1]\n" + key)
    name = key.split()[0]
    assert f"`{name}` is a top-level key but stands in the table [tunables]" in rejected.message
    assert rejected.diagnostics[0].line == 6
    assert "above the first table" in rejected.diagnostics[0].hint


def test_all_faults_are_named_at_once_in_order() -> None:
    rejected = refused('entry = "k"\nargs = ["wieght"]\nwher = 1\n[tunables]\nA = 3')
    assert [found.line for found in rejected.diagnostics] == [3, 4, 6]


def test_too_many_configurations_exceed_a_limit() -> None:
    rejected = refused(GOOD + "\n[tunables]\nA = [1,2,3,4,5,6,7,8,9]\nB = [1,2,3,4,5,6,7,8]")
    assert rejected.reason == "limit_exceeded"
    assert "72" in rejected.message


def test_an_oversized_source_and_one_that_is_no_text_are_refused() -> None:
    large = parse_plan(candidate_text(GOOD, "//" + "x" * 600_000), CARD, "cpu")
    assert isinstance(large, Rejected)
    assert large.reason == "limit_exceeded"
    for text in (candidate_text(GOOD, "\0"), candidate_text(GOOD, "\ud800")):
        assert isinstance(parse_plan(text, CARD, "cpu"), Rejected)


def test_comments_spacing_and_spelling_do_not_make_another_candidate() -> None:
    code = 'extern "C" void k(const float* x) { x[0] ; }\n#define A  1\n'
    other = 'extern   "C" void k ( const float *x )\n{ x[ 0 ]; /* note */ }\n  #define A 1 // one\n'
    first = accepted(GOOD + "\noptions = []", code)
    second = accepted(GOOD.replace('"variance', ' "variance').replace("shape[-1]", "shape[ -1 ]"), other)
    assert source_key(first) == source_key(second)


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        (GOOD, "int a = 1;"),
        (GOOD, "int b = 2;"),
        (GOOD, "int ab;"),
        (GOOD, "int a b;"),
        (GOOD, 'auto s = "a  b";'),
        (GOOD, 'auto s = "a b";'),
        (GOOD, "x = a + +b;"),
        (GOOD, "x = a++ b;"),
        (GOOD, "#define A 1\nB"),
        (GOOD, "#define A 1 B"),
        (GOOD + '\nwhere = "weight.ndim == 1"', "int a = 1;"),
        (GOOD + "\n[tunables]\nA = [1]", "int a = 1;"),
        (GOOD + "\n[tunables]\nA = [1.0]", "int a = 1;"),
        (GOOD.replace("weight", "out"), "int a = 1;"),
    ],
)
def test_what_changes_the_meaning_makes_another_candidate(metadata: str, code: str) -> None:
    others = [source_key(accepted(GOOD, "int a = 2;")), source_key(accepted(GOOD, "auto s = 1;"))]
    key = source_key(accepted(metadata, code))
    assert key not in others
    seen = test_what_changes_the_meaning_makes_another_candidate.__dict__.setdefault("seen", {})
    assert seen.setdefault(key, (metadata, code)) == (metadata, code)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_damage_to_a_candidate_makes_its_reader_fail(data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(["cpu", "cuda"]))
    text = candidate_text(GOOD + "\n[tunables]\nA = [1, 2]" if target == "cpu" else CUDA, CUDA_CODE)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text) - 1))
        stop = min(len(text), start + data.draw(st.integers(0, 8)))
        text = (
            text[:start]
            + data.draw(st.text(max_size=4) | st.sampled_from(['"', "[", "]", "{}", "\n// ", "="]))
            + text[stop:]
        )
        if not text:
            return
    result = parse_plan(text, CARD, target)  # pyright: ignore[reportArgumentType]
    if isinstance(result, Rejected):
        assert result.message
        lines = text.count("\n") + 1
        assert all(0 <= found.line <= lines for found in result.diagnostics)
    else:
        source_key(result)
