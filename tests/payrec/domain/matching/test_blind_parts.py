"""Equal lines that sum to one item: which lines are parts of it, which are too many, and what chance makes of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from payrec.domain.matching import blind_parts
from payrec.domain.matching.blind_parties import Parties
from payrec.domain.matching.blind_parts import parts
from payrec.domain.matching.rules import BLIND_CLAIMS_MAX, BLIND_PARTS_MAX, GroupLevel, MatchingRules

DAY = 20_600
RULES = MatchingRules()
NONE_REFUSED = pl.DataFrame(schema={"code": pl.Int64()})
EUR, USD = 1, 2

_TYPES = {"i": pl.UInt32(), "e": pl.UInt32(), "since": pl.Int64(), "until": pl.Int64(), "n": pl.Int64()}


def _frame(columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> pl.DataFrame:
    types = {name: _TYPES.get(name, pl.Int64()) for name in columns}
    return pl.DataFrame(rows, schema=types, orient="row")


def known(
    items: Sequence[int],
    lines: Sequence[int],
    silent: Sequence[int | tuple[int, int]] = (),
    *,
    party: int = 1,
    days: dict[int, int] | None = None,
    n: int = 3,
) -> Parties:
    """Make a party's items and lines by their amounts, and lines that do not say who pays, which are numbered last."""
    at = days or {}
    members = [(party, e, EUR, amount, DAY - 30, DAY + 30) for e, amount in enumerate(items)]
    asking = [(party, i, amount, at.get(i, DAY) - 60, at.get(i, DAY) + 60, n) for i, amount in enumerate(lines)]
    unnamed = [
        (i, *(amount[::-1] if isinstance(amount, tuple) else (EUR, amount)), at.get(i, DAY) - 60, at.get(i, DAY) + 60)
        for i, amount in enumerate(silent, len(lines))
    ]
    return Parties(
        members=_frame(["party", "e", "part", "amount", "opens", "closes"], members),
        lines=_frame(["party", "i", "target", "since", "until", "n"], asking),
        unnamed=_frame(["i", "part", "target", "since", "until"], unnamed),
        over=pl.DataFrame(),
    )


def told(
    found: Parties, rules: MatchingRules = RULES, refused: pl.DataFrame = NONE_REFUSED
) -> dict[int, tuple[list[int], GroupLevel]]:
    """Return which lines are the parts of each item, and how that is known."""
    legs, _ = parts(found, refused, rules)
    return {
        e: (sorted(legs.filter(e=e)["i"]), GroupLevel(legs.filter(e=e)["level"].unique().item()))
        for e in sorted(legs["e"].unique())
    }


def alike(size: int) -> dict[int, tuple[list[int], GroupLevel]]:
    return {0: (list(range(size)), GroupLevel.BY_EQUAL_PARTS)}


PARTS = {
    "two": (100_006, [50_003, 50_003], True),
    "two with one more in one of them": (100_007, [50_003, 50_004], True),
    "two that are two apart": (100_008, [50_003, 50_005], False),
    "one of two": (100_006, [50_003], False),
    "two of a minor unit less": (100_007, [50_003, 50_003], False),
    "two of a minor unit more": (100_006, [50_003, 50_004], False),
    "three that are two apart": (100_007, [33_335, 33_335, 33_337], True),
    "three that are three apart": (100_007, [33_334, 33_336, 33_337], False),
    "three with the rest in each of two": (100_007, [33_335, 33_336, 33_336], True),
    "twelve": (120_036, [10_003] * 12, True),
    "thirteen": (130_039, [10_003] * 13, False),
    "one": (100_006, [100_006], False),
    "as much twice": (50_003, [50_003, 50_003], False),
    "of a minor unit each": (3, [1, 1, 1], True),
}


@pytest.mark.parametrize(("item", "lines", "is_whole"), PARTS.values(), ids=PARTS)
def test_parts_are_as_many_as_are_equal_and_sum_up(item: int, lines: list[int], *, is_whole: bool) -> None:
    assert told(known([item], lines)) == (alike(len(lines)) if is_whole else {})
    legs, _ = parts(known([item], lines), NONE_REFUSED, RULES)
    assert [(row["leg_minor"], row["n"]) for row in legs.sort("i").iter_rows(named=True)] == [
        (minor, len(lines)) for minor in lines if is_whole
    ]


def test_no_more_than_a_group_may_have() -> None:
    for most, is_whole in ((3, True), (2, False)):
        found = told(known([100_008], [33_336] * 3), MatchingRules(group_size_max=most))
        assert found == (alike(3) if is_whole else {})


DAYS = [(DAY - 90, True), (DAY - 91, False), (DAY + 90, True), (DAY + 91, False)]


@pytest.mark.parametrize(("day", "in_time"), DAYS)
def test_each_part_has_to_be_in_time(day: int, *, in_time: bool) -> None:
    assert told(known([100_006], [50_003, 50_003], days={1: day})) == (alike(2) if in_time else {})
    silent = told(known([100_006], [50_003], [50_003], days={1: day}))
    assert silent == ({0: ([0, 1], GroupLevel.BY_UNNAMED_PARTS)} if in_time else {})


def refused(e: int, i: int) -> pl.DataFrame:
    return pl.DataFrame({"code": [e * 2**32 + i]}, schema={"code": pl.Int64()})


def test_what_was_refused_is_no_part() -> None:
    for found in (known([100_006], [50_003, 50_003]), known([100_006], [50_003], [50_003])):
        assert told(found)
        for line in (0, 1):
            assert not told(found, refused=refused(0, line))
        assert told(found, refused=refused(1, 1))
    # Without the refused one, there are as many as there have to be.
    assert told(known([100_006], [50_003] * 3), refused=refused(0, 2)) == alike(2)


def pairs(frame: pl.DataFrame) -> set[tuple[int, int]]:
    return set(frame.select("e", "i").iter_rows())


def test_of_too_many_each_is_said_to_be_one() -> None:
    legs, beyond = parts(known([100_006, 80_000], [50_003] * 3), NONE_REFUSED, RULES)
    assert legs.is_empty()
    assert pairs(beyond) == {(0, 0), (0, 1), (0, 2)}
    # Two items with too many each: of each item one line is enough, and of each line one item.
    _, beyond = parts(known([100_006, 100_006], [50_003] * 3), NONE_REFUSED, RULES)
    assert pairs(beyond) == {(0, 0), (1, 0), (0, 1), (0, 2)}
    # Of too few nothing is said.
    assert not pairs(parts(known([150_009], [50_003] * 2), NONE_REFUSED, RULES)[1])


@pytest.mark.parametrize(("beside", "is_apart"), [(50_003, False), (50_002, True), (50_005, False), (50_006, True)])
def test_what_is_too_far_from_a_part_to_be_one_is_not_one_too_many(beside: int, *, is_apart: bool) -> None:
    assert told(known([100_008], [50_004, 50_004, beside])) == (alike(2) if is_apart else {})
    silent = told(known([100_008], [50_004], [50_004, beside]))
    assert silent == ({0: ([0, 1], GroupLevel.BY_UNNAMED_PARTS)} if is_apart else {})


def test_parts_of_two_sizes_are_neither() -> None:
    legs, beyond = parts(known([120_006], [60_003, 60_003, 40_002, 40_002, 40_002]), NONE_REFUSED, RULES)
    assert legs.is_empty()
    assert pairs(beyond) == {(0, at) for at in range(5)}


def joined(one: Parties, other: Parties) -> Parties:
    return replace(
        one, members=pl.concat([one.members, other.members]), lines=pl.concat([one.lines, other.lines]).sort("i")
    )


def test_an_item_of_two_parties_has_the_same_parts_in_both_or_none() -> None:
    one = known([100_006], [50_003, 50_003])
    assert told(joined(one, known([100_006], [50_003, 50_003], party=2))) == alike(2)
    others = known([100_006], [0, 0, 50_003, 50_003], party=2)
    other = replace(others, lines=others.lines.filter(pl.col("i") >= 2))
    legs, beyond = parts(joined(one, other), NONE_REFUSED, RULES)
    assert legs.is_empty()
    assert pairs(beyond) == {(0, 0), (0, 1), (0, 2), (0, 3)}


def test_how_many_of_its_items_have_enough_parts_is_told() -> None:
    items, lines = [100_006, 100_007, 100_005, 240_000, 60_000], [50_003, 50_003]
    legs, _ = parts(known(items, lines), NONE_REFUSED, RULES)
    assert set(legs.select("e", "tried").iter_rows()) == {(0, 3)}, "two more are not that sum"
    both = joined(known(items, lines), known([100_006], lines, party=2))
    assert set(parts(both, NONE_REFUSED, RULES)[0].select("e", "tried").iter_rows()) == {(0, 3)}


@pytest.mark.parametrize(
    ("item", "lines", "expected"),
    [
        pytest.param(100_006, [50_003] * 2, 3 * 1_000_000 // 100_006, id="not round"),
        pytest.param(100_050, [50_025] * 2, 3 * 1_000_000 // (100_050 // 50), id="round to fifty"),
        pytest.param(120_000, [60_000] * 2, 3 * 1_000_000 // (120_000 // 10_000), id="round to ten thousand"),
        pytest.param(100_000, [50_000] * 2, 3 * 1_000_000, id="as round as can be"),
    ],
)
def test_chance_is_that_one_of_its_items_is_as_much_and_as_round(item: int, lines: list[int], expected: int) -> None:
    legs, _ = parts(known([item, 7], lines), NONE_REFUSED, RULES)
    assert legs["coincidences_ppm"].to_list() == [expected] * 2


UNNAMED = {
    "one of two": (100_006, [50_003], [50_003], True),
    "two of four": (200_012, [50_003] * 2, [50_003] * 2, True),
    "three of five": (250_015, [50_003] * 3, [50_003] * 2, True),
    "two of five": (250_015, [50_003] * 2, [50_003] * 3, False),
    "two of three": (150_009, [50_003], [50_003] * 2, False),
    "more apart than equal ones are": (100_008, [50_003], [50_005], False),
    "a minor unit apart": (100_007, [50_003], [50_004], True),
    "as far apart as equal ones may be": (100_007, [33_335, 33_335], [33_337], True),
    "one too many": (100_006, [50_003], [50_003] * 2, False),
    "one more than is missing": (150_009, [50_003] * 2, [50_003] * 2, False),
    "in another currency": (100_006, [50_003], [(50_003, USD)], False),
}


@pytest.mark.parametrize(("item", "lines", "silent", "is_whole"), UNNAMED.values(), ids=UNNAMED)
def test_half_of_the_parts_say_who_pays(
    item: int, lines: list[int], silent: list[int | tuple[int, int]], *, is_whole: bool
) -> None:
    found = told(known([item], lines, silent))
    assert found == ({0: (list(range(len(lines) + len(silent))), GroupLevel.BY_UNNAMED_PARTS)} if is_whole else {})


def test_where_all_parts_say_who_pays_none_is_missing() -> None:
    assert told(known([100_006], [50_003] * 2, [50_003])) == alike(2)


def test_an_amount_that_too_many_have_who_do_not_say_who_pays_is_none_of_theirs() -> None:
    most = BLIND_PARTS_MAX // 2
    for size, is_whole in ((most, True), (most + 1, False)):
        found = told(known([2 * size * 50_003], [50_003] * size, [50_003] * size))
        assert bool(found) == is_whole
    # Those of another amount or currency do not count.
    assert told(known([100_006], [50_003], [50_003, *range(60_001, 60_001 + most)]))
    assert told(known([12 * 50_003], [50_003] * 6, [*[50_003] * 6, (50_003, USD)]))


def test_a_line_that_may_be_a_part_of_too_many_is_a_part_of_none() -> None:
    others = [100_005, 100_007, *(at * 50_003 for at in range(3, 13))]
    assert len(others) == BLIND_CLAIMS_MAX
    assert told(known([100_006, *others[:-1]], [50_003], [50_003])) != {}
    assert told(known([100_006, *others], [50_003], [50_003])) == {}
    # Who says who pays is looked at all the same.
    assert told(known([100_006, *others], [50_003] * 2)) == alike(2)


CHANCE = {
    "not round": (100_008, [50_004], [50_004], 1_000_000 // (90_000 - 18_000)),
    "two of as many digits": (100_008, [50_004], [50_004, 77_777], 2_000_000 // (90_000 - 18_000)),
    "one of more digits, one rounder, one in dollars": (
        100_008,
        [50_004],
        [50_004, 777_777, 77_775, (77_777, USD)],
        1_000_000 // (90_000 - 18_000),
    ),
    "round to five": (100_010, [50_005], [50_005], 1_000_000 // (18_000 - 9_000)),
    "round to ten": (100_020, [50_010], [50_010], 1_000_000 // (9_000 - 1_800)),
    "round to a hundred": (100_400, [50_200], [50_200], 1_000_000 // (900 - 180)),
    "the likelier one of two": (
        200_018,
        [50_004, 50_004],
        [50_005, 50_005],
        2_000_000 // (18_000 - 9_000),
    ),
    "the likelier one of two that differ": (
        200_017,
        [50_004, 50_004],
        [50_004, 50_005],
        1_000_000 // (18_000 - 9_000),
    ),
}


@pytest.mark.parametrize(("item", "lines", "silent", "expected"), CHANCE.values(), ids=CHANCE)
def test_chance_is_how_many_who_do_not_say_who_pays_have_so_round_an_amount(
    item: int, lines: list[int], silent: list[int | tuple[int, int]], expected: int
) -> None:
    legs, _ = parts(known([item], lines, silent), NONE_REFUSED, RULES)
    assert legs["coincidences_ppm"].unique().to_list() == [expected]


@pytest.mark.parametrize(("beyond", "is_meant"), [(0, True), (-1, False)])
def test_as_much_as_chance_may_make_is_not_beyond_it(
    monkeypatch: pytest.MonkeyPatch, beyond: int, *, is_meant: bool
) -> None:
    monkeypatch.setattr(blind_parts, "BLIND_COINCIDENCES_PPM_MAX", 1_000_000 // 72_000 + beyond)
    legs, many = parts(known([100_008], [50_004], [50_004]), NONE_REFUSED, RULES)
    assert (legs.is_empty(), pairs(many)) == (not is_meant, set() if is_meant else {(0, 0), (0, 1)})
    # What chance makes of lines that all say who pays is told, and a person decides.
    assert told(known([100_000], [50_000] * 2)) == alike(2)


def test_both_kinds_of_parts_are_told_by_what_they_are() -> None:
    one, other = known([100_008], [50_004], [50_004]), known([900_000, 640_006], [320_003] * 2, party=2)
    shifted = replace(
        other,
        members=other.members.with_columns(e=pl.col("e") + 5),
        lines=other.lines.with_columns(i=pl.col("i") + 5),
    )
    both = joined(one, shifted)
    assert told(both) == {0: ([0, 1], GroupLevel.BY_UNNAMED_PARTS), 6: ([5, 6], GroupLevel.BY_EQUAL_PARTS)}
    chance = parts(both, NONE_REFUSED, RULES)[0].select("e", "coincidences_ppm").unique().sort("e")["coincidences_ppm"]
    assert chance.to_list() == [1_000_000 // 72_000, 3_000_000 // 640_006]


def test_as_much_is_found_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    found = known([100_006, 120_009, 90_000], [50_003, 40_003, 50_003, 40_003, 40_003])
    monkeypatch.setattr(blind_parts, "CHUNK_ROWS", 3)
    assert told(found) == {0: ([0, 2], GroupLevel.BY_EQUAL_PARTS), 1: ([1, 3, 4], GroupLevel.BY_EQUAL_PARTS)}
