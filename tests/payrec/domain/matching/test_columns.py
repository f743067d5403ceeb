from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA, ColumnsError, prepare
from payrec.domain.matching.engine import STAGES, propose
from payrec.domain.matching.rules import MatchingRules
from support.matching_frames import Item, Line, expected_frame, incoming_frame


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("amount_minor", pl.lit(0, dtype=pl.Int64)),
        ("direction", pl.lit(0, dtype=pl.Int8)),
        ("tie_key", pl.lit(None, dtype=pl.Int64)),
        ("ordinal", pl.lit(7, dtype=pl.Int32)),
        ("due_day", pl.lit(1.5)),
    ],
)
def test_wrong_columns_are_a_typed_error(column: str, change: pl.Expr) -> None:
    items = expected_frame([Item("a"), Item("b")])
    lines = incoming_frame([Line("x")])
    with pytest.raises(ColumnsError) as caught:
        propose(items.with_columns(change.alias(column)), lines, MatchingRules())
    assert caught.value.column == column
    with pytest.raises(ColumnsError):
        propose(items.drop(column), lines, MatchingRules())


def test_a_categorical_currency_is_as_good_as_text() -> None:
    items = expected_frame([Item("a", reference="INV-17017")]).with_columns(pl.col("currency").cast(pl.Categorical))
    assert propose(items, incoming_frame([Line("x", text="INV-17017")]), MatchingRules()).matches.height == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"date_window_days_before": -1},
        {"amount_tolerance_minor": -1},
        {"amount_tolerance_basis_points": 10_001},
        {"auto_accept_min_confidence": "low"},
    ],
)
def test_rules_refuse_nonsense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"cannot|lies|is exact"):
        MatchingRules(**wrong)  # type: ignore[arg-type]


def test_an_observer_is_told_of_every_stage() -> None:
    told: list[str] = []
    empty = pl.DataFrame(schema=dict(EXPECTED_SCHEMA)), pl.DataFrame(schema=dict(INCOMING_SCHEMA))
    propose(*empty, MatchingRules(), observe=told.append)
    assert tuple(told) == STAGES


LARGEST = 2**63 - 1
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "currency": st.sampled_from(["EUR", "USD", "JPY"]),
            "direction": st.sampled_from([1, -1]),
            "amount_minor": st.sampled_from([1, 2, LARGEST - 1, LARGEST]),
            "booking_day": st.sampled_from([None, -(2**31), -1, 0, 1, 2**31 - 1]),
            "tie_key": st.sampled_from([-LARGEST - 1, -1, 0, 1, LARGEST]),
            "name_key": st.sampled_from([None, 4, 5]),
            "reference_keys": st.sampled_from([[], [64], [64, 129], [129, 64]]),
        }
    ),
    max_size=30,
)
"""Lines of which many agree in the first columns by which they are sorted, and of which the numbers reach every end."""


@given(ROWS)
@settings(max_examples=200, deadline=None)
def test_rows_are_in_the_order_of_what_they_say_whatever_their_numbers_are(rows: list[dict[str, Any]]) -> None:
    same: dict[str, Any] = {"total_minor": 1, "pending": False, "reversal": False, "duplicate": False, "version": 1}
    same |= {"quoted_digits": [], "text_name_keys": [], "series_digits": []}
    lines = pl.DataFrame([{"ordinal": at, **same, **row} for at, row in enumerate(rows)], schema=dict(INCOMING_SCHEMA))
    found = prepare(pl.DataFrame(schema=dict(EXPECTED_SCHEMA)), lines).incoming

    def main(row: dict[str, Any]) -> tuple[Any, ...]:
        day = row["booking_day"]
        return row["currency"], row["direction"], row["amount_minor"], day is None, day or 0, row["tie_key"]

    def content(row: dict[str, Any]) -> tuple[Any, ...]:
        return *main(row), row["name_key"], sorted(row["reference_keys"])

    ordered = found.rows(named=True)
    assert [main(row) for row in ordered] == sorted(map(main, rows))
    assert sorted(found["ordinal"]) == list(range(len(rows)))
    said = [content(row) for row in rows]
    assert [row["twin"] for row in ordered] == [said.count(content(row)) > 1 for row in ordered]
    again = prepare(pl.DataFrame(schema=dict(EXPECTED_SCHEMA)), lines.reverse()).incoming
    assert [content(row) for row in again.rows(named=True)] == [content(row) for row in ordered]
