"""Numbers of lines on pages: each is given once, without a gap, and is the same whenever somebody asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from payrec.domain.pages import Page, PageLine
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.storage.database import Database
from payrec.storage.pages import PageLineStore
from support.places import Places, look, wait_for

pytestmark = pytest.mark.anyio

Named = tuple[int, int, int]
"""Which line of equal ones, on which page, and which one there."""


def lines_of(named: Sequence[Named]) -> list[PageLine]:
    return [
        PageLine(key.to_bytes(16), Page("7", page, 0), occurrence, b"\0" * 16, None, None)
        for key, page, occurrence in named
    ]


async def clear(addresses: EmbeddedDatabase, places: Places) -> None:
    for scope in (places.a, places.b):
        await look(addresses.superuser_url, f'DELETE FROM "{scope.schema_name}".page_line')  # noqa: S608 - a test's own


@given(asked=st.lists(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(0, 3)), min_size=1)))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_a_line_keeps_its_number_and_numbers_have_no_gap(
    addresses: EmbeddedDatabase, opened: Database, places: Places, asked: list[list[Named]]
) -> None:
    await clear(addresses, places)
    known: dict[Named, int] = {}
    for named in asked:
        async with opened.tenant(places.a) as connection:
            numbers = await PageLineStore(connection).numbers(lines_of(named))
        for line, number in zip(named, numbers, strict=True):
            assert known.setdefault(line, number) == number
    for key in {line[0] for line in known}:
        given_numbers = sorted(number for line, number in known.items() if line[0] == key)
        assert given_numbers == list(range(len(given_numbers)))
    assert await look(addresses.superuser_url, f'SELECT 1 FROM "{places.b.schema_name}".page_line') == []  # noqa: S608


@pytest.mark.not_on_citus("who waits there waits on a worker, where this test does not look")
@pytest.mark.parametrize("is_kept", [True, False])
async def test_who_asks_meanwhile_waits_and_counts_on_from_there(
    addresses: EmbeddedDatabase,
    opened: Database,
    places: Places,
    is_kept: bool,  # noqa: FBT001 - a table
) -> None:
    await clear(addresses, places)

    async def second() -> list[int]:
        async with opened.tenant(places.a) as connection:
            return await PageLineStore(connection).numbers(lines_of([(1, 2, 0), (1, 2, 1)]))

    waiting: asyncio.Task[list[int]] | None = None
    try:
        async with opened.tenant(places.a) as connection:
            assert await PageLineStore(connection).numbers(lines_of([(1, 1, 0)])) == [0]
            waiting = asyncio.create_task(second())
            await wait_for(
                addresses.superuser_url,
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INTO page_line%'",
            )
            if not is_kept:
                raise TimeoutError  # noqa: TRY301 - what ends the transaction otherwise
    except TimeoutError:
        assert not is_kept
    assert waiting is not None
    assert sorted(await waiting) == ([1, 2] if is_kept else [0, 1])
