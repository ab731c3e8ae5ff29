"""The runtime's process: `python .../runtime/__main__.py FD PARENT` answers requests until the socket closes.

FD is the socket it inherited, PARENT the process that started it.

A request is `{"id", "op", "payload"}`; answers are any number of `{"id", "event"}` and then one of
`{"id", "result"}` or `{"id", "error": {"kind", "message", "trace"}}`.
"""

from __future__ import annotations

import importlib
import importlib.util
import socket
import sys
from pathlib import Path
from typing import Any

PACKAGE = "kforge_runtime"
OPERATIONS = {
    "describe": "describe:describe",
    "gpu": "capture_device:gpu",
    "load": "capture:load",
    "capture": "capture:capture",
    "ceilings": "ceilings:measure",
    "evaluate": "evaluator:serve",
    "evaluate_cuda": "cuda.evaluators:serve",
    "sanitize": "sanitized:check",
    "build_paths": "describe:build_paths",
    "accept": "acceptance:accept",
    "devices": "cuda.device:describe",
    "measure_cuda": "cuda.measuring:measure",
}


def become_package() -> None:
    """Register this folder as the package `kforge_runtime`, so that its modules shadow none of the user's."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != here]
    spec = importlib.util.spec_from_file_location(PACKAGE, here / "__init__.py", submodule_search_locations=[str(here)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)


def _handler(operation: str) -> Any:
    module, function = OPERATIONS[operation].split(":")
    return getattr(importlib.import_module(f"{PACKAGE}.{module}"), function)


def _answer(sock: socket.socket, request: dict[str, Any]) -> None:
    framing = importlib.import_module(f"{PACKAGE}.framing")
    failures = importlib.import_module(f"{PACKAGE}.failures")
    number = request["id"]

    def emit(event: dict[str, Any]) -> None:
        framing.send_frame(sock, {"id": number, "event": event})

    try:
        result = _handler(request["op"])(request["payload"], emit)
    except Exception as error:  # noqa: BLE001 - the top of the process: whatever happened must reach the control plane
        framing.send_frame(sock, {"id": number, "error": failures.as_frame(error)})
    else:
        framing.send_frame(sock, {"id": number, "result": result})


def main() -> None:
    """Serve until the other end closes the socket."""
    become_package()
    descriptor, parent = (int(word) for word in sys.argv[1:])
    sys.argv = sys.argv[:1]
    importlib.import_module(f"{PACKAGE}.process").die_with_parent(parent)
    framing = importlib.import_module(f"{PACKAGE}.framing")
    with socket.socket(fileno=descriptor) as sock:
        while (request := framing.receive_frame(sock)) is not None:
            _answer(sock, request)


if __name__ == "__main__":
    main()
