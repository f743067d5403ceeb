"""Resources that come and go in any order, beside a model of what must be there: on a real database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from payrec.constants.tenants import TOMBSTONE_REST
from payrec.domain.tenant_resources import MintedKey, ResourceOwner, WantedTenant
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import NotFoundError, SchemaNotOwnedError, SlugTakenError
from payrec.storage.tombstones import TombstoneStore
from support.postgres import cloned
from support.tenant_resources import ResourceWorld, new_owner, resource_world

T = TypeVar("T")

SLUGS = st.sampled_from(["acme", "globex"])
ENVIRONMENTS = st.sampled_from(["test", "production"])
PLACES = st.sampled_from(["shops", "elsewhere"])


class CrashError(Exception):
    """The process ends here."""


@dataclass
class Model:
    """What should be there of one slug."""

    tenant_id: UUID
    owner: ResourceOwner | None
    place: tuple[str, str]
    environments: set[str] = field(default_factory=set)
    written: dict[str, int] = field(default_factory=dict)
    """Rows in each environment."""
    keys: dict[UUID, tuple[MintedKey, str]] = field(default_factory=dict)


KINDS = {
    *("taken", "back", "rotated", "orphaned", "squatted", "buried", "dropped by hand", "restored"),
    *("dropped one", "all dropped", "nothing dropped", "crashed at rename", "crashed at add"),
}
"""What has to happen for walks to say anything."""


class Machine(RuleBasedStateMachine):
    """Two slugs, resources in two namespaces, somebody who drops schemas by hand, and one foreign schema."""

    runner: asyncio.Runner
    world: ResourceWorld
    prefix = 0
    met: Counter[str]
    """What has happened in all walks."""

    def __init__(self) -> None:
        super().__init__()
        type(self).prefix += 1
        self.tenants: dict[str, Model] = {}
        self.dropped = False

    def slug(self, stem: str) -> str:
        """Return the slug of this example."""
        return f"{stem}-{self.prefix}"

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop that has the connections."""
        return self.runner.run(work)

    @rule(slug=SLUGS, place=PLACES, suspended=st.booleans())
    def claim(self, slug: str, place: str, *, suspended: bool) -> None:
        """A resource of the slug's name appears in a namespace."""
        slug = self.slug(slug)
        owner, model = new_owner(slug, place), self.tenants.get(slug)
        attempt = self.world.registry.claim(owner, slug, WantedTenant(suspended=suspended))
        if model is not None and (model.owner is not None or model.place != (place, slug)):
            with pytest.raises(SlugTakenError):
                self.do(attempt)
            self.met["taken"] += 1
            return
        state = self.do(attempt)
        if model is None:
            self.tenants[slug] = Model(tenant_id=state.tenant_id, owner=owner, place=(place, slug))
        else:
            assert state.tenant_id == model.tenant_id
            model.owner = owner
            self.met["back"] += 1
        assert (state.status == "suspended") == suspended
        self.do(self.world.registry.apply(state.tenant_id, WantedTenant()))
        # A pass of an operator goes on; what is dropped or left behind afterwards has something to lose.
        self.make(self.tenants[slug], "test")
        self.mint(self.tenants[slug], promote=True)

    @precondition(lambda self: self.tenants)
    @rule(data=st.data(), environment=ENVIRONMENTS, by_hand=st.booleans())
    def ensure(self, data: st.DataObject, environment: str, *, by_hand: bool) -> None:
        """An environment is wanted; somebody may have dropped its schema before."""
        slug, model = self.pick(data)
        schema = f"{slug.replace('-', '_')}_{environment}"
        if by_hand and environment in model.environments:
            self.do(self.world.look(f"DROP SCHEMA {schema} CASCADE"))
            model.written[environment] = 0
            self.met["dropped by hand"] += 1
        if model.owner is None:
            with pytest.raises(NotFoundError):
                self.do(self.world.registry.ensure_environment(model.tenant_id, environment, adopt=False))
            if by_hand and environment in model.environments:
                self.do(self.restore(model, slug, environment))
                self.met["restored"] += 1
            return
        self.make(model, environment)

    def make(self, model: Model, environment: str) -> None:
        """Make or mend an environment, and write something into it."""
        work = self.world.registry.ensure_environment(model.tenant_id, environment, adopt=False)
        assert self.do(work).status == "active"
        model.environments.add(environment)
        self.do(self.world.writes(model.tenant_id, environment))
        model.written[environment] = model.written.get(environment, 0) + 1
        self.do(self.world.registry.apply(model.tenant_id, WantedTenant()))

    async def restore(self, model: Model, slug: str, environment: str) -> None:
        """Bring back what was dropped of a tenant that is nobody's, through its next resource."""
        owner = new_owner(slug, model.place[0])
        await self.world.registry.claim(owner, slug, WantedTenant())
        await self.world.registry.ensure_environment(model.tenant_id, environment, adopt=False)
        model.owner = owner

    @precondition(lambda self: self.tenants)
    @rule(data=st.data(), promote=st.booleans())
    def rotate(self, data: st.DataObject, *, promote: bool) -> None:
        """A key is made, and may be promoted."""
        _, model = self.pick(data)
        if model.owner is not None and model.environments:
            self.mint(model, promote=promote)
            self.met["rotated"] += 1

    def mint(self, model: Model, *, promote: bool) -> None:
        """Make a key, and promote it or not."""
        environment = min(model.environments)
        mint = self.world.registry.mint(model.tenant_id, name="k", environment=environment, read=True, write=False)
        minted = self.do(mint)
        model.keys[minted.key_id] = (minted, environment)
        if promote:
            until = datetime.now(UTC) + timedelta(hours=1)
            self.do(self.world.registry.promote(model.tenant_id, minted.key_id, retire_until=until))

    @precondition(lambda self: self.tenants)
    @rule(data=st.data(), crash_at=st.sampled_from([None, "rename", "add"]))
    def drop_one(self, data: st.DataObject, crash_at: str | None) -> None:
        """An environment is absent; the process may end in the middle, and begin again."""
        _, model = self.pick(data)
        if model.owner is None or not model.environments:
            return
        environment = min(model.environments)
        self.crashing(crash_at, lambda: self.world.registry.drop_environment(model.tenant_id, environment))
        self.dropped = True
        self.met["dropped one"] += 1
        model.environments.discard(environment)
        model.written.pop(environment, None)
        model.keys = {i: (k, e) for i, (k, e) in model.keys.items() if e != environment}

    @precondition(lambda self: self.tenants)
    @rule(data=st.data())
    def orphan(self, data: st.DataObject) -> None:
        """The resource goes and leaves the data."""
        _, model = self.pick(data)
        self.do(self.world.registry.orphan(model.tenant_id))
        self.met["orphaned"] += model.owner is not None
        model.owner = None
        model.keys.clear()

    @precondition(lambda self: self.tenants)
    @rule(data=st.data(), crash_at=st.sampled_from([None, "rename", "add"]))
    def drop_all(self, data: st.DataObject, crash_at: str | None) -> None:
        """The resource goes and takes everything with it; of a tenant that is nobody's it takes nothing."""
        slug, model = self.pick(data)
        self.crashing(crash_at, lambda: self.world.registry.begin_drop(model.tenant_id))
        if model.owner is not None:
            del self.tenants[slug]
            self.dropped = True
            self.met["all dropped"] += 1
        else:
            self.met["nothing dropped"] += 1

    @precondition(lambda self: self.dropped)
    @rule()
    def bury(self) -> None:
        """What was dropped had its rest."""
        self.met["buried"] += 1
        self.dropped = False
        self.world.clock.ahead += TOMBSTONE_REST * 2
        self.do(self.world.tombstones.drop_due())
        self.world.clock.ahead = timedelta()

    @precondition(lambda self: self.tenants)
    @rule(data=st.data())
    def squat(self, data: st.DataObject) -> None:
        """Somebody's schema stands where an environment would be; it is refused and stays."""
        slug, model = self.pick(data)
        if model.owner is None or "staging" in model.environments:
            return
        schema = f"{slug.replace('-', '_')}_staging"
        self.do(self.world.look(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
        with pytest.raises(SchemaNotOwnedError):
            self.do(self.world.registry.ensure_environment(model.tenant_id, "staging", adopt=False))
        self.do(self.world.registry.drop_environment(model.tenant_id, "staging"))
        assert self.do(self.world.schemas(schema)) == {schema}
        self.do(self.world.look(f"DROP SCHEMA {schema}"))
        self.met["squatted"] += 1

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        """Owners, rows, keys and schemas, seen from outside."""
        self.do(self.compare())

    async def compare(self) -> None:
        """Look at everything."""
        schemas = await self.world.look(
            r"SELECT nspname FROM pg_namespace WHERE nspname ~ ('^(acme|globex)_' || %s || '_')", str(self.prefix)
        )
        expected = {f"{s.replace('-', '_')}_{e}" for s, m in self.tenants.items() for e in m.environments}
        assert {row[0] for row in schemas} == expected
        for slug, model in self.tenants.items():
            if model.owner is not None:
                state = await self.world.registry.find(model.owner)
                assert state is not None
                assert state.tenant_id == model.tenant_id
                assert {e.environment for e in state.environments} == model.environments
            for environment, count in model.written.items():
                query = f"SELECT count(*) FROM {slug.replace('-', '_')}_{environment}.change"  # noqa: S608
                assert await self.world.look(query) == [(count,)]
            for minted, environment in model.keys.values():
                assert await self.world.opens(minted.text, model.tenant_id, environment)
            assert {k.key_id for k in await self.world.keys(model.tenant_id)} == set(model.keys)

    def pick(self, data: st.DataObject) -> tuple[str, Model]:
        """Return one of the tenants."""
        slug = data.draw(st.sampled_from(sorted(self.tenants)))
        return slug, self.tenants[slug]

    def crashing(self, step: str | None, work: Any) -> None:
        """Do it; where a step is named, the process ends behind that, and it is done again."""
        if step is not None:
            real = getattr(TombstoneStore, step)

            async def crash(*given: Any, **more: Any) -> None:
                await real(*given, **more)
                raise CrashError

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(TombstoneStore, step, crash)
                try:
                    self.do(work())
                except CrashError:
                    self.met[f"crashed at {step}"] += 1
        self.do(work())


def test_resources_come_and_go_in_any_order(postgres: EmbeddedPostgres) -> None:
    with cloned(postgres) as addresses, asyncio.Runner() as runner:
        context = resource_world(addresses)
        world = runner.run(context.__aenter__())
        try:
            met: Counter[str] = Counter()
            run_state_machine_as_test(
                type("BoundMachine", (Machine,), {"runner": runner, "world": world, "met": met}),
                settings=settings(max_examples=12, stateful_step_count=14, suppress_health_check=list(HealthCheck)),
            )
        finally:
            runner.run(context.__aexit__(None, None, None))
    assert (+met).keys() >= KINDS
