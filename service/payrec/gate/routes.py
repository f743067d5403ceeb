"""The route table: for every route who may use it, which body it takes and how large. Data, in one place.

The gate obeys it, OpenAPI is drawn from it, and tests walk it; a route that is not here does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from payrec.constants import JSON_BODY_BYTES_MAX, UPLOAD_BYTES_MAX
from payrec.domain.principal import Permission


class Access(Enum):
    """Which credentials a route takes."""

    PUBLIC = auto()
    """None; whatever is sent is ignored."""
    STANDARD = auto()
    """A token or an API key, and the tenant headers."""
    JWT_ONLY = auto()
    """A token, never an API key, and the tenant headers."""
    PUBLIC_IN_DEVELOPMENT = auto()
    """None where the server's own setting says development; otherwise STANDARD."""


class Body(Enum):
    """What a route reads."""

    NONE = auto()
    JSON = auto()
    FORM_OR_JSON = auto()
    FORM = auto()
    UPLOAD = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    access: Access = Access.STANDARD
    permissions: frozenset[Permission] = field(default_factory=frozenset)
    """One of these is enough."""
    body: Body = Body.NONE
    body_bytes_max: int = JSON_BODY_BYTES_MAX
    media_types: tuple[str, ...] = ()
    idempotent: bool = True
    """Takes an Idempotency-Key (POST and PATCH alone)."""
    in_schema: bool = True
    """Part of the REST interface and its OpenAPI document."""


def _route(
    method: str, path: str, *permissions: Permission, access: Access = Access.STANDARD, body: Body | None = None
) -> Route:
    kind = body if body is not None else (Body.JSON if method in {"POST", "PATCH", "PUT"} else Body.NONE)
    media: dict[Body, tuple[str, ...]] = {
        Body.JSON: ("application/json", "application/merge-patch+json") if method == "PATCH" else ("application/json",),
        Body.FORM_OR_JSON: ("application/json", "application/x-www-form-urlencoded"),
        Body.FORM: ("application/x-www-form-urlencoded",),
        Body.UPLOAD: ("application/json", "application/x-ndjson", "application/octet-stream", "multipart/form-data"),
    }
    return Route(
        method=method,
        path=path,
        access=access,
        permissions=frozenset(permissions),
        body=kind,
        body_bytes_max=UPLOAD_BYTES_MAX if kind is Body.UPLOAD else JSON_BODY_BYTES_MAX,
        media_types=media.get(kind, ()),
        idempotent=method in {"POST", "PATCH"} and kind not in {Body.FORM, Body.FORM_OR_JSON},
        in_schema=not path.startswith(("/idp", "/api/docs", "/api/openapi", "/problems")),
    )


_READ: Final = Permission.READ
_WRITE: Final = Permission.WRITE
_MANAGE: Final = Permission.TENANTS_MANAGE

ROUTES: Final[tuple[Route, ...]] = (
    _route("GET", "/api/health", access=Access.PUBLIC),
    _route("GET", "/api/docs", access=Access.PUBLIC),
    _route("GET", "/api/openapi.json", access=Access.PUBLIC),
    _route("GET", "/problems/{name}", access=Access.PUBLIC),
    _route("GET", "/idp/.well-known/openid-configuration", access=Access.PUBLIC),
    _route("GET", "/idp/jwks", access=Access.PUBLIC),
    _route("POST", "/idp/token", access=Access.PUBLIC, body=Body.FORM),
    _route("POST", "/auth/token", access=Access.PUBLIC, body=Body.FORM_OR_JSON),
    _route("POST", "/auth/api-keys", Permission.API_KEYS_MANAGE, access=Access.JWT_ONLY),
    _route("GET", "/auth/api-keys", Permission.API_KEYS_MANAGE, access=Access.JWT_ONLY),
    _route("GET", "/auth/api-keys/{key_id}", Permission.API_KEYS_MANAGE, access=Access.JWT_ONLY),
    _route("DELETE", "/auth/api-keys/{key_id}", Permission.API_KEYS_MANAGE, access=Access.JWT_ONLY),
    _route("POST", "/tenants", _MANAGE, access=Access.PUBLIC_IN_DEVELOPMENT),
    _route("GET", "/tenants", _READ, _MANAGE),
    _route("GET", "/tenants/{tenant_id}", _READ, _MANAGE),
    _route("PATCH", "/tenants/{tenant_id}", _MANAGE),
    _route("GET", "/tenants/{tenant_id}/settings", _READ, _MANAGE),
    _route("PATCH", "/tenants/{tenant_id}/settings", Permission.SETTINGS_MANAGE),
    _route("POST", "/expected-transactions", _WRITE),
    _route("GET", "/expected-transactions", _READ),
    _route("GET", "/expected-transactions/{transaction_id}", _READ),
    _route("POST", "/incoming-transactions", _WRITE),
    _route("GET", "/incoming-transactions", _READ),
    _route("POST", "/incoming-transactions/upload", _WRITE, body=Body.UPLOAD),
    _route("GET", "/incoming-transactions/{transaction_id}", _READ),
    _route("GET", "/imports", _READ),
    _route("GET", "/imports/{import_id}", _READ),
    _route("GET", "/imports/{import_id}/errors", _READ),
    _route("POST", "/matches/match", _WRITE),
    _route("GET", "/matches", _READ),
    _route("GET", "/matches/{match_id}", _READ),
    _route("POST", "/matches/{match_id}/accept", Permission.MATCHES_ACCEPT),
    _route("GET", "/jobs", _READ),
    _route("POST", "/jobs", _WRITE),
    _route("GET", "/jobs/{job_id}", _READ),
)


class RouteTable:
    """Finds the route of a request by segments; fixed segments win over parameters."""

    def __init__(self, routes: tuple[Route, ...] = ROUTES) -> None:
        self._fixed: dict[str, dict[str, Route]] = {}
        self._templates: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        for route in routes:
            if "{" not in route.path:
                self._fixed.setdefault(route.path, {})[route.method] = route
                continue
            segments = tuple(route.path.split("/")[1:])
            group = self._templates.setdefault(len(segments), [])
            methods = next((m for known, m in group if known == segments), None)
            if methods is None:
                methods = {}
                group.append((segments, methods))
            methods[route.method] = route

    def methods(self, path: str) -> dict[str, Route]:
        """Return the methods of a path; empty when the path is unknown."""
        fixed = self._fixed.get(path)
        if fixed is not None:
            return fixed
        segments = path.split("/")[1:]
        for template, methods in self._templates.get(len(segments), ()):
            pairs = zip(template, segments, strict=True)
            if all((known[0] == "{" and given != "") or known == given for known, given in pairs):
                return methods
        return {}
