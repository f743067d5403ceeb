"""``/api/docs``, ``/api/openapi.json`` and the pages that problem types point to. Not part of the REST interface."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from payrec.errors import NotFoundError
from payrec.problems import explanation

router = APIRouter(include_in_schema=False)


@router.get("/api/openapi.json")
async def openapi_document(request: Request) -> JSONResponse:
    """Return the OpenAPI document."""
    return JSONResponse(request.app.openapi())


@router.get("/api/docs")
async def docs(_request: Request) -> HTMLResponse:
    """Return the interactive documentation."""
    return get_swagger_ui_html(
        openapi_url="/api/openapi.json", title="payrec", swagger_ui_parameters={"persistAuthorization": True}
    )


@router.get("/problems/{name}")
async def problem_type(name: str) -> Response:
    """Tell what a problem type means (RFC 9457, section 3.1.1)."""
    text = explanation(name.replace("-", "_"))
    if text is None:
        raise NotFoundError
    return PlainTextResponse(text)
