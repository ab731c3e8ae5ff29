"""Time from starting the server to its answer to `initialize`, and to a first call that opens the workspace."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KFORGE = str(Path(sys.executable).with_name("kforge-mcp"))
LIMIT_S = 1.5
RUNS = 7
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "get_candidate", "arguments": {"candidate_id": "cand_x"}},
}


def measure(workspace: str) -> tuple[float, float]:
    """Seconds to the first answer and to the answer of a first call."""
    start = time.perf_counter()
    server = subprocess.Popen(
        [KFORGE, "serve", "--workspace", workspace],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(HELLO) + "\n")
    server.stdin.flush()
    server.stdout.readline()
    first = time.perf_counter() - start
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
    server.stdin.write(json.dumps(CALL) + "\n")
    server.stdin.flush()
    server.stdout.readline()
    second = time.perf_counter() - start
    server.communicate(timeout=30)
    return first, second


def main() -> int:
    with tempfile.TemporaryDirectory() as workspace:
        times = [measure(workspace) for _ in range(RUNS)]
    first = [pair[0] for pair in times]
    second = [pair[1] for pair in times]
    print(f"initialize: median {statistics.median(first):.2f} s, worst {max(first):.2f} s (limit {LIMIT_S} s)")
    print(f"first call: median {statistics.median(second):.2f} s, worst {max(second):.2f} s")
    return int(statistics.median(first) > LIMIT_S)


if __name__ == "__main__":
    raise SystemExit(main())
