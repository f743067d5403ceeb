"""Users that a Tenant resource lists: made and changed as it says, disabled when it lists them no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from payrec.constants.tenants import RESOURCE_USERS_MAX
from payrec.domain.changes import Record
from payrec.domain.principal import ENVIRONMENTS, ROLES, Permission
from payrec.domain.tenant_resources import UserState, WantedUser
from payrec.errors import FieldError, UsernameTakenError, ValidationFailedError
from payrec.services.tenant_resource_units import ResourceUnits, owned, place
from payrec.storage.tenant_resources import TenantResourceStore
from payrec.storage.users import UserStore

TENANT_ROLES: Final = frozenset(role for role, allowed in ROLES.items() if Permission.TENANTS_MANAGE not in allowed)
"""What a resource may give: nothing that reaches beyond its tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPlan:
    """What has to be done for the users to be as a resource lists them."""

    states: Sequence[UserState]
    """In the order of the list; None as id for one that is still to be made, too."""
    add: Sequence[WantedUser] = ()
    change: Mapping[UUID, dict[str, Any]] = field(default_factory=dict)
    """What differs, by user."""
    disable: Sequence[UUID] = ()

    @property
    def is_done(self) -> bool:
        """Whether nothing has to be."""
        return not (self.add or self.change or self.disable)


class TenantResourceUsers(ResourceUnits):
    """Looks after the users that a resource lists. Others, also of the same tenant, are not touched."""

    async def sync_users(self, tenant_id: UUID, users: Sequence[WantedUser]) -> Sequence[UserState]:
        """Make and change the users that the resource lists; disable those that it made and lists no more.

        A username or a subject that somebody else has leaves that user out, and no other.

        Raises
        ------
        ValidationFailedError
            A role or an environment that there is not, or a role that no tenant can give.
        """
        check_users(users)
        async with self._work.database.control(readonly=True) as connection:
            row = owned(await TenantResourceStore(connection).get(tenant_id))
            found = await UserStore(connection).concerned(
                tenant_id, usernames=[u.username for u in users], subjects=[u.subject for u in users if u.subject]
            )
        plan = user_plan(tenant_id, users, found)
        made: dict[str, UUID | None] = {state.username: state.user_id for state in plan.states}
        for user in plan.add:
            made[user.username] = await self._add(tenant_id, row, user)
        by_id = {user["id"]: user for user in found}
        for user_id, values in plan.change.items():
            if not await self._change(row, by_id[user_id], values):
                made[by_id[user_id]["username"]] = None
        for user_id in plan.disable:
            await self._change(row, by_id[user_id], {"status": "disabled"})
        return [UserState(username=user.username, user_id=made[user.username]) for user in users]

    async def _add(self, tenant_id: UUID, row: dict[str, Any], user: WantedUser) -> UUID | None:
        user_id = self._work.ids.new()
        values = _wanted(user)
        try:
            async with self._held(tenant_id) as (unit, _):
                await UserStore(unit.connection).add(
                    {
                        "id": user_id,
                        "tenant_id": tenant_id,
                        "username": user.username,
                        "of_resource": True,
                        "created_at": unit.now,
                        "updated_at": unit.now,
                        **values,
                    }
                )
                after = {**place(row), "username": user.username, **values}
                unit.record(Record(action="user.created", resource_id=user_id, after=after))
        except UsernameTakenError:
            return None
        return user_id

    async def _change(self, row: dict[str, Any], user: dict[str, Any], values: dict[str, Any]) -> bool:
        """Change a user; return False where somebody else has got the subject meanwhile."""
        try:
            async with self._held(row["id"]) as (unit, _):
                await UserStore(unit.connection).update(user["id"], at=unit.now, **values)
                before = {name: user[name] for name in values}
                after = {**place(row), **values}
                unit.record(Record(action="user.updated", resource_id=user["id"], before=before, after=after))
        except UsernameTakenError:
            return False
        return True


def user_plan(tenant_id: UUID, users: Sequence[WantedUser], found: Sequence[dict[str, Any]]) -> UserPlan:
    """Decide; ``found`` are the users of the resource, and whoever has one of the names or subjects."""
    by_name = {user["username"]: user for user in found}
    by_subject = {user["subject"]: user for user in found if user["subject"] is not None}
    states: list[UserState] = []
    add: list[WantedUser] = []
    change: dict[UUID, dict[str, Any]] = {}
    for wanted in users:
        present = by_name.get(wanted.username)
        holder = by_subject.get(wanted.subject) if wanted.subject else None
        is_ours = present is None or (present["tenant_id"] == tenant_id and present["of_resource"])
        if not is_ours or (holder is not None and (present is None or holder["id"] != present["id"])):
            states.append(UserState(username=wanted.username, user_id=None))
            continue
        states.append(UserState(username=wanted.username, user_id=None if present is None else present["id"]))
        if present is None:
            add.append(wanted)
            continue
        differing = {name: value for name, value in _wanted(wanted).items() if present[name] != value}
        if differing:
            change[present["id"]] = differing
    listed = {wanted.username for wanted in users}
    disable = [
        user["id"]
        for user in found
        if user["tenant_id"] == tenant_id
        and user["of_resource"]
        and user["status"] == "active"
        and user["username"] not in listed
    ]
    return UserPlan(states=states, add=add, change=change, disable=disable)


def check_users(users: Sequence[WantedUser]) -> None:
    """Look whether a resource may list these users.

    Raises
    ------
    ValidationFailedError
    """
    errors = []
    if len(users) > RESOURCE_USERS_MAX:
        detail = f"must have at most {RESOURCE_USERS_MAX} items"
        errors.append(FieldError(pointer="/users", code="too_long", detail=detail))
    for index, user in enumerate(users):
        if not user.roles or not set(user.roles) <= TENANT_ROLES:
            detail = f"must be among {', '.join(sorted(TENANT_ROLES))}, and at least one"
            errors.append(FieldError(pointer=f"/users/{index}/roles", code="unknown_value", detail=detail))
        if not set(user.environments) <= set(ENVIRONMENTS):
            detail = f"must be among {', '.join(ENVIRONMENTS)}"
            errors.append(FieldError(pointer=f"/users/{index}/environments", code="unknown_value", detail=detail))
    if len({user.username for user in users}) < len(users):
        errors.append(FieldError(pointer="/users", code="not_unique", detail="a username is there twice"))
    if errors:
        raise ValidationFailedError.of(*errors)


def _wanted(user: WantedUser) -> dict[str, Any]:
    """Return the columns that a resource decides; lists in one order, so that another one is no change."""
    values: dict[str, Any] = {
        "roles": sorted(set(user.roles)),
        "environments": [e for e in ENVIRONMENTS if e in (user.environments or ENVIRONMENTS)],
        "status": "active",
    }
    # Without a subject in the resource, the one of the first login stays.
    return values | {"subject": user.subject} if user.subject else values
