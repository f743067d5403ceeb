"""Users that resources list: made, changed, disabled; other people's are never touched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.principal import ENVIRONMENTS
from payrec.domain.tenant_resources import WantedTenant, WantedUser
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import ValidationFailedError
from payrec.services.tenant_resource_users import user_plan
from payrec.services.users import NewUser
from support.postgres import cloned
from support.tenant_resources import ADMINISTRATOR, WANTED, ResourceWorld, resource_world

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres) -> AsyncIterator[ResourceWorld]:
    with cloned(postgres) as addresses:
        async with resource_world(addresses) as opened:
            yield opened


def wanted(username: str, *roles: str, **more: Any) -> WantedUser:
    return WantedUser(username=username, roles=roles or ("viewer",), environments=more.pop("environments", ()), **more)


async def stored(world: ResourceWorld, username: str) -> tuple[Any, ...]:
    query = (
        "SELECT subject, roles, environments, status, of_resource, version FROM control.app_user WHERE username = %s"
    )
    [row] = await world.look(query, username)
    return row


async def test_users_are_made_changed_disabled_and_come_back(world: ResourceWorld) -> None:
    owner, slug, state = await world.tenant("test")
    ada, bob = wanted(f"ada@{slug}", "admin"), wanted(f"bob@{slug}", "viewer", "operator", environments=("test",))
    made = await world.registry.sync_users(state.tenant_id, [ada, bob])
    assert [m.username for m in made] == [ada.username, bob.username]
    assert all(isinstance(m.user_id, UUID) for m in made)
    assert (await stored(world, ada.username))[1:5] == (["admin"], list(ENVIRONMENTS), "active", True)
    assert (await stored(world, bob.username))[1:5] == (["operator", "viewer"], ["test"], "active", True)
    assert await world.registry.sync_users(state.tenant_id, [ada, replace(bob, roles=("operator", "viewer"))]) == made
    assert (await stored(world, bob.username))[-1] == 1
    seen = await world.registry.observe(owner, wanted=WANTED, users=[ada, bob], texts=())
    assert seen is not None
    assert (seen.users_synced, list(seen.users)) == (True, list(made))
    changed = [replace(bob, roles=("approver",), subject=f"sub-{slug}")]
    seen = await world.registry.observe(owner, wanted=WANTED, users=changed, texts=())
    assert seen is not None
    assert not seen.users_synced
    await world.registry.sync_users(state.tenant_id, changed)
    assert (await stored(world, bob.username))[:4] == (f"sub-{slug}", ["approver"], ["test"], "active")
    assert (await stored(world, ada.username))[3] == "disabled"
    await world.registry.sync_users(state.tenant_id, [ada, bob])
    assert (await stored(world, ada.username))[3] == "active"
    assert (await stored(world, bob.username))[0] == f"sub-{slug}"  # the subject that it has stays


async def test_somebody_else_s_user_is_left_out_and_no_other(world: ResourceWorld) -> None:
    _, slug, one = await world.tenant("test")
    _, _, other = await world.tenant("test")
    theirs = wanted(f"eve@{slug}", "admin", subject=f"eve-{slug}")
    await world.registry.sync_users(other.tenant_id, [theirs])
    users = world.factory.create_user_service()
    by_hand = NewUser(username=f"hand@{slug}", roles=["viewer"], environments=["test"])
    await users.add(ADMINISTRATOR, one.tenant_id, by_hand)
    mine = wanted(f"mine@{slug}")
    found = await world.registry.sync_users(
        one.tenant_id,
        [theirs, wanted(f"two@{slug}", subject=f"eve-{slug}"), wanted(by_hand.username, "admin"), mine],
    )
    assert [f.user_id is None for f in found] == [True, True, True, False]
    assert (await stored(world, by_hand.username))[1] == ["viewer"]
    await world.registry.sync_users(one.tenant_id, [])
    assert (await stored(world, mine.username))[3] == "disabled"
    assert (await stored(world, by_hand.username))[3] == "active"
    assert (await stored(world, theirs.username))[3] == "active"


@pytest.mark.parametrize(
    "user",
    [
        wanted("x", "platform-admin"),
        wanted("x", "viewer", "platform-admin"),
        wanted("x", "root"),
        WantedUser(username="x", roles=(), environments=()),
        wanted("x", environments=("prod",)),
    ],
)
async def test_what_no_tenant_can_give_is_refused_for_all(world: ResourceWorld, user: WantedUser) -> None:
    _, slug, state = await world.tenant("test")
    fine = wanted(f"fine@{slug}")
    for users in ([fine, user], [fine, fine]):
        with pytest.raises(ValidationFailedError):
            await world.registry.sync_users(state.tenant_id, users)
    assert await world.look("SELECT 1 FROM control.app_user WHERE username = %s", fine.username) == []


async def test_a_look_says_whether_anything_is_to_be_done(world: ResourceWorld) -> None:
    owner, _, state = await world.tenant("test")
    for told, is_applied in (
        (WANTED, True),
        (WantedTenant(), False),
        (WantedTenant(name="Other"), False),
        (WantedTenant(name=WANTED.name, suspended=True), False),
        (WantedTenant(name=WANTED.name, settings={"locale": "de"}), False),
    ):
        seen = await world.registry.observe(owner, wanted=told, users=(), texts=())
        assert seen is not None
        assert seen.applied is is_applied
        assert seen.tenant == await world.registry.find(owner)
        await world.registry.apply(state.tenant_id, told)
        seen = await world.registry.observe(owner, wanted=told, users=(), texts=())
        assert seen is not None
        assert seen.applied
        await world.registry.apply(state.tenant_id, WANTED)


NAMES = st.sampled_from(["ada", "bob", "eve"])
SUBJECTS = st.sampled_from([None, "s1", "s2"])
TENANTS = [UUID(int=1), UUID(int=2)]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.uuids(),
            "username": NAMES,
            "subject": SUBJECTS,
            "tenant_id": st.sampled_from(TENANTS),
            "of_resource": st.booleans(),
            "roles": st.just(["viewer"]),
            "environments": st.just(list(ENVIRONMENTS)),
            "status": st.sampled_from(["active", "disabled"]),
        }
    ),
    max_size=3,
    unique_by=(lambda r: r["username"], lambda r: r["subject"] or r["id"]),
)
LISTS = st.lists(
    st.builds(
        WantedUser,
        username=NAMES,
        roles=st.sampled_from([("viewer",), ("admin",)]),
        environments=st.just(()),
        subject=SUBJECTS,
    ),
    max_size=3,
    unique_by=lambda u: u.username,
)


@given(ROWS, LISTS)
def test_only_users_that_the_resource_made_are_ever_changed(
    rows: list[dict[str, Any]], users: list[WantedUser]
) -> None:
    plan = user_plan(TENANTS[0], users, rows)
    ours = {r["id"] for r in rows if r["tenant_id"] == TENANTS[0] and r["of_resource"]}
    assert set(plan.change) | set(plan.disable) | {s.user_id for s in plan.states if s.user_id} <= ours
    assert [s.username for s in plan.states] == [u.username for u in users]
    assert {u.username for u in plan.add}.isdisjoint(r["username"] for r in rows)
    subjects = {r["subject"]: r["username"] for r in rows if r["subject"]}
    for user in plan.add:
        assert user.subject not in subjects
    for user_id, values in plan.change.items():
        [row] = [r for r in rows if r["id"] == user_id]
        assert subjects.get(values.get("subject"), row["username"]) == row["username"]
