"""One pair by itself: what a run would say of it, and the overflow and absence of what it looks at."""

from __future__ import annotations

from dataclasses import fields, replace

import polars as pl
import pytest
from hypothesis import given, settings

from payrec.domain.matching.block import candidates
from payrec.domain.matching.columns import Sides, prepare
from payrec.domain.matching.pair import Item, Judged, Line, judged
from payrec.domain.matching.ruled import with_rules
from payrec.domain.matching.rules import FEATURES, MatchingRules, Reason
from payrec.domain.matching.score import scored
from support.matching_frames import expected_frame, incoming_frame
from support.matching_pairs import RULES_DRAWN, sides_drawn

BASE_ITEM = Item(currency="EUR", direction=1, amount_minor=10_000, total_minor=10_000, due_day=20_600)
BASE_LINE = Line(currency="EUR", direction=1, amount_minor=10_000, total_minor=10_000, booking_day=20_600)


def all_pairs(sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Return every pair of one currency and direction with the levels of quoting that blocking has found."""
    items = sides.expected.select("part", e="row")
    lines = sides.incoming.filter(~pl.col("reversal")).select("part", i="row")
    found = candidates(sides, rules).pairs
    return (
        items.join(lines, on="part")
        .drop("part")
        .join(found, on=["e", "i"], how="left")
        .with_columns(pl.col("reference", "end_to_end").fill_null(0))
        .sort("e", "i")
    )


def row_of(kind: type[Item] | type[Line], frame: pl.DataFrame, row: int) -> dict[str, object]:
    values = frame.filter(pl.col("row") == row).row(0, named=True)
    wanted = {field.name: values[field.name] for field in fields(kind)}
    lists = {name: tuple(wanted[name] or ()) for name in ("reference_keys", "quoted_digits") if name in wanted}
    return wanted | lists


@settings(max_examples=60)
@given(sides_drawn(), RULES_DRAWN)
def test_a_pair_by_itself_is_what_a_run_says_of_it(drawn: tuple, rules: MatchingRules) -> None:
    items, lines = drawn
    sides = with_rules(prepare(expected_frame(items), incoming_frame(lines)), rules)
    for row in scored(all_pairs(sides, rules), sides, rules).iter_rows(named=True):
        item = Item(**row_of(Item, sides.expected, row["e"]))  # type: ignore[arg-type]
        line = Line(**row_of(Line, sides.incoming, row["i"]))  # type: ignore[arg-type]
        found = judged(item, line, rules)
        assert dict(found.levels) == {feature: row[f"{feature}_level"] for feature in FEATURES}
        assert found.score_milli == row["score_milli"]
        assert found.difference_minor == row["difference_minor"]
        assert abs(found.days_outside) == (row["days_outside"] or 0)
        assert (found.fault or 0) == row["fault"]


def judge(rules: MatchingRules | None = None, **changes: object) -> Judged:
    of_item = {name: value for name, value in changes.items() if name in {"due_day", "max_minor", "reference_key"}}
    of_line = {name: value for name, value in changes.items() if name not in of_item}
    return judged(
        replace(BASE_ITEM, **of_item),  # type: ignore[arg-type]
        replace(BASE_LINE, **of_line),  # type: ignore[arg-type]
        rules or MatchingRules(),
    )


@pytest.mark.parametrize(("day", "outside"), [(20_600 + 60, 0), (20_600 + 61, 1), (20_600 - 30, 0), (20_600 - 32, -2)])
def test_days_outside_tell_the_side(day: int, outside: int) -> None:
    found = judge(booking_day=day)
    assert found.days_outside == outside
    assert (found.fault is Reason.DATE_OUT_OF_WINDOW) == bool(outside)


def test_two_currencies_are_never_compared_by_number() -> None:
    found = judge(currency="USD")
    assert found.fault is Reason.CURRENCY_MISMATCH
    assert found.difference_minor is None
    assert found.levels["amount"] == 0


def test_the_greatest_amounts_do_not_wrap() -> None:
    most = 2**63 - 1
    item = replace(BASE_ITEM, amount_minor=most, total_minor=most)
    found = judged(item, BASE_LINE, MatchingRules(amount_tolerance_basis_points=10_000))
    assert found.difference_minor == 10_000 - most
    assert found.fault is None
