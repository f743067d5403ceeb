"""Tenants: registered first, provisioned in committed steps, open when their tables are there."""

from __future__ import annotations

from typing import Any, Final, Protocol
from uuid import UUID
from zoneinfo import available_timezones

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import ENVIRONMENTS, Permission
from payrec.domain.scope import TenantScope, role_name, schema_name
from payrec.domain.settings import merged
from payrec.domain.slugs import slug_of, slug_problem
from payrec.errors import FieldError, NotFoundError, ValidationFailedError
from payrec.models.common import Page
from payrec.models.tenants import (
    AdminCreate,
    AdminPublic,
    Settings,
    TenantCreate,
    TenantPatch,
    TenantPublic,
    TenantQuery,
)
from payrec.services.paging import Pager
from payrec.services.users import NewUser, add_user
from payrec.services.validation import check_version, identifier, validated
from payrec.services.work import Unit, Work
from payrec.storage.idp import IdpStore
from payrec.storage.listing import BY_CREATION
from payrec.storage.provisioning import Provisioner
from payrec.storage.tenants import TenantStore, scope_of

COLLECTION: Final = "/tenants"


class PasswordHasher(Protocol):
    """The embedded identity provider's way to keep passwords."""

    async def hash(self, password: str) -> str:
        """Return what may be stored of a password."""
        ...


class TenantService:
    """Creates, lists and changes tenants and their settings."""

    def __init__(
        self, *, work: Work, pager: Pager, provisioner: Provisioner | None, passwords: PasswordHasher | None
    ) -> None:
        self._work = work
        self._pager = pager
        self._provisioner = provisioner
        self._passwords = passwords

    async def create(self, caller: Caller, given: TenantCreate) -> TenantPublic:
        """Register a tenant, provision its environments, and open it.

        Raises
        ------
        SlugTakenError, UsernameTakenError, ValidationFailedError
        """
        slug = _slug(given)
        if given.settings:
            _check_settings(given.settings, pointer="/settings")
        password_hash = await self._password_hash(given.admin)
        environments = [e for e in ENVIRONMENTS if e in (given.environments or ENVIRONMENTS)]
        tenant_id = self._work.ids.new()
        async with self._work.control(caller) as unit:
            await self._register(unit, tenant_id, slug, given, environments)
            if self._provisioner is not None:
                await self._provisioner.check_free([schema_name(slug, e) for e in environments])
            admin_id = await self._add_admin(unit, tenant_id, given.admin, password_hash, environments)
            present = await self._present(unit, tenant_id)
            unit.answer(202, present, present.headers)
            scopes = [scope_of(row) for row in await TenantStore(unit.connection).scopes(tenant_id)]
        await self._provision(scopes)
        async with self._work.control(caller, resumed=True) as unit:
            await TenantStore(unit.connection).update(tenant_id, at=unit.now, status="active")
            public = await self._present(unit, tenant_id)
            if admin_id is not None and given.admin is not None:
                admin = AdminPublic(id=admin_id, username=given.admin.username)
                public = public.model_copy(update={"admin": admin})
            unit.answer(201, public, public.headers)
        return public

    async def page(self, caller: Caller, query: TenantQuery) -> Page[TenantPublic]:
        """Return the caller's tenant, or all of them to who manages tenants."""
        everything = Permission.TENANTS_MANAGE in caller.principal.permissions
        request = self._pager.request(COLLECTION, query, BY_CREATION, caller.scope)
        tenant_id = None if everything else caller.tenant.tenant_id
        async with self._work.database.control(readonly=True) as connection:
            rows, more = await TenantStore(connection).page(request, query, tenant_id=tenant_id)
        return self._pager.page(
            TenantPublic,
            [_effective(row) for row in rows],
            more=more,
            collection=COLLECTION,
            query=query,
            sort=request.sort,
            scope=caller.scope,
        )

    async def get(self, caller: Caller, tenant_id: str) -> TenantPublic:
        """Return a tenant; somebody else's is not found.

        Raises
        ------
        NotFoundError
        """
        wanted = _visible(caller, tenant_id)
        async with self._work.database.control(readonly=True) as connection:
            row = await TenantStore(connection).get(wanted)
        if row is None:
            raise NotFoundError
        return TenantPublic.model_validate(_effective(row))

    async def patch(self, caller: Caller, tenant_id: str, given: TenantPatch, if_match: str | None) -> TenantPublic:
        """Rename, suspend or resume a tenant.

        Raises
        ------
        NotFoundError, VersionMismatchError
        """
        wanted = _visible(caller, tenant_id)
        async with self._work.control(caller) as unit:
            store = TenantStore(unit.connection)
            before = await store.get(wanted, lock=True)
            if before is None:
                raise NotFoundError
            check_version(if_match, before["version"])
            await store.update(wanted, at=unit.now, name=given.name, status=given.status)
            after = given.model_dump(exclude_unset=True)
            unit.record(
                Record(
                    action="tenant.suspended" if given.status == "suspended" else "tenant.updated",
                    resource_id=wanted,
                    before={k: before[k] for k in after},
                    after=after,
                )
            )
            public = await self._present(unit, wanted)
            unit.answer(200, public, {"ETag": public.headers["ETag"]})
        return public

    async def patch_settings(
        self, caller: Caller, tenant_id: str, patch: dict[str, Any], if_match: str | None
    ) -> tuple[Settings, int]:
        """Merge a patch into the settings (RFC 7396); return them and the tenant's version.

        Raises
        ------
        NotFoundError, VersionMismatchError, ValidationFailedError
        """
        # The patch by itself first: what is wrong with it does not depend on what is stored, nor on whose it is.
        _check_settings(patch)
        wanted = _visible(caller, tenant_id)
        async with self._work.control(caller) as unit:
            store = TenantStore(unit.connection)
            before = await store.get(wanted, lock=True)
            if before is None:
                raise NotFoundError
            check_version(if_match, before["version"])
            stored = merged(before["settings"], patch)
            settings = _check_settings(stored)
            await store.update_settings(wanted, stored, at=unit.now)
            unit.record(
                Record(action="tenant.settings_updated", resource_id=wanted, before=before["settings"], after=stored)
            )
            unit.answer(200, settings, {"ETag": f'"{before["version"] + 1}"'})
        return settings, before["version"] + 1

    async def delete(self, caller: Caller, slug: str) -> None:
        """Drop a tenant with all of its data. Only the command line asks for this.

        Raises
        ------
        NotFoundError
        """
        if self._provisioner is None:
            raise AssertionError("deleting needs a provisioner")
        async with self._work.database.control() as connection:
            store = TenantStore(connection)
            tenant = await store.find_by_slug(slug)
            if tenant is None:
                raise NotFoundError(f"there is no tenant {slug}")
            await store.update(tenant["id"], at=self._work.clock.now(), status="deleting")
            scopes = [scope_of(row) for row in await store.scopes(tenant["id"])]
        for scope in scopes:
            await self._provisioner.drop(scope)
        async with self._work.control(caller) as unit:
            await TenantStore(unit.connection).delete(tenant["id"])
            unit.record(Record(action="tenant.deleted", resource_id=tenant["id"], before={"slug": slug}))

    async def find(self, slug: str) -> TenantPublic:
        """Return the tenant of a slug.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.control(readonly=True) as connection:
            row = await TenantStore(connection).find_by_slug(slug)
        if row is None:
            raise NotFoundError(f"there is no tenant {slug}")
        return TenantPublic.model_validate(_effective(row))

    async def scope(self, slug: str, environment: str) -> TenantScope:
        """Return one environment of the tenant of a slug.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.control(readonly=True) as connection:
            store = TenantStore(connection)
            tenant = await store.find_by_slug(slug)
            rows = await store.scopes(tenant["id"]) if tenant is not None else []
        if tenant is None:
            raise NotFoundError(f"there is no tenant {slug}")
        for row in rows:
            if row["environment"] == environment:
                return scope_of(row)
        raise NotFoundError(f"the tenant {slug} has no environment {environment}")

    async def _register(
        self, unit: Unit, tenant_id: UUID, slug: str, given: TenantCreate, environments: list[Any]
    ) -> None:
        tenant = {
            "id": tenant_id,
            "slug": slug,
            "name": given.name,
            "status": "provisioning",
            "settings": merged({}, given.settings or {}),
            "created_at": unit.now,
            "updated_at": unit.now,
        }
        rows = [
            {
                "id": self._work.ids.new(),
                "tenant_id": tenant_id,
                "environment": environment,
                "schema_name": schema_name(slug, environment),
                "role_name": role_name(tenant_id, environment),
                "status": "provisioning",
                "created_at": unit.now,
                "updated_at": unit.now,
            }
            for environment in environments
        ]
        await TenantStore(unit.connection).add(tenant, rows)
        unit.record(Record(action="tenant.created", resource_id=tenant_id, after={"slug": slug, "name": given.name}))

    async def _add_admin(
        self, unit: Unit, tenant_id: UUID, admin: AdminCreate | None, password_hash: str | None, environments: list[Any]
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
            raise ValidationFailedError.of(
                FieldError(
                    pointer="/admin/password",
                    code="not_allowed",
                    detail="passwords are the identity provider's; only the embedded one takes them here",
                )
            )
        return await self._passwords.hash(admin.password)

    async def _provision(self, scopes: list[TenantScope]) -> None:
        if not scopes:
            return
        if self._provisioner is None:
            raise AssertionError("provisioning needs a provisioner")
        for scope in scopes:
            revision = await self._provisioner.ensure(scope)
            async with self._work.database.control() as connection:
                await TenantStore(connection).activate_environment(
                    scope.environment_id, revision=revision, at=self._work.clock.now()
                )

    async def _present(self, unit: Unit, tenant_id: UUID) -> TenantPublic:
        row = await TenantStore(unit.connection).get(tenant_id)
        if row is None:
            raise NotFoundError
        return TenantPublic.model_validate(_effective(row))


def effective_settings(stored: dict[str, Any]) -> Settings:
    """Return the settings in force: the stored ones over the defaults."""
    return Settings.model_validate(stored)


def _effective(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "settings": effective_settings(row["settings"])}


def _visible(caller: Caller, tenant_id: str) -> UUID:
    wanted = identifier(tenant_id)
    if Permission.TENANTS_MANAGE not in caller.principal.permissions and wanted != caller.tenant.tenant_id:
        raise NotFoundError
    return wanted


def _slug(given: TenantCreate) -> str:
    slug = given.slug if given.slug is not None else slug_of(given.name)
    if slug is None:
        detail = "no slug can be made of the name; give one"
        raise ValidationFailedError.of(FieldError(pointer="/slug", code="slug_required", detail=detail))
    wrong = slug_problem(slug)
    if wrong is not None:
        raise ValidationFailedError.of(FieldError(pointer="/slug", code="slug_malformed", detail=wrong))
    return slug


def _check_settings(stored: dict[str, Any], *, pointer: str = "") -> Settings:
    settings = validated(Settings, merged({}, stored), pointer=pointer)
    if settings.timezone not in available_timezones():
        raise ValidationFailedError.of(
            FieldError(pointer=f"{pointer}/timezone", code="unknown_timezone", detail="must be an IANA time zone")
        )
    return settings
