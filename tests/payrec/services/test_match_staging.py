"""From proposals to rows: what is taken of each transaction, what is the same as before, and what is written."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.columns import ADJUSTMENTS_SCHEMA
from payrec.domain.matching.rules import AdjustmentType, Confidence, MatchingRules, MatchKind, Uniqueness
from payrec.domain.matching.score import LEVELS
from payrec.services.match_columns import Snapshot
from payrec.services.match_staging import Draft, Rows, Stamp
from payrec.storage.binary_copy import encoded
from payrec.storage.match_proposals import (
    ALLOCATION_COLUMNS,
    EVENT_COLUMNS,
    LEG_COLUMNS,
    MATCH_COLUMNS,
    TAKEN_COLUMNS,
)
from payrec.storage.rows import CopiedRows
from support.copied import HEADER, TRAILER, cells, table

ROWS: Final = 6
"""Transactions of each side."""

STAMP: Final = Stamp(
    run_id=uuid.UUID(int=1), change_id=uuid.UUID(int=2), actor="engine:0", at=datetime(2026, 3, 12, tzinfo=UTC)
)
LEG: Final = {
    "proposal": pl.UInt32,
    "expected": pl.Int32,
    "incoming": pl.Int32,
    "contra_expected": pl.Int32,
    "contra_incoming": pl.Int32,
    "amount_minor": pl.Int64,
    "settled_minor": pl.Int64,
}
ALTERNATIVE: Final = {
    "proposal": pl.UInt32,
    "side": pl.Int8,
    "expected": pl.Int32,
    "incoming": pl.Int32,
    "score_milli": pl.Int32,
}
PAIR: Final = (0, 0, 0, None, None, 1_000, 1_000)
"""A leg of the first proposal, that joins the first item and the first line."""


def name(side: int, place: int) -> uuid.UUID:
    return uuid.UUID(int=(side << 64) + 1_000 - place)


def new_id(number: int) -> uuid.UUID:
    return uuid.UUID(int=100 + number)


def snapshot() -> Snapshot:
    places = list(range(ROWS))
    common = {"amount_minor": [10_000 + p for p in places], "version": [1 + p for p in places]}
    types = {"version": pl.Int32}
    return Snapshot(
        expected=pl.DataFrame({**common, "currency": ["EUR"] * ROWS}, schema_overrides=types),
        incoming=pl.DataFrame(
            {**common, "currency": ["USD"] * ROWS, "booking_day": [20_000 + p for p in places]},
            schema_overrides={**types, "booking_day": pl.Int32},
        ),
        expected_ids=pl.Series([name(1, p).bytes for p in places]),
        incoming_ids=pl.Series([name(2, p).bytes for p in places]),
        expected_reasons=pl.Series([None] * ROWS, dtype=pl.Int16),
        incoming_reasons=pl.Series([None] * ROWS, dtype=pl.Int16),
        names=pl.DataFrame(),
    )


def matches(auto: list[bool], **changed: Any) -> pl.DataFrame:
    said = {
        "kind": MatchKind.ONE_TO_ONE.value,
        "size": 1,
        "amount_minor": 1_000,
        "score_milli": 9_000,
        "probability_ppm": 1_000_000,
        "confidence": Confidence.EXACT.value,
        "status": Uniqueness.UNIQUE.value,
        "pending": False,
        "difference_minor": 0,
        "rivals_expected": 0,
        "rivals_incoming": 0,
        "tried": 1,
        "named": 1,
        "coincidences_ppm": None,
        **dict.fromkeys(LEVELS, 0),
        **changed,
    }
    frame = pl.DataFrame([{**said, "auto": value} for value in auto], schema_overrides={"coincidences_ppm": pl.Int64})
    return frame.with_row_index("proposal").with_columns(
        match_id=pl.Series([new_id(number).bytes for number in range(len(auto))])
    )


RULED = {"proposal": pl.UInt32, "rules": pl.String}
NAMES = ('["one"]', '["two"]', '["one","two"]')


def draft(
    legs: list[tuple[Any, ...]],
    *,
    auto: list[bool] | None = None,
    adjustments: list[tuple[Any, ...]] | None = None,
    alternatives: list[tuple[Any, ...]] | None = None,
    **changed: Any,
) -> Draft:
    found = matches(auto or [False], **changed)
    return Draft(
        matches=found,
        legs=pl.DataFrame(legs, schema=LEG, orient="row"),
        adjustments=pl.DataFrame(adjustments or [], schema=dict(ADJUSTMENTS_SCHEMA), orient="row"),
        alternatives=pl.DataFrame(alternatives or [], schema=ALTERNATIVE, orient="row"),
        ruled=pl.DataFrame(schema=RULED),
        snapshot=snapshot(),
        rules=MatchingRules(),
        match_ids=found["match_id"],
    )


def rows_of(found: Draft) -> Rows:
    return found.rows(found.takes(), STAMP)


def copied(frame: pl.DataFrame) -> CopiedRows:
    """Return rows as the server would give them."""
    data = encoded(frame) or HEADER + TRAILER
    sizes = [2 + sum(4 + len(cell or b"") for cell in row) for row in cells(data)]
    sizes = [*sizes, len(TRAILER)]
    sizes[0] += len(HEADER)
    return CopiedRows(bytearray(data), sizes)


def taken(found: Draft) -> dict[str, dict[uuid.UUID, tuple[int, uuid.UUID | None]]]:
    staged = dict(zip(("expected", "incoming"), found.takes().staged, strict=True))
    return {
        side: {row["transaction_id"]: (row["minor"], row["winner"]) for row in table(rows, TAKEN_COLUMNS)}
        for side, rows in staged.items()
    }


def accepted(found: Draft) -> tuple[int, int]:
    expected, incoming = found.takes().accepted
    return expected.height, incoming.height


def key(found: Draft) -> int | None:
    [row] = table(rows_of(found).matches, MATCH_COLUMNS)
    stored: int | None = row["content_key"]
    return stored


def test_legs_contra_legs_and_adjustments_together_are_what_is_taken() -> None:
    fee = AdjustmentType.FEE.value
    found = draft(
        [(0, 0, 0, None, None, 900, 1_000), (1, 1, None, 2, None, 300, 400), (2, None, 1, None, 2, 500, 600)],
        auto=[True, True, True],
        adjustments=[(0, fee, 0, None, 50, None), (2, fee, None, 1, -20, None)],
    )
    first, second, third = map(new_id, range(3))
    assert taken(found) == {
        "expected": {name(1, 0): (1_050, first), name(1, 1): (400, second), name(1, 2): (300, second)},
        "incoming": {name(2, 0): (900, first), name(2, 1): (480, third), name(2, 2): (600, third)},
    }
    assert accepted(found) == (3, 3)


def test_what_several_accept_of_an_item_is_one_row_and_a_mere_proposal_takes_nothing() -> None:
    found = draft(
        [(0, 0, 0, None, None, 100, 100), (1, 0, 1, None, None, 200, 200), (2, 0, 2, None, None, 400, 400)],
        auto=[False, True, True],
    )
    assert taken(found)["expected"] == {name(1, 0): (600, new_id(1))}
    assert taken(found)["incoming"][name(2, 0)] == (0, None)
    assert accepted(found) == (1, 2)
    [item] = table(found.takes().staged[0], TAKEN_COLUMNS)
    assert (item["place"], item["open_minor"], item["revision"]) == (0, 10_000, 1)


def test_what_is_staged_is_in_the_order_of_ids() -> None:
    found = draft([(n, n, n, None, None, 1, 1) for n in range(ROWS)], auto=[True] * ROWS)
    ids = [row["transaction_id"] for row in table(found.takes().staged[0], TAKEN_COLUMNS)]
    assert ids == sorted(ids)


def test_what_nothing_was_allocated_of_gets_an_allocation() -> None:
    found = draft(
        [(0, 0, 0, None, None, 10_000, 10_000), (1, 1, 1, None, None, 1, 1), (2, 2, 2, None, None, 1, 1)],
        auto=[True, True, False],
    )
    takes = found.takes()
    rows = table(takes.allocations(([], [0]), STAMP), ALLOCATION_COLUMNS)
    assert [(row["side"], row["transaction_id"], row["amount_minor"], row["allocated_minor"]) for row in rows] == [
        (1, name(1, 1), 10_001, 1),
        (1, name(1, 0), 10_000, 10_000),
        (2, name(2, 1), 10_001, 1),
    ]
    assert [row["status"] for row in rows] == ["partially_matched", "matched", "partially_matched"]
    assert {(row["version"], row["updated_at"], row["change_id"]) for row in rows} == {(2, STAMP.at, STAMP.change_id)}
    assert table(takes.allocations(([0, 1], [0, 1]), STAMP), ALLOCATION_COLUMNS) == []


def test_a_proposal_goes_whole_with_any_of_its_transactions() -> None:
    found = draft(
        [
            (0, 0, 0, None, None, 1, 1),
            (0, 1, 0, None, None, 1, 1),
            (1, None, 1, None, 2, 1, 1),
            (2, 3, 3, None, None, 1, 1),
        ],
        auto=[True, True, True],
        adjustments=[(2, AdjustmentType.FEE.value, 4, None, 5, None)],
    )
    assert found.joining([1], []).to_list() == [0]
    assert found.joining([], [2]).to_list() == [1]
    assert found.joining([4], []).to_list() == [2]
    rest = found.without(found.joining([1], [2]))
    assert (rest.matches["proposal"].to_list(), rest.legs.height, rest.adjustments.height) == ([2], 1, 1)
    assert [row["match_id"] for row in table(rows_of(rest).legs, LEG_COLUMNS)] == [new_id(2)]


CHANGES: Final[dict[str, dict[str, Any]]] = {
    "a leg more": {"legs": [PAIR, (0, 1, 0, None, None, 1_000, 1_000)]},
    "another item": {"legs": [(0, 1, 0, None, None, 1_000, 1_000)]},
    "another amount": {"legs": [(0, 0, 0, None, None, 999, 1_000)]},
    "settles otherwise": {"legs": [(0, 0, 0, None, None, 1_000, 999)]},
    "a contra leg": {"legs": [(0, None, 0, None, 1, 1_000, 1_000)]},
    "an adjustment": {"adjustments": [(0, AdjustmentType.FEE.value, 0, None, 1, None)]},
    "an alternative": {"alternatives": [(0, 1, 1, 0, 100)]},
    "a score": {"score_milli": 9_001},
    "a level": {LEVELS[0]: 1},
    "a doubt": {"status": Uniqueness.AMBIGUOUS.value},
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_proposal_says_makes_it_another_one(change: str) -> None:
    said = CHANGES[change]
    other = draft(said.get("legs", [PAIR]), **{k: v for k, v in said.items() if k != "legs"})
    assert key(other) not in {None, key(draft([PAIR]))}


def test_a_rule_that_has_decided_makes_another_proposal() -> None:
    found = draft([PAIR])
    keys = {
        key(replace(found, ruled=pl.DataFrame({"proposal": [0], "rules": [names]}, schema=RULED))) for names in NAMES
    }
    assert len(keys | {key(found)}) == len(NAMES) + 1


def test_a_changed_revision_makes_another_proposal() -> None:
    found = draft([PAIR])
    seen = found.snapshot
    later = replace(found, snapshot=replace(seen, expected=seen.expected.with_columns(version=pl.col("version") + 1)))
    assert key(later) != key(found)


def test_what_is_accepted_at_once_has_no_key() -> None:
    assert key(draft([PAIR], auto=[True])) is None


@given(st.permutations(range(ROWS)), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_a_proposal_is_known_again_wherever_its_rows_stand(order: list[int], more: int) -> None:
    found = draft([(n, n, n, None, None, 1, 1) for n in range(ROWS)], auto=[False] * ROWS)
    keys = [row["content_key"] for row in table(rows_of(found).matches, MATCH_COLUMNS)]
    stored = pl.DataFrame(
        {"id": [name(3, n).bytes for n in range(more, ROWS)], "content_key": pl.Series(keys[more:], dtype=pl.Int64)}
    )
    seen = found.snapshot
    # The same transactions, read in another order: other places, and proposals with other numbers.
    places = {place: n for n, place in enumerate(order)}
    other = replace(
        draft([(n, places[p], places[p], None, None, 1, 1) for n, p in enumerate(range(ROWS))], auto=[False] * ROWS),
        snapshot=replace(
            seen,
            expected=seen.expected[order],
            incoming=seen.incoming[order],
            expected_ids=seen.expected_ids.gather(order),
            incoming_ids=seen.incoming_ids.gather(order),
        ),
    )
    same, kept = other.kept(copied(stored))
    assert sorted(same["proposal"].to_list()) == list(range(more, ROWS))
    assert {row["id"] for row in table(kept, ["id"])} == {name(3, n) for n in range(more, ROWS)}


def test_the_rows_say_all_that_was_proposed() -> None:
    found = draft(
        [(0, 0, 0, None, None, 900, 1_000), (0, None, 1, None, 2, 500, 600), (1, 1, None, 2, None, 300, 400)],
        auto=[True, False],
        adjustments=[
            (0, AdjustmentType.FEE.value, 0, None, 50, None),
            (0, AdjustmentType.FX.value, None, 1, 1, "1.25"),
        ],
        alternatives=[(1, 1, 3, 4, 100), (1, 2, None, 5, 90)],
    )
    rows = rows_of(found)
    decided, proposed = table(rows.matches, MATCH_COLUMNS)
    assert (decided["status"], decided["decided_by"], decided["decided_at"], decided["effective_on"]) == (
        "accepted",
        "engine:0",
        STAMP.at,
        date(2024, 10, 6),
    )
    assert [(match["id"], match["run_id"], match["created_at"], match["levels"]) for match in (decided, proposed)] == [
        (new_id(n), STAMP.run_id, STAMP.at, [0] * len(LEVELS)) for n in range(2)
    ]
    assert (decided["currency"], proposed["currency"], proposed["status"]) == ("USD", "EUR", "proposed")
    assert decided["adjustments"] == [
        {"type": "fee", "side": "expected", "id": str(name(1, 0)), "minor": 50, "currency": "EUR", "rate": None},
        {"type": "fx", "side": "incoming", "id": str(name(2, 1)), "minor": 1, "currency": "USD", "rate": "1.25"},
    ]
    assert proposed["alternatives"] == [
        {"expected": str(name(1, 3)), "incoming": str(name(2, 4)), "score": 100},
        {"expected": None, "incoming": str(name(2, 5)), "score": 90},
    ]
    legs = table(rows.legs, LEG_COLUMNS)
    joined = ("expected_revision", "incoming_revision", "contra_revision", "ordinal", "settled_currency")
    assert [tuple(leg[c] for c in joined) for leg in legs] == [
        (1, 1, None, 0, "EUR"),
        (None, 2, 3, 1, "USD"),
        (2, None, 3, 0, "EUR"),
    ]
    assert [leg["valid_from"] for leg in legs] == [STAMP.change_id, STAMP.change_id, None]
    events = table(rows.events, EVENT_COLUMNS)
    assert {e["type"]: e["resource_ids"] for e in events} == {
        "match.accepted": [new_id(0)],
        "match.proposed": [new_id(1)],
        "expected_transaction.partially_matched": [name(1, 0)],
        "incoming_transaction.partially_matched": [name(2, 2), name(2, 1), name(2, 0)],
    }


def test_nothing_proposed_is_nothing_to_copy() -> None:
    found = draft([PAIR]).without(pl.Series([0]))
    takes, rows = found.takes(), rows_of(found)
    assert (takes.staged, takes.allocations(([], []), STAMP)) == ((b"", b""), b"")
    assert (rows.matches, rows.legs, rows.events) == (b"", b"", b"")
    assert found.kept(None)[1] == b""
