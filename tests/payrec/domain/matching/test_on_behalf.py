"""Payments on behalf of somebody: who pays is one, and whose items are paid the line says beside it."""

from __future__ import annotations

import polars as pl
import pytest

from payrec.domain.matching.columns import prepare
from payrec.domain.matching.names import RESOLVED_SCHEMA
from payrec.domain.matching.reach import reached
from payrec.domain.matching.rules import Confidence, MatchingRules, NameLevel, Reason, Uniqueness
from support.matching_frames import DAY, Item, Line, expected_frame, incoming_frame, names_frame, run

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
BOLT = Item("e", name="Bolt GmbH", iban="DE1")
PARENT = Line("i", name="Holding AG", iban="DE9", ultimate="BOLT")


def test_a_payment_is_of_whom_it_is_made_for_though_name_and_account_are_anothers() -> None:
    outcome = run([BOLT, Item("other", amount=20_000, name="Zangra")], [PARENT], RULES)
    [match] = outcome.matches
    assert match.legs == (("e", "i", 10_000),)
    assert outcome.levels("e", "i")["name"] == NameLevel.ULTIMATE
    assert (match.confidence, match.status) == (Confidence.HIGH, Uniqueness.UNIQUE)


def test_without_that_another_name_is_another_counterparty() -> None:
    outcome = run([BOLT], [Line("i", name="Holding AG", iban="DE9")], RULES)
    assert not outcome.matches
    assert outcome.lines["i"][0] == Reason.COUNTERPARTY_MISMATCH


def test_of_two_items_that_of_whom_it_is_made_for_is_meant_and_nobody_is_sure() -> None:
    items = [BOLT, Item("own", name="Holding AG", iban="DE8")]
    [match] = run(items, [PARENT], RULES).matches
    assert match.legs == (("e", "i", 10_000),)
    assert (match.confidence, match.auto, match.status) == (Confidence.MEDIUM, False, Uniqueness.CONTESTED)


@pytest.mark.parametrize(
    ("ultimate", "level"),
    [
        ("Nobody here", NameLevel.SIMILAR),
        ("HARTMAN MASCHINENBAU", NameLevel.SIMILAR),
        ("Hartmann Maschinenbau GmbH", NameLevel.ULTIMATE),
        (None, NameLevel.SIMILAR),
    ],
)
def test_one_whom_no_item_names_leaves_the_name_that_is_alike(ultimate: str | None, level: NameLevel) -> None:
    items = [Item("e", name="Hartmann Maschinenbau GmbH"), Item("o", amount=50_000, name="Zangra Handel")]
    line = Line("i", name="HARTMAN MASCHINENBAU", ultimate=ultimate)
    assert run(items, [line], RULES).levels("e", "i")["name"] == level


def test_who_pays_on_his_own_behalf_is_who_pays() -> None:
    outcome = run([BOLT], [Line("i", name="Bolt GmbH", ultimate="BOLT GMBH")], RULES)
    assert outcome.levels("e", "i")["name"] == NameLevel.EQUAL


@pytest.mark.parametrize(("other", "reason"), [("Zangra Handel", Reason.NO_CANDIDATE), ("Bolt", Reason.DUPLICATE)])
def test_who_pays_for_two_does_not_pay_for_one_twice(other: str, reason: Reason) -> None:
    later = Line("j", day=DAY + 1, name="Holding AG", iban="DE9", ultimate=other)
    assert run([BOLT], [PARENT, later], RULES).lines["j"][0] == reason


def test_sums_of_whom_it_is_made_for_are_found() -> None:
    items = [
        Item("a", amount=10_050, reference="RE-1001", name="Bolt GmbH"),
        Item("b", amount=20_177, reference="RE-1002", name="Bolt GmbH"),
    ]
    [match] = run(items, [Line("i", amount=30_227, name="Holding AG", ultimate="Bolt")], RULES).matches
    assert match.legs == (("a", "i", 10_050), ("b", "i", 20_177))


def test_a_fee_that_was_kept_on_the_way_is_seen_as_of_the_payer_himself() -> None:
    line = Line("i", amount=9_999, name="Holding AG", iban="DE9", ultimate="Bolt")
    [match] = run([BOLT], [line], RULES).matches
    assert match.legs == (("e", "i", 9_999),)


def test_items_of_whom_it_is_made_for_are_looked_up_and_never_left_out() -> None:
    lines = incoming_frame([Line("i", amount=7, name="Holding AG", ultimate="Bolt")])
    similar = pl.DataFrame(schema=RESOLVED_SCHEMA)
    asking = reached(lines, similar)
    assert next(asking).payers == {*lines["name_key"], *lines["ultimate_name_key"]}
    rows = [BOLT, *(Item(f"o{at}", amount=50_000 + at, name=f"Zangra {at}") for at in range(9))]
    sides = prepare(expected_frame(rows), lines, names_frame(rows))
    assert sides.expected["ordinal"].to_list() == [0]
