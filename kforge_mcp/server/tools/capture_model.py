"""`capture_model`: from the user's unmodified model to operator cards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.records.job import Job
from kforge_mcp.records.result import Status
from kforge_mcp.server.application import Call, application
from kforge_mcp.server.parameters import WaitS
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.results import PAGE_LIMIT, Output, clip, figure, first_fitting, reply
from kforge_mcp.server.rows import CardRow, card_row, rows_text
from kforge_mcp.server.unfinished import unfinished
from kforge_mcp.server.waiting import run_job

FUNCTION = "kforge_mcp.capture.job:capture"


class InterpreterRow(Output):
    """The Python that ran the model."""

    executable: str
    found_by: str
    python_version: str
    torch_version: str
    cuda_version: str = ""


class CaptureOutput(Output):
    """A captured workload, or a job that is still capturing it."""

    status: Status
    job_id: str = ""
    message: str = ""
    project_id: str = ""
    name: str = ""
    target: str = ""
    device: str = ""
    interpreter: InterpreterRow | None = None
    entry: str = ""
    entry_path: str = ""
    workload_us: float = Field(default=0.0, description="One run of the workload in eager mode, microseconds")
    cards: int = Field(default=0, description="How many operator cards there are")
    top_cards: list[CardRow] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    next_step: str = ""


async def capture_model(
    ctx: Call,
    entry: Annotated[
        str,
        Field(
            description="'file.py:function', where the function returns (model, args), (model, args, kwargs) or a list "
            "of such calls; a script with its arguments, 'infer.py --batch 4' or '-m package.module'; "
            "'torchvision:resnet50'; or 'transformers:LlamaForCausalLM num_hidden_layers=2' (random weights; key=value "
            "into its config). Paths absolute, or relative to the project folder."
        ),
    ],
    name: Annotated[str, Field(max_length=100, description="Name of the project; empty: the entry's")] = "",
    target: Annotated[Literal["auto", "cpu", "cuda"], Field(description="Device to optimise for")] = "auto",
    python: Annotated[
        str, Field(description="Python that has torch and the model's dependencies; empty: found and named")
    ] = "",
    timeout_s: Annotated[float, Field(gt=0, le=86400, description="Limit of the capture, in seconds")] = 1800,
    wait_s: WaitS = -1,
) -> Annotated[CallToolResult, CaptureOutput]:
    """Run the user's own model code and turn the operators it executes into cards that can be optimised.

    The model is not changed. Returns the project and its most rewarding cards.
    """
    app = application(ctx)
    arguments: dict[str, Any] = {
        "entry": entry,
        "name": name,
        "target": target,
        "python": python,
        "project_dir": str(app.settings.project_dir),
        "timeout_s": timeout_s,
    }
    job = await run_job(ctx, tool="capture_model", function=FUNCTION, arguments=arguments, wait_s=wait_s)
    return reply(*capture_versions(job))


def capture_versions(job: Job, limit: int = PAGE_LIMIT) -> tuple[str, CaptureOutput]:
    """Text and structure of what a capturing job says. Raises `ToolError` if the capture could not be made."""
    if waiting := unfinished(job, CaptureOutput, "the capture"):
        return waiting
    assert job.result is not None
    return first_fitting(_versions(job, dict(job.result)), limit)


def _versions(job: Job, result: dict[str, Any]) -> Iterator[tuple[str, CaptureOutput]]:
    rows = [card_row(row) for row in result.pop("top_cards", [])]
    notes = [clip(str(note), 300) for note in result.pop("notes", [])]
    device = result.pop("device", "")
    known = {key: value for key, value in result.items() if key in CaptureOutput.model_fields}
    if isinstance(known.get("interpreter"), dict):
        kept = {key: value for key, value in known["interpreter"].items() if key in InterpreterRow.model_fields}
        known["interpreter"] = InterpreterRow(**kept)
    for shown, said in ((len(rows), 8), (10, 6), (8, 4), (6, 3), (4, 2), (2, 1), (0, 0)):
        output = CaptureOutput(
            **known,
            status="ok",
            job_id=job.job_id,
            device=device if isinstance(device, str) else str(device.get("name", "")),
            top_cards=rows[:shown],
            notes=notes[:said],
            next_step="Call next_proposal, or list_operator_cards for all cards.",
        )
        yield _text(output), output


def _text(output: CaptureOutput) -> str:
    python = output.interpreter
    lines = [
        f"project {output.project_id} ({output.name}) captured from {output.entry_path or output.entry} for "
        f"{output.target} on {output.device}",
        f"one run of the workload: {figure(output.workload_us, digits=5)} us; {output.cards} operator cards",
    ]
    if python:
        lines.append(f"python: {python.executable} (by {python.found_by}), torch {python.torch_version}")
    lines += [rows_text(output.top_cards), *(f"note: {note}" for note in output.notes), f"next: {output.next_step}"]
    return "\n".join(line for line in lines if line)


TOOL = ToolSpec(
    capture_model,
    title="Capture a model",
    toolset="capture",
    read_only=False,
    open_world=True,  # it runs the user's own code, which may do anything
)
