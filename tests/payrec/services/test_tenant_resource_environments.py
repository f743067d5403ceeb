"""Environments of resources: made, mended whatever somebody did to them, never taken from others, gone in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from payrec.constants.tenants import TOMBSTONE_REST
from payrec.domain.scope import role_name
from payrec.embedded.postgres import ADMIN_ROLE, LOGIN_ROLE, EmbeddedPostgres
from payrec.errors import (
    ConflictError,
    MigrationFailedError,
    ProvisioningDeniedError,
    RevisionAheadError,
    SchemaConflictError,
    SchemaNotOwnedError,
    UnavailableError,
    ValidationFailedError,
)
from payrec.storage.migrations import Step, head
from payrec.storage.provisioning import Provisioner
from support.postgres import cloned
from support.tenant_resources import WANTED, ResourceWorld, new_owner, resource_world

pytestmark = pytest.mark.anyio

HEAD = head("tenant")


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres) -> AsyncIterator[ResourceWorld]:
    with cloned(postgres) as addresses:
        async with resource_world(addresses) as opened:
            yield opened


def schema_of(slug: str, environment: str = "test") -> str:
    return f"{slug.replace('-', '_')}_{environment}"


@pytest.mark.parametrize(
    ("damage", "corrected"),
    [
        ("DROP SCHEMA {schema} CASCADE", ("schema",)),
        ("DROP SCHEMA {schema} CASCADE; DROP ROLE {role}", ("role", "schema")),
        ("REVOKE {role} FROM {login} GRANTED BY {admin}", ("membership",)),
        ("REVOKE payrec_tenant FROM {role} GRANTED BY {admin}", ("membership",)),
        ("REVOKE {role} FROM {login}, {admin} GRANTED BY {admin}", ("membership",)),
        ("REVOKE ALL ON SCHEMA {schema} FROM {role}", ("grants",)),
        ("REVOKE INSERT ON {schema}.job FROM {role}", ("grants",)),
        ("REVOKE USAGE ON SCHEMA {schema} FROM {role}; REVOKE ALL ON {schema}.change FROM {role}", ("grants",)),
        ("DROP TABLE {schema}.alembic_version", ("version_table",)),
        ("DELETE FROM {schema}.alembic_version", ("version_table",)),
        ("GRANT SELECT ON {schema}.job TO payrec_jobs", ()),
        ("SELECT 1", ()),
    ],
)
async def test_what_somebody_did_to_it_is_mended(world: ResourceWorld, damage: str, corrected: tuple[str, ...]) -> None:
    owner, slug, state = await world.tenant("test")
    key = await world.registry.mint(state.tenant_id, name="k", environment="test", read=True, write=True)
    names = {
        "schema": schema_of(slug),
        "role": role_name(state.tenant_id, "test"),
        "login": LOGIN_ROLE,
        "admin": ADMIN_ROLE,
    }
    await world.look(damage.format(**names))
    seen = await world.registry.observe(owner, wanted=WANTED, users=(), texts=())
    assert seen is not None
    if damage.startswith("DELETE"):
        assert seen.sound == {"test"}  # the look does not read what is in the schema
    else:
        assert seen.sound == (set() if corrected else {"test"})
    found = await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    assert (found.corrected, found.revision, found.status) == (corrected, HEAD, "active")
    assert await world.writes(state.tenant_id, "test")
    assert await world.opens(key.text, state.tenant_id)
    again = await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    assert again.corrected == ()
    seen = await world.registry.observe(owner, wanted=WANTED, users=(), texts=())
    assert seen is not None
    assert seen.sound == {"test"}


@pytest.mark.parametrize("more", ["", "; DROP TABLE {schema}.alembic_version"])
async def test_tables_that_are_gone_are_named_and_nothing_is_made_in_their_place(
    world: ResourceWorld, more: str
) -> None:
    owner, slug, state = await world.tenant("test", "production")
    await world.writes(state.tenant_id, "test")
    schema = schema_of(slug)
    await world.look(f"ALTER TABLE {schema}.job RENAME TO job_aside{more.format(schema=schema)}")
    seen = await world.registry.observe(owner, wanted=WANTED, users=(), texts=())
    assert seen is not None
    assert seen.sound == {"production"}
    with pytest.raises(SchemaConflictError, match=r"lacks tables that payrec made there: job\. Restore"):
        await world.registry.ensure_environment(state.tenant_id, "test", adopt=True)
    assert await world.look(f"SELECT count(*) FROM {schema}.change") == [(1,)]  # noqa: S608
    await world.look(f"ALTER TABLE {schema}.job_aside RENAME TO job")
    await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    seen = await world.registry.observe(owner, wanted=WANTED, users=(), texts=())
    assert seen is not None
    assert seen.sound == {"production", "test"}


async def test_data_outlives_everything_but_the_schema(world: ResourceWorld) -> None:
    _, slug, state = await world.tenant("test")
    await world.writes(state.tenant_id, "test")
    await world.look(f"DROP TABLE {schema_of(slug)}.alembic_version")
    await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    assert await world.look(f"SELECT count(*) FROM {schema_of(slug)}.change") == [(1,)]  # noqa: S608


@pytest.mark.parametrize("owner", [ADMIN_ROLE, "neighbour", "forgotten"])
@pytest.mark.parametrize("adopt", [False, True])
async def test_a_schema_that_is_there_already_is_taken_by_its_own_alone(
    world: ResourceWorld, owner: str, *, adopt: bool
) -> None:
    _, _, neighbour = await world.tenant("test")
    slug = world.slug()
    state = await world.registry.claim(new_owner(slug), slug, WANTED)
    role = {"neighbour": role_name(neighbour.tenant_id, "test"), "forgotten": f"payrec_{'f' * 31}{slug[-1]}_test"}
    theirs = role.get(owner, owner)
    if owner == "forgotten":
        await world.as_admin(f"CREATE ROLE {theirs} NOLOGIN")
    await world.look(f"CREATE SCHEMA {schema_of(slug)} AUTHORIZATION {theirs}")
    await world.look(f"CREATE TABLE {schema_of(slug)}.precious (id int)")
    ensure = world.registry.ensure_environment(state.tenant_id, "test", adopt=adopt)
    if not adopt:
        with pytest.raises(SchemaNotOwnedError):
            await ensure
    else:
        # Of the schemas that another role has, only such of a lost registration can be taken over; this one has
        # tables that nobody knows.
        with pytest.raises(SchemaConflictError):
            await ensure
    await world.registry.drop_environment(state.tenant_id, "test")
    await world.registry.begin_drop(state.tenant_id)
    world.clock.ahead += TOMBSTONE_REST * 2
    await world.tombstones.drop_due()
    world.clock.ahead = timedelta()
    assert await world.look(f"SELECT count(*) FROM {schema_of(slug)}.precious") == [(0,)]  # noqa: S608


async def test_an_environment_whose_registration_was_lost_is_taken_over_with_its_data(world: ResourceWorld) -> None:
    _, slug, state = await world.tenant("test")
    await world.writes(state.tenant_id, "test")
    await world.look("DELETE FROM control.tenant_environment WHERE tenant_id = %s", state.tenant_id)
    with pytest.raises(SchemaNotOwnedError):
        await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    back = await world.registry.ensure_environment(state.tenant_id, "test", adopt=True)
    assert (back.status, back.revision) == ("active", HEAD)
    # And when the tenant itself was lost: under another id, with the role that the schema has.
    await world.look("DELETE FROM control.tenant_environment WHERE tenant_id = %s", state.tenant_id)
    await world.look("DELETE FROM control.tenant WHERE id = %s", state.tenant_id)
    new = await world.registry.claim(new_owner(slug), slug, WANTED)
    assert new.tenant_id != state.tenant_id
    await world.registry.ensure_environment(new.tenant_id, "test", adopt=True)
    assert await world.look(f"SELECT count(*) FROM {schema_of(slug)}.change") == [(1,)]  # noqa: S608
    assert await world.writes(new.tenant_id, "test")


async def test_tables_of_a_newer_release_are_left_alone(world: ResourceWorld) -> None:
    owner, slug, state = await world.tenant("test")
    await world.set_version(schema_of(slug), "9999")
    with pytest.raises(RevisionAheadError):
        await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    found = await world.registry.find(owner)
    assert found is not None
    assert [(e.status, e.revision) for e in found.environments] == [("active", HEAD)]
    await world.look("UPDATE control.tenant_environment SET revision = '9999' WHERE tenant_id = %s", state.tenant_id)
    seen = await world.registry.observe(owner, wanted=WANTED, users=(), texts=())
    assert seen is not None
    assert seen.ahead == seen.sound == {"test"}


async def test_an_environment_that_is_behind_is_migrated_and_a_failure_is_told(
    world: ResourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, slug, state = await world.tenant("test")
    behind = f"{int(HEAD) - 1:04}"
    await world.set_version(schema_of(slug), behind)
    await world.look(
        "UPDATE control.tenant_environment SET revision = %s WHERE tenant_id = %s", behind, state.tenant_id
    )
    seen = await world.registry.observe(owner, wanted=WANTED, users=(), texts=())
    assert seen is not None
    assert seen.sound == set()
    asked = []

    def upgrade(url: str, role: str, schema: str) -> Step:
        asked.append((url, role, schema))
        return Step(before=behind, after=HEAD) if len(asked) > 1 else Step(before=behind, after=behind, error="Oops")

    monkeypatch.setattr("payrec.storage.migrations.upgrade_tenant", upgrade)
    with pytest.raises(MigrationFailedError) as failed:
        await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    assert failed.value.cause == "Oops"
    found = await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    assert (found.revision, found.corrected) == (HEAD, ("migration",))
    assert asked == [(world.addresses.admin_url, role_name(state.tenant_id, "test"), schema_of(slug))] * 2


async def test_what_the_administrator_may_not_do_is_said(world: ResourceWorld) -> None:
    slug = world.slug()
    state = await world.registry.claim(new_owner(slug), slug, WANTED)
    await world.look(f"ALTER ROLE {ADMIN_ROLE} NOCREATEROLE")
    try:
        with pytest.raises(ProvisioningDeniedError, match="CREATEROLE"):
            await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    finally:
        await world.look(f"ALTER ROLE {ADMIN_ROLE} CREATEROLE")
    assert (await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)).status == "active"


async def test_a_database_that_only_reads_is_not_available(world: ResourceWorld) -> None:
    slug = world.slug()
    state = await world.registry.claim(new_owner(slug), slug, WANTED)
    name = conninfo_to_dict(world.addresses.url)["dbname"]
    await world.look(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        await world.end_admin_connections()
        with pytest.raises(UnavailableError, match="read-only"):
            await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    finally:
        async with await psycopg.AsyncConnection.connect(world.addresses.superuser_url) as connection:
            await connection.execute("SET TRANSACTION READ WRITE")
            await connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
        await world.end_admin_connections()
    assert (await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)).status == "active"


@pytest.mark.parametrize("step", ["_ensure_role", "_ensure_schema", "_ensure_tables"])
async def test_what_stops_after_a_step_is_finished_by_the_next_pass(
    world: ResourceWorld, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    slug = world.slug()
    state = await world.registry.claim(new_owner(slug), slug, WANTED)
    done = getattr(Provisioner, step)

    async def crash(self: Provisioner, *given: object) -> None:
        await done(self, *given)
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(Provisioner, step, crash)
        with pytest.raises(RuntimeError):
            await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    found = await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    assert (found.status, found.corrected) == ("active", ())


@pytest.mark.not_on_citus("an environment takes seconds: who waits longer for a connection is told to come again")
async def test_twenty_tenants_at_once_are_all_made(world: ResourceWorld) -> None:
    made = await asyncio.gather(*(world.tenant("test") for _ in range(20)))
    assert {state.status for _, _, state in made} == {"active"}
    assert len({state.tenant_id for _, _, state in made}) == 20


async def test_several_passes_at_once_make_one_environment(world: ResourceWorld) -> None:
    slug = world.slug()
    state = await world.registry.claim(new_owner(slug), slug, WANTED)
    found = await asyncio.gather(
        *(world.registry.ensure_environment(state.tenant_id, "test", adopt=False) for _ in range(6))
    )
    assert {f.revision for f in found} == {HEAD}
    assert await world.writes(state.tenant_id, "test")


@pytest.mark.parametrize("before", [True, False])
async def test_a_pass_that_another_one_overtakes_finds_what_that_made(
    world: ResourceWorld, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    slug = world.slug()
    state = await world.registry.claim(new_owner(slug), slug, WANTED)
    look, overtaken = Provisioner.owner_of, False

    async def slow(self: Provisioner, schema: str) -> str | None:
        """Let the other pass do everything right before this one looks at the schema, or right after."""
        nonlocal overtaken
        if overtaken:
            return await look(self, schema)
        overtaken = True
        seen = None if before else await look(self, schema)
        await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
        return await look(self, schema) if before else seen

    monkeypatch.setattr(Provisioner, "owner_of", slow)
    found = await world.registry.ensure_environment(state.tenant_id, "test", adopt=False)
    assert (found.status, found.revision) == ("active", HEAD)
    assert await world.writes(state.tenant_id, "test")


async def test_an_environment_that_there_is_not_is_refused(world: ResourceWorld) -> None:
    _, _, state = await world.tenant("test")
    with pytest.raises(ValidationFailedError):
        await world.registry.ensure_environment(state.tenant_id, "prod", adopt=False)
    await world.look("UPDATE control.tenant SET status = 'deleting' WHERE id = %s", state.tenant_id)
    with pytest.raises(ConflictError):
        await world.registry.ensure_environment(state.tenant_id, "staging", adopt=False)
