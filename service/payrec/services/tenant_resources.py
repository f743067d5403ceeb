"""Tenants that belong to Tenant resources: claimed under a lock on their slug, kept as the resource says, let go.

What a Kubernetes operator needs of the service. Each method is one or more committed steps, and calling it again
finishes what is left; nothing here knows Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from payrec.domain import keys
from payrec.domain.changes import Record
from payrec.domain.field_ownership import owned_fields
from payrec.domain.settings import merged
from payrec.domain.slugs import slug_problem
from payrec.domain.tenant_resources import (
    EnvironmentState,
    Observation,
    ResourceOwner,
    StoredKey,
    TenantState,
    WantedTenant,
    WantedUser,
)
from payrec.errors import FieldError, SlugTakenError, ValidationFailedError
from payrec.services.tenant_resource_environments import TenantResourceEnvironments
from payrec.services.tenant_resource_keys import TenantResourceKeys, identified, revocations, stored_key
from payrec.services.tenant_resource_units import place
from payrec.services.tenant_resource_users import TenantResourceUsers, check_users, user_plan
from payrec.services.tenant_settings import check_settings
from payrec.services.work import Unit
from payrec.storage.migrations import head, is_ahead
from payrec.storage.tenant_resource_keys import TenantResourceKeyStore
from payrec.storage.tenant_resources import TenantResourceStore
from payrec.storage.tenants import TenantStore
from payrec.storage.users import UserStore


class TenantResourceService(TenantResourceEnvironments, TenantResourceKeys, TenantResourceUsers):
    """The tenants of resources."""

    async def claim(self, owner: ResourceOwner, slug: str, wanted: WantedTenant, *, adopt: bool = False) -> TenantState:
        """Register the tenant for the resource, or find it; under an advisory lock on the slug.

        A tenant without owner (made by ``POST /tenants``) of equal namespace and name, and one that its resource
        left behind of equal namespace and name, is adopted: it keeps its id and its data. With ``adopt`` so is one
        that belongs to a resource of equal namespace and name with another UID: a cluster that is restored from a
        backup gives its resources new ones.

        Raises
        ------
        SlugTakenError
            It belongs to another resource, or to none and was not made for this one.
        ValidationFailedError
            A slug or a setting that cannot be.
        """
        wrong = slug_problem(slug)
        if wrong is not None:
            raise ValidationFailedError.of(FieldError(pointer="/slug", code="slug_malformed", detail=wrong))
        async with self._work.control(self._caller()) as unit:
            store = TenantResourceStore(unit.connection)
            await store.hold(slug)
            row = await store.by_slug(slug)
            if row is None:
                row = await self._register_tenant(unit, owner, slug, wanted)
            elif row["resource_uid"] != owner.uid:
                _check_adoptable(row, owner, adopt=adopt)
                await store.give(row["id"], owner, at=unit.now)
                before = {"orphaned": row["orphaned_at"] is not None, "resource_uid": row["resource_uid"]}
                unit.record(Record(action="tenant.adopted", resource_id=row["id"], before=before, after=place(row)))
                row = await self._bring(unit, {**row, "resource_uid": owner.uid}, wanted)
            return _state(row)

    async def find(self, owner: ResourceOwner) -> TenantState | None:
        """Return the tenant that belongs to the resource."""
        async with self._work.database.control(readonly=True) as connection:
            row = await TenantResourceStore(connection).by_uid(owner.uid)
        return None if row is None else _state(row)

    async def observe(
        self, owner: ResourceOwner, *, wanted: WantedTenant, users: Sequence[WantedUser], texts: Sequence[str]
    ) -> Observation | None:
        """Compare what is there with what is wanted, in one read-only transaction; None where ``find`` finds none.

        Four statements. ``texts`` are what the Secrets hold, to be identified as ``identify`` does.

        Raises
        ------
        ValidationFailedError
            A setting or a user that cannot be.
        """
        check_users(users)
        async with self._work.database.control(readonly=True) as connection:
            store = TenantResourceStore(connection)
            row = await store.by_uid(owner.uid)
            if row is None:
                return None
            whole = await store.sound(row["environments"])
            found = await UserStore(connection).concerned(
                row["id"], usernames=[u.username for u in users], subjects=[u.subject for u in users if u.subject]
            )
            standing = await TenantResourceKeyStore(connection, tenant_id=row["id"]).standing()
        plan = user_plan(row["id"], users, found)
        ahead = frozenset(e["environment"] for e in row["environments"] if is_ahead("tenant", e["revision"]))
        current = {e["environment"] for e in row["environments"] if e["revision"] == head("tenant")}
        unopened = {e["environment"] for e in row["environments"] if e["status"] == "provisioning"}
        return Observation(
            tenant=_state(row),
            applied=_change(row, wanted) is None,
            sound=frozenset((whole & (current | ahead)) - unopened),
            ahead=ahead,
            users=plan.states,
            users_synced=plan.is_done,
            keys=[stored_key(key) for key in standing],
            held=[self._held_key(text, standing) for text in texts],
        )

    async def apply(self, tenant_id: UUID, wanted: WantedTenant) -> TenantState:
        """Bring name, suspension and the named settings to what the resource says; nothing is written without need.

        What the resource names no more keeps its value, and is anybody's to change again.

        Raises
        ------
        NotFoundError
        ValidationFailedError
            A setting that cannot be.
        """
        row = await self._row(tenant_id)
        if _change(row, wanted) is None:
            return _state(row)
        async with self._held(tenant_id) as (unit, held):
            return _state(await self._bring(unit, held, wanted))

    async def orphan(self, tenant_id: UUID) -> None:
        """Revoke all keys of the resource and leave the tenant suspended, without owner (policy Retain).

        One that is nobody's already stays as it is.
        """
        async with self._work.control(self._caller()) as unit:
            store = TenantResourceStore(unit.connection)
            row = await store.get(tenant_id, lock=True)
            if row is None or row["resource_uid"] is None:
                return
            keys_store = TenantResourceKeyStore(unit.connection, tenant_id=tenant_id)
            unit.records.extend(revocations(await keys_store.revoke(at=unit.now), row))
            await store.leave_behind(tenant_id, at=unit.now)
            before = {"status": row["status"]}
            if row["status"] != "suspended":
                unit.record(Record(action="tenant.suspended", resource_id=tenant_id, before=before, after=place(row)))
            unit.record(Record(action="tenant.orphaned", resource_id=tenant_id, before=before, after=place(row)))

    async def begin_drop(self, tenant_id: UUID) -> None:
        """Revoke all keys, rename the schemas to tombstones and forget the tenant (policy Delete).

        First nobody is let in any more; then one environment after the other; the tenant last. One that is gone, or
        that belongs to no resource, is left alone.
        """
        async with self._work.control(self._caller()) as unit:
            store = TenantResourceStore(unit.connection)
            row = await store.get(tenant_id, lock=True)
            if row is None or row["resource_uid"] is None:
                return
            keys_store = TenantResourceKeyStore(unit.connection, tenant_id=tenant_id)
            unit.records.extend(revocations(await keys_store.revoke_everything(at=unit.now), row))
            if row["status"] != "deleting":
                await TenantStore(unit.connection).update(tenant_id, at=unit.now, status="deleting")
                before = {"status": row["status"]}
                unit.record(Record(action="tenant.deleting", resource_id=tenant_id, before=before, after=place(row)))
        for environment in row["environments"]:
            await self._entomb(tenant_id, environment["environment"])
        async with self._work.control(self._caller()) as unit:
            if await TenantResourceStore(unit.connection).get(tenant_id, lock=True) is None:
                return
            await TenantStore(unit.connection).delete(tenant_id)
            before = {"slug": row["slug"]}
            unit.record(Record(action="tenant.deleted", resource_id=tenant_id, before=before, after=place(row)))

    async def _register_tenant(
        self, unit: Unit, owner: ResourceOwner, slug: str, wanted: WantedTenant
    ) -> dict[str, Any]:
        store = TenantResourceStore(unit.connection)
        if await store.by_uid(owner.uid) is not None:
            raise SlugTakenError("the resource has a tenant of another slug, which cannot be changed")
        settings = merged({}, dict(wanted.settings))
        check_settings(settings, pointer="/settings")
        tenant: dict[str, Any] = {
            "id": self._work.ids.new(),
            "slug": slug,
            "name": wanted.name or slug,
            "status": "suspended" if wanted.suspended else "provisioning",
            "settings": settings,
            "created_at": unit.now,
            "updated_at": unit.now,
            "resource_uid": owner.uid,
            "resource_namespace": owner.namespace,
            "resource_name": owner.name,
            "resource_fields": owned_fields(wanted),
        }
        await store.add(tenant)
        after = {**place(tenant), "slug": slug, "name": tenant["name"]}
        unit.record(Record(action="tenant.created", resource_id=tenant["id"], after=after))
        return {**tenant, "environments": [], "orphaned_at": None}

    async def _bring(self, unit: Unit, row: dict[str, Any], wanted: WantedTenant) -> dict[str, Any]:
        """Write what differs, and return the tenant as it is then."""
        change = _change(row, wanted)
        if change is None:
            return row
        check_settings(change["settings"], pointer="/settings")
        await TenantResourceStore(unit.connection).change(
            row["id"],
            name=change["name"],
            status=change["status"],
            settings=change["settings"],
            fields=change["resource_fields"],
            at=unit.now,
        )
        differing = [name for name, value in change.items() if value != row[name]]
        before = {name: row[name] for name in differing}
        after = place(row) | {name: change[name] for name in differing}
        for action in _actions(differing, change):
            unit.record(Record(action=action, resource_id=row["id"], before=before, after=after))
        return {**row, **change}

    def _held_key(self, text: str, standing: Sequence[dict[str, Any]]) -> StoredKey | None:
        try:
            value = keys.parse(text)
        except ValueError:
            return None
        row = next((key for key in standing if key["public_id"] == value.public_id), None)
        return identified(value, row, now=self._work.clock.now(), peppers=self._tools.peppers)


def _check_adoptable(row: dict[str, Any], owner: ResourceOwner, *, adopt: bool) -> None:
    """Refuse a tenant that is another's, or that was made for another resource, or for none."""
    if (row["resource_namespace"], row["resource_name"]) != (owner.namespace, owner.name):
        if row["resource_uid"] is not None:
            raise SlugTakenError(
                "the slug belongs to another Tenant resource; choose another one, or delete that first"
            )
        raise SlugTakenError("the slug belongs to a tenant that was not made for this resource; choose another one")
    if row["status"] == "deleting":
        raise SlugTakenError("a tenant of this slug is being deleted; wait until it is gone")
    if row["resource_uid"] is not None and not adopt:
        raise SlugTakenError(
            "the slug belongs to a Tenant resource of this namespace and name with another UID; where that is gone,"
            ' as after a restore from a backup, the annotation payrec.dev/adopt: "true" takes its tenant over'
        )


def _change(row: dict[str, Any], wanted: WantedTenant) -> dict[str, Any] | None:
    """Return name, status, settings and owned fields as they should be; None where they are."""
    status = row["status"]
    if wanted.suspended and status != "deleting":
        status = "suspended"
    elif status in {"suspended", "provisioning"}:
        has_tables = any(e["revision"] is not None for e in row["environments"])
        status = "active" if has_tables else "provisioning"
    change = {
        "name": wanted.name if wanted.name is not None else row["name"],
        "status": status,
        "settings": merged(row["settings"], dict(wanted.settings)),
        "resource_fields": owned_fields(wanted),
    }
    return None if all(row[name] == value for name, value in change.items()) else change


def _actions(differing: Sequence[str], change: dict[str, Any]) -> list[str]:
    """Return what was done, in the words that others are told it by."""
    actions = []
    if "settings" in differing:
        actions.append("tenant.settings_updated")
    if "status" in differing and change["status"] == "suspended":
        actions.append("tenant.suspended")
    elif not actions or "name" in differing or "status" in differing:
        actions.append("tenant.updated")
    return actions


def _state(row: dict[str, Any]) -> TenantState:
    return TenantState(
        tenant_id=row["id"],
        status=row["status"],
        environments=[
            EnvironmentState(
                environment=e["environment"],
                schema_name=e["schema_name"],
                status=e["status"],
                revision=e["revision"],
            )
            for e in row["environments"]
        ],
    )
