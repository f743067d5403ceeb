"""Tenants of resources: claimed once, adopted by none but their own, kept as said, and gone without a trace."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from payrec.domain.tenant_resources import WantedTenant
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import NotFoundError, SlugTakenError, ValidationFailedError
from payrec.services.tenant_resources import TenantResourceService
from payrec.services.tombstones import TombstoneService
from payrec_operator import ports
from support.postgres import cloned
from support.tenant_resources import WANTED, ResourceWorld, new_owner, resource_world

if TYPE_CHECKING:

    def _is_a_registry(service: TenantResourceService) -> ports.Registry:
        return service

    def _is_for_tombstones(service: TombstoneService) -> ports.Tombstones:
        return service


pytestmark = pytest.mark.anyio


def test_the_service_is_what_the_operator_asks_for() -> None:
    """By names and kinds of parameters here; by types where the tests are type-checked, and in the operator itself."""
    for protocol, service in ((ports.Registry, TenantResourceService), (ports.Tombstones, TombstoneService)):
        for name, wanted in inspect.getmembers(protocol, inspect.isfunction):
            if not name.startswith("_"):
                assert inspect.signature(getattr(service, name)) == inspect.signature(wanted), name


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres) -> AsyncIterator[ResourceWorld]:
    with cloned(postgres) as addresses:
        async with resource_world(addresses) as opened:
            yield opened


async def test_a_tenant_is_claimed_made_and_open(world: ResourceWorld) -> None:
    slug = world.slug()
    owner = new_owner(slug)
    claimed = await world.registry.claim(owner, slug, WANTED)
    assert (claimed.status, claimed.environments) == ("provisioning", [])
    made = await world.registry.ensure_environment(claimed.tenant_id, "test", adopt=False)
    assert (made.status, made.corrected, made.schema_name) == ("active", (), f"{slug.replace('-', '_')}_test")
    found = await world.registry.find(owner)
    assert found is not None
    assert (found.tenant_id, found.status) == (claimed.tenant_id, "active")
    assert [(e.environment, e.status, e.revision) for e in found.environments] == [("test", "active", made.revision)]
    assert await world.registry.find(new_owner(slug)) is None


async def test_claiming_again_finds_it_and_writes_nothing(world: ResourceWorld) -> None:
    owner, slug, state = await world.tenant("test")
    before = await world.look("SELECT version, updated_at FROM control.tenant WHERE id = %s", state.tenant_id)
    assert (await world.registry.claim(owner, slug, WANTED)).tenant_id == state.tenant_id
    assert await world.look("SELECT version, updated_at FROM control.tenant WHERE id = %s", state.tenant_id) == before


async def test_another_resource_is_refused_whatever_it_is_called(world: ResourceWorld) -> None:
    owner, slug, state = await world.tenant("test")
    for other in (new_owner(slug), new_owner(slug, "elsewhere"), replace(owner, uid=str(uuid4()))):
        with pytest.raises(SlugTakenError):
            await world.registry.claim(other, slug, WANTED)
    with pytest.raises(SlugTakenError):
        await world.registry.claim(owner, world.slug(), WANTED)
    found = await world.registry.find(owner)
    assert found is not None
    assert found.tenant_id == state.tenant_id


async def test_a_resource_that_was_restored_takes_its_tenant_over_when_asked(world: ResourceWorld) -> None:
    owner, slug, state = await world.tenant("test")
    key = await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=True)
    restored = replace(owner, uid=str(uuid4()))
    with pytest.raises(SlugTakenError, match=r"payrec\.dev/adopt"):
        await world.registry.claim(restored, slug, WANTED)
    assert await world.registry.find(owner) is not None
    for other in (replace(restored, namespace="elsewhere"), replace(restored, name="other")):
        with pytest.raises(SlugTakenError, match="another Tenant resource"):
            await world.registry.claim(other, slug, WANTED, adopt=True)
    taken = await world.registry.claim(restored, slug, WANTED, adopt=True)
    assert (taken.tenant_id, taken.status) == (state.tenant_id, "active")
    assert await world.registry.find(owner) is None
    assert await world.opens(key.text, state.tenant_id), "whoever has the key goes on"
    query = "SELECT before ->> 'resource_uid' FROM control.audit_record WHERE resource_id = %s AND action = %s"
    assert await world.look(query, state.tenant_id, "tenant.adopted") == [(owner.uid,)]


async def test_a_tenant_that_is_being_deleted_is_taken_over_by_nobody(world: ResourceWorld) -> None:
    owner, slug, state = await world.tenant("test")
    await world.look("UPDATE control.tenant SET status = 'deleting' WHERE id = %s", state.tenant_id)
    with pytest.raises(SlugTakenError, match="being deleted"):
        await world.registry.claim(replace(owner, uid=str(uuid4())), slug, WANTED, adopt=True)


async def test_a_tenant_that_was_made_for_nobody_is_refused(world: ResourceWorld) -> None:
    slug = world.slug("byhand")
    await world.look(
        "INSERT INTO control.tenant (id, slug, name, status, created_at, updated_at)"
        " VALUES (gen_random_uuid(), %s, 'By hand', 'active', now(), now())",
        slug,
    )
    with pytest.raises(SlugTakenError):
        await world.registry.claim(new_owner(slug), slug, WANTED)


@pytest.mark.parametrize("namespace", ["shops", "elsewhere"])
async def test_a_tenant_made_for_a_resource_is_adopted_by_that_alone(world: ResourceWorld, namespace: str) -> None:
    slug = world.slug("posted")
    await world.look(
        "INSERT INTO control.tenant (id, slug, name, status, created_at, updated_at, resource_namespace, resource_name)"
        " VALUES (gen_random_uuid(), %s, 'Posted', 'provisioning', now(), now(), 'shops', %s)",
        slug,
        slug,
    )
    owner = new_owner(slug, namespace)
    if namespace != "shops":
        with pytest.raises(SlugTakenError):
            await world.registry.claim(owner, slug, WANTED)
        return
    adopted = await world.registry.claim(owner, slug, WANTED)
    [(tenant_id, name)] = await world.look("SELECT id, name FROM control.tenant WHERE slug = %s", slug)
    assert (adopted.tenant_id, name) == (tenant_id, WANTED.name)


async def test_of_twenty_claims_of_one_slug_one_resource_gets_it(world: ResourceWorld) -> None:
    slug = world.slug("crowd")
    owners = [new_owner(f"{slug}-{n}") for n in range(20)]
    found = await asyncio.gather(
        *(world.registry.claim(owner, slug, WANTED) for owner in owners), return_exceptions=True
    )
    assert Counter(type(f).__name__ for f in found) == {"TenantState": 1, "SlugTakenError": 19}


async def test_twenty_claims_of_one_resource_make_one_tenant(world: ResourceWorld) -> None:
    slug = world.slug("keen")
    owner = new_owner(slug)
    found = await asyncio.gather(*(world.registry.claim(owner, slug, WANTED) for _ in range(20)))
    assert len({state.tenant_id for state in found}) == 1


@pytest.mark.parametrize("slug", ["a", "Bad", "pg-x", "admin", "x_y", "-x"])
async def test_a_slug_that_cannot_be_is_refused(world: ResourceWorld, slug: str) -> None:
    with pytest.raises(ValidationFailedError):
        await world.registry.claim(new_owner("bad"), slug, WANTED)


async def test_what_the_resource_names_is_applied_and_nothing_else(world: ResourceWorld) -> None:
    owner, _, state = await world.tenant("test")
    query = "SELECT name, status, settings, resource_fields, version FROM control.tenant WHERE id = %s"
    wanted = WantedTenant(name="New", settings={"locale": "de", "matching": {"autoRun": True}})
    await world.registry.apply(state.tenant_id, wanted)
    [(name, status, settings, fields, version)] = await world.look(query, state.tenant_id)
    assert (name, status, settings) == ("New", "active", {"locale": "de", "matching": {"autoRun": True}})
    assert fields == ["/name", "/status", "/settings/locale", "/settings/matching/autoRun"]
    await world.registry.apply(state.tenant_id, wanted)
    assert (await world.look(query, state.tenant_id))[0][4] == version
    await world.registry.apply(state.tenant_id, WantedTenant(suspended=True, settings={"matching": {"autoRun": False}}))
    [(name, status, settings, fields, _)] = await world.look(query, state.tenant_id)
    assert (name, status, settings) == ("New", "suspended", {"locale": "de", "matching": {"autoRun": False}})
    assert fields == ["/status", "/settings/matching/autoRun"]
    assert (await world.registry.apply(state.tenant_id, WANTED)).status == "active"
    del owner


@pytest.mark.parametrize(
    "settings", [{"locales": "de"}, {"timezone": "Mars/Base"}, {"matching": {"groupSizeMax": 0}}, {"matching": 1}]
)
async def test_a_setting_that_cannot_be_changes_nothing(world: ResourceWorld, settings: dict[str, Any]) -> None:
    _, _, state = await world.tenant("test")
    with pytest.raises(ValidationFailedError) as refused:
        await world.registry.apply(state.tenant_id, WantedTenant(name="Bad", settings=settings))
    assert all(e.pointer.startswith("/settings/") for e in refused.value.errors)
    assert await world.look("SELECT name FROM control.tenant WHERE id = %s", state.tenant_id) == [(WANTED.name,)]
    with pytest.raises(ValidationFailedError):
        await world.registry.claim(new_owner("bad"), world.slug(), WantedTenant(settings=settings))


async def test_an_environment_is_closed_and_opened(world: ResourceWorld) -> None:
    owner, _, state = await world.tenant("test", "production")
    minted = await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=False)
    assert await world.opens(minted.text, state.tenant_id)
    await world.registry.set_environment_suspended(state.tenant_id, "test", suspended=True)
    assert not await world.opens(minted.text, state.tenant_id)
    assert (await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)).status == "suspended"
    await world.registry.set_environment_suspended(state.tenant_id, "test", suspended=False)
    assert await world.opens(minted.text, state.tenant_id)
    with pytest.raises(NotFoundError):
        await world.registry.set_environment_suspended(state.tenant_id, "staging", suspended=True)
    del owner


async def test_who_is_left_behind_is_closed_and_comes_back_whole(world: ResourceWorld) -> None:
    owner, slug, state = await world.tenant("test")
    key = await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=True)
    await world.registry.orphan(state.tenant_id)
    await world.registry.orphan(state.tenant_id)
    assert not await world.opens(key.text, state.tenant_id)
    assert await world.registry.find(owner) is None
    with pytest.raises(NotFoundError):
        await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=True)
    with pytest.raises(SlugTakenError):
        await world.registry.claim(new_owner(slug, "elsewhere"), slug, WANTED)
    other_slug = world.slug()  # the name in the namespace is free for another tenant meanwhile
    await world.registry.claim(new_owner(slug), other_slug, WANTED)
    await world.look("UPDATE control.tenant SET resource_name = 'moved' WHERE slug = %s", other_slug)
    again = new_owner(slug)
    back = await world.registry.claim(again, slug, WANTED)
    assert (back.tenant_id, back.status) == (state.tenant_id, "active")
    assert not await world.opens(key.text, state.tenant_id)
    new = await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=True)
    assert await world.opens(new.text, state.tenant_id)


async def test_a_dropped_tenant_is_gone_and_its_neighbour_is_not(world: ResourceWorld) -> None:
    owner, slug, state = await world.tenant("test", "production")
    neighbour, _, other = await world.tenant("test")
    kept = await world.registry.mint(other.tenant_id, name="k", environment="test", read=True, write=False)
    gone = await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=False)
    await world.registry.begin_drop(state.tenant_id)
    await world.registry.begin_drop(state.tenant_id)
    assert not await world.opens(gone.text, state.tenant_id)
    assert await world.opens(kept.text, other.tenant_id)
    assert await world.registry.find(owner) is None
    assert await world.registry.find(neighbour) is not None
    assert await world.schemas(slug.replace("-", "_") + "_") == set()
    anew = await world.registry.claim(new_owner(slug), slug, WANTED)
    assert anew.tenant_id != state.tenant_id
    await world.registry.ensure_environment(anew.tenant_id, "test", adopt=False)


async def test_everything_is_told_with_who_and_for_which_resource(world: ResourceWorld) -> None:
    owner, slug, state = await world.tenant("test")
    await world.registry.apply(state.tenant_id, WantedTenant(suspended=True))
    await world.registry.drop_environment(state.tenant_id, "test")
    await world.registry.orphan(state.tenant_id)
    again = new_owner(slug)
    await world.registry.claim(again, slug, WANTED)
    await world.registry.begin_drop(state.tenant_id)
    records = await world.records(state.tenant_id)
    assert [action for _, action, _ in records] == [
        "tenant.created",
        "tenant.environment_added",
        "tenant.environment_opened",
        "tenant.suspended",
        "tenant.environment_dropped",
        "tenant.orphaned",
        "tenant.adopted",
        "tenant.updated",
        "tenant.deleting",
        "tenant.deleted",
    ]
    assert {actor for actor, _, _ in records} == {"operator"}
    assert {after["resource"] for _, _, after in records} == {f"{owner.namespace}/{owner.name}"}
