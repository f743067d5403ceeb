"""How a tenant is made in a cluster: a row in the registry, then a Tenant resource, and the operator does the rest.

Row and resource cannot be made together. The row comes first, without a UID: it keeps the slug and gives the id. When
the request breaks off before the resource is there, asking again goes on: with the same Idempotency-Key at once,
without one when the first request cannot be under way any more.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.constants.tenants import DISPLAY_NAME_LENGTH_MAX, RESOURCE_MADE_WITHIN
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.settings import merged
from payrec.errors import FieldError, SlugTakenError, ValidationFailedError
from payrec.models.tenants import AdminPublic, TenantCreate, TenantPublic
from payrec.services.kubernetes_api import KubernetesApi
from payrec.services.tenant_creation import password_refused, present, register, wanted_environments, wanted_slug
from payrec.services.tenant_settings import check_settings
from payrec.services.users import NewUser, add_user
from payrec.services.work import ReplayedAnswer, Unit, Work
from payrec.storage.idempotency import IdempotencyStore
from payrec.storage.tenant_resources import TenantResourceStore
from payrec.storage.tenants import TenantStore

TENANT_ID: Final = "payrec.dev/tenant-id"
"""The annotation by which a resource that was made here is known again."""


class ResourceCreation:
    """Makes Tenant resources in the namespace of the release."""

    def __init__(self, *, work: Work, api: KubernetesApi) -> None:
        self._work = work
        self._api = api

    async def create(self, caller: Caller, given: TenantCreate) -> TenantPublic:
        """Register a tenant and make its resource; as ``Creation.create``. It stays ``provisioning``.

        Raises
        ------
        UnavailableError
            The API server does not answer. The tenant is registered; asking again goes on.
        """
        slug = wanted_slug(given)
        _check(given)
        try:
            await self._work.check(caller, in_control=True)
        except ReplayedAnswer as replayed:
            await self._go_on(caller, slug, given, replayed)
            raise
        existing = await self._api.get(slug)
        tenant = await self._registered(caller, slug, given, is_free=existing is None)
        await self._make(caller, tenant.id, slug, given)
        return tenant

    async def _registered(self, caller: Caller, slug: str, given: TenantCreate, *, is_free: bool) -> TenantPublic:
        """Write the row, or take over that of a request that broke off before its resource was made.

        ``is_free``: there is no resource of that name. One that is there belongs to somebody, also without a row.
        """
        async with self._work.control(caller) as unit:
            store = TenantResourceStore(unit.connection)
            await store.hold(slug)
            row = await store.by_slug(slug)
            if not is_free or (
                row is not None and not self._is_broken_off(row, before=unit.now - RESOURCE_MADE_WITHIN)
            ):
                raise SlugTakenError
            if row is not None:
                await TenantStore(unit.connection).delete(row["id"])
            tenant_id = row["id"] if row is not None else self._work.ids.new()
            await register(unit, self._work.ids, tenant_id, slug, given, resource=(self._api.namespace, slug))
            tenant = await self._with_admin(unit, tenant_id, given)
            unit.answer(202, tenant, tenant.headers)
            return tenant

    async def _with_admin(self, unit: Unit, tenant_id: UUID, given: TenantCreate) -> TenantPublic:
        """Add the first user as one of the resource's, which lists it too."""
        admin: AdminPublic | None = None
        if given.admin is not None:
            user = NewUser(
                username=given.admin.username,
                roles=["admin"],
                environments=wanted_environments(given),
                email=given.admin.email,
                subject=given.admin.subject,
                of_resource=True,
            )
            user_id = await add_user(unit, tenant_id, user, user_id=self._work.ids.new())
            admin = AdminPublic(id=user_id, username=user.username)
        return (await present(unit, tenant_id)).model_copy(update={"admin": admin})

    async def _make(self, caller: Caller, tenant_id: UUID, slug: str, given: TenantCreate) -> None:
        """Make the resource; where that can never be, take back the row that stands for it."""
        try:
            if await self._api.create(resource_of(tenant_id, slug, given)) or await self._is_ours(slug, tenant_id):
                return
            raise SlugTakenError  # noqa: TRY301 - one of the two ends
        except (SlugTakenError, ValidationFailedError):
            await self._take_back(caller, tenant_id)
            raise

    async def _is_ours(self, slug: str, tenant_id: UUID) -> bool:
        found = await self._api.get(slug)
        annotations = ((found or {}).get("metadata") or {}).get("annotations") or {}
        return bool(annotations.get(TENANT_ID) == str(tenant_id))

    async def _take_back(self, caller: Caller, tenant_id: UUID) -> None:
        """Forget the row, unless the operator has given it to a resource meanwhile, and the answer that was kept."""
        async with self._work.control(caller, resumed=True) as unit:
            row = await TenantResourceStore(unit.connection).get(tenant_id, lock=True)
            if row is not None and row["resource_uid"] is None:
                await TenantStore(unit.connection).delete(tenant_id)
                unit.record(Record(action="tenant.deleted", resource_id=tenant_id, before={"slug": row["slug"]}))
            if caller.idempotency is not None:
                await IdempotencyStore(unit.connection).release(caller.idempotency)

    async def _go_on(self, caller: Caller, slug: str, given: TenantCreate, replayed: ReplayedAnswer) -> None:
        """Make the resource of a request that was answered before, if that broke off in between."""
        if replayed.answer.status != 202:
            return
        async with self._work.database.control(readonly=True) as connection:
            row = await TenantResourceStore(connection).by_slug(slug)
        if row is None or not self._is_broken_off(row):
            return
        if await self._api.get(slug) is None:
            await self._make(caller, row["id"], slug, given)

    def _is_broken_off(self, row: dict[str, Any], *, before: datetime | None = None) -> bool:
        """Tell whether a tenant was registered here, before an instant, for a resource that nobody has seen yet."""
        return (
            (before is None or row["updated_at"] <= before)
            and row["resource_uid"] is None
            and row["orphaned_at"] is None
            and row["status"] == "provisioning"
            and (row["resource_namespace"], row["resource_name"]) == (self._api.namespace, row["slug"])
        )


def _check(given: TenantCreate) -> None:
    check_settings(given.settings or {}, pointer="/settings")
    if given.admin is not None and given.admin.password is not None:
        raise password_refused()
    if len(given.name) > DISPLAY_NAME_LENGTH_MAX:
        detail = f"must have at most {DISPLAY_NAME_LENGTH_MAX} characters"
        raise ValidationFailedError.of(FieldError(pointer="/name", code="string_too_long", detail=detail))


def resource_of(tenant_id: UUID, slug: str, given: TenantCreate) -> dict[str, Any]:
    """Return the Tenant resource of a request."""
    spec: dict[str, Any] = {
        "slug": slug,
        "displayName": given.name,
        "environments": [{"name": environment} for environment in wanted_environments(given)],
    }
    settings = merged({}, given.settings or {})
    if settings:
        spec["settings"] = settings
    if given.admin is not None:
        user: dict[str, Any] = {
            "username": given.admin.username,
            "roles": ["admin"],
            "environments": wanted_environments(given),
        }
        spec["users"] = [user | ({"subject": given.admin.subject} if given.admin.subject else {})]
    return {
        "apiVersion": "payrec.dev/v1",
        "kind": "Tenant",
        "metadata": {
            "name": slug,
            "labels": {"app.kubernetes.io/managed-by": "payrec"},
            "annotations": {TENANT_ID: str(tenant_id)},
        },
        "spec": spec,
    }
