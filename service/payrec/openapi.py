"""The OpenAPI document: FastAPI's, with the security, headers and errors that the route table says."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from payrec import __version__
from payrec.gate.routes import ROUTES, Access, Body, Route
from payrec.models.common import Problem

DESCRIPTION: Final = (
    "Multi-tenant payment reconciliation: what was expected, what really moved, which belong together and why. "
    "Every request names its tenant and environment in `X-Tenant-Id` and `X-Environment`, and authenticates with a "
    "bearer token, or with an API key in `Authorization: Bearer` or `X-Api-Key`."
)
_PROBLEM: Final = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_TENANT_HEADERS: Final = (
    {
        "name": "X-Tenant-Id",
        "in": "header",
        "required": True,
        "schema": {"type": "string", "format": "uuid"},
        "description": "Id of the tenant.",
    },
    {
        "name": "X-Environment",
        "in": "header",
        "required": True,
        "schema": {"type": "string", "enum": ["development", "staging", "production", "test"]},
        "description": "Environment of the tenant.",
    },
)
_IDEMPOTENCY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "description": "The same key and body get the same answer for 24 hours, and have one effect.",
}


def document(app: FastAPI) -> dict[str, Any]:
    """Return the document, made once for an application."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=__version__, description=app.description, routes=app.routes)
        components = made.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        problem = Problem.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
        schemas.update(problem.pop("$defs", {}))
        schemas["Problem"] = problem
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        components["securitySchemes"] = {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A JWT of the identity provider, or an API key.",
            },
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
        }
        for route in ROUTES:
            operation = made["paths"].get(route.path, {}).get(route.method.lower())
            if operation is not None:
                _describe(operation, route)
        app.openapi_schema = made
    return app.openapi_schema


def _describe(operation: dict[str, Any], route: Route) -> None:
    responses = operation["responses"]
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    statuses = {"400": "The request cannot be read.", "500": "An error of ours.", "503": "Try again later."}
    parameters = operation.setdefault("parameters", [])
    if route.access is not Access.PUBLIC:
        schemes: list[dict[str, list[str]]] = (
            [{"bearer": []}] if route.access is Access.JWT_ONLY else [{"bearer": []}, {"apiKey": []}]
        )
        if route.access is Access.PUBLIC_IN_DEVELOPMENT:
            schemes.append({})
        operation["security"] = schemes
        required = route.access is not Access.PUBLIC_IN_DEVELOPMENT
        parameters.extend({**header, "required": required} for header in _TENANT_HEADERS)
        statuses |= {"401": "No valid credentials.", "403": "Not allowed."}
    else:
        operation["security"] = []
    if route.idempotent:
        parameters.append(_IDEMPOTENCY)
        statuses |= {"409": "The state does not allow it.", "422": "Something is wrong with the content."}
    if route.body is not Body.NONE:
        statuses |= {"413": "The body is too large.", "415": "The media type is not supported."}
        statuses |= {"422": "Something is wrong with the content."}
        content = operation["requestBody"]["content"]
        for media_type in route.media_types:
            content.setdefault(media_type, content["application/json"])
    if route.method == "GET" and any(p.get("in") == "query" for p in parameters):
        statuses |= {"422": "A parameter is wrong."}
    statuses["431"] = "The headers are too large."
    for status, description in statuses.items():
        responses.setdefault(status, {"description": description, "content": _PROBLEM})
    if route.permissions:
        names = " or ".join(sorted(p.value for p in route.permissions))
        operation["description"] = f"{operation.get('description', '')}\n\nPermission: `{names}`."
