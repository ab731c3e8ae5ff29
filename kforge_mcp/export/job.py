"""The job behind `export_package`: choose, measure again, write, build, accept inside the model, ship."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kforge_mcp.compile.cuda.toolchain import find_toolchain as find_cuda_toolchain
from kforge_mcp.compile.toolchain import Toolchain, find_toolchain
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import RuntimeFailure, UsageError
from kforge_mcp.export import acceptance, evidence
from kforge_mcp.export.acceptance import Acceptance
from kforge_mcp.export.baseline import Baseline, baseline_of, device_baseline
from kforge_mcp.export.building import TorchPaths, stage
from kforge_mcp.export.contents import labels
from kforge_mcp.export.destination import check_free, check_name, put, resolve
from kforge_mcp.export.kernels import Kernel
from kforge_mcp.export.report import verification
from kforge_mcp.export.selection import Choice, Lacking, choose
from kforge_mcp.export.wheel import pack
from kforge_mcp.records.base import new_id, now
from kforge_mcp.records.package import Comparison, EndToEnd, Package, PackagedKernel
from kforge_mcp.records.project import Project
from kforge_mcp.store import candidates, cards, packages, projects

_BUILD_PATHS_TIMEOUT_S = 120
_ACCEPT_TIMEOUT_S = 3600
_BUDGET_S = 45.0
_LEAST_ROUNDS, _MOST_ROUNDS = 10, 40
_SEED = 20250711


def export(
    ctx: JobContext, *, project_id: str, name: str, path: str = "", overwrite: bool = False, project_dir: str = ""
) -> dict[str, Any]:
    """Write the package `name` of a project's proven kernels; the result is the `Package` record and `notes`.

    Where nothing can be shipped, nothing is written: `path` is empty and the kernels say what each lacks.
    Raises `UsageError` for a name or place that cannot be used, `NotFoundError` for an unknown project.
    """
    workspace = ctx.workspace
    check_name(name)
    with workspace.reading() as session:
        project = projects.get(session, project_id)
        found = cards.of_project(session, project_id)
        tried = {card.card_id: candidates.of_card(session, card.card_id) for card in found}
    folder = resolve(path, name, workspace.packages_dir, project_dir or project.project_dir)
    check_free(folder, overwrite=overwrite)
    choices, lacking = choose(found, tried, project.target)
    gathered = evidence.gather(ctx, project, choices)
    missing = [_lacking(item) for item in lacking]
    if not gathered.kernels:
        return _nothing(project, name, [*gathered.left_out, *missing])
    exporter = Exporter(ctx, project, name)
    shipped = exporter.accept(gathered.kernels)
    entries = [*exporter.entries(shipped), *gathered.left_out, *missing]
    if shipped is None:
        return _nothing(project, name, entries, exporter.end_to_end)
    record = Package(
        package_id=new_id("package"),
        project_id=project_id,
        name=name,
        path=str(folder),
        wheel="",
        report=str(folder / "VERIFICATION.md"),
        kernels=entries,
        end_to_end=exporter.end_to_end,
        created_at=now(),
    )
    record = exporter.ship(shipped, record, folder, gathered.samples, overwrite=overwrite)
    with workspace.transaction() as session:
        packages.save(session, record)
    return {**record.model_dump(mode="json"), "notes": [*_notes(shipped, project), *exporter.outside_notes()]}


@dataclass
class Shipped:
    """A staged package that was accepted."""

    folder: Path
    kernels: list[Kernel]
    found: Acceptance


@dataclass(frozen=True)
class Broken:
    """A staged package with which the workload crashed, hung or raised inside a kernel."""

    reason: str


@dataclass
class Exporter:
    """One export: builds stages of the package and asks the model about each, until it agrees or none is left."""

    ctx: JobContext
    project: Project
    name: str
    dropped: list[tuple[Kernel, str, Comparison | None]] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    end_to_end: list[EndToEnd] = field(default_factory=list)
    outside: dict[str, str] = field(default_factory=dict)
    """Kernels that are not recorded into CUDA graphs, by card name, with the reason."""

    def __post_init__(self) -> None:
        self.toolchain: Toolchain = find_toolchain(self.ctx)
        self.baseline: Baseline = self._baseline()
        self.torch = self._torch_paths()

    def accept(self, kernels: list[Kernel]) -> Shipped | None:
        """Build and measure in the model, leaving out what does not help there, until nothing is left to drop.

        The figures of the last measurement are those of the package as it is shipped.
        """
        attempt = 0
        while kernels:
            attempt += 1
            self.ctx.progress(f"building the package with {len(kernels)} kernels", 0.5)
            folder = self.ctx.scratch() / self.name
            folder.mkdir()
            stage(
                folder, self.name, kernels,
                baseline=self.baseline, compiler=self.toolchain.command, torch=self.torch, run=self.ctx.run,
                target=self.project.target,
            )  # fmt: skip
            named = dict(zip(labels(kernels), kernels, strict=True))
            found = self._measure(folder, kernels)
            if isinstance(found, Broken):
                self.dropped += [(kernel, found.reason, None) for kernel in kernels]
                return None
            self.end_to_end = found.modes
            leaving = acceptance.to_leave_out(found)
            if not leaving:
                outside = acceptance.not_in_graphs(found)
                if not outside:
                    return Shipped(folder, kernels, found)
                self.outside |= outside
                kernels = [_eager_only(kernel) if name in outside else kernel for name, kernel in named.items()]
                continue
            self.dropped += [(named[name], reason, found.kernels[name].comparison) for name, reason in leaving.items()]
            kernels = [kernel for name, kernel in named.items() if name not in leaving]
        return None

    def entries(self, shipped: Shipped | None) -> list[PackagedKernel]:
        """The kernels that stood in an acceptance, those in the package first."""
        dropped = [_entry(kernel, figures, reason) for kernel, reason, figures in self.dropped]
        if shipped is None:
            return dropped
        named = zip(labels(shipped.kernels), shipped.kernels, strict=True)
        return [*(_entry(kernel, shipped.found.kernels[name].comparison, "") for name, kernel in named), *dropped]

    def outside_notes(self) -> list[str]:
        """Why kernels are not recorded into CUDA graphs."""
        return [f"{name} is not used in CUDA graphs: {reason}" for name, reason in self.outside.items()]

    def ship(
        self, shipped: Shipped, record: Package, folder: Path, samples: list[dict[str, Any]], *, overwrite: bool
    ) -> Package:
        """Add evidence, pack the wheel and move everything to its place."""
        self.ctx.progress("writing the report and the wheel", 0.95)
        staged = shipped.folder
        shutil.rmtree(staged / self.name / "__pycache__", ignore_errors=True)
        (staged / "samples").mkdir()
        _write_json(staged / "samples" / "holdout.json", samples)
        _write_json(staged / "samples" / "acceptance.json", self.rounds)
        text = verification(
            record, self.project, shipped.kernels, shipped.found.raw, self.baseline, self.toolchain.version,
            self.outside_notes(),
        )  # fmt: skip
        (staged / "VERIFICATION.md").write_text(text)
        (staged / "dist").mkdir()
        wheel = pack(staged, staged / "dist")
        digest = self.ctx.workspace.blobs.put_file(staged / "dist" / wheel)
        put(staged, folder, overwrite=overwrite)
        return record.model_copy(update={"wheel": str(folder / "dist" / wheel), "digest": digest})

    def _measure(self, folder: Path, kernels: list[Kernel]) -> Acceptance | Broken:
        names = labels(kernels)
        payload = {
            "stage": "measure",
            "entry": self.project.resolved_entry
            or f"{self.project.entry_path}:{self.project.entry.rpartition(':')[2]}",
            "project_dir": self.project.project_dir,
            "package": str(folder),
            "name": self.name,
            "cards": names,
            "flags": self.project.backend_flags,
            "device": self.project.target,
            "graphs": any(acceptance.GRAPHS in kernel.modes for kernel in kernels),
            "seed": _SEED,
            "budget_s": _BUDGET_S,
            "least_rounds": _LEAST_ROUNDS,
            "most_rounds": _MOST_ROUNDS,
        }

        def report(event: dict[str, Any]) -> None:
            self.ctx.progress(event["message"], 0.55 + 0.35 * event.get("fraction", 0.0))

        try:
            with self.ctx.device_lock(self.project.device_key), self._runtime() as process:
                raw = process.call("accept", payload, timeout_s=_ACCEPT_TIMEOUT_S, on_event=report)
        except RuntimeFailure as failure:
            if failure.kind in ("user_error", "contract"):
                raise UsageError(f"the captured workload cannot be run again: {failure}") from failure
            return Broken(f"the model did not run with the package attached: {failure}")
        self.rounds.append({"kernels": names, **raw})
        return acceptance.read(raw, names)

    def _baseline(self) -> Baseline:
        if self.project.target == "cpu":
            return baseline_of(_march(self.toolchain))
        return device_baseline(find_cuda_toolchain(self.ctx, self.project.interpreter).nvrtc)

    def _torch_paths(self) -> TorchPaths:
        with self._runtime() as process:
            answer = process.call("build_paths", {}, timeout_s=_BUILD_PATHS_TIMEOUT_S)
        return TorchPaths(answer["include"], answer["library"])

    def _runtime(self) -> Any:
        return self.ctx.runtime(self.project.interpreter, cwd=self.project.project_dir or None)


def _eager_only(kernel: Kernel) -> Kernel:
    return replace(kernel, modes=tuple(mode for mode in kernel.modes if mode != acceptance.GRAPHS))


def _march(toolchain: Toolchain) -> str:
    return next((flag.removeprefix("-march=") for flag in toolchain.baseline if flag.startswith("-march=")), "")


def _entry(kernel: Kernel, in_model: Comparison | None, reason: str) -> PackagedKernel:
    return PackagedKernel(
        card_id=kernel.card.card_id,
        card=kernel.card.name,
        level=kernel.card.level,
        candidate_id=kernel.candidate_id,
        included=not reason,
        reason=reason or "faster on holdout and inside the model",
        calls=kernel.card.calls,
        share=kernel.card.share,
        holdout=kernel.holdout,
        variants=list(kernel.verdicts),
        in_model=in_model,
    )


def _lacking(item: Lacking) -> PackagedKernel:
    choice = Choice(item.card, item.candidate)
    return evidence.left_out(choice, f"best candidate {item.candidate.candidate_id}: {item.reason}")


def _nothing(
    project: Project, name: str, entries: list[PackagedKernel], end_to_end: list[EndToEnd] | None = None
) -> dict[str, Any]:
    record = Package(
        package_id="", project_id=project.project_id, name=name, path="", wheel="", report="", kernels=entries,
        end_to_end=end_to_end or [], created_at=now(),
    )  # fmt: skip
    note = "No package was written: no kernel qualifies."
    if not entries:
        note += " No card of the project has a candidate: call next_proposal and submit_candidate first."
    return {**record.model_dump(mode="json"), "notes": [note]}


def _notes(shipped: Shipped, project: Project) -> list[str]:
    raw = shipped.found.raw
    where = f"with {raw['threads']} threads" if project.target == "cpu" else f"on {project.device.name}"
    modes = " and ".join(mode.mode.replace("_", " ") for mode in shipped.found.modes)
    notes = [f"Accepted in {modes} mode {where}; under torch.compile the model's own code runs."]
    if raw["outputs"]["oracle"] != "float64" and not raw["outputs"]["bitwise"]:
        notes.append(raw["outputs"]["oracle"])
    notes += [f"{place} was left alone: {reason}" for place, reason in sorted(raw["attached"]["left_alone"].items())]
    return notes


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n")
