"""Periods that texts and references name: which numbers they are, and that what is paid for one pays no other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from payrec.domain.matching.digits import is_alike, quoted_digits, reference_digits
from payrec.domain.matching.pair import Item as PairItem
from payrec.domain.matching.pair import Line as PairLine
from payrec.domain.matching.pair import judged
from payrec.domain.matching.periods import is_period, other_period, periods_of, same_period
from payrec.domain.matching.rules import Confidence, LineLevel, MatchingRules, Uniqueness
from support.matching_frames import Item, Line, run, sure

AUTO = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")


@pytest.mark.parametrize(
    ("text", "periods"),
    [
        ("Miete März 2026", [1_032026]),
        ("MIETE MAERZ", [1_030000]),
        ("Miete Feb. 26 danke", [1_022026]),
        ("Loyer février", [1_020000]),
        ("rent 3/2026", [1_032026]),
        ("office \uff13\uff0f2026", [1_032026]),
        ("Miete 02", [1_020000]),
        ("Miete 1/26 und 02/26, 03/26", [1_012026, 1_022026]),
        ("Miete 3 Zimmer", []),
        ("Miete 10,50", []),
        ("Rate 1/12", [1_98_010012]),
        ("RE 12/2026/0815", []),
        ("12.02.2026", []),
        ("Dec", []),
        ("Julia May-Augustin", [1_050000]),
        ("Rent Feb", [1_020000]),
        ("Rent Mar 2026", [1_032026]),
        ("Miete 02.26", [1_022026]),
        ("MAI2026", [1_052026]),
        ("MARS500", []),
        ("Abo 01.02.2026 - 28.02.2026", [1_022026]),
        ("Miete 1.2.-28.2.26", [1_022026]),
        ("2026-02-01/2026-02-28", [1_022026]),
        ("2026-02-01 to 2026-03-31", []),
        ("01.02.2026 - 14.02.2026", []),
        ("Nebenkosten Q2/26", [1_76_022026]),
        ("1. Quartal 2026", [1_76_012026]),
        ("Q1", [1_76_010000]),
        ("Q5 2026", []),
        ("KW 12/2026", [1_87_122026]),
        ("week 7", [1_87_070000]),
        ("KW 54", []),
        ("Rate 2 von 4", [1_98_020004]),
        ("Rate Nr. 2/4", [1_98_020004]),
        ("2nd instalment of 4", [1_98_020004]),
        ("2. Rate", [1_98_020000]),
        ("Rate 03/2026", [1_032026]),
        ("at a rate of 1.0850", []),
        ("Rate 2,50", []),
        ("Mitgliedsbeitrag 2025", [1_65_002025]),
        ("Beitrag 2026-0417", []),
        ("", []),
    ],
)
def test_periods_are_read_by_words_and_by_number(text: str, periods: list[int]) -> None:
    assert periods_of(text) == periods


@pytest.mark.parametrize(
    ("reference", "number"),
    [
        ("Miete März 2026", 1_00_032026),
        ("Miete 03", 1_00_030000),
        ("Whg 12 Miete Maerz 2026", 1_12032026),
        ("Miete Maerz 2026 Whg 12", 1_12032026),
        ("Miete Februar und Maerz", None),
        ("RE-20260141 Januar", 1_20260141),
        ("MIETE-2026-03", 1_00_202603),
        ("INV-2026-03", 1_202603),
        ("2026-03", 1_202603),
        ("202603", 1_202603),
        ("Anna Meier Maerz 2026", 1_032026),
        ("Rate 2 von 4", 1_00_98_020004),
        ("POL-556677 Rate 2/4", 1_556677_98_020004),
        ("KW 12/2026", 1_00_87_122026),
    ],
)
def test_the_period_of_a_reference_is_its_last_digits(reference: str, number: int | None) -> None:
    assert reference_digits(reference) == number


@pytest.mark.parametrize(
    ("asked", "quoted", "other", "same"),
    [
        (1_032026, 1_022026, True, False),
        (1_032026, 1_032025, True, False),
        (1_032026, 1_202602, True, False),
        (1_032026, 1_202603, False, True),
        (1_032026, 1_030000, False, True),
        (1_4711032026, 1_022026, True, False),
        (1_4711032026, 1_4711022026, True, False),
        (1_4711032026, 1_4712022026, False, False),
        (1_032026, 1_132026, False, False),
        (1_032026, 1_20260141, False, False),
        (1_20260141, 1_022026, False, False),
        (1_00_032026, 1_022026, True, False),
        (1_00_032026, 1_202603, False, True),
        (1_00_76_012026, 1_76_022026, True, False),
        (1_00_76_012026, 1_76_010000, False, True),
        (1_00_76_012026, 1_032026, False, False),
        (1_00_76_012026, 1_87_022026, False, False),
        (1_556677_98_020004, 1_98_010004, True, False),
        (1_556677_98_020004, 1_98_020000, False, True),
        (1_556677_98_020004, 1_556678_98_010004, False, False),
        (1_00_65_002026, 1_65_002025, True, False),
    ],
)
def test_a_period_is_the_same_or_another(asked: int, quoted: int, *, other: bool, same: bool) -> None:
    assert (bool(other_period(asked, quoted)), bool(same_period(asked, quoted))) == (other, same)
    columns = np.array([asked]), np.array([quoted])
    assert (other_period(*columns).tolist(), same_period(*columns).tolist()) == ([other], [same])
    assert is_period(np.array([asked])).tolist() == [bool(is_period(asked))]
    assert not (other and is_alike(asked, quoted))


@pytest.mark.parametrize(
    ("reference", "text", "accepted"),
    [
        ("Miete 03/2026", "Miete 02/2026", False),
        ("Miete März 2026", "Miete Februar 2026", False),
        ("Miete 03", "Miete 02", False),
        ("Miete 03/2026", "Miete Februar", False),
        ("MIETE-2026-03", "MIETE-2026-02", False),
        ("MIETE-4711-03/2026", "MIETE-4711-02/2026", False),
        ("Miete 03/2026", "Miete März", True),
        ("Miete März 2026", "Miete 2026-03", True),
        ("Miete März 2026", "Miete 02/2026 und 03/2026", True),
        ("Miete 03/2026", "Miete 03/2026, Februar ist schon da", True),
        ("Miete 03/2026", "Miete", True),
        ("RE-2026-0141", "Februar 2026", True),
        ("Nebenkosten Q1 2026", "Nebenkosten Q2 2026", False),
        ("Nebenkosten Q1 2026", "Nebenkosten 1. Quartal", True),
        ("KW 12/2026", "KW 13/2026", False),
        ("KW 12/2026", "Woche 12", True),
        ("Rate 2 von 4", "Rate 1 von 4", False),
        ("Rate 2 von 4", "2. Rate", True),
        ("POL-556677 Rate 2/4", "POL-556677 Rate 1/4", False),
        ("POL-556677 Rate 2/4", "POL-556677", True),
        ("Mitgliedsbeitrag 2026", "Mitgliedsbeitrag 2025", False),
        ("Miete 03/2026", "Miete 02.26", False),
        ("Miete 03/2026", "Miete 01.02.2026 - 28.02.2026", False),
        ("Miete 03/2026", "Miete 01.03.2026 - 31.03.2026", True),
    ],
)
def test_who_pays_for_another_period_waits_for_a_person(reference: str, text: str, *, accepted: bool) -> None:
    item = Item("march", 85_000, name="Anna Meier", reference=reference)
    [match] = run([item], [Line("x", 85_000, name="Anna Meier", text=text)], AUTO).matches
    line = LineLevel.BOOKED if accepted else LineLevel.OF_OTHER_PERIOD
    assert (match.auto, dict(match.levels)["line"]) == (accepted, line)
    assert accepted or sure(match) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    told = judged(
        PairItem(
            currency="EUR", direction=1, amount_minor=1, total_minor=1, reference_digits=reference_digits(reference)
        ),
        PairLine(
            currency="EUR",
            direction=1,
            amount_minor=1,
            total_minor=1,
            quoted_digits=tuple(quoted_digits(text) or ()),
        ),
        AUTO,
    )
    assert (told.levels["line"] == LineLevel.BOOKED) is accepted


def test_the_month_tells_rents_of_one_amount_apart() -> None:
    items = [
        Item(f"{number:02}", 85_000, name="Anna Meier", reference=f"Miete {name} 2026")
        for number, name in ((1, "Januar"), (2, "Februar"), (3, "März"))
    ]
    result = run(items, [Line("x", 85_000, name="Anna Meier", text="Wohnungsmiete 02/26")], AUTO)
    assert [(match.auto, match.ends) for match in result.matches] == [(True, (frozenset({"02"}), frozenset({"x"})))]


def test_the_instalment_tells_those_of_one_contract_apart() -> None:
    items = [Item(f"{at}", 30_000, name="Anna Meier", reference=f"POL-556677 Rate {at}/4") for at in range(1, 5)]
    result = run(items, [Line("x", 30_000, name="Anna Meier", text="Versicherung, Rate 3 von 4")], AUTO)
    assert [match.ends for match in result.matches] == [(frozenset({"3"}), frozenset({"x"}))]


RENT = Item("rent", 85_000, name="Hans Meier", reference="Miete Mai 2026")
HIS = Line("his", 85_000, name="Hans Meier", text="Miete Mai 2026")
ANOTHERS = Line("x", 85_000, name="Eva Schulz", text="Miete Mai 2026")


@pytest.mark.parametrize(
    ("items", "lines"),
    [
        pytest.param([RENT], [ANOTHERS], id="the month of a rent"),
        pytest.param(
            [replace(RENT, reference="Gehalt 05/2026", direction=-1)],
            [replace(ANOTHERS, text="Gehalt 05/2026", direction=-1)],
            id="the month of a salary",
        ),
        pytest.param(
            [replace(RENT, reference="Rate 2 von 4")], [replace(ANOTHERS, text="Rate 2 von 4")], id="an instalment"
        ),
        pytest.param([RENT, replace(RENT, id="more", amount=5_000)], [replace(ANOTHERS, amount=90_000)], id="a sum"),
        pytest.param([RENT], [replace(ANOTHERS, amount=40_000), replace(HIS, amount=45_000)], id="a part"),
    ],
)
def test_a_period_proves_nothing_of_who_pays(items: list[Item], lines: list[Line]) -> None:
    matches = run(items, lines, AUTO).matches
    assert matches
    assert [match for match in matches if match.auto] == []
    own = [replace(line, name="Hans Meier") for line in lines]
    assert [match.auto for match in run(items, own, AUTO).matches] == [True]


@pytest.mark.parametrize("line", [replace(HIS, name=None), replace(HIS, name=None, text="MIETE MAI 2026")])
def test_a_period_alone_proves_nothing_where_nobody_says_who_pays(line: Line) -> None:
    [match] = run([RENT], [line], AUTO).matches
    assert sure(match) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    assert dict(match.levels)["line"] == LineLevel.OF_ANYBODY
    # What says more names him, or something of him.
    for item, said in (
        (RENT, replace(line, text=f"{line.text} Hans Meier")),
        (replace(RENT, end_to_end_id="RENT-0815"), replace(line, end_to_end_id="RENT-0815")),
        (replace(RENT, reference="WE-0815"), replace(line, text="WE-0815 Mai 2026")),
    ):
        assert [match.auto for match in run([item], [said], AUTO).matches] == [True]


def test_who_pays_his_own_period_is_no_rival_of_another_one_who_does() -> None:
    assert [(match.line, match.auto) for match in run([RENT], [HIS, ANOTHERS], AUTO).matches] == [("his", True)]


@pytest.mark.parametrize("reference", ["INV-2026-05", "RE 05/2026", "2026-0517", "Whg 12 Mai 2026", "Meier Mai 2026"])
def test_a_number_that_says_more_than_a_period_is_paid_by_anybody(reference: str) -> None:
    [match] = run([replace(RENT, reference=reference)], [replace(ANOTHERS, text=reference)], AUTO).matches
    assert sure(match) == (Confidence.EXACT, Uniqueness.UNIQUE, True)


def test_a_reference_of_many_words_that_is_quoted_as_it_stands_proves_a_payment() -> None:
    item = Item("e", 30_000, name="Anna Meier", reference="Rate 1 von 4 Police 502751")
    [match] = run([item], [Line("x", 30_000, name="Mutter AG", text="RATE 1 VON 4 POLICE 502751")], AUTO).matches
    assert sure(match) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
