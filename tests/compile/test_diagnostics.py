from __future__ import annotations

from kforge_mcp.compile.diagnostics import read_compiler_output, read_linker_output

SOURCE = "\n".join(f"line {number}" for number in range(1, 10))
LIMITS = {"cpu_s": 1.0, "memory_bytes": 1 << 30, "file_bytes": 1 << 20}

CLANG = """In file included from kforge_preamble:1:
candidate.cpp:3:5: error: use of undeclared identifier 'foo'
    foo(1);
    ^
/usr/include/c++/12/bits/stl_algo.h:10:3: error: invalid operands to binary expression ('S' and 'S')
      if (a < b)
          ~ ^ ~
candidate.cpp:7:9: note: in instantiation of function template specialization 'std::sort<S *>' requested here
candidate.cpp:8:1: warning: unused variable 'q' [-Wunused-variable]
3 errors generated.
"""


def test_clang_output_is_read_and_header_errors_are_placed_at_their_cause() -> None:
    findings = read_compiler_output(CLANG, SOURCE, "k", 'extern "C" void k()', LIMITS)
    assert findings.reason == "syntax_error"
    assert [(one.severity, one.line, one.column) for one in findings.diagnostics] == [
        ("error", 3, 5),
        ("error", 7, 9),
        ("warning", 8, 1),
    ]
    assert findings.diagnostics[1].source_line == "line 7"


def test_clang_words_for_a_different_signature_break_the_contract() -> None:
    text = "candidate.cpp:4:17: error: conflicting types for 'k'\nkforge_preamble:40:6: note: previous declaration\n"
    findings = read_compiler_output(text, SOURCE, "k", 'extern "C" void k(float* out)', LIMITS)
    assert findings.reason == "contract_error"
    assert 'extern "C" void k(float* out)' in findings.diagnostics[0].message


def test_a_conflict_about_another_name_is_a_syntax_error() -> None:
    text = "candidate.cpp:4:17: error: conflicting declaration of C function 'void helper(int)'\n"
    assert read_compiler_output(text, SOURCE, "k", "", LIMITS).reason == "syntax_error"


def test_linkers_of_both_kinds_name_what_is_undefined_but_openmp_is_as_intended() -> None:
    gnu = "ld: x.o: in function `k':\nx.cpp:(.text+0x1): warning: undefined reference to `GOMP_parallel'\n"
    lld = "ld.lld: warning: undefined symbol: helper(int)\n>>> referenced by unit0.cpp\n"
    assert read_linker_output(gnu, SOURCE, "k", "").diagnostics == []
    findings = read_linker_output(gnu + lld, "void helper(int);", "k", "")
    assert findings.reason == "contract_error"
    assert findings.diagnostics[0].message == "`helper(int)` is used but nothing defines it"
    assert (findings.diagnostics[0].line, findings.diagnostics[0].column) == (1, 6)


def test_output_that_is_no_diagnostic_yields_nothing() -> None:
    findings = read_compiler_output("warning: odd\n::::\n\x00\nfile:1:2: hello\n", SOURCE, "k", "", LIMITS)
    assert (findings.reason, findings.diagnostics) == (None, [])
