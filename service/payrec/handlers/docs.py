"""``/api/docs``, ``/api/openapi.json`` and the pages that problem types point to. Not part of the REST interface."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from payrec import openapi
from payrec.constants.console import ALONE_HEADERS, VIEWER_MAX_AGE
from payrec.errors import NotFoundError
from payrec.problems import explanation

router = APIRouter(include_in_schema=False)

_VIEWER: Final = files("payrec.handlers").joinpath("viewer")
_SWAGGER: Final = files("fastapi_swagger").joinpath("resources")
_FILES: Final[dict[str, tuple[Traversable, str]]] = {
    "start.js": (_VIEWER, "text/javascript"),
    "swagger-ui-bundle.js": (_SWAGGER, "text/javascript"),
    "swagger-ui.css": (_SWAGGER, "text/css"),
    "favicon-32x32.png": (_SWAGGER, "image/png"),
}

_HEADERS: Final = {
    # The viewer sets styles by itself and shows pictures that stand in its style sheet.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    **ALONE_HEADERS,
}


@router.get("/api/openapi.json")
async def openapi_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return Response(openapi.rendered(request.app), media_type="application/json")


@router.get("/api/docs")
async def docs(_request: Request) -> Response:
    """Return the interactive documentation."""
    return Response(_VIEWER.joinpath("index.html").read_bytes(), media_type="text/html", headers=_HEADERS)


@router.get("/api/docs/{file}")
async def viewer(file: str) -> Response:
    """Return a file of the documentation's viewer."""
    if file not in _FILES:
        raise NotFoundError
    folder, media_type = _FILES[file]
    kept = {"Cache-Control": f"public, max-age={int(VIEWER_MAX_AGE.total_seconds())}"}
    return Response(folder.joinpath(file).read_bytes(), media_type=media_type, headers=_HEADERS | kept)


@router.get("/problems/{name}")
async def problem_type(name: str) -> Response:
    """Tell what a problem type means (RFC 9457, section 3.1.1)."""
    text = explanation(name.replace("-", "_"))
    if text is None:
        raise NotFoundError
    return PlainTextResponse(text)
