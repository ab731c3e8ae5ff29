"""Logs to stderr, one event a line; stdout belongs to the protocol."""

from __future__ import annotations

import logging
import os
import sys

import structlog


def configure(level: str = "") -> None:
    """Send everything that logs, ours and libraries', to stderr, before anything is printed.

    Console lines on a terminal, JSON elsewhere. `level` or `KFORGE_LOG_LEVEL`, default `INFO`.
    """
    chosen = (level or os.environ.get("KFORGE_LOG_LEVEL", "INFO")).upper()
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, renderer]
        if not sys.stderr.isatty()
        else [*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping().get(chosen, logging.INFO)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processor=renderer)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(chosen if chosen in logging.getLevelNamesMapping() else "INFO")
    for talkative in ("mcp", "alembic", "distributed"):
        logging.getLogger(talkative).setLevel(logging.WARNING)
