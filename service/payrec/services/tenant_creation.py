"""How a tenant is made: registered first, provisioned in committed steps, open when its tables are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from payrec.domain.caller import Caller, IdSource
from payrec.domain.changes import Record
from payrec.domain.principal import ENVIRONMENTS
from payrec.domain.scope import TenantScope, role_name, schema_name
from payrec.domain.settings import merged
from payrec.domain.slugs import slug_of, slug_problem
from payrec.errors import FieldError, NotFoundError, ValidationFailedError
from payrec.models.tenants import AdminCreate, AdminPublic, TenantCreate, TenantPublic
from payrec.services.tenant_settings import check_settings, effective_settings
from payrec.services.users import NewUser, add_user
from payrec.services.work import Unit, Work
from payrec.storage.idp import IdpStore
from payrec.storage.provisioning import Provisioner
from payrec.storage.tenants import TenantStore, scope_of


class PasswordHasher(Protocol):
    """The embedded identity provider's way to keep passwords."""

    async def hash(self, password: str) -> str:
        """Return what may be stored of a password."""
        ...


class Creation(Protocol):
    """One of the two ways to make a tenant."""

    async def create(self, caller: Caller, given: TenantCreate) -> TenantPublic:
        """Create a tenant; one that is not open yet has the status ``provisioning``.

        Raises
        ------
        SlugTakenError, UsernameTakenError, ValidationFailedError
        """
        ...


class TenantCreation:
    """Makes tenants by itself: needs the administrator's connection."""

    def __init__(self, *, work: Work, provisioner: Provisioner | None, passwords: PasswordHasher | None) -> None:
        self._work = work
        self._provisioner = provisioner
        self._passwords = passwords

    async def create(self, caller: Caller, given: TenantCreate) -> TenantPublic:
        """Register a tenant, provision its environments, and open it; as ``Creation.create``."""
        slug = wanted_slug(given)
        check_settings(given.settings or {}, pointer="/settings")
        password_hash = await self._password_hash(given.admin)
        environments = wanted_environments(given)
        tenant_id = self._work.ids.new()
        async with self._work.control(caller) as unit:
            await register(unit, self._work.ids, tenant_id, slug, given)
            if self._provisioner is not None:
                await self._provisioner.check_free([schema_name(slug, e) for e in environments])
            admin_id = await self._add_admin(unit, tenant_id, given.admin, password_hash, environments)
            found = await present(unit, tenant_id)
            unit.answer(202, found, found.headers)
            scopes = [scope_of(row) for row in await TenantStore(unit.connection).scopes(tenant_id)]
        await self._provision(scopes)
        async with self._work.control(caller, resumed=True) as unit:
            await TenantStore(unit.connection).update(tenant_id, at=unit.now, status="active")
            public = await present(unit, tenant_id)
            if admin_id is not None and given.admin is not None:
                admin = AdminPublic(id=admin_id, username=given.admin.username)
                public = public.model_copy(update={"admin": admin})
            unit.answer(201, public, public.headers)
        return public

    async def _add_admin(
        self,
        unit: Unit,
        tenant_id: UUID,
        admin: AdminCreate | None,
        password_hash: str | None,
        environments: Sequence[str],
    ) -> UUID | None:
        if admin is None:
            return None
        subject = admin.subject
        user_id = self._work.ids.new()
        if password_hash is not None:
            subject = subject or str(user_id)
        user = NewUser(
            username=admin.username, roles=["admin"], environments=environments, email=admin.email, subject=subject
        )
        await add_user(unit, tenant_id, user, user_id=user_id)
        if password_hash is not None:
            await IdpStore(unit.connection).put_user(
                username=admin.username,
                subject=subject or str(user_id),
                password_hash=password_hash,
                created_at=unit.now,
            )
        return user_id

    async def _password_hash(self, admin: AdminCreate | None) -> str | None:
        if admin is None or admin.password is None:
            return None
        if self._passwords is None:
            raise password_refused()
        return await self._passwords.hash(admin.password)

    async def _provision(self, scopes: list[TenantScope]) -> None:
        if not scopes:
            return
        if self._provisioner is None:
            raise AssertionError("provisioning needs a provisioner")
        for scope in scopes:
            revision = (await self._provisioner.ensure(scope)).revision
            async with self._work.database.control() as connection:
                await TenantStore(connection).activate_environment(
                    scope.environment_id, revision=revision, at=self._work.clock.now()
                )


async def register(
    unit: Unit,
    ids: IdSource,
    tenant_id: UUID,
    slug: str,
    given: TenantCreate,
    *,
    resource: tuple[str, str] | None = None,
) -> None:
    """Write a tenant and its environments into the registry, before anything of them is there.

    ``resource`` is the namespace and the name of the Tenant resource that it is made for.

    Raises
    ------
    SlugTakenError
        Through the constraint ``tenant_slug_unique``.
    """
    tenant: dict[str, Any] = {
        "id": tenant_id,
        "slug": slug,
        "name": given.name,
        "status": "provisioning",
        "settings": merged({}, given.settings or {}),
        "created_at": unit.now,
        "updated_at": unit.now,
    }
    if resource is not None:
        tenant |= {"resource_namespace": resource[0], "resource_name": resource[1]}
    rows = [
        {
            "id": ids.new(),
            "tenant_id": tenant_id,
            "environment": environment,
            "schema_name": schema_name(slug, environment),
            "role_name": role_name(tenant_id, environment),
            "status": "provisioning",
            "created_at": unit.now,
            "updated_at": unit.now,
        }
        for environment in wanted_environments(given)
    ]
    await TenantStore(unit.connection).add(tenant, rows)
    unit.record(Record(action="tenant.created", resource_id=tenant_id, after={"slug": slug, "name": given.name}))


async def present(unit: Unit, tenant_id: UUID) -> TenantPublic:
    """Return a tenant as it is in the unit's transaction.

    Raises
    ------
    NotFoundError
    """
    row = await TenantStore(unit.connection).get(tenant_id)
    if row is None:
        raise NotFoundError
    return TenantPublic.model_validate(effective(row))


def effective(row: dict[str, Any]) -> dict[str, Any]:
    """Return a tenant's row with the settings in force."""
    return {**row, "settings": effective_settings(row["settings"])}


def wanted_environments(given: TenantCreate) -> list[str]:
    """Return the environments of a new tenant, in the order in which they are listed; all unless named."""
    return [e for e in ENVIRONMENTS if e in (given.environments or ENVIRONMENTS)]


def wanted_slug(given: TenantCreate) -> str:
    """Return the slug of a new tenant, made of its name unless given.

    Raises
    ------
    ValidationFailedError
    """
    slug = given.slug if given.slug is not None else slug_of(given.name)
    if slug is None:
        detail = "no slug can be made of the name; give one"
        raise ValidationFailedError.of(FieldError(pointer="/slug", code="slug_required", detail=detail))
    wrong = slug_problem(slug)
    if wrong is not None:
        raise ValidationFailedError.of(FieldError(pointer="/slug", code="slug_malformed", detail=wrong))
    return slug


def password_refused() -> ValidationFailedError:
    """Return the error for a password that this service does not keep."""
    detail = "passwords are the identity provider's; only the embedded one takes them here"
    return ValidationFailedError.of(FieldError(pointer="/admin/password", code="not_allowed", detail=detail))
