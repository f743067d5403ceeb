"""The one renderer of errors: RFC 9457 ``application/problem+json``, the same shape for everything."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse

from payrec.errors import PayrecError

MEDIA_TYPE: Final = "application/problem+json"


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
