"""The one renderer of errors: RFC 9457 ``application/problem+json``, the same shape for everything."""

from __future__ import annotations

import inspect
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse

from payrec import errors
from payrec.errors import ConfigurationError, PayrecError

MEDIA_TYPE: Final = "application/problem+json"

_MADE_WITH: Final = {
    errors.MissingHeaderError: ("missing_tenant_header", "missing_environment_header"),
    errors.InvalidHeaderError: ("invalid_tenant_header", "invalid_environment_header"),
}
"""Codes that an error gets when it is made, instead of one of its class."""

_ABOUT: Final = """# Errors

Every refusal is a problem (RFC 9457, `application/problem+json`) with a `code` that never changes its meaning. Go by
the code, not by the texts. Its `type` is a page of the service that says the same: `/problems/` and the code with `-`
for `_`. Written by `payrec problems > service/errors.md`.
"""


def problem(error: PayrecError, *, request_id: str) -> dict[str, Any]:
    """Return the problem's members. Nothing of the request is echoed."""
    body: dict[str, Any] = {
        "type": f"/problems/{error.code.replace('_', '-')}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
        "requestId": request_id,
    }
    if error.errors:
        body["errors"] = [{"pointer": e.pointer, "code": e.code, "detail": e.detail} for e in error.errors]
    body.update({k: v for k, v in error.members.items() if v is not None})
    return body


def problem_response(error: PayrecError, *, request_id: str) -> JSONResponse:
    """Return the answer to a request that failed."""
    return JSONResponse(
        problem(error, request_id=request_id), status_code=error.status, headers=error.headers, media_type=MEDIA_TYPE
    )


def request_id_of(request: Request) -> str:
    """Return the id that the gate gave to the request."""
    return str(request.scope.get("state", {}).get("request_id", ""))


def kinds_by_code() -> dict[str, tuple[type[PayrecError], ...]]:
    """Return the classes of each code that a problem may have; the first is the one that the code is named for."""
    found: dict[str, tuple[type[PayrecError], ...]] = {}
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, PayrecError) and kind is not ConfigurationError:
            for code in _MADE_WITH.get(kind, (kind.code,)):
                found[code] = (*found.get(code, ()), kind)
    # A class that says itself what to do is more to the point than one that has it from its parent.
    return {code: tuple(sorted(kinds, key=_inherits)) for code, kinds in found.items()}


def explanation(code: str) -> str | None:
    """Return what a code means and what to do about it, as plain text; None for what is no code."""
    kinds = kinds_by_code().get(code)
    if kinds is None:
        return None
    meanings = "\n\n".join(inspect.cleandoc(kind.__doc__ or kind.title) for kind in kinds)
    return f"{code} ({kinds[0].status}): {kinds[0].title}\n\n{meanings}\n\nWhat to do: {kinds[0].remedy}\n"


def catalogue() -> str:
    """Return all codes with their meanings and what to do about them, by status, as a page of Markdown."""
    listed = kinds_by_code()
    rows = [
        f"| {kinds[0].status} | `{code}` | {_cell(kinds)} | {kinds[0].remedy} |"
        for code, kinds in sorted(listed.items(), key=lambda entry: (entry[1][0].status, entry[0]))
    ]
    table = "\n".join(["| Status | `code` | What it means | What to do |", "|---|---|---|---|", *rows])
    return f"{_ABOUT}\n{table}\n".replace("``", "`")


def _inherits(kind: type[PayrecError]) -> bool:
    return "remedy" not in vars(kind)


def _cell(kinds: tuple[type[PayrecError], ...]) -> str:
    return "<br>".join(" ".join(inspect.cleandoc(kind.__doc__ or kind.title).split()) for kind in kinds)
