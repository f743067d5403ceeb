"""The levels of a pair by themselves: amounts, days, parties, references and ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from payrec.domain.matching.rules import (
    CLOSE_DAYS,
    CLOSE_EARLY_DAYS,
    FEE_SHARE_MAX,
    NEAR_DAYS,
    AmountLevel,
    DateLevel,
    EndToEndLevel,
    NameLevel,
    PartyLevel,
    Reason,
    ReferenceLevel,
)
from payrec.domain.matching.score import contradicted, scored
from support.matching_frames import DAY, Item, Line
from support.scored_pairs import ITEM, LINE, RULES, pairs_of, score, sides_of

FULL = {"reference": ReferenceLevel.FULL.value}
SAME_ID = {"end_to_end": EndToEndLevel.EQUAL.value}

Rules = dict[str, Any]


def amount_level(item: Item, line: Line, rules: Rules | None = None, **quoted: int) -> AmountLevel:
    row = score(item, line, replace(RULES, **(rules or {})), **quoted)
    level = AmountLevel(row["amount_level"])
    whole = {AmountLevel.EQUAL, AmountLevel.TOLERANCE, AmountLevel.BAND, AmountLevel.TERM}
    assert row["equal"] == (level in whole)
    assert row["difference_minor"] == line.amount - item.amount
    return level


MINOR, SHARE = "amount_tolerance_minor", "amount_tolerance_basis_points"


@pytest.mark.parametrize(
    ("asked", "paid", "rules", "level"),
    [
        (10_000, 10_000, {}, AmountLevel.EQUAL),
        (10_000, 9_999, {}, AmountLevel.SMALLER),
        (10_000, 10_001, {}, AmountLevel.LARGER),
        (10_000, 10_000, {MINOR: 5}, AmountLevel.EQUAL),
        (10_000, 9_950, {MINOR: 50}, AmountLevel.TOLERANCE),
        (10_000, 10_050, {MINOR: 50}, AmountLevel.TOLERANCE),
        (10_000, 9_949, {MINOR: 50}, AmountLevel.SMALLER),
        (10_000, 10_051, {MINOR: 50}, AmountLevel.LARGER),
        # What is little beside most items is much of a small one, unless it may be rounded.
        (900, 600, {MINOR: 500}, AmountLevel.TOLERANCE),
        (900, 599, {MINOR: 500}, AmountLevel.SMALLER),
        (900, 1_200, {MINOR: 500}, AmountLevel.TOLERANCE),
        (900, 1_201, {MINOR: 500}, AmountLevel.LARGER),
        (900, 599, {MINOR: 500, SHARE: 5_000}, AmountLevel.TOLERANCE),
        (10, 5, {MINOR: 500}, AmountLevel.TOLERANCE),
        (10, 4, {MINOR: 500}, AmountLevel.SMALLER),
        # Of a share what is less than a minor unit is dropped: of 30,099 one percent is 300.
        (30_099, 30_399, {SHARE: 100}, AmountLevel.TOLERANCE),
        (30_099, 30_400, {SHARE: 100}, AmountLevel.LARGER),
        (30_100, 30_401, {SHARE: 100}, AmountLevel.TOLERANCE),
        (30_099, 29_799, {SHARE: 100}, AmountLevel.TOLERANCE),
        (30_099, 29_798, {SHARE: 100}, AmountLevel.SMALLER),
        (9_999, 9_901, {SHARE: 99}, AmountLevel.TOLERANCE),
        (9_999, 9_900, {SHARE: 99}, AmountLevel.SMALLER),
        # The larger of both holds.
        (10_000, 9_900, {MINOR: 50, SHARE: 100}, AmountLevel.TOLERANCE),
        (10_000, 9_850, {MINOR: 150, SHARE: 100}, AmountLevel.TOLERANCE),
        (10_000, 9_849, {MINOR: 150, SHARE: 100}, AmountLevel.SMALLER),
        # And nothing wraps, or is rounded where it is great.
        (10**18 + 30_000, 10**18 + 30_000 + 10_100_000_000_000_303, {SHARE: 101}, AmountLevel.TOLERANCE),
        (10**18 + 30_000, 10**18 + 30_000 + 10_100_000_000_000_304, {SHARE: 101}, AmountLevel.LARGER),
        (2**63 - 1, 2**62, {SHARE: 5_000}, AmountLevel.TOLERANCE),
        (2**63 - 1, 1, {SHARE: 5_000}, AmountLevel.SMALLER),
    ],
)
def test_how_near_the_amounts_are(asked: int, paid: int, rules: Rules, level: AmountLevel) -> None:
    assert amount_level(replace(ITEM, amount=asked), replace(LINE, amount=paid), rules) is level


def test_the_tolerance_is_that_of_what_is_open() -> None:
    part = replace(ITEM, amount=1_000, total=10_000)
    assert amount_level(part, replace(LINE, amount=1_010), {SHARE: 100}) is AmountLevel.TOLERANCE
    assert amount_level(part, replace(LINE, amount=1_011), {SHARE: 100}) is AmountLevel.LARGER


@pytest.mark.parametrize(
    ("band", "paid", "level"),
    [
        ((9_000, 12_000), 9_000, AmountLevel.BAND),
        ((9_000, 12_000), 12_000, AmountLevel.BAND),
        ((9_000, 12_000), 8_999, AmountLevel.SMALLER),
        ((9_000, 12_000), 12_001, AmountLevel.LARGER),
        ((9_000, 12_000), 10_000, AmountLevel.EQUAL),
        ((9_000, None), 9_000, AmountLevel.BAND),
        ((9_000, None), 10_051, AmountLevel.LARGER),  # without its other end it ends at the amount
        ((None, 12_000), 12_000, AmountLevel.BAND),
        ((None, 12_000), 9_949, AmountLevel.SMALLER),
        ((9_000, 12_000), 10_050, AmountLevel.TOLERANCE),  # which needs no band
    ],
)
def test_what_an_item_allows_of_its_amount(band: tuple[int | None, int | None], paid: int, level: AmountLevel) -> None:
    assert amount_level(replace(ITEM, band=band), replace(LINE, amount=paid), {MINOR: 50}) is level


@pytest.mark.parametrize("changes", [{"band": (9_000, 12_000)}, {"terms": ((9_500, DAY),)}])
def test_a_band_and_a_term_are_of_the_whole_item_and_of_the_whole_line(changes: dict[str, Any]) -> None:
    item, line = replace(ITEM, **changes), replace(LINE, amount=9_500)
    whole = {AmountLevel.BAND, AmountLevel.TERM}
    assert amount_level(item, line) in whole
    assert amount_level(replace(item, total=10_001), line) is AmountLevel.SMALLER
    assert amount_level(item, replace(line, total=9_501)) is AmountLevel.SMALLER


@pytest.mark.parametrize(
    ("paid", "day", "level"),
    [
        (9_800, DAY + 10, AmountLevel.TERM),
        (9_800, DAY + 11, AmountLevel.SMALLER),
        (9_800, None, AmountLevel.SMALLER),
        (9_700, DAY - 5, AmountLevel.TERM),
        (9_700, DAY + 1, AmountLevel.SMALLER),
        (9_799, DAY, AmountLevel.SMALLER),
        (9_801, DAY, AmountLevel.SMALLER),
        (10_000, DAY, AmountLevel.EQUAL),
    ],
)
def test_a_term_is_paid_to_the_minor_unit_and_in_time(paid: int, day: int | None, level: AmountLevel) -> None:
    item = replace(ITEM, terms=((9_800, DAY + 10), (9_700, DAY)))
    assert amount_level(item, replace(LINE, amount=paid, day=day)) is level
    if level is AmountLevel.TERM:
        assert amount_level(item, replace(LINE, amount=paid, day=day), {MINOR: 5_000}) is level


def test_a_term_is_of_its_own_item_and_its_own_line() -> None:
    items = [replace(ITEM, id=f"e{at}", due=DAY + at, terms=terms) for at, terms in enumerate(((), ((9_800, DAY),)))]
    lines = [replace(LINE, id=f"i{at}", amount=amount) for at, amount in enumerate((9_800, 9_900))]
    sides = sides_of(items, lines)
    its, theirs = sides.expected["ordinal"].to_list(), sides.incoming["ordinal"].to_list()
    every = [(e, i) for e in range(2) for i in range(2)]
    found = scored(pairs_of(*every), sides, RULES)
    of_term = found.filter(pl.col("amount_level") == AmountLevel.TERM.value).select("e", "i").rows()
    assert [(its[e], theirs[i]) for e, i in of_term] == [(1, 0)]
    assert found.select("e", "i").rows() == every, "in the order given"
    assert scored(pairs_of(), sides, RULES).schema == found.schema


@pytest.mark.parametrize(
    ("quoted", "of_payer"),
    [
        (FULL, True),
        (SAME_ID, True),
        ({}, False),
        ({"reference": ReferenceLevel.PARTIAL.value, "end_to_end": EndToEndLevel.PARTIAL.value}, False),
    ],
)
def test_a_fee_is_of_what_is_quoted_in_full(quoted: dict[str, int], *, of_payer: bool) -> None:
    rules = {"fee_tolerance_minor": 100}

    def level(paid: int, asked: int = 100_000) -> AmountLevel:
        return amount_level(replace(ITEM, amount=asked), replace(LINE, amount=paid), rules, **quoted)

    fee = AmountLevel.TOLERANCE if of_payer else AmountLevel.SMALLER
    assert [level(99_999), level(99_900), level(99_899)] == [fee, fee, AmountLevel.SMALLER]
    assert level(100_001) is AmountLevel.LARGER
    # Of a small item it is no more than a share.
    most = 300 // FEE_SHARE_MAX
    assert [level(300 - most, 300), level(299 - most, 300)] == [fee, AmountLevel.SMALLER]


BESIDE = [
    (DAY, DateLevel.NEAR),
    (DAY - NEAR_DAYS, DateLevel.NEAR),
    (DAY - NEAR_DAYS - 1, DateLevel.CLOSE),
    (DAY - CLOSE_EARLY_DAYS, DateLevel.CLOSE),
    (DAY - CLOSE_EARLY_DAYS - 1, DateLevel.WITHIN),
    (DAY - 30, DateLevel.WITHIN),
    (DAY - 31, DateLevel.OUTSIDE),
    (DAY + NEAR_DAYS, DateLevel.NEAR),
    (DAY + NEAR_DAYS + 1, DateLevel.CLOSE),
    (DAY + CLOSE_DAYS, DateLevel.CLOSE),
    (DAY + CLOSE_DAYS + 1, DateLevel.WITHIN),
    (DAY + 60, DateLevel.WITHIN),
    (DAY + 61, DateLevel.OUTSIDE),
    (None, DateLevel.UNKNOWN),
]


@pytest.mark.parametrize(("day", "level"), BESIDE)
def test_how_near_the_days_are(day: int | None, level: DateLevel) -> None:
    row = score(line=replace(LINE, day=day))
    assert row["date_level"] == level
    outside = None if day is None else int(level is DateLevel.OUTSIDE)
    assert row["days_outside"] == outside
    assert row["fault"] == (Reason.DATE_OUT_OF_WINDOW if outside else 0)


@pytest.mark.parametrize(
    ("due", "begin", "end", "day", "outside"),
    [
        (DAY, DAY - 10, DAY + 10, DAY - 40, 0),
        (DAY, DAY - 10, DAY + 10, DAY - 42, 2),
        (DAY, DAY - 10, DAY + 10, DAY + 70, 0),
        (DAY, DAY - 10, DAY + 10, DAY + 73, 3),
        (DAY, DAY + 5, None, DAY - 31, 1),  # the due day is in the span as well
        (DAY, None, DAY - 5, DAY + 61, 1),
        (None, DAY, None, DAY - 31, 1),
        (None, DAY, None, DAY + 900, 0),  # without an end
        (None, None, DAY, DAY + 61, 1),
        (None, None, DAY, DAY - 900, 0),
        (None, None, None, DAY, None),
    ],
)
def test_the_days_beyond_what_an_item_spans(
    due: int | None, begin: int | None, end: int | None, day: int, outside: int | None
) -> None:
    row = score(replace(ITEM, due=due, span=(begin, end)), replace(LINE, day=day))
    assert row["days_outside"] == outside
    assert (row["date_level"] == DateLevel.UNKNOWN) == (outside is None)


def test_within_its_span_a_line_is_near_and_beside_it_counts_from_the_nearer_end() -> None:
    item = replace(ITEM, due=None, span=(DAY - 20, DAY + 20))
    days = (DAY - 20 - CLOSE_DAYS, DAY - 20 - CLOSE_EARLY_DAYS, DAY - 23, DAY, DAY + 23, DAY + 20 + CLOSE_DAYS)
    levels = [DateLevel(score(item, replace(LINE, day=day))["date_level"]) for day in days]
    near, close = DateLevel.NEAR, DateLevel.CLOSE
    assert levels == [DateLevel.WITHIN, close, near, near, near, close]


def test_an_end_that_an_item_does_not_say_is_no_bound() -> None:
    rules = replace(RULES, date_window_days_before=0, date_window_days_after=0)
    since, until = replace(ITEM, due=None, span=(DAY, None)), replace(ITEM, due=None, span=(None, DAY))
    for item, day, outside in ((since, DAY + 9, 0), (since, DAY - 1, 1), (until, DAY - 9, 0), (until, DAY + 1, 1)):
        assert score(item, replace(LINE, day=day), rules)["days_outside"] == outside
    assert score(until, replace(LINE, day=DAY + CLOSE_DAYS))["date_level"] == DateLevel.CLOSE


PARTIES = [
    ({"iban": "DE1"}, {"iban": "DE1"}, {"account": PartyLevel.EQUAL}),
    ({"iban": "DE1"}, {"iban": "DE2"}, {"account": PartyLevel.DIFFERENT}),
    ({"iban": "DE1"}, {}, {"account": PartyLevel.UNKNOWN}),
    ({}, {"iban": "DE1"}, {"account": PartyLevel.UNKNOWN}),
    ({"account": "A"}, {"account": "A"}, {"own_account": PartyLevel.EQUAL}),
    ({"account": "A"}, {"account": "B"}, {"own_account": PartyLevel.DIFFERENT}),
    ({"account": "A"}, {}, {"own_account": PartyLevel.UNKNOWN}),
    ({"name": "Alpha"}, {"name": "Alpha"}, {"name": NameLevel.EQUAL}),
    ({"name": "Alpha"}, {"name": "Omega"}, {"name": NameLevel.DIFFERENT}),
    ({"name": "Alpha"}, {}, {"name": NameLevel.UNKNOWN}),
    ({"name": "Hartmann Maschinenbau"}, {"name": "HARTMAN MASCHINENBAU"}, {"name": NameLevel.SIMILAR}),
    ({"name": "Alpha"}, {"name": "Omega", "ultimate": "Alpha"}, {"name": NameLevel.ULTIMATE}),
]


@pytest.mark.parametrize(("item", "line", "levels"), PARTIES)
def test_who_is_named_on_both_sides(item: dict[str, Any], line: dict[str, Any], levels: dict[str, int]) -> None:
    row = score(replace(ITEM, **item), replace(LINE, **line))
    silent = {"account": PartyLevel.UNKNOWN, "name": NameLevel.UNKNOWN, "own_account": PartyLevel.UNKNOWN}
    assert {name: row[f"{name}_level"] for name in silent} == silent | levels
    pays = levels.get("account") == PartyLevel.EQUAL or levels.get("name") in {NameLevel.EQUAL, NameLevel.ULTIMATE}
    assert row["payer"] == pays
    others = levels.get("account") == PartyLevel.DIFFERENT or levels.get("name") == NameLevel.DIFFERENT
    assert row["fault"] == (Reason.COUNTERPARTY_MISMATCH if others else 0)


@pytest.mark.parametrize(
    ("name", "account", "others"),
    [
        (NameLevel.UNKNOWN, PartyLevel.DIFFERENT, True),
        (NameLevel.SIMILAR, PartyLevel.DIFFERENT, True),
        (NameLevel.ULTIMATE, PartyLevel.DIFFERENT, False),
        (NameLevel.DIFFERENT, PartyLevel.UNKNOWN, True),
        (NameLevel.DIFFERENT, PartyLevel.EQUAL, True),
        (NameLevel.EQUAL, PartyLevel.EQUAL, False),
        (NameLevel.UNKNOWN, PartyLevel.UNKNOWN, False),
    ],
)
def test_whose_the_line_is_not(name: NameLevel, account: PartyLevel, *, others: bool) -> None:
    frame = pl.DataFrame({"name_level": [name.value], "account_level": [account.value]})
    assert frame.select(found=contradicted())["found"].to_list() == [others]


@pytest.mark.parametrize(
    ("item", "line", "quoted", "reference", "rank"),
    [
        ({}, {}, 0, ReferenceLevel.UNKNOWN, 0),
        ({"reference": "INV-10001"}, {}, 0, ReferenceLevel.UNKNOWN, 0),
        ({}, {"text": "INV-10002"}, 0, ReferenceLevel.UNKNOWN, 0),
        ({"reference": "INV-10001"}, {"text": "INV-10002"}, 0, ReferenceLevel.ABSENT, 0),
        ({"reference": "INV-10001"}, {"text": "INV-10002"}, 2, ReferenceLevel.COMMON, 1),
        ({"reference": "INV-10001"}, {"text": "INV-10002"}, 3, ReferenceLevel.PARTIAL, 1),
        ({"reference": "INV-10001"}, {"text": "INV-10002"}, 4, ReferenceLevel.FULL, 2),
        ({}, {}, 5, ReferenceLevel.NEAR, 1),
    ],
)
def test_how_far_the_reference_is_quoted(
    item: dict[str, Any], line: dict[str, Any], quoted: int, reference: ReferenceLevel, rank: int
) -> None:
    row = score(replace(ITEM, **item), replace(LINE, **line), reference=quoted)
    assert (row["reference_level"], row["rank"]) == (reference, rank)


@pytest.mark.parametrize(
    ("said", "level"),
    [(None, ReferenceLevel.UNKNOWN), ([], ReferenceLevel.UNKNOWN), ([7], ReferenceLevel.ABSENT)],
)
def test_a_reference_is_absent_where_the_line_quotes_another_one(said: list[int] | None, level: ReferenceLevel) -> None:
    sides = sides_of([replace(ITEM, reference="INV-10001")], [LINE])
    quoting = sides.incoming.with_columns(reference_keys=pl.Series([said], dtype=pl.List(pl.Int64)))
    found = scored(pairs_of((0, 0)), replace(sides, incoming=quoting), RULES)
    assert found["reference_level"].to_list() == [level.value]


@pytest.mark.parametrize(
    ("item", "line", "quoted", "level", "rank"),
    [
        (None, None, 0, EndToEndLevel.UNKNOWN, 0),
        ("E2E-70001", None, 0, EndToEndLevel.UNKNOWN, 0),
        (None, "E2E-70001", 0, EndToEndLevel.UNKNOWN, 0),
        ("E2E-70001", "E2E-70002", 0, EndToEndLevel.DIFFERENT, 0),
        ("E2E-70001", "E2E-70001", 2, EndToEndLevel.EQUAL, 2),
        ("E2E-70001", "E2E-70002", 2, EndToEndLevel.EQUAL, 2),
        ("E2E-70001", "E2E-70002", 3, EndToEndLevel.PARTIAL, 1),
    ],
)
def test_how_far_the_end_to_end_id_is_the_same(
    item: str | None, line: str | None, quoted: int, level: EndToEndLevel, rank: int
) -> None:
    row = score(replace(ITEM, end_to_end_id=item), replace(LINE, end_to_end_id=line), end_to_end=quoted)
    assert (row["end_to_end_level"], row["rank"]) == (level, rank)
