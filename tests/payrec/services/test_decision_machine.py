"""Every decision about matches, in any order, beside a model, on a real database. Broken rules are caught."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from payrec.domain.match_states import MATCH_STATES
from payrec.domain.states import Transition, table
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.services import bulk_matches, expected_changes, incoming_states, manual_matches, match_decisions
from payrec.services.match_ends import taken_of
from payrec.services.work import Unit
from payrec.storage import allocations
from payrec.storage.allocations import AllocationStore
from support.decision_machine import KINDS, DecisionMachine
from support.decision_model import LIMIT
from support.invariants import violations
from support.matching_world import World
from support.postgres import cloned
from support.service import make_config, running
from support.tenant_data import scope_of_tenant
from support.wire import add_user

STEPS = int(os.environ.get("PAYREC_STATE_STEPS", "1000"))
"""Steps that the machine does in all; much fewer do not meet everything."""

STEPS_OF_ONE = 40
"""Steps of one example, over so few transactions that most of what is decided competes."""


@pytest.fixture(scope="module")
def addresses(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    with cloned(postgres) as made:
        yield made


@pytest.fixture(scope="module")
def machine(addresses: EmbeddedDatabase) -> Iterator[type[DecisionMachine]]:
    """Return a machine with a service behind it, which only runs while it is asked."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def begin() -> World:
            service = await stack.enter_async_context(running(make_config(addresses)))
            tenant = await service.tenant("machine", environments=["production"])
            other = await service.tenant("beside", environments=["production"])
            scopes = [await scope_of_tenant(service.factory, one) for one in (tenant, other)]
            world = World(service=service, tenant=tenant, bystander=other, scope=scopes[0], bystander_scope=scopes[1])
            Bound.another = (await add_user(service, tenant, "approver"))[1]
            # The first match makes the tables that proposals of a run are in.
            await tenant.post("/matches/match", {"wait": 30})
            return world

        class Bound(DecisionMachine):
            """On this service."""

        Bound.runner, Bound.world = runner, runner.run(begin())
        try:
            yield Bound
        finally:
            runner.run(stack.aclose())


async def begin_afresh(world: World) -> None:
    """Leave nothing but the limit, which is a setting, so it goes as well."""
    await world.clean()
    approval = {"secondPersonAboveMinor": LIMIT, "currency": "EUR"}
    path = f"/tenants/{world.tenant.id}/settings"
    answer = await world.tenant.request("PATCH", path, json={"approval": approval})
    assert answer.status_code == 200


def walk(machine: type[DecisionMachine], addresses: EmbeddedDatabase, *, steps: int) -> None:
    """Take so many steps from the beginning, and look at everything at last."""
    machine.runner.run(begin_afresh(machine.world))
    once = settings(
        max_examples=1,
        stateful_step_count=STEPS_OF_ONE,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for machine.number in range(max(steps // STEPS_OF_ONE, 1)):
        run_state_machine_as_test(machine, settings=once)
    found = asyncio.run(violations(addresses.superuser_url, machine.world.scope.schema_name))
    assert found == {}


def test_no_order_of_decisions_breaks_anything(machine: type[DecisionMachine], addresses: EmbeddedDatabase) -> None:
    DecisionMachine.met.clear()
    walk(machine, addresses, steps=STEPS)
    assert (+DecisionMachine.met).keys() >= set(KINDS)


def also(*rows: tuple[str, str, str]) -> Any:
    """Return the machine of matches with rows that it should not have."""
    kept = [(row.before, row.verb, row.after) for row in MATCH_STATES.rows if Transition(*rows[0]) != row]
    return table("match", *kept, *rows)


async def _nothing(*_: Any, **__: Any) -> list[Any]:
    return []


def _without_adjustments(row: Any) -> Any:
    return taken_of({**row, "adjustments": None})


def _silent(unit: Unit, record: Any) -> None:
    if record.action != "match.accepted":
        unit.records.append(record)


Breaking = Callable[[pytest.MonkeyPatch], None]

MUTATIONS: dict[str, Breaking] = {
    "what is reversed can be reversed again": lambda p: p.setattr(
        match_decisions, "MATCH_STATES", also(("reversed", "reverse", "reversed"))
    ),
    "what is accepted can be rejected": lambda p: p.setattr(
        match_decisions, "MATCH_STATES", also(("accepted", "reject", "rejected"))
    ),
    "what is rejected can be accepted": lambda p: p.setattr(
        match_decisions, "MATCH_STATES", also(("rejected", "accept", "accepted"))
    ),
    "many at once are accepted whatever their status": lambda p: p.setattr(
        bulk_matches, "check_proposed", lambda *_: None
    ),
    "many at once are rejected whatever their status": lambda p: p.setattr(
        bulk_matches, "_check_rejectable", lambda *_, **__: None
    ),
    "what competes is not superseded": lambda p: p.setattr(match_decisions, "supersede", _nothing),
    "what competes with a match by hand is not superseded": lambda p: p.setattr(
        manual_matches, "supersede_rivals", _nothing
    ),
    "what competes with an ignored payment is not superseded": lambda p: p.setattr(
        incoming_states, "supersede_rivals", _nothing
    ),
    "what competes with a void invoice is not superseded": lambda p: p.setattr(
        expected_changes, "supersede_rivals", _nothing
    ),
    "many at once need no second person": lambda p: p.setattr(bulk_matches, "needing_approval", _nothing),
    "a reversal gives nothing back": lambda p: p.setattr(AllocationStore, "release", _nothing),
    "a reversal opens nothing": lambda p: p.setattr(match_decisions, "reopen", AsyncMock()),
    "a reversal keeps the adjustments": lambda p: p.setattr(match_decisions, "taken_of", _without_adjustments),
    "what is closed can be matched by hand": lambda p: (
        p.setattr(manual_matches, "CLOSED", frozenset()),
        p.setattr(allocations, "CLOSED", frozenset()),
    )[0],
    "acceptances are not audited": lambda p: p.setattr(Unit, "record", _silent),
}


@pytest.mark.parametrize("broken", MUTATIONS)
def test_a_broken_rule_is_caught(
    machine: type[DecisionMachine], addresses: EmbeddedDatabase, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTATIONS[broken](monkeypatch)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        # The same steps that the rules as they are let pass, so all of the kinds are met.
        walk(machine, addresses, steps=STEPS)
