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
from payrec.domain.matching.rules import (
    FEATURES,
    AmountLevel,
    DateLevel,
    EndToEndLevel,
    LineLevel,
    MatchingRules,
    PartyLevel,
    Reason,
    ReferenceLevel,
)
from payrec.domain.matching.score import scored
from support.matching_frames import expected_frame, incoming_frame
from support.matching_pairs import RULES_DRAWN, sides_drawn
from support.single_pairs import BASE_ITEM, BASE_LINE, LONG, OTHER, SHORT, of_item, of_line


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
    lists_of = ("reference_keys", "quoted_digits", "text_name_keys", "series_digits")
    lists = {name: tuple(wanted[name] or ()) for name in lists_of if name in wanted}
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
        # Whose a line is that says so is for the others that are open to say.
        line_level = LineLevel.BOOKED if row["line_level"] == LineLevel.OF_ANOTHER else row["line_level"]
        levels = {feature: row[f"{feature}_level"] for feature in FEATURES} | {"line": line_level}
        assert dict(found.levels) == levels
        assert found.score_milli == row["score_milli"]
        assert found.difference_minor == row["difference_minor"]
        assert abs(found.days_outside) == (row["days_outside"] or 0)
        assert (found.fault or 0) == row["fault"]


def judge(rules: MatchingRules | None = None, **changes: object) -> Judged:
    of_its = {name: value for name, value in changes.items() if name in {"due_day", "max_minor", "reference_key"}}
    of_others = {name: value for name, value in changes.items() if name not in of_its}
    return judged(of_item(**of_its), of_line(**of_others), rules or MatchingRules())


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


AMOUNTS = {
    "equal": (10_000, 10_000, {}, AmountLevel.EQUAL),
    "a minor unit less": (10_000, 9_999, {}, AmountLevel.SMALLER),
    "a minor unit more": (10_000, 10_001, {}, AmountLevel.LARGER),
    "as much less as is tolerated": (10_000, 9_950, {"amount_tolerance_minor": 50}, AmountLevel.TOLERANCE),
    "as much more as is tolerated": (10_000, 10_050, {"amount_tolerance_minor": 50}, AmountLevel.TOLERANCE),
    "as much as is tolerated of a small one": (900, 600, {"amount_tolerance_minor": 500}, AmountLevel.TOLERANCE),
    "a part of a small one": (900, 599, {"amount_tolerance_minor": 500}, AmountLevel.SMALLER),
    "more than is tolerated": (10_000, 10_051, {"amount_tolerance_minor": 50}, AmountLevel.LARGER),
    "a share of it": (30_099, 30_399, {"amount_tolerance_basis_points": 100}, AmountLevel.TOLERANCE),
    "more than the share": (30_099, 30_400, {"amount_tolerance_basis_points": 100}, AmountLevel.LARGER),
    "the larger of both is tolerated": (
        10_000,
        9_900,
        {"amount_tolerance_minor": 50, "amount_tolerance_basis_points": 100},
        AmountLevel.TOLERANCE,
    ),
}


@pytest.mark.parametrize(("asked", "paid", "rules", "level"), AMOUNTS.values(), ids=AMOUNTS)
def test_how_near_the_amounts_are(asked: int, paid: int, rules: dict[str, int], level: AmountLevel) -> None:
    item, line = (kind(amount_minor=its, total_minor=its) for kind, its in ((of_item, asked), (of_line, paid)))
    found = judged(item, line, MatchingRules(**rules))  # type: ignore[arg-type]
    assert (found.levels["amount"], found.difference_minor) == (level, paid - asked)
    is_near = level in {AmountLevel.EQUAL, AmountLevel.TOLERANCE}
    assert found.fault is (None if is_near else Reason.AMOUNT_MISMATCH)


QUOTED = {
    "nothing": ({}, {}, False),
    "the reference": ({"reference_key": LONG}, {"reference_keys": (LONG,)}, True),
    "a short reference": ({"reference_key": SHORT}, {"reference_keys": (SHORT,)}, False),
    "the end-to-end id": ({"end_to_end_key": LONG}, {"end_to_end_key": LONG}, True),
    "a short end-to-end id": ({"end_to_end_key": SHORT}, {"end_to_end_key": SHORT}, False),
}


@pytest.mark.parametrize(("item", "line", "is_proof"), QUOTED.values(), ids=QUOTED)
def test_a_fee_is_what_is_missing_of_an_item_that_is_quoted_in_full(
    item: dict[str, object], line: dict[str, object], *, is_proof: bool
) -> None:
    rules = MatchingRules(fee_tolerance_minor=2_500)
    for paid, level in (
        (9_999, AmountLevel.TOLERANCE),
        (8_000, AmountLevel.TOLERANCE),
        (7_999, AmountLevel.SMALLER),  # a fifth at most
        (10_001, AmountLevel.LARGER),
    ):
        found = judged(of_item(**item), of_line(**line, amount_minor=paid), rules)
        less = level if is_proof or paid > 10_000 else AmountLevel.SMALLER
        assert found.levels["amount"] == less
        assert found.fault is (None if is_proof else Reason.AMOUNT_MISMATCH)
    below = judged(of_item(**item), of_line(**line, amount_minor=9_980), MatchingRules(fee_tolerance_minor=20))
    beyond = judged(of_item(**item), of_line(**line, amount_minor=9_979), MatchingRules(fee_tolerance_minor=20))
    assert (below.levels["amount"] == AmountLevel.TOLERANCE) == is_proof
    assert beyond.levels["amount"] == AmountLevel.SMALLER


BANDS = {
    "the least": (9_000, 11_000, 9_000, AmountLevel.BAND),
    "less": (9_000, 11_000, 8_999, AmountLevel.SMALLER),
    "the most": (9_000, 11_000, 11_000, AmountLevel.BAND),
    "more": (9_000, 11_000, 11_001, AmountLevel.LARGER),
    "no least, and less than what is open": (None, 11_000, 9_999, AmountLevel.SMALLER),
    "no least": (None, 11_000, 10_001, AmountLevel.BAND),
    "no most, and more than what is open": (9_000, None, 10_001, AmountLevel.LARGER),
    "no most": (9_000, None, 9_999, AmountLevel.BAND),
}


@pytest.mark.parametrize(("least", "most", "paid", "level"), BANDS.values(), ids=BANDS)
def test_a_band_has_both_its_ends_while_nothing_is_paid(
    least: int | None, most: int | None, paid: int, level: AmountLevel
) -> None:
    item, line = of_item(min_minor=least, max_minor=most), of_line(amount_minor=paid, total_minor=paid)
    assert judged(item, line, MatchingRules()).levels["amount"] == level
    for part in (
        judged(replace(item, total_minor=12_000), line, MatchingRules()),
        judged(item, replace(line, total_minor=12_000), MatchingRules()),
    ):
        assert part.levels["amount"] == (AmountLevel.SMALLER if paid < 10_000 else AmountLevel.LARGER)


TERMS = {
    "on its last day": (9_800, 20_600, True),
    "a day later": (9_800, 20_601, False),
    "another amount": (9_801, 20_600, False),
    "the later term": (9_900, 20_610, True),
    "a day after the later term": (9_900, 20_611, False),
    "no day": (9_800, None, False),
}


@pytest.mark.parametrize(("paid", "day", "in_terms"), TERMS.values(), ids=TERMS)
def test_a_term_has_an_amount_and_a_last_day(paid: int, day: int | None, *, in_terms: bool) -> None:
    item = of_item(terms=(9_800, 20_600, 9_900, 20_610))
    line = of_line(amount_minor=paid, total_minor=paid, booking_day=day)
    found = judged(item, line, MatchingRules())
    assert found.levels["amount"] == (AmountLevel.TERM if in_terms else AmountLevel.SMALLER)
    assert found.fault is (None if in_terms else Reason.AMOUNT_MISMATCH)
    paid_in_part = judged(replace(item, total_minor=12_000), line, MatchingRules())
    assert paid_in_part.levels["amount"] == AmountLevel.SMALLER


DAYS = {
    "three days late": ({"due_day": 20_597}, DateLevel.NEAR, 0),
    "four days late": ({"due_day": 20_596}, DateLevel.CLOSE, 0),
    "fourteen days late": ({"due_day": 20_586}, DateLevel.CLOSE, 0),
    "fifteen days late": ({"due_day": 20_585}, DateLevel.WITHIN, 0),
    "sixty days late": ({"due_day": 20_540}, DateLevel.WITHIN, 0),
    "sixty-one days late": ({"due_day": 20_539}, DateLevel.OUTSIDE, 1),
    "three days early": ({"due_day": 20_603}, DateLevel.NEAR, 0),
    "four days early": ({"due_day": 20_604}, DateLevel.CLOSE, 0),
    "seven days early": ({"due_day": 20_607}, DateLevel.CLOSE, 0),
    "eight days early": ({"due_day": 20_608}, DateLevel.WITHIN, 0),
    "thirty days early": ({"due_day": 20_630}, DateLevel.WITHIN, 0),
    "thirty-one days early": ({"due_day": 20_631}, DateLevel.OUTSIDE, -1),
    "within its span": ({"due_day": None, "from_day": 20_500, "to_day": 20_700}, DateLevel.NEAR, 0),
    "due within its span": ({"due_day": 20_600, "from_day": 20_500, "to_day": 20_700}, DateLevel.NEAR, 0),
    "due before its span": ({"due_day": 20_597, "from_day": 20_608, "to_day": 20_700}, DateLevel.NEAR, 0),
    "due behind its span": ({"due_day": 20_603, "from_day": 20_400, "to_day": 20_500}, DateLevel.NEAR, 0),
    "a first day alone": ({"due_day": None, "from_day": 20_400}, DateLevel.NEAR, 0),
    "four days before its only first day": ({"due_day": None, "from_day": 20_604}, DateLevel.CLOSE, 0),
    "four days behind its only last day": ({"due_day": None, "to_day": 20_596}, DateLevel.CLOSE, 0),
    "ten days behind its only last day": ({"due_day": None, "to_day": 20_590}, DateLevel.CLOSE, 0),
    "a last day alone": ({"due_day": None, "to_day": 20_900}, DateLevel.NEAR, 0),
    "no day": ({"due_day": None}, DateLevel.UNKNOWN, 0),
}


@pytest.mark.parametrize(("item", "level", "outside"), DAYS.values(), ids=DAYS)
def test_how_near_the_days_are(item: dict[str, int | None], level: DateLevel, outside: int) -> None:
    found = judged(of_item(**item), BASE_LINE, MatchingRules())
    assert (found.levels["date"], found.days_outside) == (level, outside)
    assert found.fault is (Reason.DATE_OUT_OF_WINDOW if outside else None)


def test_an_end_that_an_item_does_not_have_is_not_missed() -> None:
    rules = MatchingRules(date_window_days_before=0, date_window_days_after=0)
    for item, level in (
        ({"from_day": 20_600}, DateLevel.NEAR),
        ({"to_day": 20_600}, DateLevel.NEAR),
        ({"from_day": 20_601}, DateLevel.OUTSIDE),
        ({"to_day": 20_599}, DateLevel.OUTSIDE),
    ):
        assert judged(of_item(**item, due_day=None), BASE_LINE, rules).levels["date"] == level


def test_a_line_without_a_booking_day_is_of_its_value_day() -> None:
    for booked, valued, level in ((None, 20_604, DateLevel.CLOSE), (20_604, 20_600, DateLevel.CLOSE), (None, None, 0)):
        assert judge(booking_day=booked, value_day=valued).levels["date"] == level


REFERENCES = {
    "quoted": ({"reference_key": LONG}, {"reference_keys": (OTHER, LONG)}, ReferenceLevel.FULL),
    "quoted as the id": ({"reference_key": LONG}, {"end_to_end_key": LONG}, ReferenceLevel.FULL),
    "short": ({"reference_key": SHORT}, {"reference_keys": (SHORT,)}, ReferenceLevel.PARTIAL),
    "another": ({"reference_key": LONG}, {"reference_keys": (OTHER,)}, ReferenceLevel.ABSENT),
    "none is asked for": ({}, {"reference_keys": (OTHER,)}, ReferenceLevel.UNKNOWN),
    "none is quoted": ({"reference_key": LONG}, {"end_to_end_key": OTHER}, ReferenceLevel.UNKNOWN),
    "neither has any": ({}, {}, ReferenceLevel.UNKNOWN),
}


@pytest.mark.parametrize(("item", "line", "level"), REFERENCES.values(), ids=REFERENCES)
def test_what_is_quoted(item: dict[str, object], line: dict[str, object], level: ReferenceLevel) -> None:
    assert judged(of_item(**item), of_line(**line), MatchingRules()).levels["reference"] == level


def test_what_is_nearly_quoted_has_to_have_the_amount_and_the_currency() -> None:
    item = of_item(reference_key=LONG, reference_digits=1_20260141)
    line = of_line(reference_keys=(OTHER,), quoted_digits=(1_99, 1_20260142))
    assert judged(item, line, MatchingRules()).levels["reference"] == ReferenceLevel.NEAR
    for other in (
        replace(line, amount_minor=9_999),
        replace(line, currency="USD"),
        replace(line, quoted_digits=(1_20260253,)),
        replace(line, quoted_digits=()),
    ):
        assert judged(item, other, MatchingRules()).levels["reference"] == ReferenceLevel.ABSENT
    silent = replace(item, reference_digits=None)
    assert judged(silent, line, MatchingRules()).levels["reference"] == ReferenceLevel.ABSENT


IDS = {
    "the same": (LONG, {"end_to_end_key": LONG}, EndToEndLevel.EQUAL),
    "in the text": (LONG, {"reference_keys": (LONG,)}, EndToEndLevel.EQUAL),
    "short": (SHORT, {"end_to_end_key": SHORT}, EndToEndLevel.PARTIAL),
    "another": (LONG, {"end_to_end_key": OTHER}, EndToEndLevel.DIFFERENT),
    "the line has none": (LONG, {"reference_keys": (OTHER,)}, EndToEndLevel.UNKNOWN),
    "the item has none": (None, {"end_to_end_key": OTHER}, EndToEndLevel.UNKNOWN),
    "neither has any": (None, {}, EndToEndLevel.UNKNOWN),
}


@pytest.mark.parametrize(("asked", "line", "level"), IDS.values(), ids=IDS)
def test_which_id_it_has(asked: int | None, line: dict[str, object], level: EndToEndLevel) -> None:
    assert judged(of_item(end_to_end_key=asked), of_line(**line), MatchingRules()).levels["end_to_end"] == level


@pytest.mark.parametrize("what", ["account", "name", "own_account"])
def test_whose_they_are(what: str) -> None:
    for its, other, level in (
        (5, 5, PartyLevel.EQUAL),
        (5, 7, PartyLevel.DIFFERENT),
        (None, 7, PartyLevel.UNKNOWN),
        (5, None, PartyLevel.UNKNOWN),
        (None, None, PartyLevel.UNKNOWN),
    ):
        found = judged(of_item(**{f"{what}_key": its}), of_line(**{f"{what}_key": other}), MatchingRules())
        assert found.levels[what] == level


def test_what_a_line_is() -> None:
    for pending, duplicate, level in (
        (False, False, LineLevel.BOOKED),
        (True, False, LineLevel.PENDING),
        (False, True, LineLevel.DUPLICATE),
        (True, True, LineLevel.DUPLICATE),
    ):
        assert judge(pending=pending, duplicate=duplicate).levels["line"] == level
