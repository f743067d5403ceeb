"""The route table: for every route who may use it, where, which body it takes, and what it may be refused for.

Data, in one place. The gate obeys it, OpenAPI is drawn from it, and tests walk it; a route that is not here does not
exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from payrec.constants import BULK_BODY_BYTES_MAX, JSON_BODY_BYTES_MAX, UPLOAD_BYTES_MAX
from payrec.domain.principal import Permission
from payrec.errors import (
    BadRequestError,
    EnvironmentMismatchError,
    EnvironmentSuspendedError,
    ExpiredCredentialsError,
    ForbiddenError,
    HeaderTooLargeError,
    IdempotencyInProgressError,
    IdempotencyKeyReusedError,
    IdentityProviderUnavailableError,
    InvalidCredentialsError,
    InvalidIdempotencyKeyError,
    JwtRequiredError,
    MissingCredentialsError,
    PayloadTooLargeError,
    PayrecError,
    RateLimitedError,
    RequestTimeoutError,
    RevokedCredentialsError,
    TenantMismatchError,
    TenantProvisioningError,
    TenantSuspendedError,
    UnavailableError,
    UnknownUserError,
    UnsupportedMediaTypeError,
    UserDisabledError,
    ValidationFailedError,
)

FORM_BODY_BYTES_MAX: Final = 32 * 1024
"""Bytes of what anybody may send, who has no credentials yet: the longest name, password and address to go on to, each
character in its longest spelling, are 21 KiB. Strangers share one half of the room for bodies, and those who send them
slowly must not fill it with few connections, or nobody could sign in."""


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
    SESSION = auto()
    """The console's session, in the environment of the path; who has none is sent to sign in."""


class Reach(Enum):
    """What X-Environment means to a route; where it is looked at, the caller must be allowed in it."""

    NONE = auto()
    """Nothing: the tenant headers are not looked at."""
    TENANT = auto()
    """It admits the caller, no more: what the route shows and changes is the same in all environments."""
    ENVIRONMENT = auto()
    """It bounds the route: nothing of another environment is seen or changed."""


class Body(Enum):
    """What a route reads."""

    NONE = auto()
    JSON = auto()
    FORM_OR_JSON = auto()
    FORM = auto()
    UPLOAD = auto()


_ANY: Final[tuple[type[PayrecError], ...]] = (
    RequestTimeoutError,
    PayloadTooLargeError,
    HeaderTooLargeError,
    BadRequestError,
    ValidationFailedError,
    PayrecError,
    UnavailableError,
)
"""What any request may be refused for: its pace and size, that it is no HTTP, unknown parameters, and our failures."""

_AUTHENTICATED: Final[tuple[type[PayrecError], ...]] = (
    MissingCredentialsError,
    InvalidCredentialsError,
    ExpiredCredentialsError,
    RevokedCredentialsError,
    UnknownUserError,
    UserDisabledError,
    TenantSuspendedError,
    IdentityProviderUnavailableError,
    TenantMismatchError,
    EnvironmentMismatchError,
    EnvironmentSuspendedError,
    TenantProvisioningError,
)
"""What a request with credentials may be refused for, in the order in which it is looked at."""

_TENANT_HEADERS: Final = (
    "missing_tenant_header",
    "invalid_tenant_header",
    "missing_environment_header",
    "invalid_environment_header",
)
"""Codes of what is wrong with the tenant headers; one class of error has two of them."""

_IDEMPOTENT: Final[tuple[type[PayrecError], ...]] = (
    InvalidIdempotencyKeyError,
    IdempotencyKeyReusedError,
    IdempotencyInProgressError,
)
"""What an Idempotency-Key may be refused for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    access: Access = Access.STANDARD
    permissions: frozenset[Permission] = field(default_factory=frozenset)
    """One of these is enough."""
    reach: Reach = Reach.ENVIRONMENT
    body: Body = Body.NONE
    body_bytes_max: int = JSON_BODY_BYTES_MAX
    media_types: tuple[str, ...] = ()
    idempotent: bool = True
    """Takes an Idempotency-Key (POST and PATCH alone)."""
    is_limited: bool = True
    """Answers 429 to who asks too often."""
    in_schema: bool = True
    """Part of the REST interface and its OpenAPI document."""

    @property
    def problems(self) -> dict[int, tuple[str, ...]]:
        """The codes, by status, of what a request may be refused for whatever the route does."""
        errors = list(_ANY)
        if self.access is not Access.PUBLIC:
            errors += _AUTHENTICATED
            errors += [JwtRequiredError] if self.access is Access.JWT_ONLY else []
            errors += [ForbiddenError] if self.permissions else []
        if self.is_limited:
            errors.append(RateLimitedError)
        if self.body is not Body.NONE:
            errors.append(UnsupportedMediaTypeError)
        if self.idempotent:
            errors += _IDEMPOTENT
        found: dict[int, tuple[str, ...]] = {}
        for error in errors:
            found[error.status] = (*found.get(error.status, ()), error.code)
        if self.access is not Access.PUBLIC:
            found[BadRequestError.status] += _TENANT_HEADERS
        return found


def _route(
    method: str,
    path: str,
    *permissions: Permission,
    access: Access = Access.STANDARD,
    reach: Reach = Reach.ENVIRONMENT,
    body: Body | None = None,
    is_bulk: bool = False,
    is_effective: bool = True,
) -> Route:
    """Make a route; one that is not effective changes nothing, whatever its method."""
    kind = body if body is not None else (Body.JSON if method in {"POST", "PATCH", "PUT"} else Body.NONE)
    sizes = {Body.UPLOAD: UPLOAD_BYTES_MAX, Body.FORM: FORM_BODY_BYTES_MAX, Body.FORM_OR_JSON: FORM_BODY_BYTES_MAX}
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
        reach=Reach.NONE if access is Access.PUBLIC else reach,
        body=kind,
        body_bytes_max=sizes.get(kind, BULK_BODY_BYTES_MAX if is_bulk else JSON_BODY_BYTES_MAX),
        media_types=media.get(kind, ()),
        idempotent=is_effective and method in {"POST", "PATCH"} and kind not in {Body.FORM, Body.FORM_OR_JSON},
        is_limited=access is not Access.PUBLIC or kind is Body.FORM_OR_JSON,
        in_schema=not path.startswith(("/idp", "/api/docs", "/api/openapi", "/problems", "/console")),
    )


_READ: Final = Permission.READ
_WRITE: Final = Permission.WRITE
_MANAGE: Final = Permission.TENANTS_MANAGE

ROUTES: Final[tuple[Route, ...]] = (
    _route("GET", "/api/health", access=Access.PUBLIC),
    _route("GET", "/api/docs", access=Access.PUBLIC),
    _route("GET", "/api/docs/{file}", access=Access.PUBLIC),
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
    _route("POST", "/tenants", _MANAGE, access=Access.PUBLIC_IN_DEVELOPMENT, reach=Reach.TENANT),
    _route("GET", "/tenants", _READ, _MANAGE, reach=Reach.TENANT),
    _route("GET", "/tenants/{tenant_id}", _READ, _MANAGE, reach=Reach.TENANT),
    _route("PATCH", "/tenants/{tenant_id}", _MANAGE, reach=Reach.TENANT),
    _route("GET", "/tenants/{tenant_id}/settings", _READ, _MANAGE, reach=Reach.TENANT),
    _route("PATCH", "/tenants/{tenant_id}/settings", Permission.SETTINGS_MANAGE, reach=Reach.TENANT),
    _route("POST", "/expected-transactions", _WRITE),
    _route("GET", "/expected-transactions", _READ),
    _route("POST", "/expected-transactions/bulk", _WRITE, is_bulk=True),
    _route("POST", "/expected-transactions/upload", _WRITE, body=Body.UPLOAD),
    _route("POST", "/expected-transactions/snapshots", _WRITE, body=Body.UPLOAD),
    _route("GET", "/expected-transactions/snapshots", _READ),
    _route("GET", "/expected-transactions/snapshots/{snapshot_id}", _READ),
    _route("GET", "/expected-transactions/snapshots/{snapshot_id}/differences", _READ),
    _route("GET", "/expected-transactions/{transaction_id}", _READ),
    _route("PATCH", "/expected-transactions/{transaction_id}", _WRITE),
    _route("POST", "/expected-transactions/{transaction_id}/void", _WRITE),
    _route("GET", "/expected-transactions/{transaction_id}/candidates", _READ),
    _route("POST", "/incoming-transactions", _WRITE),
    _route("GET", "/incoming-transactions", _READ),
    _route("POST", "/incoming-transactions/bulk", _WRITE, is_bulk=True),
    _route("POST", "/incoming-transactions/upload", _WRITE, body=Body.UPLOAD),
    _route("POST", "/incoming-transactions/upload/preview", _WRITE, body=Body.UPLOAD, is_effective=False),
    _route("GET", "/incoming-transactions/{transaction_id}", _READ),
    _route("GET", "/incoming-transactions/{transaction_id}/candidates", _READ),
    _route("POST", "/incoming-transactions/{transaction_id}/ignore", _WRITE),
    _route("POST", "/incoming-transactions/{transaction_id}/classify", _WRITE),
    _route("POST", "/incoming-transactions/{transaction_id}/restore", _WRITE),
    _route("POST", "/incoming-transactions/{transaction_id}/link-reversal", Permission.MATCHES_ACCEPT),
    _route("POST", "/data-sources", Permission.SETTINGS_MANAGE),
    _route("GET", "/data-sources", _READ),
    _route("GET", "/data-sources/{source_id}", _READ),
    _route("PATCH", "/data-sources/{source_id}", Permission.SETTINGS_MANAGE),
    _route("DELETE", "/data-sources/{source_id}", Permission.SETTINGS_MANAGE),
    _route("POST", "/data-sources/{source_id}/sync", _WRITE),
    _route("POST", "/accounts", Permission.SETTINGS_MANAGE),
    _route("GET", "/accounts", _READ),
    _route("GET", "/accounts/{account_id}", _READ),
    _route("PATCH", "/accounts/{account_id}", Permission.SETTINGS_MANAGE),
    _route("PUT", "/accounts/{account_id}/book-balances", _WRITE),
    _route("GET", "/accounts/{account_id}/reconciliation", _READ),
    _route("GET", "/accounts/{account_id}/reconciliation/lines", _READ),
    _route("POST", "/period-locks", Permission.PERIODS_MANAGE),
    _route("GET", "/period-locks", _READ),
    _route("GET", "/period-locks/{lock_id}", _READ),
    _route("POST", "/period-locks/{lock_id}/reopen", Permission.PERIODS_MANAGE),
    _route("GET", "/postings", _READ),
    _route("POST", "/postings/acknowledgements", Permission.PERIODS_MANAGE),
    _route("GET", "/postings/acknowledgements", _READ),
    _route("GET", "/imports", _READ),
    _route("GET", "/imports/{import_id}", _READ),
    _route("GET", "/imports/{import_id}/errors", _READ),
    _route("GET", "/imports/{import_id}/content", _READ),
    _route("POST", "/matches/match", _WRITE),
    _route("GET", "/matches", _READ),
    _route("GET", "/matches/{match_id}", _READ),
    _route("GET", "/matches/{match_id}/record", _READ),
    _route("GET", "/matches/{match_id}/alternatives", _READ),
    _route("POST", "/matches", Permission.MATCHES_ACCEPT, is_bulk=True),
    _route("POST", "/matches/import", Permission.MATCHES_ACCEPT, body=Body.UPLOAD),
    _route("POST", "/matches/accept", Permission.MATCHES_ACCEPT, is_bulk=True),
    _route("POST", "/matches/reject", Permission.MATCHES_ACCEPT, is_bulk=True),
    _route("POST", "/matches/{match_id}/accept", Permission.MATCHES_ACCEPT),
    _route("POST", "/matches/{match_id}/approve", Permission.MATCHES_ACCEPT),
    _route("POST", "/matches/{match_id}/reject", Permission.MATCHES_ACCEPT),
    _route("POST", "/matches/{match_id}/reverse", Permission.MATCHES_ACCEPT),
    _route("GET", "/matching/calibration", _READ),
    _route("DELETE", "/matching/calibration", Permission.SETTINGS_MANAGE),
    _route("GET", "/matching/aliases", _READ),
    _route("DELETE", "/matching/aliases/{alias_id}", Permission.MATCHES_ACCEPT),
    _route("GET", "/matching/rejections", _READ),
    _route("DELETE", "/matching/rejections/{match_id}", Permission.MATCHES_ACCEPT),
    _route("PUT", "/fx-rates", Permission.MATCHES_ACCEPT, is_bulk=True),
    _route("GET", "/fx-rates", _READ),
    _route("POST", "/fx-rates/upload", Permission.MATCHES_ACCEPT, body=Body.UPLOAD),
    _route("POST", "/remittance-advices", _WRITE, is_bulk=True),
    _route("GET", "/remittance-advices", _READ),
    _route("GET", "/remittance-advices/{advice_id}", _READ),
    _route("GET", "/reports/summary", _READ),
    _route("GET", "/reports/ageing", _READ),
    _route("GET", "/reports/open-balances", _READ),
    _route("GET", "/reports/exceptions", _READ),
    _route("GET", "/events", _READ),
    _route("GET", "/events/{event_id}", _READ),
    _route("POST", "/webhooks", Permission.WEBHOOKS_MANAGE),
    _route("GET", "/webhooks", _READ),
    _route("GET", "/webhooks/{webhook_id}", _READ),
    _route("PATCH", "/webhooks/{webhook_id}", Permission.WEBHOOKS_MANAGE),
    _route("DELETE", "/webhooks/{webhook_id}", Permission.WEBHOOKS_MANAGE),
    _route("POST", "/webhooks/{webhook_id}/rotate-secret", Permission.WEBHOOKS_MANAGE),
    _route("POST", "/webhooks/{webhook_id}/test", Permission.WEBHOOKS_MANAGE),
    _route("GET", "/webhooks/{webhook_id}/deliveries", _READ),
    _route("POST", "/webhooks/{webhook_id}/redeliver", Permission.WEBHOOKS_MANAGE),
    _route("GET", "/jobs", _READ),
    _route("POST", "/jobs", _WRITE),
    _route("GET", "/jobs/{job_id}", _READ),
    _route("POST", "/jobs/{job_id}/cancel", _WRITE),
    _route("GET", "/exports/{export_id}/content", _READ),
    _route("GET", "/audit-log", _READ),
    _route("POST", "/privacy/erasures", Permission.PRIVACY_ERASE),
    _route("GET", "/privacy/erasures", _READ),
    _route("GET", "/privacy/erasures/{erasure_id}", _READ),
    _route("GET", "/console", access=Access.PUBLIC),
    _route("GET", "/console/sign-in", access=Access.PUBLIC),
    _route("POST", "/console/sign-in", access=Access.PUBLIC, body=Body.FORM),
    _route("POST", "/console/sign-out", access=Access.PUBLIC, body=Body.FORM),
    _route("POST", "/console/authorise", access=Access.PUBLIC, body=Body.FORM),
    _route("GET", "/console/callback", access=Access.PUBLIC),
    _route("GET", "/console/signed-in", access=Access.PUBLIC),
    # Before the pages, of whose environments one could be called "static".
    _route("GET", "/console/static/{version}/{file}", access=Access.PUBLIC),
    _route("GET", "/console/{environment}", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/overview", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/overview/figures", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/overview/activity", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/review", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/review/queue", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/review/items/{match_id}", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/review/items/{match_id}/choices", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/matches/{match_id}", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/unmatched", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/unmatched/{side}/{transaction_id}/candidates", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/search", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/incoming/{transaction_id}", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/expected/{transaction_id}", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/imports", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/imports/timeline", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/imports/{import_id}", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/imports/{import_id}/findings.csv", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/imports/{import_id}/file", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/imports/{import_id}/lines", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/month-end", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/month-end/readiness", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/month-end/{account_id}", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/month-end/{account_id}/statement", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/month-end/{account_id}/statement.csv", _READ, access=Access.SESSION),
    _route("GET", "/console/{environment}/month-end/{account_id}/lines.csv", _READ, access=Access.SESSION),
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
