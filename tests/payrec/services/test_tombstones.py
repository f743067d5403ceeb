"""Dropped environments: away at once, gone for good later, whatever stops in between, and nothing of anybody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from payrec.constants.tenants import TOMBSTONE_ATTEMPTS_MAX, TOMBSTONE_LEASE, TOMBSTONE_REST, TOMBSTONE_RETRY_MAX
from payrec.domain.scope import role_name
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import ProvisioningDeniedError
from payrec.services.tombstones import TombstoneService
from payrec.storage.tenant_resources import TenantResourceStore
from payrec.storage.tenants import TenantStore
from payrec.storage.tombstones import TombstoneStore
from support.postgres import cloned
from support.tenant_resources import ADMINISTRATOR, WANTED, ResourceWorld, new_owner, resource_world

pytestmark = pytest.mark.anyio

ENVIRONMENT = "SELECT id FROM control.tenant_environment WHERE tenant_id = %s AND environment = 'test'"
TOMBSTONES = "SELECT schema_name, attempts, error, next_attempt_at IS NULL FROM control.tombstone"


class CrashError(Exception):
    """The process ends here."""


@pytest.fixture
async def world(postgres: EmbeddedPostgres) -> AsyncIterator[ResourceWorld]:
    with cloned(postgres) as addresses:
        async with resource_world(addresses) as opened:
            yield opened


async def roles(world: ResourceWorld, tenant_id: object) -> set[str]:
    found = await world.look("SELECT rolname FROM pg_roles WHERE rolname LIKE %s", f"payrec_{tenant_id.hex}%")  # type: ignore[attr-defined]
    return {row[0] for row in found}


async def drop_due(world: ResourceWorld, after: timedelta = TOMBSTONE_REST) -> int:
    world.clock.ahead += after + timedelta(seconds=1)
    return await world.tombstones.drop_due()


async def test_a_schema_is_renamed_at_once_and_dropped_when_it_had_its_rest(world: ResourceWorld) -> None:
    _, slug, state = await world.tenant("test", "production")
    _, _, neighbour = await world.tenant("test")
    await world.writes(state.tenant_id, "test")
    [(environment_id,)] = await world.look(ENVIRONMENT, state.tenant_id)
    await world.registry.drop_environment(state.tenant_id, "test")
    await world.registry.drop_environment(state.tenant_id, "test")
    [(name, *_)] = await world.look(TOMBSTONES)
    # Its files in an object store are remembered as well, by an id that no other environment gets.
    remnants = "SELECT environment_id FROM control.blob_remnant WHERE tenant_id = %s"
    assert await world.look(remnants, state.tenant_id) == [(environment_id,)]
    assert await world.look(f"SELECT count(*) FROM {name}.change") == [(1,)]  # noqa: S608 - until then it can be saved
    assert await world.tombstones.drop_due() == 0
    assert await drop_due(world) == 1
    assert await world.look(TOMBSTONES) == []
    assert await world.schemas("payrec_dropped") == set()
    assert await roles(world, state.tenant_id) == {role_name(state.tenant_id, "production")}
    assert await world.writes(state.tenant_id, "production")
    assert await world.writes(neighbour.tenant_id, "test")
    assert slug


async def test_until_then_it_can_be_brought_back(world: ResourceWorld) -> None:
    _, slug, state = await world.tenant("test")
    await world.writes(state.tenant_id, "test")
    await world.registry.drop_environment(state.tenant_id, "test")
    [(name, *_)] = await world.look("DELETE FROM control.tombstone RETURNING schema_name")
    schema = f"{slug.replace('-', '_')}_test"
    await world.look(f"ALTER SCHEMA {name} RENAME TO {schema}")
    await world.registry.ensure_environment(state.tenant_id, "test", adopt=True)
    assert await world.look(f"SELECT count(*) FROM {schema}.change") == [(1,)]  # noqa: S608
    assert await drop_due(world) == 0
    assert await world.writes(state.tenant_id, "test")


async def test_keys_of_the_environment_are_off_and_those_of_the_others_are_not(world: ResourceWorld) -> None:
    _, _, state = await world.tenant("test", "production")
    _, by_hand = await world.key_of_a_person(state.tenant_id, "test", name="mine")
    one = await world.registry.mint(state.tenant_id, name="a", environment="test", read=True, write=False)
    other = await world.registry.mint(state.tenant_id, name="b", environment="production", read=True, write=False)
    await world.registry.drop_environment(state.tenant_id, "test")
    await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    assert not await world.opens(one.text, state.tenant_id)
    assert not await world.opens(by_hand, state.tenant_id)
    assert await world.opens(other.text, state.tenant_id, "production")


async def test_an_environment_that_comes_back_keeps_its_role(world: ResourceWorld) -> None:
    _, _, state = await world.tenant("test")
    await world.writes(state.tenant_id, "test")
    await world.registry.drop_environment(state.tenant_id, "test")
    await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    await world.writes(state.tenant_id, "test")
    await world.registry.drop_environment(state.tenant_id, "test")
    await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    assert await drop_due(world) == 2
    assert await roles(world, state.tenant_id) == {role_name(state.tenant_id, "test")}
    assert await world.writes(state.tenant_id, "test")
    await world.registry.begin_drop(state.tenant_id)
    assert await drop_due(world) == 1
    assert await roles(world, state.tenant_id) == set()


async def test_a_tenant_that_is_deleted_by_hand_meanwhile_leaves_the_role_to_the_tombstone(
    world: ResourceWorld,
) -> None:
    _, slug, state = await world.tenant("test")
    await world.registry.drop_environment(state.tenant_id, "test")
    await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    await world.registry.orphan(state.tenant_id)
    await world.factory.create_tenant_service().delete(ADMINISTRATOR, slug)
    assert await world.look("SELECT 1 FROM control.tenant WHERE id = %s", state.tenant_id) == []
    assert await drop_due(world) == 1
    assert await roles(world, state.tenant_id) == set()


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (TombstoneStore, "hold"),
        (TombstoneStore, "rename"),
        (TombstoneStore, "add"),
        (TenantResourceStore, "remove_environment"),
        (TenantStore, "delete"),
    ],
)
@pytest.mark.parametrize("after", [1, 2])
async def test_a_drop_that_stops_anywhere_is_finished_by_calling_again(
    world: ResourceWorld, monkeypatch: pytest.MonkeyPatch, where: type, name: str, after: int
) -> None:
    owner, slug, state = await world.tenant("test", "production")
    key = await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=False)
    step, calls = getattr(where, name), 0

    async def crash(*given: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        found = await step(*given, **more)
        if calls == after:
            raise CrashError
        return found

    with monkeypatch.context() as patched:
        patched.setattr(where, name, crash)
        if name == "delete" and after == 2:
            await world.registry.begin_drop(state.tenant_id)
        else:
            with pytest.raises(CrashError):
                await world.registry.begin_drop(state.tenant_id)
            assert await world.registry.find(owner) is not None
            assert await world.keys(state.tenant_id) == []
    assert not await world.opens(key.text, state.tenant_id)
    await world.registry.begin_drop(state.tenant_id)
    assert await world.registry.find(owner) is None
    assert await world.schemas(slug.replace("-", "_") + "_") == set()
    assert await drop_due(world) == 2
    assert await roles(world, state.tenant_id) == set()
    assert await world.schemas("payrec_dropped") == set()


async def test_what_cannot_be_dropped_is_tried_again_and_at_last_given_up(
    world: ResourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, stuck = await world.tenant("test")
    _, _, fine = await world.tenant("test")
    real = TombstoneService._drop

    async def refuse(self: TombstoneService, provisioner: Any, due: dict[str, Any]) -> None:
        if due["tenant_id"] == stuck.tenant_id:
            raise ProvisioningDeniedError
        await real(self, provisioner, due)

    monkeypatch.setattr(TombstoneService, "_drop", refuse)
    await world.registry.begin_drop(stuck.tenant_id)
    await world.registry.begin_drop(fine.tenant_id)
    assert await drop_due(world) == 1
    for _ in range(TOMBSTONE_ATTEMPTS_MAX):
        assert await drop_due(world, TOMBSTONE_RETRY_MAX) == 0
    [(_, attempts, error, given_up)] = await world.look(TOMBSTONES)
    assert (attempts, error, given_up) == (TOMBSTONE_ATTEMPTS_MAX, "ProvisioningDeniedError", True)
    monkeypatch.setattr(TombstoneService, "_drop", real)
    await world.look("UPDATE control.tombstone SET next_attempt_at = now(), attempts = 0")
    assert await drop_due(world) == 1
    assert await roles(world, stuck.tenant_id) == set()


async def test_who_dies_while_dropping_leaves_it_to_the_next(world: ResourceWorld) -> None:
    _, _, state = await world.tenant("test")
    await world.registry.begin_drop(state.tenant_id)
    world.clock.ahead += TOMBSTONE_REST * 2
    async with world.factory.context.database.provisioning() as connection:
        now = world.clock.now()
        assert await TombstoneStore(connection).take(now=now, lease=now + TOMBSTONE_LEASE) is not None
    assert await world.tombstones.drop_due() == 0  # it is the other's
    assert await drop_due(world, TOMBSTONE_LEASE) == 1


async def test_a_role_that_has_more_than_that_stays(world: ResourceWorld) -> None:
    _, _, state = await world.tenant("test")
    role = role_name(state.tenant_id, "test")
    await world.look(f"CREATE SCHEMA elsewhere AUTHORIZATION {role}")
    await world.registry.begin_drop(state.tenant_id)
    await drop_due(world)
    assert await world.schemas("elsewhere") == {"elsewhere"}
    assert await roles(world, state.tenant_id) == {role}
    assert await world.schemas("payrec_dropped") == set()
    [(_, attempts, error, _)] = await world.look(TOMBSTONES)
    assert (attempts, error) == (1, "DependentObjectsStillExist")


async def test_a_schema_that_became_another_s_stays(world: ResourceWorld) -> None:
    _, slug, state = await world.tenant("test")
    schema = f"{slug.replace('-', '_')}_test"
    await world.look(f"ALTER SCHEMA {schema} OWNER TO payrec_admin")
    await world.registry.begin_drop(state.tenant_id)
    await drop_due(world)
    assert await world.schemas(schema) == {schema}
    anew = new_owner(slug)
    await world.registry.claim(anew, slug, WANTED)


async def test_without_an_administrator_nothing_is_done(world: ResourceWorld) -> None:
    context = world.factory.context
    service = TombstoneService(database=context.database, provisioner=None, clock=world.clock)
    assert await service.drop_due() == 0
