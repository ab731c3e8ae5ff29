"""Framed JSON over a stream socket: four bytes of length, big-endian, then UTF-8 JSON without NaN."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_HEADER = struct.Struct(">I")
MAX_FRAME = 256 * 1024 * 1024


class FrameError(Exception):
    """The peer sent something that is no frame."""


def send_frame(sock: socket.socket, message: dict[str, Any]) -> None:
    """Send one message. Raises `OSError` if the peer is gone, `ValueError` for NaN or infinity."""
    body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    sock.sendall(_HEADER.pack(len(body)) + body)


def receive_frame(sock: socket.socket) -> dict[str, Any] | None:
    """Receive one message, or None at the end of the stream. Raises `FrameError`."""
    header = _receive_exactly(sock, _HEADER.size)
    if header is None:
        return None
    (length,) = _HEADER.unpack(header)
    if length > MAX_FRAME:
        raise FrameError(f"a frame of {length} bytes is longer than {MAX_FRAME}")
    body = _receive_exactly(sock, length)
    if body is None:
        raise FrameError("the stream ended inside a frame")
    return json.loads(body)


def _receive_exactly(sock: socket.socket, count: int) -> bytes | None:
    chunks = bytearray()
    while len(chunks) < count:
        chunk = sock.recv(min(count - len(chunks), 1 << 20))
        if not chunk:
            if chunks:
                raise FrameError("the stream ended inside a frame")
            return None
        chunks += chunk
    return bytes(chunks)
