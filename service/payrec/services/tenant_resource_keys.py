"""Keys of Tenant resources: made as pending, promoted when their Secret has them, retired with an overlap."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from payrec.constants import API_KEYS_ACTIVE_MAX
from payrec.domain import keys
from payrec.domain.changes import Record
from payrec.domain.tenant_resources import MintedKey, StoredKey
from payrec.errors import ConflictError, FieldError, NotFoundError, ValidationFailedError
from payrec.services.tenant_resource_units import OPERATOR, ResourceUnits, environment_of, place
from payrec.storage.api_keys import ApiKeyStore
from payrec.storage.tenant_resource_keys import TenantResourceKeyStore


class TenantResourceKeys(ResourceUnits):
    """Looks after the keys that a resource asked for. Those that people have made are not touched."""

    async def identify(self, tenant_id: UUID, text: str) -> StoredKey | None:
        """Return the key that the text is: of this tenant and resource, pending, active, or retiring and not yet over.

        Suspension of the tenant or of the environment does not count: the key would work but for it.
        """
        try:
            value = keys.parse(text)
        except ValueError:
            return None
        async with self._work.database.control(readonly=True) as connection:
            row = await TenantResourceKeyStore(connection, tenant_id=tenant_id).find(value.public_id)
        return identified(value, row, now=self._work.clock.now(), peppers=self._tools.peppers)

    async def mint(self, tenant_id: UUID, *, name: str, environment: str, read: bool, write: bool) -> MintedKey:
        """Make a key as ``pending``, committed: the API accepts it from now on.

        Raises
        ------
        NotFoundError
            The tenant has no such environment.
        ConflictError
            The environment has as many active keys as it may.
        ValidationFailedError
            No flag is true.
        """
        _check(read=read, write=write)
        value = keys.generate(self._tools.token_bytes)
        key_id = self._work.ids.new()
        async with self._held(tenant_id) as (unit, row):
            if environment_of(row, environment) is None:
                raise NotFoundError("the tenant has no such environment")
            store = ApiKeyStore(unit.connection, tenant_id=tenant_id, environment=environment, now=unit.now)
            if await store.count_active() >= API_KEYS_ACTIVE_MAX:
                raise ConflictError(f"an environment has at most {API_KEYS_ACTIVE_MAX} active keys; revoke one first")
            await store.add(
                {
                    "id": key_id,
                    "public_id": value.public_id,
                    "name": name,
                    "digest": keys.digest(value, self._tools.peppers[0]),
                    "read": read,
                    "write": write,
                    "created_by": OPERATOR.actor,
                    "created_at": unit.now,
                    "resource_key": name,
                    "state": "pending",
                }
            )
            after = {**place(row), "key": name, "publicId": value.public_id, "read": read, "write": write}
            unit.record(Record(action="api_key.created", resource_id=key_id, after=after))
        return MintedKey(key_id=key_id, text=value.text)

    async def promote(self, tenant_id: UUID, key_id: UUID, *, retire_until: datetime) -> None:
        """In one transaction: this key becomes ``active``, the name's other active ones ``retiring`` until then.

        Raises
        ------
        NotFoundError
        ConflictError
            The key has been revoked, or is retiring itself; nothing has changed.
        """
        async with self._held(tenant_id) as (unit, row):
            store = TenantResourceKeyStore(unit.connection, tenant_id=tenant_id)
            key = await store.get(key_id)
            if key is None:
                raise NotFoundError("the resource has no such key")
            if key["revoked_at"] is not None or key["state"] == "retiring":
                raise ConflictError("the key has been revoked, or another one has taken its place")
            retired = await store.promote(key_id, key["resource_key"], retire_until=retire_until)
            named = {**place(row), "key": key["resource_key"]}
            if key["state"] == "pending":
                unit.record(Record(action="api_key.promoted", resource_id=key_id, after=named))
            for retiring in retired:
                after = {**named, "retiresAt": retire_until.isoformat()}
                unit.record(Record(action="api_key.retired", resource_id=retiring, after=after))

    async def set_flags(self, tenant_id: UUID, key_id: UUID, *, read: bool, write: bool) -> None:
        """Change what a key opens.

        Raises
        ------
        NotFoundError, ValidationFailedError
        """
        _check(read=read, write=write)
        async with self._held(tenant_id) as (unit, row):
            store = TenantResourceKeyStore(unit.connection, tenant_id=tenant_id)
            key = await store.get(key_id)
            if key is None:
                raise NotFoundError("the resource has no such key")
            if (key["read"], key["write"]) == (read, write):
                return
            await store.set_flags(key_id, read=read, write=write)
            before = {"read": key["read"], "write": key["write"]}
            after = {**place(row), "key": key["resource_key"], "read": read, "write": write}
            unit.record(Record(action="api_key.updated", resource_id=key_id, before=before, after=after))

    async def revoke(self, tenant_id: UUID, key_ids: Sequence[UUID]) -> None:
        """Revoke keys; again changes nothing."""
        async with self._held(tenant_id) as (unit, row):
            store = TenantResourceKeyStore(unit.connection, tenant_id=tenant_id)
            unit.records.extend(revocations(await store.revoke(key_ids, at=unit.now), row))


def revocations(key_ids: Sequence[UUID], row: dict[str, Any]) -> list[Record]:
    """Return the records of keys that were revoked on behalf of the tenant's resource."""
    return [Record(action="api_key.revoked", resource_id=key_id, after=place(row)) for key_id in key_ids]


def stored_key(row: dict[str, Any]) -> StoredKey:
    """Return a key that is not revoked, without its digest."""
    return StoredKey(
        key_id=row["id"],
        public_id=row["public_id"],
        name=row["resource_key"],
        environment=row["environment"],
        read=row["read"],
        write=row["write"],
        state=row["state"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        last_used_at=row["last_used_at"],
    )


def identified(
    value: keys.ApiKeyValue, row: dict[str, Any] | None, *, now: datetime, peppers: tuple[bytes, ...]
) -> StoredKey | None:
    """Return the key of a row if the text that was sent is that key, and it is not over."""
    if row is None or keys.verified(value, row["digest"], *peppers) is None:
        return None
    if row["expires_at"] is not None and row["expires_at"] <= now:
        return None
    return stored_key(row)


def _check(*, read: bool, write: bool) -> None:
    if not (read or write):
        raise ValidationFailedError.of(
            FieldError(pointer="/permissions", code="flag_required", detail="read or write must be among them")
        )
