"""Tenants: made in the way of the installation, listed, changed, and dropped with all of their data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.field_ownership import SETTINGS, refused_fields, touched_fields
from payrec.domain.principal import PRODUCTION, Permission
from payrec.domain.scope import TenantScope
from payrec.domain.settings import merged
from payrec.errors import ConflictError, FieldError, ForbiddenError, NotFoundError
from payrec.models.common import Page
from payrec.models.tenants import Settings, TenantCreate, TenantPatch, TenantPublic, TenantQuery
from payrec.services.paging import Pager
from payrec.services.tenant_creation import Creation, effective, present
from payrec.services.tenant_settings import check_settings, effective_settings, is_loosened
from payrec.services.validation import check_version, identifier
from payrec.services.work import Work
from payrec.storage.blob_remnants import BlobRemnantStore
from payrec.storage.listing import BY_CREATION
from payrec.storage.provisioning import Provisioner
from payrec.storage.tenants import TenantStore, scope_of

COLLECTION: Final = "/tenants"


class TenantService:
    """Creates, lists and changes tenants and their settings."""

    def __init__(
        self, *, work: Work, pager: Pager, provisioner: Provisioner | None, creation: Callable[[], Creation]
    ) -> None:
        self._work = work
        self._pager = pager
        self._provisioner = provisioner
        self._creation = creation

    async def create(self, caller: Caller, given: TenantCreate) -> TenantPublic:
        """Create a tenant, in the way of the installation: ``TenantCreation``, or ``ResourceCreation``."""
        return await self._creation().create(caller, given)

    async def page(self, caller: Caller, query: TenantQuery) -> Page[TenantPublic]:
        """Return the caller's tenant, or all of them to who manages tenants."""
        everything = Permission.TENANTS_MANAGE in caller.principal.permissions
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        tenant_id = None if everything else caller.tenant.tenant_id
        async with self._work.database.control(readonly=True) as connection:
            rows, more = await TenantStore(connection).page(listing.request, query, tenant_id=tenant_id)
        return listing.page(
            TenantPublic,
            [effective(row) for row in rows],
            more=more,
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
        return TenantPublic.model_validate(effective(row))

    async def patch(self, caller: Caller, tenant_id: str, given: TenantPatch, if_match: str | None) -> TenantPublic:
        """Rename, suspend or resume a tenant.

        Raises
        ------
        NotFoundError, VersionMismatchError
        ConflictError
            A Tenant resource names what would be changed, or the tenant is being deleted and cannot be resumed.
        """
        wanted = _visible(caller, tenant_id)
        async with self._work.control(caller) as unit:
            store = TenantStore(unit.connection)
            before = await store.get(wanted, lock=True)
            if before is None:
                raise NotFoundError
            check_version(if_match, before["version"])
            if given.status is not None and before["status"] == "deleting":
                # Some of its schemas may be gone.
                raise ConflictError("the tenant is being deleted")
            after = given.model_dump(exclude_unset=True)
            _check_owner(before, [f"/{name}" for name in after])
            await store.update(wanted, at=unit.now, name=given.name, status=given.status)
            unit.record(
                Record(
                    action="tenant.suspended" if given.status == "suspended" != before["status"] else "tenant.updated",
                    resource_id=wanted,
                    before={k: before[k] for k in after},
                    after=after,
                )
            )
            public = await present(unit, wanted)
            unit.answer(200, public, {"ETag": public.headers["ETag"]})
        return public

    async def patch_settings(
        self, caller: Caller, tenant_id: str, patch: dict[str, Any], if_match: str | None
    ) -> tuple[Settings, int]:
        """Merge a patch into the settings (RFC 7396); return them and the tenant's version.

        Raises
        ------
        NotFoundError, VersionMismatchError, ValidationFailedError
        ForbiddenError
            The caller is an API key, which the settings do not let change these.
        ConflictError
            A Tenant resource names what would be changed.
        """
        # The patch by itself first: what is wrong with it does not depend on what is stored, nor on whose it is.
        check_settings(patch, is_patch=True)
        wanted = _visible(caller, tenant_id)
        async with self._work.control(caller) as unit:
            store = TenantStore(unit.connection)
            before = await store.get(wanted, lock=True)
            if before is None:
                raise NotFoundError
            check_version(if_match, before["version"])
            _check_owner(before, touched_fields(patch, SETTINGS), within=SETTINGS)
            stored = merged(before["settings"], patch)
            settings = check_settings(stored)
            _check_loosened(caller, before, settings)
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
        ConflictError
            It belongs to a Tenant resource, which would make it again.
        """
        if self._provisioner is None:
            raise AssertionError("deleting needs a provisioner")
        async with self._work.database.control() as connection:
            store = TenantStore(connection)
            tenant = await store.find_by_slug(slug)
            if tenant is None:
                raise NotFoundError(f"there is no tenant {slug}")
            if tenant["resource_uid"] is not None:
                resource = f"{tenant['resource_namespace']}/{tenant['resource_name']}"
                raise ConflictError(f"the tenant {slug} belongs to the Tenant resource {resource}: delete that")
            await store.update(tenant["id"], at=self._work.clock.now(), status="deleting")
            scopes = [scope_of(row) for row in await store.scopes(tenant["id"])]
        for scope in scopes:
            await self._provisioner.drop(scope)
        async with self._work.control(caller) as unit:
            await TenantStore(unit.connection).delete(tenant["id"])
            for scope in scopes:
                await BlobRemnantStore(unit.connection).add(
                    scope.environment_id, tenant_id=tenant["id"], dropped_at=unit.now
                )
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
        return TenantPublic.model_validate(effective(row))

    async def scope(self, slug: str, environment: str) -> TenantScope:
        """Return one environment of the tenant of a slug.

        Raises
        ------
        NotFoundError
        """
        for row in await environments_of(self._work, slug):
            if row["environment"] == environment:
                return scope_of(row)
        raise NotFoundError(f"the tenant {slug} has no environment {environment}")


async def environments_of(work: Work, slug: str) -> list[dict[str, Any]]:
    """Return the environments of the tenant of a slug, as ``TenantStore.scopes`` does.

    Raises
    ------
    NotFoundError
    """
    async with work.database.control(readonly=True) as connection:
        store = TenantStore(connection)
        tenant = await store.find_by_slug(slug)
        if tenant is None:
            raise NotFoundError(f"there is no tenant {slug}")
        return await store.scopes(tenant["id"])


def _visible(caller: Caller, tenant_id: str) -> UUID:
    wanted = identifier(tenant_id)
    if Permission.TENANTS_MANAGE not in caller.principal.permissions and wanted != caller.tenant.tenant_id:
        raise NotFoundError
    return wanted


def _check_loosened(caller: Caller, tenant: dict[str, Any], after: Settings) -> None:
    """Refuse changes of what needs nobody, or who approves, by whom the settings or his environments keep from it.

    Settings hold in all environments: who is not let into production does not say what is accepted there.
    """
    before, principal = effective_settings(tenant["settings"]), caller.principal
    if not is_loosened(before, after):
        return
    if principal.kind == "api_key" and not before.approval.keys_may_change_rules:
        raise ForbiddenError("the setting approval.keysMayChangeRules does not let API keys change these settings")
    has_production = any(found["environment"] == PRODUCTION for found in tenant["environments"])
    if has_production and not principal.opens(PRODUCTION):
        raise ForbiddenError("these settings hold in production as well, where this principal may not act")


def _check_owner(tenant: dict[str, Any], changed: list[str], *, within: str = "") -> None:
    """Refuse changes of what the tenant's resource names; ``within`` is where the body's members stand."""
    refused = refused_fields(tenant["resource_fields"], changed)
    if refused:
        detail = "the tenant's resource names it; change it there"
        raise ConflictError(
            "the Tenant resource of this tenant names what would be changed: change it there, or stop naming it",
            errors=[
                FieldError(pointer=pointer.removeprefix(within), code="owned_by_resource", detail=detail)
                for pointer in refused
            ],
        )
