"""What says that there is no name or account: it names nobody, and everybody writes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from payrec.domain.matching.digits import reference_digits
from payrec.domain.matching.keys import account_key, name_key
from payrec.domain.matching.line_rules import Bounds, LineRule, Scope
from payrec.domain.matching.pair import judged
from payrec.domain.matching.rules import Confidence, LineLevel, MatchingRules, NameLevel, PartyLevel
from support.matching_frames import Item, Line, run
from support.single_pairs import BASE_ITEM, BASE_LINE, LONG, OTHER, of_item, of_line

AUTO = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
SAID = ["NOTPROVIDED", "not provided", "Unknown", "n/a"]


@pytest.mark.parametrize("said", SAID)
def test_it_does_not_make_two_transactions_of_one_counterparty(said: str) -> None:
    [pair] = run([Item("e", name=said)], [Line("i", name=said)], AUTO).pairs.values()
    assert (pair.confidence, pair.auto) == (Confidence.LOW, False)
    alone = judged(replace(BASE_ITEM, name_key=name_key(said)), replace(BASE_LINE, name_key=name_key(said)), AUTO)
    assert alone.levels["name"] == PartyLevel.UNKNOWN


def test_nor_does_an_account_that_is_none() -> None:
    [pair] = run([Item("e", iban="NOTPROVIDED")], [Line("i", iban="NOTPROVIDED")], AUTO).pairs.values()
    assert (pair.confidence, pair.auto) == (Confidence.LOW, False)
    none = account_key("NOTPROVIDED")
    alone = judged(replace(BASE_ITEM, account_key=none), replace(BASE_LINE, account_key=none), AUTO)
    assert alone.levels["account"] == PartyLevel.UNKNOWN


@pytest.mark.parametrize("said", SAID)
def test_it_is_no_other_counterparty_either(said: str) -> None:
    found = run([Item("e", name="Alpha")], [Line("i", name=said)], AUTO)
    assert found.levels("e", "i")["name"] == NameLevel.UNKNOWN
    means, whom = name_key(said), name_key("Alpha")
    assert means is not None
    assert whom is not None
    taught = replace(AUTO, aliases={means: whom})
    assert run([Item("e", name="Alpha")], [Line("i", name=said)], taught).levels("e", "i")["name"] == NameLevel.UNKNOWN


def test_a_payment_that_says_so_and_names_a_period_does_not_say_who_pays() -> None:
    reference = "Miete Mai 2026"
    [match] = run([Item("e", reference=reference)], [Line("i", text=reference, iban="NOTPROVIDED")], AUTO).matches
    assert (dict(match.levels)["line"], match.auto) == (LineLevel.OF_ANYBODY, False)
    item = of_item(reference_key=LONG, reference_digits=reference_digits(reference), account_key=OTHER)
    line = of_line(reference_keys=(LONG,), account_key=account_key("NOTPROVIDED"))
    assert judged(item, line, AUTO).levels["line"] == LineLevel.OF_ANYBODY


def test_on_whose_behalf_is_paid_is_told_beside_it() -> None:
    found = run([Item("e", name="Alpha")], [Line("i", name="NOTPROVIDED", ultimate="Alpha")], AUTO)
    assert found.levels("e", "i")["name"] == NameLevel.ULTIMATE


def test_a_rule_may_be_of_lines_that_say_so() -> None:
    items, lines = [Item("e", reference="INV-10001")], [Line("i", text="INV-10001", name="NOTPROVIDED")]
    rule = LineRule(name="r", scope=Scope(name_key=name_key("NOTPROVIDED")), bounds=Bounds(auto_accept=False))
    assert run(items, lines, AUTO).pairs["e", "i"].auto
    assert not run(items, lines, replace(AUTO, line_rules=(rule,))).pairs["e", "i"].auto


def test_an_account_that_several_have_names_none_of_them() -> None:
    items = [
        Item("e", name="Ada Lovelace", iban="DE1"),
        Item("more", 7_700, name="Charles Babbage", iban="DE1"),
        Item("alone", 8_800, name="Alpha", iban="DE2"),
    ]
    line = Line("i", name="Payments Europe", iban="DE1")
    pair = run(items, [line], AUTO).pairs["e", "i"]
    assert (dict(pair.levels)["line"], pair.confidence, pair.auto) == (LineLevel.OF_ANOTHER, Confidence.MEDIUM, False)
    # Who is named, or named by his invoice, is known all the same; and so is who has his account for himself.
    assert run(items, [replace(line, name="LOVELACE ADA")], AUTO).pairs["e", "i"].auto
    quoted = [replace(items[0], reference="INV-10001"), *items[1:]]
    assert run(quoted, [replace(line, text="INV-10001")], AUTO).pairs["e", "i"].auto
    assert run(items, [replace(line, amount=8_800, iban="DE2")], AUTO).pairs["alone", "i"].auto
    for other in ("Lovelace, Ada", "unknown"):
        same = [items[0], replace(items[1], name=other), items[2]]
        assert run(same, [line], AUTO).pairs["e", "i"].auto
