"""Before a candidate is packaged: what AddressSanitizer and UndefinedBehaviorSanitizer say of it.

The trials see a read out of bounds only where it changes a result, and undefined behaviour only where this compiler
made something wrong of it. A binary that checks its own accesses and arithmetic sees both.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.compile.source import CANDIDATE_FILE
from kforge_mcp.compile.toolchain import find_toolchain, sanitizer_libraries
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import RuntimeFailure, ToolchainError
from kforge_mcp.judge.holdout import Claim
from kforge_mcp.judge.request import environment, request, subjects
from kforge_mcp.records.project import Project

_TIMEOUT_S = 600.0
_ERROR = re.compile(r"(?:ERROR: AddressSanitizer: |runtime error: )(.*)")
_ACCESS = re.compile(r"(READ|WRITE) of size (\d+)")
_OUT_OF_BOUNDS = ("use-after-poison", "heap-buffer-overflow", "stack-buffer-overflow", "global-buffer-overflow")
_LINE = re.compile(rf"{re.escape(CANDIDATE_FILE)}:(\d+)")
_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:alloc_dealloc_mismatch=0:detect_odr_violation=0:verify_asan_link_order=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


@dataclass(frozen=True)
class Sanitized:
    """What the sanitizers said: nothing (`clean`), a fault of the candidate, or why they could not be asked.

    A CUDA candidate that holdout confirmed is `checked` by NVIDIA's tools instead: `message` is what they said.
    """

    status: Literal["clean", "finding", "unavailable", "checked"]
    message: str
    line: int = 0
    """Of the candidate's source, from 1; 0 where unknown."""


def sanitize(ctx: JobContext, project: Project, claim: Claim) -> Sanitized:
    """Run a sanitized build of a claimed configuration on the trials' inputs of every variant that it claims.

    Raises `JobCancelled`.
    """
    compiled = compile_candidate(ctx, claim.plan, claim.card, [claim.config], sanitized=True)
    if not isinstance(compiled, Compiled):
        return Sanitized("unavailable", f"it does not compile with the sanitizers: {compiled.message[:300]}")
    try:
        preload = ":".join(sanitizer_libraries(ctx, find_toolchain(ctx)))
    except ToolchainError as error:
        return Sanitized("unavailable", str(error))
    scratch = ctx.scratch()
    (subject,) = subjects(claim.card, claim.plan, compiled)
    asked = request(project, subject, mode="judge", blob_root=ctx.workspace.blobs.root, scratch=scratch, schedule=None)
    assert not isinstance(asked, Rejected)
    log = scratch / "sanitizers.log"
    preloaded = ":".join(part for part in (preload, os.environ.get("LD_PRELOAD", "")) if part)
    extra = {**environment(project), **_OPTIONS, "LD_PRELOAD": preloaded}
    try:
        with ctx.runtime(
            project.interpreter, cwd=project.project_dir or None, log=log, extra_environment=extra
        ) as process:
            answer = process.call("sanitize", asked, timeout_s=_TIMEOUT_S)
    except RuntimeFailure as failure:
        said = log.read_text(errors="replace") if log.exists() else ""
        return finding(said, claim.plan.source) or Sanitized("unavailable", f"the sanitized run failed: {failure}")
    calls, variants = answer["calls"], len(subject.variants)
    return Sanitized("clean", f"{calls} calls on {variants} variants")


def finding(log: str, source: str) -> Sanitized | None:
    """The first report in a log that concerns the candidate; None if there is none."""
    error = _ERROR.search(log)
    if error is None:
        return None
    line = _LINE.search(log[log.rfind("\n", 0, error.start()) + 1 :])
    if line is None:
        return None
    number = int(line[1])
    lines = source.splitlines()
    text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    what = re.sub(r"\s*(?:on (?:unknown )?address|at pc).*", "", error[1]).strip()
    access = _ACCESS.search(log, error.start())
    if access and what in _OUT_OF_BOUNDS:
        what = f"{access[1].lower()}s {access[2]} bytes out of bounds"
    return Sanitized("finding", f"line {number}, `{text[:120]}`: {what}", number)
