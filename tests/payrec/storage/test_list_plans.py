"""Lists by any filter and order look at few rows: their plans, over tables with realistic statistics."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from payrec.models.expected_transactions import ExpectedTransactionQuery
from payrec.models.incoming_transactions import IncomingTransactionQuery
from payrec.models.matches import MatchQuery
from payrec.storage import expected_transactions, incoming_transactions, listing, matches
from payrec.storage.database import Connection, Database
from payrec.storage.listing import BY_CREATION, PageRequest
from payrec.storage.partitions import ensure_partitions
from payrec.storage.rows import fetch_all
from support.places import Places
from support.plans import explained, nodes, visited

pytestmark = pytest.mark.anyio

VISITED_MAX: Final = 5_000
"""Rows that a page may look at, of all its relations together: a page is 51 of them, each with up to six others."""

WALKED: Final = {
    # What has a range of one column lies together in another order that goes the same way, at its far end maybe: the
    # planner takes the two for independent, and walks.
    ("expected", "due_from"): {"createdAt", "-createdAt"},
    ("incoming", "booking_from"): {"createdAt", "-createdAt"},
    ("incoming", "import_id"): {"bookingDate", "-bookingDate"},
    # The matches of a run lie beside each other, and its index names the blocks where they are.
    ("matches", "run_id"): {"createdAt", "-createdAt"},
}
"""Filters and orders of which a page may look at more rows, by an index all the same."""

FIRST: Final = datetime(2026, 1, 1, tzinfo=UTC)
TODAY: Final = date(2026, 11, 1)
STEP: Final = timedelta(minutes=10)

FILL: Final = Path(__file__).resolve().parents[2] / "data" / "list_rows.sql"
"""Makes 40,000 rows of each kind, over nine months."""

_TABLES: Final = (
    "expected_transaction", "incoming_transaction", "allocation", "expected_open", "incoming_open", "open_reason",
    "match", "leg",
)  # fmt: skip

_WEEK: Final = {"created_from": FIRST + 20_000 * STEP, "created_to": FIRST + 21_000 * STEP}
_AMOUNTS: Final = {"currency": "EUR", "amount_min": "500.00", "amount_max": "520.00"}
FILTERS: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "expected": (
        {},
        *({"status": status} for status in ("open", "partially_matched", "matched", "void")),
        {"overdue": True},
        {"overdue": False},
        {"direction": "debit"},
        {"currency": "USD"},
        _AMOUNTS,
        {"due_from": date(2026, 5, 1), "due_to": date(2026, 5, 4)},
        {"reference": "INV-777"},
        {"external_id": "E777"},
        {"group_key": "G77"},
        {"reason_code": "no_candidate"},
        _WEEK,
    ),
    "incoming": (
        {},
        *({"status": status} for status in ("pending", "unmatched", "partially_matched", "matched")),
        *({"status": status} for status in ("ignored", "classified", "reversed", "linked")),
        {"direction": "debit"},
        {"currency": "USD"},
        _AMOUNTS,
        {"booking_from": date(2026, 5, 1), "booking_to": date(2026, 5, 4)},
        {"import_id": "00000000-0000-7000-8000-000000000007"},
        {"account": "A1"},
        {"late": True},
        {"late": False},
        {"external_id": "I777"},
        {"end_to_end_id": "E2E-777"},
        {"group_key": "G77"},
        {"reason_code": "no_candidate"},
        {"cut_off": date(2026, 9, 25)},
        _WEEK,
    ),
    "matches": (
        {},
        *({"status": status} for status in ("proposed", "accepted", "rejected", "superseded", "reversed")),
        {"kind": "one_to_many"},
        {"confidence": "low"},
        {"run_id": "00000000-0000-7000-8000-000000000007"},
        {"cut_off": date(2026, 9, 25)},
        _WEEK,
    ),
}
SORTS: Final = {
    "expected": expected_transactions.SORTS,
    "incoming": incoming_transactions.SORTS,
    "matches": BY_CREATION,
}


def _name(given: dict[str, Any]) -> str:
    return (
        "+".join(f"{key}={value}" if isinstance(value, (str, bool)) else key for key, value in given.items()) or "all"
    )


CASES: Final = [
    pytest.param(which, given, sort, id=f"{which}-{_name(given)}-{sort}")
    for which, filters in FILTERS.items()
    for given in filters
    for sort in SORTS[which]
]


@pytest.fixture(scope="module")
async def filled(opened: Database, places: Places) -> Places:
    """Return the two environments; the first has rows like those of some months."""
    async with opened.tenant(places.a) as connection:
        await ensure_partitions(connection)
        await connection.execute(FILL.read_bytes(), prepare=False)
    async with opened.tenant(places.a) as connection:
        await connection.execute(f"ANALYZE {', '.join(_TABLES)}".encode())
    return places


async def plan_of(
    connection: Connection, patch: pytest.MonkeyPatch, which: str, given: dict[str, Any], sort: str
) -> dict[str, Any]:
    """Return the plan of the list's first page."""
    wanted = {to_alias(key): value for key, value in given.items()} | {"sort": sort}
    page = PageRequest(limit=50, sort=SORTS[which][sort])
    with explained(patch, listing) as plans:
        if which == "expected":
            expected = expected_transactions.ExpectedTransactionStore(connection)
            await expected.page(page, ExpectedTransactionQuery(**wanted), today=TODAY)
        elif which == "incoming":
            incoming = incoming_transactions.IncomingTransactionStore(connection)
            await incoming.page(page, IncomingTransactionQuery(**wanted))
        else:
            await matches.MatchStore(connection).page(page, MatchQuery(**wanted))
    return plans[0]


def to_alias(name: str) -> str:
    """Return a filter's name on the wire."""
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


@pytest.mark.parametrize(("which", "given", "sort"), CASES)
async def test_a_page_looks_at_few_rows(
    opened: Database, filled: Places, monkeypatch: pytest.MonkeyPatch, which: str, given: dict[str, Any], sort: str
) -> None:
    async with opened.tenant(filled.a, readonly=True) as connection:
        plan = await plan_of(connection, monkeypatch, which, given, sort)
    filter_name = next(iter(given), "")
    if sort not in WALKED.get((which, filter_name), ()):
        assert visited(plan) <= VISITED_MAX, plan
        assert not any(node["Node Type"] == "Seq Scan" and node["Actual Rows"] > VISITED_MAX for node in nodes(plan))
    elif which != "matches":
        assert not any(
            node["Node Type"] == "Seq Scan" and "transaction" in node["Relation Name"] for node in nodes(plan)
        )


async def test_accepted_matches_are_not_looked_for_among_newer_ones(
    opened: Database, filled: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened.tenant(filled.a) as connection, connection.transaction(force_rollback=True):
        newest = b"id > (SELECT id FROM match ORDER BY id DESC OFFSET 10000 LIMIT 1)"
        await connection.execute(b"UPDATE match SET status = 'proposed' WHERE " + newest)
        plan = await plan_of(connection, monkeypatch, "matches", {"status": "accepted"}, "-createdAt")
    assert visited(plan) <= VISITED_MAX, plan


async def test_matches_that_were_decided_since_are_found_by_their_changes(
    opened: Database, filled: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened.tenant(filled.a) as connection, connection.transaction(force_rollback=True):
        [row] = await fetch_all(connection, "SELECT clock_timestamp() AS now")
        # Decided before, all but the newest, which are decided soon.
        await connection.execute(
            b"INSERT INTO change SELECT gen_random_uuid(), %s + n * interval '1s' FROM generate_series(-99, 200) n",
            (row["now"],),
        )
        await connection.execute(
            b"UPDATE match m SET change_id = h.id FROM (SELECT id, row_number() OVER (ORDER BY at) AS n FROM change) h,"
            b" (SELECT id, row_number() OVER (ORDER BY id) AS n FROM match) p"
            b" WHERE p.id = m.id AND h.n = CASE WHEN p.n <= 39500 THEN 1 + p.n % 4 ELSE 101 + p.n % 200 END"
        )
        await connection.execute(b"ANALYZE match, change")
        for status in ("proposed", "superseded"):
            for sort in BY_CREATION:
                given = {"status": status, "as_of": row["now"]}
                plan = await plan_of(connection, monkeypatch, "matches", given, sort)
                assert visited(plan, of="match") <= VISITED_MAX, (status, sort, plan)
