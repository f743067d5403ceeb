"""What a run over one line says to the database: nothing twice, and no more than it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import psycopg
import pytest

from payrec.domain.progress import Progress
from payrec.jobs.runner import JobRunner
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = [pytest.mark.anyio, pytest.mark.not_on_citus("there what is staged is in tables")]

STATEMENTS_MAX = 47
"""Of a run that accepts what it finds, without those that take its job: where one has to be added, it is added here."""

_COUNTED: ContextVar[list[tuple[str, str]] | None] = ContextVar("counted", default=None)


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the statements of runs, with their parameters, as they are said."""
    statements: list[tuple[str, str]] = []
    kept, execute, copy = JobRunner._kept, psycopg.AsyncCursor.execute, psycopg.AsyncCursor.copy

    @asynccontextmanager
    async def keeping(*given: Any) -> AsyncIterator[Progress]:
        # Within, because who renews the lease meanwhile is not counted.
        async with kept(*given) as progress:
            token = _COUNTED.set(statements)
            yield progress
            _COUNTED.reset(token)

    def note(query: Any, parameters: Any) -> None:
        if (counted := _COUNTED.get()) is not None:
            text = query if isinstance(query, bytes | str) else query.as_string(None)
            counted.append((text.decode() if isinstance(text, bytes) else text, repr(parameters)))

    def executing(cursor: Any, query: Any, parameters: Any = None, **options: Any) -> Any:
        note(query, parameters)
        return execute(cursor, query, parameters, **options)

    def copying(cursor: Any, query: Any, parameters: Any = None, **options: Any) -> Any:
        note(query, parameters)
        return copy(cursor, query, parameters, **options)

    monkeypatch.setattr(JobRunner, "_kept", keeping)
    monkeypatch.setattr(psycopg.AsyncCursor, "execute", executing)
    monkeypatch.setattr(psycopg.AsyncCursor, "copy", copying)
    return statements


async def test_a_run_over_one_line_asks_for_nothing_twice(world: World, said: list[tuple[str, str]]) -> None:
    for number in range(40):
        await world.expect(f"{number + 10}.00", reference=f"INV-2026-{number:03}")
    await world.set(autoAccept=True)
    await world.receive("10.00", remittance="INV-2026-000", externalId="first")
    await world.run(incomingFilter={"externalId": "first"})
    said.clear()
    await world.receive("11.00", remittance="INV-2026-001", externalId="second")
    run = await world.run(incomingFilter={"externalId": "second"})
    assert run["counts"]["autoAccepted"] == 1
    begun = [text for text, _ in said if text.startswith("BEGIN")]
    others = Counter(one for one in said if not one[0].startswith(("BEGIN", "COMMIT")))
    assert [one for one, count in others.items() if count > 1] == []
    assert len(begun) * 2 + others.total() == len(said) <= STATEMENTS_MAX
