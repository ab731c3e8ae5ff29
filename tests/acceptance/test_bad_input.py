"""Whatever a client hands in, it is told what is wrong with it, and what was there before still works."""

from __future__ import annotations

import sqlite3

import pytest

from tests.acceptance.conftest import User

HEAD = """// /// kforge
// entry = "k"
// args = ["x", "weight", "eps", "x.numel // x.shape[-1]", "x.shape[-1]", "out"]
// ///
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>
"""
GOOD = """for (int64_t r = 0; r < rows; ++r) {
    float s = 0;
    for (int64_t i = 0; i < n; ++i) s += x[r * n + i] * x[r * n + i];
    for (int64_t i = 0; i < n; ++i) y[r * n + i] = w[i] * x[r * n + i] / std::sqrt(s / n + eps);
}"""


def source(body: str) -> str:
    parameters = "const x_t* x, const weight_t* w, eps_t eps, int64_t rows, int64_t n, out_t* y"
    return f'{HEAD}extern "C" void k({parameters}) {{\n{body}\n}}\n'


ENTRIES = {
    "small.py:biuld": ("no function 'biuld'", "Did you mean build?"),
    "smal.py:build": ("there is no such file", "--project-dir"),
    "small.py": ("without calling any torch.nn.Module", "'file.py:function'"),
    "lacking.py:build": ("lacking.py cannot be imported", "No module named 'no_such_module'"),
    "small.py:broken": ("the model raised in call 1 of 1 of Broken", "the mask has the wrong shape"),
    "small.py:leaving": ("ended with exit status 0", "loading the model ..."),
}


@pytest.mark.anyio
async def test_an_entry_that_cannot_be_captured_is_named_with_the_reason(user: User) -> None:
    (user.project / "lacking.py").write_text("import no_such_module\n")
    async with user.server() as agent:
        for entry, words in ENTRIES.items():
            answer = await agent.call("capture_model", entry=entry)
            assert answer.is_error, entry
            assert all(word in answer.text for word in words), (entry, answer.text)
        late = await agent.call("capture_model", entry="small.py:slow", timeout_s=3)
        assert late.is_error
        assert "did not end within 3 s" in late.text
        assert "timeout_s" in late.text
        cards = await agent.call("list_operator_cards", project_id=user.facts["project_id"])
        assert user.facts["card_id"] in cards.text


CANDIDATES = {
    "volatile int* p = nullptr; *p = 1;": ("crashed", "SIGSEGV"),
    "exit(0);": ("crashed", "exit status 0"),
    f"{GOOD} if (fork() == 0) for (;;) sleep(1);": ("sandbox_violation", "clone"),
    "std::vector<std::vector<char>> v; for (;;) v.emplace_back(1 << 26, 1);": ("out_of_memory", "memory"),
    'FILE* f = fopen("fill", "w"); for (;;) fputs("x", f);': ("sandbox_violation", "openat"),
}


@pytest.mark.anyio
async def test_a_candidate_that_misbehaves_costs_itself_only(user: User) -> None:
    async with user.server() as agent:
        for body, (reason, word) in CANDIDATES.items():
            made = await agent.call("compile_candidate", card_id=user.facts["card_id"], source=source(body))
            assert made.structured["passed"], (body, made.text)
            judged = await agent.call("validate", candidate_id=made.structured["candidate_id"])
            assert (judged.structured["reason"], word in judged.text) == (reason, True), (body, judged.text)
        made = await agent.call("compile_candidate", card_id=user.facts["card_id"], source=source(GOOD))
        judged = await agent.call("validate", candidate_id=made.structured["candidate_id"])
        assert judged.structured["passed"], judged.text


@pytest.mark.anyio
async def test_an_export_that_cannot_be_written_is_refused_before_it_measures(user: User) -> None:
    project_id = user.facts["project_id"]
    (user.project / "mine").mkdir()
    (user.project / "mine" / "thesis.txt").write_text("years of work")
    async with user.server() as agent:
        for path, words in (("small.py/out", "is not a folder"), ("mine", "is not a package that kforge wrote")):
            answer = await agent.call("export_package", project_id=project_id, name="kernels", path=path)
            assert answer.is_error
            assert words in answer.text
        outside = await agent.call("export_package", project_id=project_id, name="kernels", path="../../out")
        assert outside.is_error
        assert "lies outside of the folders" in outside.text
        named = await agent.call("export_package", project_id=project_id, name="My-Kernels")
        assert named.is_error
        assert "pattern" in named.text
    assert (user.project / "mine" / "thesis.txt").read_text() == "years of work"


@pytest.mark.anyio
async def test_a_database_of_a_newer_version_is_refused_and_kept(user: User) -> None:
    database = sqlite3.connect(user.workspace / "kforge.db")
    (known,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
    database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.commit()
    try:
        async with user.server() as agent:
            refused = await agent.call("search_status")
    finally:
        database.execute("UPDATE alembic_version SET version_num = ?", (known,))
        database.commit()
        database.close()
    assert refused.is_error
    assert "a newer version wrote it" in refused.text
    async with user.server() as agent:
        assert not (await agent.call("search_status")).is_error
