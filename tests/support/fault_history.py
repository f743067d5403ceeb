"""What clients asked for and heard while everything around them failed: one line of JSON for each attempt."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TextIO

IN_PROGRESS: Final = "idempotency_in_progress"
EXPIRED: Final = "expired_credentials"
"""A service whose clock is wrong refuses who asks, and has not looked at what is asked."""

UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
KEPT: Final = ("id", "status", "version", "code", "jobId", "results", "reason", "bytes", "rows", "seen")
"""Members of an answer that are kept; of all others only the digest is."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt at one request."""

    client: str
    tenant: str
    op: str
    """What the client wanted, in a word."""
    method: str
    path: str
    body: Any = None
    key: str | None = None
    """Its Idempotency-Key."""
    about: str | None = None
    """The id of what it is about."""
    basis: int | None = None
    """The version that it named by If-Match."""
    invoked: float
    """Seconds of the clients' own monotonic clock."""
    ended: float
    status: int | None = None
    """None: the connection broke, or nothing came in time; what was asked for may have happened or not."""
    answer: Any = None
    digest: str = ""
    """Of the whole body of the answer."""
    ids: tuple[str, ...] = ()
    """All ids in it."""

    @property
    def is_answered(self) -> bool:
        """Tell whether the answer says if it happened: what the service or its database could not do is unknown."""
        code = self.answer.get("code") if isinstance(self.answer, dict) else None
        if self.status is None or self.status >= 500 or self.status == 429:
            return False
        return code not in {IN_PROGRESS, EXPIRED}

    @property
    def is_done(self) -> bool:
        """Tell whether the answer says that it happened."""
        return self.status is not None and 200 <= self.status < 300


def digest(body: bytes) -> str:
    """Return the digest of a body by which two are known to be the same."""
    return hashlib.sha256(body).hexdigest()[:16]


def kept(answer: Any) -> Any:
    """Return what the checker needs of a decoded answer."""
    return {name: answer[name] for name in KEPT if name in answer} if isinstance(answer, dict) else None


class History:
    """Notes calls, in the order in which they ended."""

    def __init__(self, path: Path) -> None:
        self.calls: list[Call] = []
        self._file: TextIO = path.open("w", encoding="utf-8")

    def add(self, call: Call) -> None:
        """Note one."""
        self.calls.append(call)
        self._file.write(json.dumps(asdict(call)) + "\n")

    def close(self) -> None:
        """Write what is left."""
        self._file.close()


def read(path: Path) -> list[Call]:
    """Return the calls that were noted in a file."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [Call(**{**row, "ids": tuple(row["ids"])}) for row in rows]
