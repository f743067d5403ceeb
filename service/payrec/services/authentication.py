"""Who asks, and may they: credentials to a principal, headers to a tenant environment, in the order of the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast, get_args
from uuid import UUID

from payrec.domain import keys
from payrec.domain.caller import Clock
from payrec.domain.identifiers import parse_uuid
from payrec.domain.principal import Environment, Permission, Principal, effective_permissions, key_permissions
from payrec.domain.scope import TenantScope
from payrec.errors import (
    EnvironmentMismatchError,
    EnvironmentSuspendedError,
    ExpiredCredentialsError,
    ForbiddenError,
    InvalidCredentialsError,
    InvalidHeaderError,
    JwtRequiredError,
    MissingCredentialsError,
    MissingHeaderError,
    RevokedCredentialsError,
    TenantMismatchError,
    TenantProvisioningError,
    TenantSuspendedError,
    UnknownUserError,
    UserDisabledError,
)
from payrec.services.api_key_usage import ApiKeyUsage
from payrec.services.claims import Claims
from payrec.services.users import UserService
from payrec.services.verification import TokenVerifier
from payrec.storage.authentication import AuthenticationStore
from payrec.storage.database import Database

_ENVIRONMENTS = frozenset(get_args(Environment))
_NO_DIGEST = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The headers that say who and where, as they were sent."""

    api_key: str | None = None
    authorization: str | None = None
    tenant_id: str | None = None
    environment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a route asks for."""

    permissions: frozenset[Permission]
    jwt_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Identified:
    """Whose credentials are good, before it is known where the request wants to go and whether it may."""

    principal: Principal
    environments: frozenset[str]
    """The environments that the credentials open."""
    row: dict[str, Any]
    """The principal's tenant and the environment of the headers, as they are stored."""


class Authenticator:
    """Admits a request to a tenant environment: ``identify`` says who asks, ``admit`` whether the request may pass."""

    def __init__(
        self,
        *,
        database: Database,
        verifier: TokenVerifier,
        users: UserService,
        key_usage: ApiKeyUsage,
        clock: Clock,
        peppers: tuple[bytes, ...],
    ) -> None:
        self._database = database
        self._verifier = verifier
        self._users = users
        self._key_usage = key_usage
        self._clock = clock
        self._peppers = peppers

    async def identify(self, credentials: Credentials, *, request_id: str) -> Identified:
        """Return whose credentials these are.

        Raises
        ------
        PayrecError
            The first condition of the contract's table that does not hold, from ``missing_credentials`` to
            ``identity_provider_unavailable``.
        """
        identified = await self._identify(credentials, request_id)
        if identified.row["tenant_status"] in {"suspended", "deleting"}:
            raise TenantSuspendedError
        return identified

    def admit(self, identified: Identified, credentials: Credentials, admission: Admission) -> TenantScope:
        """Return where the principal works.

        Raises
        ------
        PayrecError
            The first condition of the contract's table that does not hold, from ``missing_tenant_header`` to
            ``insufficient_permission``.
        """
        principal, row = identified.principal, identified.row
        environment = _tenant_headers(credentials, principal)
        if environment not in identified.environments:
            raise EnvironmentMismatchError
        if row["environment_id"] is None or row["environment"] != environment:
            raise EnvironmentMismatchError
        if row["environment_status"] == "suspended":
            raise EnvironmentSuspendedError
        if row["environment_status"] == "provisioning" or row["revision"] is None:
            raise TenantProvisioningError
        if admission.jwt_only and principal.kind == "api_key":
            raise JwtRequiredError
        if not (admission.permissions & principal.permissions):
            wanted = " or ".join(sorted(p.value for p in admission.permissions))
            raise ForbiddenError(f"the permission {wanted} is required")
        return TenantScope(
            tenant_id=row["tenant_id"],
            environment_id=row["environment_id"],
            environment=environment,
            slug=row["slug"],
            schema_name=row["schema_name"],
            role_name=row["role_name"],
            timezone=row["timezone"],
            name=row["tenant_name"],
            locale=row["locale"],
            auto_run=row["auto_run"],
            reject_duplicates=row["reject_duplicates"],
            approval=row["approval"],
        )

    async def _identify(self, credentials: Credentials, request_id: str) -> Identified:
        if credentials.api_key is not None:
            return await self._identify_key(credentials.api_key)
        if credentials.authorization is None:
            raise MissingCredentialsError
        scheme, _, value = credentials.authorization.partition(" ")
        value = value.strip(" ")
        if scheme.lower() != "bearer" or not value:
            raise InvalidCredentialsError
        if value.count(".") == 2:
            claims = await self._verifier.verify(value)
            return await self._identify_user(claims, credentials.environment, request_id)
        return await self._identify_key(value)

    async def _identify_key(self, text: str) -> Identified:
        try:
            key = keys.parse(text)
        except ValueError:
            raise InvalidCredentialsError from None
        async with self._database.authentication() as connection:
            row = await AuthenticationStore(connection).find_key(key.public_id)
        # An unknown key costs the same work as a wrong one.
        digest = keys.verified(key, row["digest"] if row is not None else _NO_DIGEST, *self._peppers)
        if row is None or digest is None:
            raise InvalidCredentialsError
        now = self._clock.now()
        if row["expires_at"] is not None and row["expires_at"] <= now:
            raise ExpiredCredentialsError
        if row["revoked_at"] is not None:
            raise RevokedCredentialsError
        self._key_usage.note(row["id"], at=now, digest=digest if digest != row["digest"] else None)
        environment = cast("Environment", row["key_environment"])
        principal = Principal(
            kind="api_key",
            id=row["id"],
            public_id=row["public_id"],
            tenant_id=row["tenant_id"],
            environments=frozenset({environment}),
            permissions=key_permissions(read=row["read"], write=row["write"]),
            name=row["name"] or "",
            resource_key=row["resource_key"],
            made_by=row["created_by"],
        )
        return Identified(principal=principal, environments=frozenset({environment}), row=row)

    async def _identify_user(self, claims: Claims, environment: str | None, request_id: str) -> Identified:
        async with self._database.authentication() as connection:
            row = await AuthenticationStore(connection).find_user(
                user_id=claims.user_id, subject=claims.subject, username=claims.username, environment=environment
            )
        if row is None or row["tenant_id"] != claims.tenant_id:
            raise UnknownUserError
        if not await self._agrees(claims, row, request_id):
            raise UnknownUserError
        if row["status"] == "disabled":
            raise UserDisabledError
        environments = frozenset(claims.environments) & frozenset(row["environments"])
        principal = Principal(
            kind="user",
            id=row["id"],
            tenant_id=row["tenant_id"],
            environments=environments,
            permissions=effective_permissions(claims.roles, claims.permissions, row["roles"]),
            roles=frozenset(row["roles"]),
            name=row["username"],
        )
        return Identified(principal=principal, environments=environments, row=row)

    async def _agrees(self, claims: Claims, row: dict[str, Any], request_id: str) -> bool:
        """Tell whether the token's subject is the stored user's; a user without one gets that of its first token.

        A username alone is never enough: providers let people change theirs, and give one to somebody else later.
        """
        stored = row["subject"]
        if claims.subject is None:
            return claims.user_id is not None
        if stored is None and claims.of_provider and row["status"] == "active":
            stored = await self._users.link(row["id"], claims.subject, request_id=request_id)
        elif stored is None:
            return claims.user_id is not None
        return bool(stored == claims.subject)


def _tenant_headers(credentials: Credentials, principal: Principal) -> Environment:
    """Return the environment of the headers, after both were looked at."""
    if credentials.tenant_id is None:
        raise MissingHeaderError("X-Tenant-Id", "missing_tenant_header")
    tenant_id: UUID | None = parse_uuid(credentials.tenant_id)
    if tenant_id is None:
        raise InvalidHeaderError("X-Tenant-Id", "invalid_tenant_header", "must be a UUID")
    if credentials.environment is None:
        raise MissingHeaderError("X-Environment", "missing_environment_header")
    if credentials.environment not in _ENVIRONMENTS:
        raise InvalidHeaderError(
            "X-Environment", "invalid_environment_header", "must be development, staging, production or test"
        )
    if tenant_id != principal.tenant_id:
        raise TenantMismatchError
    return cast("Environment", credentials.environment)
