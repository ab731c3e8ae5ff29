"""Stands in for the runtime's main module: each operation is one way a process can behave."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any


def send(sock: socket.socket, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    sock.sendall(struct.pack(">I", len(body)) + body)


def receive(sock: socket.socket) -> dict[str, Any] | None:
    header = sock.recv(4, socket.MSG_WAITALL)
    return json.loads(sock.recv(struct.unpack(">I", header)[0], socket.MSG_WAITALL)) if header else None


def answer(sock: socket.socket, number: int, operation: str, payload: dict[str, Any]) -> None:
    if operation == "echo":
        print("printed by the model", flush=True)
        send(sock, {"id": number, "event": {"step": 1}})
        send(sock, {"id": number, "event": {"step": 2}})
        send(sock, {"id": number - 1, "result": {"stale": True}})
        send(sock, {"id": number, "result": {**payload, "cwd": os.getcwd(), "mark": os.environ.get("MARK", "")}})
    elif operation == "user_error":
        error = {"kind": "user_error", "message": "the model raised", "trace": "Traceback ..."}
        send(sock, {"id": number, "error": error})
    elif operation == "exit":
        sys.exit(payload["status"])
    elif operation == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif operation == "hang":
        child = subprocess.Popen(["sleep", "1000"])
        send(sock, {"id": number, "event": {"pids": [os.getpid(), child.pid]}})
        time.sleep(1000)
    elif operation == "chatter":
        while True:
            send(sock, {"id": number, "event": {}})
    elif operation == "half":
        sock.sendall(struct.pack(">I", 100) + b"half a frame")
        time.sleep(1000)
    elif operation == "garbage":
        sock.sendall(struct.pack(">I", 4) + b"\xff{]}")
        time.sleep(1000)
    elif operation == "too long":
        sock.sendall(b"\xff\xff\xff\xff")
        time.sleep(1000)
    elif operation == "deaf":
        time.sleep(1000)


def main() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as sock:
        while (request := receive(sock)) is not None:
            answer(sock, request["id"], request["op"], request["payload"])


main()
