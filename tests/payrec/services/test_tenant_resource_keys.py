"""Keys of resources: accepted from the moment they are there, retired with an overlap, never mixed with people's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from payrec.domain.tenant_resources import StoredKey
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import ConflictError, NotFoundError, ValidationFailedError
from support.postgres import cloned
from support.tenant_resources import WANTED, ResourceWorld, resource_world

pytestmark = pytest.mark.anyio

OVERLAP = timedelta(hours=24)


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres) -> AsyncIterator[ResourceWorld]:
    with cloned(postgres) as addresses:
        async with resource_world(addresses) as opened:
            yield opened


def until() -> datetime:
    return datetime.now(UTC) + OVERLAP


async def test_a_rotation_never_leaves_a_consumer_without_a_key(world: ResourceWorld) -> None:
    _, _, state = await world.tenant("test")
    tenant_id, registry = state.tenant_id, world.registry
    first = await registry.mint(tenant_id, name="ledger", environment="test", read=True, write=False)
    assert await world.opens(first.text, tenant_id)  # pending, and accepted
    await registry.promote(tenant_id, first.key_id, retire_until=until())
    second = await registry.mint(tenant_id, name="ledger", environment="test", read=True, write=False)
    assert await world.opens(first.text, tenant_id)
    assert await world.opens(second.text, tenant_id)
    await registry.promote(tenant_id, second.key_id, retire_until=until())
    await registry.promote(tenant_id, second.key_id, retire_until=until() + OVERLAP)  # again changes nothing
    old, new = await world.keys(tenant_id)
    assert (old.state, new.state, new.expires_at) == ("retiring", "active", None)
    assert old.expires_at is not None
    assert old.expires_at - datetime.now(UTC) <= OVERLAP
    assert await world.opens(first.text, tenant_id)
    world.clock.ahead = OVERLAP + timedelta(minutes=1)
    try:
        assert not await world.opens(first.text, tenant_id)
        assert await world.opens(second.text, tenant_id)
        assert await registry.identify(tenant_id, first.text) is None
        assert [k.state for k in await world.keys(tenant_id)] == ["retiring", "active"]  # until somebody collects it
    finally:
        world.clock.ahead = timedelta()
    await registry.revoke(tenant_id, [first.key_id, second.key_id])
    await registry.revoke(tenant_id, [first.key_id])
    assert await world.keys(tenant_id) == []
    actions = [
        r[0]
        for r in await world.look(
            "SELECT action FROM control.audit_record WHERE resource_id = %s ORDER BY id", first.key_id
        )
    ]
    assert actions == ["api_key.created", "api_key.promoted", "api_key.retired", "api_key.revoked"]


async def test_a_key_that_is_gone_or_retiring_takes_nobody_s_place(world: ResourceWorld) -> None:
    _, _, state = await world.tenant("test")
    registry, tenant_id = world.registry, state.tenant_id
    first, second, third = [
        await registry.mint(tenant_id, name="ledger", environment="test", read=True, write=False) for _ in range(3)
    ]
    await registry.promote(tenant_id, first.key_id, retire_until=until())
    await registry.promote(tenant_id, second.key_id, retire_until=until())
    await registry.revoke(tenant_id, [third.key_id])
    for stale in (first, third):
        with pytest.raises(ConflictError):
            await registry.promote(tenant_id, stale.key_id, retire_until=until())
    assert [k.state for k in await world.keys(tenant_id)] == ["retiring", "active"]


async def test_names_and_tenants_do_not_meet(world: ResourceWorld) -> None:
    _, _, one = await world.tenant("test")
    _, _, other = await world.tenant("test")
    registry = world.registry
    made = {}
    for tenant in (one, other):
        for name in ("ledger", "audit"):
            minted = await registry.mint(tenant.tenant_id, name=name, environment="test", read=True, write=False)
            await registry.promote(tenant.tenant_id, minted.key_id, retire_until=until())
            made[tenant.tenant_id, name] = minted
    new = await registry.mint(one.tenant_id, name="ledger", environment="test", read=True, write=False)
    await registry.promote(one.tenant_id, new.key_id, retire_until=until())
    states = {k.key_id: k.state for tenant in (one, other) for k in await world.keys(tenant.tenant_id)}
    assert [states[m.key_id] for m in made.values()] == ["retiring", "active", "active", "active"]
    theirs = made[other.tenant_id, "ledger"]
    assert await registry.identify(one.tenant_id, theirs.text) is None
    await registry.revoke(one.tenant_id, [theirs.key_id])
    with pytest.raises(NotFoundError):
        await registry.promote(one.tenant_id, theirs.key_id, retire_until=until())
    with pytest.raises(NotFoundError):
        await registry.set_flags(one.tenant_id, theirs.key_id, read=True, write=True)
    assert await world.opens(theirs.text, other.tenant_id)


async def test_keys_that_people_made_are_not_the_resource_s(world: ResourceWorld) -> None:
    _, _, state = await world.tenant("test")
    key_id, text = await world.key_of_a_person(state.tenant_id, "test", name="ledger")
    assert await world.keys(state.tenant_id) == []
    assert await world.registry.identify(state.tenant_id, text) is None
    minted = await world.registry.mint(state.tenant_id, name="ledger", environment="test", read=True, write=False)
    await world.registry.promote(state.tenant_id, minted.key_id, retire_until=until())
    await world.registry.revoke(state.tenant_id, [key_id])
    await world.registry.orphan(state.tenant_id)
    [(revoked, key_state)] = await world.look("SELECT revoked_at, state FROM control.api_key WHERE id = %s", key_id)
    assert (revoked, key_state) == (None, "active")


@pytest.mark.parametrize("text", ["", "no key", "pr_" + "0" * 16 + "." + "0" * 49, "\x00", "pr_ä"])
async def test_a_text_that_is_no_key_is_nobody_s(world: ResourceWorld, text: str) -> None:
    _, _, state = await world.tenant("test")
    assert await world.registry.identify(state.tenant_id, text) is None


async def test_flags_change_and_are_never_both_off(world: ResourceWorld) -> None:
    _, _, state = await world.tenant("test")
    minted = await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=False)
    await world.registry.set_flags(state.tenant_id, minted.key_id, read=False, write=True)
    found = await world.registry.identify(state.tenant_id, minted.text)
    assert isinstance(found, StoredKey)
    assert (found.name, found.read, found.write, found.state) == ("k", False, True, "pending")
    for call in (
        world.registry.set_flags(state.tenant_id, minted.key_id, read=False, write=False),
        world.registry.mint(state.tenant_id, name="k", environment="test", read=False, write=False),
    ):
        with pytest.raises(ValidationFailedError):
            await call


async def test_a_key_needs_its_environment_and_room(world: ResourceWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, state = await world.tenant("test")
    with pytest.raises(NotFoundError):
        await world.registry.mint(state.tenant_id, name="k", environment="staging", read=True, write=False)
    monkeypatch.setattr("payrec.services.tenant_resource_keys.API_KEYS_ACTIVE_MAX", 1)
    await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=False)
    with pytest.raises(ConflictError):
        await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=False)


async def test_of_promotions_at_once_one_key_is_active(world: ResourceWorld) -> None:
    _, _, state = await world.tenant("test")
    minted = [
        await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=False)
        for _ in range(5)
    ]
    await asyncio.gather(*(world.registry.promote(state.tenant_id, m.key_id, retire_until=until()) for m in minted))
    assert sorted(k.state for k in await world.keys(state.tenant_id)) == ["active"] + ["retiring"] * 4


async def test_one_look_tells_what_each_text_is(world: ResourceWorld) -> None:
    owner, _, state = await world.tenant("test")
    minted = await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=False)
    _, _, other = await world.tenant("test")
    theirs = await world.registry.mint(other.tenant_id, name="k", environment="test", read=True, write=False)
    seen = await world.registry.observe(owner, wanted=WANTED, users=(), texts=[minted.text, theirs.text, "x"])
    assert seen is not None
    assert [None if k is None else k.key_id for k in seen.held] == [minted.key_id, None, None]
    assert [k.key_id for k in seen.keys] == [minted.key_id]
