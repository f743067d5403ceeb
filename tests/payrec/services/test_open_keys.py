"""Keys that an earlier version has made are made anew before a run reads them."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from typing import Any, Final

import pytest

from payrec.constants import KEYS_VERSION
from payrec.domain.matching.digits import quoted_digits, series_digits
from payrec.domain.matching.keys import expected_keys, remittance_keys, text_name_keys
from payrec.services import open_keys
from payrec.services.open_keys import remake_keys
from payrec.storage.allocations import Side
from payrec.storage.open_keys import OpenKeyStore
from support.matching_world import World

pytestmark = pytest.mark.anyio

DIGEST: Final = {1: "f49caaa1062764b8"}
"""Of what is made of TEXTS, by KEYS_VERSION. Another digest needs another version, and indexes of it."""
TEXTS: Final = (
    "INV-2026-0041", "Rechnung 4711/12 v. 01.02.2026", "RENT-2026-06", "Miete Juni 2026", "Q1 2026", "KW 13",
    "RF18 5390 0754 7034", "210000000003139471430009017", "1,2345", "20261112", "Zahlung vom 2026-11-12", "NOTPROVIDED",
    "Kd.-Nr. 88123 Re. 10001, 10002 u. 10003", "RE 1001-1004", "Größe GmbH & Co. KG", "Müller, Thomas", "ACME Ltd.",
    "DE89 3704 0044 0532 0130 00", "ÄÖÜ ß ＩＮＶ１７", "Order #A-77 / PO 2026/0009", "Beitrag 2025", "Rate 2 von 4",
    "0017", "PAYPAL *SHOP 35314369001", "SVWZ+INV 17 EREF+E2E-1 KREF+NONREF", "1 000 234", "x" * 140, "9" * 40,
)  # fmt: skip

BOLT: Final = {"counterpartyName": "Bolt Works", "counterpartyAccount": "DE89370400440532013000"}
KEYS: Final = """
    SELECT to_jsonb(o) AS keys FROM expected_open o UNION ALL SELECT to_jsonb(o) FROM incoming_open o ORDER BY 1
"""


@pytest.fixture
def world(accepting: World) -> World:
    return accepting


async def age(world: World) -> None:
    """Have all open rows as an earlier version has left them, or writes them while an upgrade is under way.

    It has read references otherwise, and says of no row whose keys these are.
    """
    await world.sql("UPDATE expected_open SET reference_key = 7, reference_digits = NULL, keys_version = DEFAULT")
    await world.sql("UPDATE incoming_open SET reference_keys = '{7}', quoted_digits = NULL, keys_version = DEFAULT")


def test_keys_are_those_of_their_version() -> None:
    made: list[Any] = [
        (
            expected_keys(
                reference=text, end_to_end_id=text, counterparty_name=text, counterparty_account=text, account=text,
                group=text,
            ),
            remittance_keys(text, None, end_to_end_id=None),
            quoted_digits(text, None),
            series_digits(text),
            text_name_keys(text),
        )
        for text in TEXTS
    ]  # fmt: skip
    assert {KEYS_VERSION: blake2b(repr(made).encode(), digest_size=8).hexdigest()} == DIGEST


async def test_the_database_has_the_version_of_the_code(world: World) -> None:
    await world.expect(**BOLT)
    await world.receive(**BOLT)
    rows = await world.sql("SELECT keys_version FROM expected_open UNION ALL SELECT keys_version FROM incoming_open")
    assert [row["keys_version"] for row in rows] == [KEYS_VERSION] * 2
    indexes = await world.sql(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND indexname LIKE '%%_open_stale'"
    )
    assert len(indexes) == 2
    assert all(row["indexdef"].endswith(f"WHERE (keys_version < {KEYS_VERSION})") for row in indexes)


async def test_a_run_reads_no_keys_of_an_earlier_version(world: World) -> None:
    await world.expect(reference="INV-2026-0041", **BOLT)
    await world.receive(remittance="INV-2026-0099", **BOLT)
    before = await world.sql(KEYS)
    await age(world)
    # By what the earlier version has made of both, the one quotes the other.
    assert await world.sql(KEYS) != before
    await world.run(dryRun=True)
    assert await world.sql(KEYS) == before
    await age(world)
    await world.run()
    assert (await world.matches())[0]["confidence"] != "exact"
    database = world.service.factory.context.database
    async with database.tenant(world.scope, readonly=True) as connection:
        assert not await OpenKeyStore(connection).are_stale()


async def test_rows_are_made_anew_some_at_a_time_and_those_that_are_held_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_keys, "ROWS_AT_ONCE", 2)
    items = [await world.expect(reference=f"INV-2026-004{at}") for at in range(5)]
    await world.receive(**BOLT)
    await age(world)
    await world.sql("UPDATE expected_open SET open_minor = open_minor - 1 WHERE transaction_id = %s", items[0])
    database = world.service.factory.context.database
    async with database.tenant(world.scope) as connection:
        store = OpenKeyStore(connection)
        [held] = [row["id"] for row in await store.stale(Side.EXPECTED, limit=1)]
        assert await remake_keys(database, world.scope) == 5
    async with database.tenant(world.bystander_scope, readonly=True) as connection:
        assert not await OpenKeyStore(connection).are_stale()
    rows = await world.sql("SELECT transaction_id, keys_version, open_minor, revision FROM expected_open ORDER BY 1")
    assert [row["transaction_id"] for row in rows if row["keys_version"] == 0] == [held]
    assert [(row["open_minor"], row["revision"]) for row in rows] == [(9_999, 1)] + [(10_000, 1)] * 4
    assert sum(await asyncio.gather(*(remake_keys(database, world.scope) for _ in range(2)))) == 1
