"""The service's side of Tenant resources, in memory: as ``payrec.services.tenant_resources`` says it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from payrec.domain.scope import schema_name
from payrec.domain.tenant_resources import (
    EnvironmentState,
    MintedKey,
    Observation,
    ResourceOwner,
    StoredKey,
    TenantState,
    UserState,
    WantedTenant,
    WantedUser,
)
from payrec.errors import (
    ConflictError,
    FieldError,
    MigrationFailedError,
    NotFoundError,
    ProvisioningDeniedError,
    RevisionAheadError,
    SchemaConflictError,
    SchemaNotOwnedError,
    SlugTakenError,
    UnavailableError,
    ValidationFailedError,
)
from support.operator_faults import Faults

HEAD = "0018"
NEWER = "0019"
OLDER = "0017"


@dataclass(slots=True)
class Schema:
    maker: str
    """``tenant:<id>``, or who else."""
    revision: str | None = None


@dataclass(slots=True)
class MemoryTenant:
    tenant_id: UUID
    slug: str
    namespace: str
    name: str
    owner: str | None
    status: str = "provisioning"
    display_name: str | None = None
    environments: dict[str, str] = field(default_factory=dict)
    """Name to status."""


@dataclass(slots=True)
class MemoryUser:
    user_id: UUID
    tenant_id: UUID
    wanted: WantedUser
    made_by_resource: bool = True
    disabled: bool = False


class MemoryRegistry:
    """Implements ``Registry``."""

    def __init__(self, faults: Faults, clock: Callable[[], datetime]) -> None:
        self.faults = faults
        self.clock = clock
        self.schemas: dict[str, Schema] = {}
        self.tenants: dict[UUID, MemoryTenant] = {}
        self.users: dict[str, MemoryUser] = {}
        self.keys: dict[str, StoredKey] = {}
        """By their texts."""
        self.tenant_of: dict[UUID, UUID] = {}
        """Of a key."""
        self.dropped: list[str] = []
        self.denied: set[str] = set()
        """Environments that the administrating role may not make."""
        self.unmigratable: set[str] = set()
        self.writes = 0
        self._ids = 0

    # What the operator calls

    async def claim(self, owner: ResourceOwner, slug: str, wanted: WantedTenant, *, adopt: bool = False) -> TenantState:
        self._enter("claim")
        found = next((t for t in self.tenants.values() if t.slug == slug), None)
        if found is None:
            _check(wanted)
            found = MemoryTenant(self._id(), slug, owner.namespace, owner.name, owner.uid)
            self.tenants[found.tenant_id] = found
            self.writes += 1
        elif found.owner != owner.uid:
            is_free = found.owner is None or adopt
            if not is_free or (found.namespace, found.name) != (owner.namespace, owner.name):
                raise SlugTakenError
            found.owner = owner.uid
            self.writes += 1
        self._step()
        return self._state(found)

    async def find(self, owner: ResourceOwner) -> TenantState | None:
        self._enter("find")
        found = self._of(owner)
        return None if found is None else self._state(found)

    async def observe(
        self, owner: ResourceOwner, *, wanted: WantedTenant, users: Sequence[WantedUser], texts: Sequence[str]
    ) -> Observation | None:
        self._enter("observe")
        found = self._of(owner)
        if found is None:
            return None
        schemas = {e: self.schemas.get(schema_name(found.slug, e)) for e in found.environments}
        ours = {e: s for e, s in schemas.items() if s is not None and s.maker == _maker(found)}
        return Observation(
            tenant=self._state(found),
            applied=found.status == self._status(found, wanted) and wanted.name in (None, found.display_name),
            sound=frozenset(e for e, s in ours.items() if s.revision in (HEAD, NEWER)),
            ahead=frozenset(e for e, s in ours.items() if s.revision == NEWER),
            users=[UserState(username=u.username, user_id=self._user(found, u)) for u in users],
            users_synced=self._is_synced(found, users),
            keys=[k for k in self.keys.values() if self._is_of(k, found) and k.state != "revoked"],
            held=[self._identify(found.tenant_id, text) for text in texts],
        )

    async def ensure_environment(self, tenant_id: UUID, environment: str, *, adopt: bool) -> EnvironmentState:
        self._enter("ensure_environment")
        tenant = self.tenants[tenant_id]
        name = schema_name(tenant.slug, environment)
        schema = self.schemas.get(name)
        if environment in self.denied:
            raise ProvisioningDeniedError
        if schema is not None and schema.maker not in (_maker(tenant), "nobody"):
            raise SchemaConflictError
        if schema is not None and schema.maker == "nobody" and not adopt and environment not in tenant.environments:
            raise SchemaNotOwnedError
        if environment not in tenant.environments:
            tenant.environments[environment] = "provisioning"
            self.writes += 1
            self._step()
        mended = schema is None or schema.maker == "nobody"
        if schema is None or mended:
            schema = self.schemas[name] = Schema(_maker(tenant))
            self.writes += 1
            self._step()
        if schema.revision == NEWER:
            raise RevisionAheadError
        if schema.revision != HEAD:
            if environment in self.unmigratable:
                raise MigrationFailedError("LockNotAvailable")
            schema.revision = HEAD
            self.writes += 1
        if opened := tenant.environments[environment] == "provisioning":
            tenant.environments[environment] = "active"
            self.writes += 1
            if tenant.status == "provisioning" and "provisioning" not in tenant.environments.values():
                tenant.status = "active"
        self._step()
        state = next(e for e in self._state(tenant).environments if e.environment == environment)
        return state if opened or not mended else replace(state, corrected=("schema",))

    async def set_environment_suspended(self, tenant_id: UUID, environment: str, *, suspended: bool) -> None:
        self._enter("set_environment_suspended")
        self.tenants[tenant_id].environments[environment] = "suspended" if suspended else "active"
        self.writes += 1
        self._step()

    async def drop_environment(self, tenant_id: UUID, environment: str) -> None:
        self._enter("drop_environment")
        tenant = self.tenants[tenant_id]
        self._end([k for k in self.keys.values() if self._is_of(k, tenant) and k.environment == environment])
        self._step()
        self._drop(tenant, environment)
        self._step()

    async def apply(self, tenant_id: UUID, wanted: WantedTenant) -> TenantState:
        self._enter("apply")
        tenant = self.tenants[tenant_id]
        _check(wanted)
        before = (tenant.status, tenant.display_name)
        tenant.status, tenant.display_name = self._status(tenant, wanted), wanted.name or tenant.display_name
        self.writes += before != (tenant.status, tenant.display_name)
        self._step()
        return self._state(tenant)

    async def sync_users(self, tenant_id: UUID, users: Sequence[WantedUser]) -> Sequence[UserState]:
        self._enter("sync_users")
        tenant = self.tenants[tenant_id]
        for wanted in users:
            found = self.users.get(wanted.username)
            if found is None:
                self.users[wanted.username] = MemoryUser(self._id(), tenant_id, wanted)
                self.writes += 1
            elif found.tenant_id == tenant_id and found.made_by_resource and (found.wanted != wanted or found.disabled):
                found.wanted, found.disabled = wanted, False
                self.writes += 1
        names = {u.username for u in users}
        for username, user in self.users.items():
            if user.tenant_id == tenant_id and user.made_by_resource and username not in names and not user.disabled:
                user.disabled = True
                self.writes += 1
        self._step()
        return [UserState(username=u.username, user_id=self._user(tenant, u)) for u in users]

    async def identify(self, tenant_id: UUID, text: str) -> StoredKey | None:
        self._enter("identify")
        return self._identify(tenant_id, text)

    async def mint(self, tenant_id: UUID, *, name: str, environment: str, read: bool, write: bool) -> MintedKey:
        self._enter("mint")
        if environment not in self.tenants[tenant_id].environments:
            raise NotFoundError
        key_id = self._id()
        text = f"text-{key_id}"
        self.keys[text] = StoredKey(
            key_id=key_id,
            public_id=f"public-{key_id}",
            name=name,
            environment=environment,
            read=read,
            write=write,
            state="pending",
            created_at=self.clock(),
        )
        self.tenant_of[key_id] = tenant_id
        self.writes += 1
        self._step()
        return MintedKey(key_id=key_id, text=text)

    async def promote(self, tenant_id: UUID, key_id: UUID, *, retire_until: datetime) -> None:
        self._enter("promote")
        promoted = self._key(key_id)
        if promoted.state not in ("pending", "active"):
            raise ConflictError("the key has ended")
        for key in list(self.keys.values()):
            if self.tenant_of[key.key_id] != tenant_id or key.name != promoted.name:
                continue
            if key.key_id == key_id:
                self._set(key, state="active")
            elif key.state == "active":
                self._set(key, state="retiring", expires_at=retire_until)
        self.writes += 1
        self._step()

    async def set_flags(self, tenant_id: UUID, key_id: UUID, *, read: bool, write: bool) -> None:
        self._enter("set_flags")
        assert self.tenant_of[key_id] == tenant_id
        self._set(self._key(key_id), read=read, write=write)
        self.writes += 1
        self._step()

    async def revoke(self, tenant_id: UUID, key_ids: Sequence[UUID]) -> None:
        self._enter("revoke")
        assert all(self.tenant_of[key_id] == tenant_id for key_id in key_ids), "another tenant's key is revoked"
        self._end([self._key(key_id) for key_id in key_ids])
        self._step()

    async def orphan(self, tenant_id: UUID) -> None:
        self._enter("orphan")
        tenant = self.tenants[tenant_id]
        self._end([k for k in self.keys.values() if self._is_of(k, tenant)])
        self._step()
        tenant.owner, tenant.status = None, "suspended"
        self.writes += 1
        self._step()

    async def begin_drop(self, tenant_id: UUID) -> None:
        self._enter("begin_drop")
        tenant = self.tenants[tenant_id]
        self._end([k for k in self.keys.values() if self._is_of(k, tenant)])
        self._step()
        for environment in list(tenant.environments):
            self._drop(tenant, environment)
            self._step()
        for username in [n for n, u in self.users.items() if u.tenant_id == tenant_id]:
            del self.users[username]
        del self.tenants[tenant_id]
        self.writes += 1
        self._step()

    # What tests do by hand

    def is_alive(self, text: str) -> bool:
        """Tell whether the API accepts a key now."""
        key = self.keys.get(text)
        if key is None or key.state == "revoked":
            return False
        return key.state != "retiring" or (key.expires_at is not None and key.expires_at > self.clock())

    def end(self, text: str) -> None:
        """Revoke a key as a person does."""
        self._set(self.keys[text], state="revoked")

    def take_username(self, tenant: MemoryTenant, username: str) -> None:
        """Add a user that no resource listed."""
        wanted = WantedUser(username=username, roles=("viewer",), environments=())
        self.users[username] = MemoryUser(self._id(), tenant.tenant_id, wanted, made_by_resource=False)

    # How it works inside

    def _enter(self, call: str) -> None:
        self.faults.enter(call, UnavailableError)

    def _step(self) -> None:
        self.faults.step(UnavailableError)

    def _id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)

    def _of(self, owner: ResourceOwner) -> MemoryTenant | None:
        return next((t for t in self.tenants.values() if t.owner == owner.uid), None)

    def _is_of(self, key: StoredKey, tenant: MemoryTenant) -> bool:
        return self.tenant_of[key.key_id] == tenant.tenant_id

    def _key(self, key_id: UUID) -> StoredKey:
        return next(k for k in self.keys.values() if k.key_id == key_id)

    def _set(self, key: StoredKey, **changed: object) -> None:
        text = next(t for t, k in self.keys.items() if k.key_id == key.key_id)
        self.keys[text] = replace(key, **changed)  # type: ignore[arg-type]

    def _end(self, keys: Sequence[StoredKey]) -> None:
        for key in keys:
            if key.state != "revoked":
                self._set(key, state="revoked")
                self.writes += 1

    def _identify(self, tenant_id: UUID, text: str) -> StoredKey | None:
        key = self.keys.get(text)
        return key if key is not None and self.tenant_of[key.key_id] == tenant_id and self.is_alive(text) else None

    def _status(self, tenant: MemoryTenant, wanted: WantedTenant) -> str:
        """Return what the tenant's status has to be: it opens once something is there."""
        if wanted.suspended:
            return "suspended"
        schemas = [self.schemas.get(schema_name(tenant.slug, e)) for e in tenant.environments]
        is_there = any(s is not None and s.revision is not None for s in schemas)
        return tenant.status if tenant.status == "active" else "active" if is_there else "provisioning"

    def _drop(self, tenant: MemoryTenant, environment: str) -> None:
        name = schema_name(tenant.slug, environment)
        schema = self.schemas.get(name)
        if schema is not None and schema.maker == _maker(tenant):
            del self.schemas[name]
            self.dropped.append(name)
        del tenant.environments[environment]
        self.writes += 1

    def _user(self, tenant: MemoryTenant, wanted: WantedUser) -> UUID | None:
        found = self.users.get(wanted.username)
        return found.user_id if found is not None and found.tenant_id == tenant.tenant_id else None

    def _is_synced(self, tenant: MemoryTenant, users: Sequence[WantedUser]) -> bool:
        ours = {n: u for n, u in self.users.items() if u.tenant_id == tenant.tenant_id and u.made_by_resource}
        names = {u.username for u in users}
        return all(u.disabled == (n not in names) for n, u in ours.items()) and all(
            u.username in self.users and (u.username not in ours or ours[u.username].wanted == u) for u in users
        )

    def _state(self, tenant: MemoryTenant) -> TenantState:
        return TenantState(
            tenant_id=tenant.tenant_id,
            status=tenant.status,  # type: ignore[arg-type]
            environments=[
                EnvironmentState(
                    environment=name,
                    schema_name=schema_name(tenant.slug, name),
                    status=status,  # type: ignore[arg-type]
                    revision=getattr(self.schemas.get(schema_name(tenant.slug, name)), "revision", None),
                )
                for name, status in tenant.environments.items()
            ],
        )


def _maker(tenant: MemoryTenant) -> str:
    return f"tenant:{tenant.tenant_id}"


def _check(wanted: WantedTenant) -> None:
    if "bad" in wanted.settings:
        raise ValidationFailedError(
            errors=[FieldError(pointer="/settings/bad", code="unknown_field", detail="is not a setting")]
        )
