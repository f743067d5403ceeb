"""Users: provisioned by the command line, with a tenant, or by a resource; never by a request of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import ENVIRONMENTS, ROLES, Principal
from payrec.errors import FieldError, NotFoundError, UsernameTakenError, ValidationFailedError
from payrec.services.work import Unit, Work
from payrec.storage.api_keys import EveryApiKeyStore
from payrec.storage.idp import IdpStore
from payrec.storage.tenants import TenantStore
from payrec.storage.users import UserStore


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """A user to add; ``user_id`` is the caller's choice."""

    username: str
    roles: Sequence[str]
    environments: Sequence[str]
    email: str | None = None
    subject: str | None = None
    user_id: UUID | None = None
    of_resource: bool = False
    """Whether the tenant's resource lists the user."""


class UserService:
    """Adds, lists and changes users."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def add(self, caller: Caller, tenant_id: UUID, user: NewUser, *, password_hash: str | None = None) -> UUID:
        """Add a user to a tenant and return its id; ``password_hash`` is for the embedded identity provider alone.

        Raises
        ------
        UsernameTakenError, NotFoundError, ValidationFailedError
        """
        async with self._work.control(caller) as unit:
            if await TenantStore(unit.connection).get(tenant_id) is None:
                raise NotFoundError("there is no such tenant")
            user_id = user.user_id or self._work.ids.new()
            if password_hash is not None:
                user = replace(user, subject=user.subject or str(user_id))
            await add_user(unit, tenant_id, user, user_id=user_id)
            if password_hash is not None and user.subject is not None:
                await IdpStore(unit.connection).put_user(
                    username=user.username,
                    subject=user.subject,
                    password_hash=password_hash,
                    created_at=unit.now,
                )
            return user_id

    async def of_tenant(self, tenant_id: UUID) -> list[dict[str, Any]]:
        """Return a tenant's users, oldest first."""
        async with self._work.database.control(readonly=True) as connection:
            return await UserStore(connection).of_tenant(tenant_id)

    async def change(
        self,
        caller: Caller,
        username: str,
        *,
        status: str | None = None,
        roles: Sequence[str] | None = None,
        environments: Sequence[str] | None = None,
    ) -> None:
        """Change what is given; it holds from the user's next request on.

        Raises
        ------
        NotFoundError, ValidationFailedError
        """
        _check(roles or (), environments or ())
        async with self._work.control(caller) as unit:
            store = UserStore(unit.connection)
            before = await store.find(username)
            if before is None:
                raise NotFoundError("there is no such user")
            await store.update(before["id"], at=unit.now, status=status, roles=roles, environments=environments)
            after = {"status": status, "roles": roles, "environments": environments}
            changed = {k: list(v) if not isinstance(v, str) else v for k, v in after.items() if v is not None}
            unit.record(
                Record(
                    action="user.updated",
                    resource_id=before["id"],
                    before={k: before[k] for k in changed},
                    after=changed,
                )
            )

    async def open_keys(self, username: str) -> list[dict[str, Any]]:
        """Return the keys that a user has made and that open something, whatever becomes of the user.

        They are their tenant environment's, and what runs by them goes on; but the user may have kept their secrets.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.control(readonly=True) as connection:
            user = await UserStore(connection).find(username)
            if user is None:
                raise NotFoundError("there is no such user")
            actor = Principal(kind="user", id=user["id"], tenant_id=user["tenant_id"]).actor
            return await EveryApiKeyStore(connection).active_of(actor, now=self._work.clock.now())

    async def link(self, user_id: UUID, subject: str, *, request_id: str) -> str | None:
        """Give a user without subject the one of its first token, and return the subject that it has then.

        None where another user has the subject already. Of several first tokens at once, one links.
        """
        principal = Principal(kind="system", name="first-login")
        try:
            async with self._work.control(Caller(principal=principal, request_id=request_id)) as unit:
                store = UserStore(unit.connection)
                if await store.link(user_id, subject, at=unit.now):
                    unit.record(Record(action="user.linked", resource_id=user_id, after={"subject": subject}))
                    return subject
                user = await store.get(user_id)
        except UsernameTakenError:
            return None
        return user["subject"] if user is not None else None


async def add_user(unit: Unit, tenant_id: UUID, user: NewUser, *, user_id: UUID) -> UUID:
    """Add a user within a unit of work that may do more."""
    _check(user.roles, user.environments)
    store = UserStore(unit.connection)
    if user.subject is not None and await store.has_subject(user.subject):
        raise UsernameTakenError("another user has this subject")
    row = {
        "id": user_id,
        "tenant_id": tenant_id,
        "subject": user.subject,
        "username": user.username,
        "email": user.email,
        "roles": list(user.roles),
        "environments": list(user.environments),
        "status": "active",
        "created_at": unit.now,
        "updated_at": unit.now,
        "of_resource": user.of_resource,
    }
    await store.add(row)
    after = {"username": user.username, "roles": list(user.roles), "environments": list(user.environments)}
    unit.record(Record(action="user.created", resource_id=user_id, after=after))
    return user_id


def _check(roles: Sequence[str], environments: Sequence[str]) -> None:
    errors = [
        FieldError(pointer=f"/{name}", code="unknown_value", detail=f"must be among {', '.join(known)}")
        for name, given, known in (("roles", roles, tuple(ROLES)), ("environments", environments, ENVIRONMENTS))
        if not set(given) <= set(known)
    ]
    if errors:
        raise ValidationFailedError.of(*errors)
