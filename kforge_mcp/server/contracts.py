"""The tool contracts as files: what each tool states on the wire, with recorded examples of calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAX_EXAMPLES = 3
_ID = re.compile(r"\b(proj|project|card|cand|var|variant|lease|job|pkg|package)_[0-9a-hjkmnp-tv-z]{10}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_FIXED_TIME = "2026-01-01T00:00:00Z"


def contract() -> list[dict[str, Any]]:
    """Every tool as the server states it: name, description, schemas and annotations, keys sorted."""
    from kforge_mcp.server.app import TOOLS
    from kforge_mcp.server.registry import make_tool

    return [_stated(make_tool(spec)) for spec in TOOLS]


def _stated(tool: Any) -> dict[str, Any]:
    annotations = tool.annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
    stated = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.parameters,
        "outputSchema": tool.output_schema,
        "annotations": annotations,
    }
    return json.loads(json.dumps(stated, sort_keys=True))


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _examples(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8")).get("examples", []) if path.exists() else []


def _dump(path: Path, tool: dict[str, Any], examples: list[dict[str, Any]]) -> None:
    content = {"tool": tool, "examples": examples}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write(folder: Path) -> list[str]:
    """Renew all files, keep their examples, remove surplus ones. Returns the names of the files that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    tools = {tool["name"]: tool for tool in contract()}
    changed = []
    for name, tool in tools.items():
        path = _file(folder, name)
        before = path.read_bytes() if path.exists() else b""
        _dump(path, tool, _examples(path))
        if path.read_bytes() != before:
            changed.append(path.name)
    for path in folder.glob("*.json"):
        if path.stem not in tools:
            path.unlink()
            changed.append(path.name)
    return sorted(changed)


def check(folder: Path) -> list[str]:
    """What is wrong with the files: missing, stale or surplus ones, and examples that break their schema."""
    problems = []
    tools = {tool["name"]: tool for tool in contract()}
    for name, tool in tools.items():
        path = _file(folder, name)
        if not path.exists():
            problems.append(f"{path.name} is missing")
            continue
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("tool") != tool:
            problems.append(f"{path.name} is stale: it does not say what the server says")
        for number, example in enumerate(content.get("examples", [])):
            problems += [f"{path.name}, example {number}: {text}" for text in _faults(tool, example)]
    problems += [
        f"{path.name} is surplus: there is no such tool" for path in folder.glob("*.json") if path.stem not in tools
    ]
    return sorted(problems)


def _faults(tool: dict[str, Any], example: dict[str, Any]) -> list[str]:
    from jsonschema import Draft202012Validator

    if set(example) != {"arguments", "text", "structured"}:
        return ["an example has arguments, text and structured"]
    pairs = [("arguments", tool["inputSchema"])]
    if example["structured"] is not None:
        pairs.append(("structured", tool["outputSchema"]))
    return [
        f"{part}: {error.message}"
        for part, schema in pairs
        for error in Draft202012Validator(schema).iter_errors(example[part])
    ]


def record_example(
    folder: Path,
    tool: str,
    arguments: Mapping[str, Any],
    text: str,
    structured: Mapping[str, Any] | None,
    *,
    paths: Mapping[str, str] | None = None,
) -> bool:
    """Add an example of a call to a tool's file, with ids, moments and paths made the same in every recording.

    `paths` maps real folders to the names that stand for them, say `{"/home/me/w": "/workspace"}`. Of one
    tool at most three examples with different outcomes are kept; returns whether this one was.
    """
    path = _file(folder, tool)
    content = json.loads(path.read_text(encoding="utf-8"))
    fresh = normalised({"arguments": dict(arguments), "text": text, "structured": structured}, paths or {})
    kinds = {_kind(example) for example in content["examples"]}
    if len(content["examples"]) >= MAX_EXAMPLES or _kind(fresh) in kinds:
        return False
    _dump(path, content["tool"], [*content["examples"], fresh])
    return True


def clear_examples(folder: Path) -> None:
    """Remove all recorded examples, before recording them anew."""
    for path in folder.glob("*.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        _dump(path, content["tool"], [])


def _kind(example: dict[str, Any]) -> tuple[str, ...]:
    """Examples are alike if their calls give the same fields and end in the same way."""
    structured = example["structured"] or {}
    ending = [str(structured.get(key, "")) for key in ("stage", "status", "reason", "verdict", "stop_reason", "part")]
    return (*sorted(example["arguments"]), *ending)


def normalised(example: dict[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    """The example with ids numbered in order of appearance, fixed moments, named paths, and rounded times."""
    seen: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        prefix = match.group(1)
        number = sum(known.startswith(prefix + "_") for known in seen) + 1
        return seen.setdefault(match.group(0), f"{prefix}_{number:010d}")

    def words(text: str) -> str:
        for real in sorted(paths, key=len, reverse=True):
            text = text.replace(real, paths[real])
        return _ID.sub(rename, _TIME.sub(_FIXED_TIME, text))

    def value(item: Any, key: str = "") -> Any:
        if isinstance(item, str):
            return words(item)
        if isinstance(item, Mapping):
            return {name: value(part, str(name)) for name, part in item.items()}
        if isinstance(item, list | tuple):
            return [value(part, key) for part in item]
        if isinstance(item, float) and key.endswith(("_us", "_s")):
            return float(f"{item:.2g}")
        return round(item, 3) if isinstance(item, float) else item

    return {key: value(part) for key, part in example.items()}
