"""Answers that are files: named for the disk they go to, and sent piece by piece."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from payrec.errors import FieldError, ValidationFailedError
from payrec.services.csv_text import CSV_MEDIA_TYPE

FILE_MEDIA_TYPE: Final = "application/octet-stream"
"""Of a file whose content nobody vouches for."""

VARIES: Final = {"Vary": "Accept"}
"""Headers of every answer where JSON or CSV is the client's choice."""

_JSON: Final = "application/json"
_WEIGHT: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?", re.ASCII)
"""How much something is wanted (RFC 9110, section 12.4.2); what is no weight is none."""
_UNSAFE: Final = frozenset('"\\/:*?<>|%;')
"""What some browser or file system takes for something else."""


def attachment(name: str) -> str:
    """Return the Content-Disposition of a file (RFC 6266): the name in ASCII, and as it is for those who know UTF-8."""
    printable = "".join(c for c in name if c.isprintable() and c not in _UNSAFE).strip(". ") or "file"
    plain = "".join(c if c.isascii() else "_" for c in printable)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(printable, safe='')}"


def respond_download(
    pieces: AsyncIterator[bytes], *, name: str, media_type: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with a file, in the memory of one piece."""
    named = {"Content-Disposition": attachment(name)}
    return StreamingResponse(pieces, media_type=media_type, headers={**named, **(headers or {})})


def digest_headers(sha256: str) -> dict[str, str]:
    """Return the headers by which a file can be told from another one: ETag, and its digest (RFC 9530)."""
    digest = base64.b64encode(bytes.fromhex(sha256)).decode()
    return {"ETag": f'"{sha256}"', "Repr-Digest": f"sha-256=:{digest}:"}


def prefers_csv(request: Request) -> bool:
    """Return whether the client asks for CSV rather than for JSON (RFC 9110, section 12.5.1).

    Raises
    ------
    ValidationFailedError
        It asks for a page: a CSV has all rows.
    """
    accepted = request.headers.get("accept", "")
    if _quality(accepted, CSV_MEDIA_TYPE) <= _quality(accepted, _JSON):
        return False
    if request.query_params:
        detail = "a CSV is whole: it takes no parameters"
        wrong = sorted(request.query_params.keys())
        raise ValidationFailedError.of(
            *(FieldError(pointer=name[:100], code="extra_forbidden", detail=detail) for name in wrong)
        )
    return True


def _quality(accepted: str, media_type: str) -> float:
    """Return how much a media type is wanted: what names it most closely decides."""
    ranges = [media_type, f"{media_type.partition('/')[0]}/*", "*/*"]
    found = {}
    for part in accepted.split(","):
        name, *parameters = (text.strip().lower() for text in part.split(";"))
        weights = [text.removeprefix("q=") for text in parameters if text.startswith("q=")]
        found[name] = float(weights[0]) if weights and _WEIGHT.fullmatch(weights[0]) else float(not weights)
    return next((found[name] for name in ranges if name in found), 0.0)
