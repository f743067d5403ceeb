"""The OpenAPI document: FastAPI's, with the security, headers, limits and errors that the route table says."""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from payrec import __version__
from payrec.gate.routes import ROUTES, Access, Body, Reach, Route
from payrec.models.common import Problem
from payrec.openapi_examples import EXAMPLES

DESCRIPTION: Final = (
    "Multi-tenant payment reconciliation: what was expected, what really moved, which belong together and why. "
    "Every request names its tenant and environment in `X-Tenant-Id` and `X-Environment`, and authenticates with a "
    "bearer token, or with an API key in `Authorization: Bearer` or `X-Api-Key`."
)
_PROBLEM: Final = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_TENANT_ID: Final = {
    "name": "X-Tenant-Id",
    "in": "header",
    "schema": {"type": "string"},
    "description": "Id of the caller's tenant, a UUID.",
}
"""Without a format: clients that are generated make an object of a UUID, which no header can be."""
_ENVIRONMENT: Final = {
    "name": "X-Environment",
    "in": "header",
    "schema": {"type": "string", "enum": ["development", "staging", "production", "test"]},
}
_REACH: Final = {
    Reach.ENVIRONMENT: "Environment of the tenant; nothing of another one is seen or changed.",
    Reach.TENANT: "Environment of the tenant that the caller works in; the answer is the same in all of them.",
}
_RETRY_AFTER: Final = {
    "description": "Seconds after which trying again may help.",
    "required": True,
    "schema": {"type": "integer", "minimum": 0},
}
_LIMIT_HEADERS: Final = {
    "RateLimit": {
        "description": "What is left of each limit, and the seconds after which it is whole again.",
        "schema": {"type": "string"},
    },
    "RateLimit-Policy": {
        "description": "The limits in force: requests, and the seconds that they are for.",
        "schema": {"type": "string"},
    },
}
_LIMITS: Final = {name: {"$ref": f"#/components/headers/{name}"} for name in _LIMIT_HEADERS}
_HEADERS: Final[dict[int, dict[str, Any]]] = {
    401: {"WWW-Authenticate": {"description": "How to authenticate (RFC 6750).", "schema": {"type": "string"}}},
    429: {"Retry-After": _RETRY_AFTER},
    503: {"Retry-After": _RETRY_AFTER},
}
"""Headers that every problem of a status has."""

_IDEMPOTENCY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "description": "The same key and body get the same answer for 24 hours, and have one effect.",
}


def rendered(app: FastAPI) -> bytes:
    """Return the document as JSON, rendered once: anybody may ask for it, and it takes the processor for 30 ms."""
    if not hasattr(app.state, "openapi_json"):
        app.state.openapi_json = json.dumps(document(app), ensure_ascii=False, separators=(",", ":")).encode()
    return bytes(app.state.openapi_json)


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
        components["headers"] = _LIMIT_HEADERS
        for route in ROUTES:
            operation = made["paths"].get(route.path, {}).get(route.method.lower())
            if operation is not None:
                _name_patch(operation, route, schemas)
                _describe(operation, route)
        app.openapi_schema = made
    return app.openapi_schema


def _name_patch(operation: dict[str, Any], route: Route, schemas: dict[str, Any]) -> None:
    """Make a component of a merge patch that has no model: under two media types it would be two things without one."""
    if "application/merge-patch+json" not in route.media_types:
        return
    content = operation["requestBody"]["content"]["application/json"]
    if "$ref" not in content["schema"]:
        name = content["schema"]["title"]
        schemas[name] = content["schema"]
        content["schema"] = {"$ref": f"#/components/schemas/{name}"}


def _describe(operation: dict[str, Any], route: Route) -> None:
    parameters = operation.setdefault("parameters", [])
    operation["security"] = _security(route)
    if route.access is not Access.PUBLIC:
        required = route.access is not Access.PUBLIC_IN_DEVELOPMENT
        environment = {**_ENVIRONMENT, "description": _REACH[route.reach]}
        parameters.extend({**header, "required": required} for header in (_TENANT_ID, environment))
    if route.idempotent:
        parameters.append(_IDEMPOTENCY)
    if route.body is not Body.NONE:
        content = operation["requestBody"]["content"]
        if (example := EXAMPLES.get((route.method, route.path))) is not None:
            content["application/json"]["example"] = example
        for media_type in route.media_types:
            content.setdefault(media_type, content["application/json"])
    if route.permissions:
        names = " or ".join(sorted(p.value for p in route.permissions))
        operation["description"] = f"{operation.get('description', '')}\n\nPermission: `{names}`."
    _describe_problems(operation["responses"], route)


def _security(route: Route) -> list[dict[str, list[str]]]:
    if route.access is Access.PUBLIC:
        return []
    schemes: list[dict[str, list[str]]] = [{"bearer": []}]
    if route.access is not Access.JWT_ONLY:
        schemes.append({"apiKey": []})
    if route.access is Access.PUBLIC_IN_DEVELOPMENT:
        schemes.append({})
    return schemes


def _describe_problems(responses: dict[str, Any], route: Route) -> None:
    """Add the codes of the route table to those that the handler says, and the headers of each status."""
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    for status, codes in route.problems.items():
        # The description of a problem is the list of its codes, also where the handler wrote it.
        told = responses[str(status)]["description"].split(", ") if str(status) in responses else []
        listed = ", ".join(dict.fromkeys([*codes, *told]))
        responses[str(status)] = {"description": listed, "content": _PROBLEM}
    for text, response in responses.items():
        headers = dict(_HEADERS.get(int(text), {}))
        # Who is not known yet has no limit to be told.
        if route.access is not Access.PUBLIC and text != "401":
            headers |= _LIMITS
        if headers:
            response.setdefault("headers", {}).update(headers)
