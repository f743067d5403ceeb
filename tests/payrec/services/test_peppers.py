"""A process starts with a pepper that is known here, or beside one that is; no pepper can be told from the table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import permutations, product

import pytest

from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import ConfigurationError
from payrec.services.peppers import check_pepper
from payrec.storage.database import Database
from payrec.storage.peppers import PepperStore
from support.postgres import cloned

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 22, tzinfo=UTC)
ONE, OTHER, THIRD = (letter * 32 for letter in (b"a", b"b", b"c"))


@pytest.fixture
async def database(postgres: EmbeddedPostgres) -> AsyncIterator[Database]:
    """A database of its own."""
    with cloned(postgres) as made:
        opened = Database(url=made.url)
        await opened.open()
        try:
            yield opened
        finally:
            await opened.close()


async def _starts(database: Database, *peppers: bytes) -> bool:
    try:
        await check_pepper(database, peppers, at=NOW)
    except ConfigurationError:
        return False
    return True


async def _known(database: Database) -> frozenset[bytes]:
    async with database.control(readonly=True) as connection:
        return await PepperStore(connection).known()


async def test_the_first_pepper_is_taken_and_another_is_refused_and_changes_nothing(database: Database) -> None:
    assert await _starts(database, ONE)
    known = await _known(database)
    with pytest.raises(ConfigurationError) as refused:
        await check_pepper(database, (OTHER,), at=NOW)
    assert refused.value.detail.startswith("API_KEY_PEPPER is not the one")
    assert OTHER.decode() not in refused.value.detail
    assert not await _starts(database, OTHER, THIRD)
    assert await _known(database) == known
    assert await _starts(database, ONE)


async def test_a_pepper_is_changed_in_the_steps_that_are_documented_and_back_at_each_of_them(
    database: Database,
) -> None:
    for step in ((ONE,), (ONE, OTHER), (OTHER, ONE), (OTHER,)):
        assert await _starts(database, *step), step
    # Whoever has to go back a step starts as well.
    for step in ((OTHER, ONE), (ONE, OTHER), (ONE,)):
        assert await _starts(database, *step), step
    assert not await _starts(database, THIRD)


async def test_what_is_stored_is_no_pepper(database: Database) -> None:
    assert await _starts(database, ONE, OTHER)
    known = await _known(database)
    assert len(known) == 2
    assert all(len(fingerprint) == 32 and fingerprint not in (ONE, OTHER) for fingerprint in known)


async def test_of_two_first_processes_with_different_peppers_one_starts(database: Database) -> None:
    assert sorted(await asyncio.gather(_starts(database, ONE), _starts(database, OTHER))) == [False, True]
    assert len(await _known(database)) == 1


async def _forgotten(database: Database) -> None:
    async with database.control() as connection:
        await connection.execute("DELETE FROM known_pepper")


async def test_whatever_is_started_in_any_order_what_was_beside_a_known_one_is_known(database: Database) -> None:
    singles = [(ONE,), (OTHER,), (THIRD,)]
    starts = [*singles, *permutations((ONE, OTHER, THIRD), 2)]
    for sequence in product(starts, starts):
        await _forgotten(database)
        expected: set[bytes] = set()
        for peppers in sequence:
            fits = not expected or not expected.isdisjoint(peppers)
            assert await _starts(database, *peppers) is fits, sequence
            expected |= set(peppers) if fits else set()
        for (pepper,) in singles:
            assert await _starts(database, pepper) is (pepper in expected), sequence
