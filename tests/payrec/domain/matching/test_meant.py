"""Whom a line means that has no name: its text may name the counterparty."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from payrec.domain.matching.columns import prepare
from payrec.domain.matching.keys import NAME_WORDS_MAX, TEXT_WORDS_MAX, name_key, text_name_keys
from payrec.domain.matching.names import RESOLVED_SCHEMA
from payrec.domain.matching.reach import reached
from payrec.domain.matching.rules import Confidence, MatchingRules, NameLevel, Reason, Uniqueness
from support.matching_frames import DAY, Item, Line, expected_frame, incoming_frame, names_frame, run

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
BOLT = Item("e", name="Bolt Werke GmbH")


def named(text: str, *names: str, **more: str) -> list[str]:
    """Return the names of the items that a line of their amount names in its text."""
    items = [Item(name, name=name) for name in names]
    outcome = run(items, [Line("i", text=text, **more)], RULES)
    levels = [dict(match.levels)["name"] for match in outcome.matches]
    return [match.legs[0][0] for match, name in zip(outcome.matches, levels, strict=True) if name == NameLevel.TEXT]


@pytest.mark.parametrize("others", [0, 1, 2, 20])
def test_what_a_text_names_is_proposed_to_a_person_and_the_others_of_its_amount_are_not(others: int) -> None:
    items = [BOLT, *(Item(f"o{at}", name=f"Zangra {at}") for at in range(others))]
    [match] = run(items, [Line("i", text="ACH CREDIT BOLT WERKE 091000019")], RULES).matches
    assert match.legs == (("e", "i", 10_000),)
    assert (match.confidence, match.auto, match.status) == (Confidence.MEDIUM, False, Uniqueness.UNIQUE)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ACH CREDIT BOLT WERKE 091000019", True),
        ("ach credit werke,bolt gmbh", True),
        ("Bolt Gesellschaft Werke", False),
        ("BOLT 4711 WERKE", True),
        ("BOLTWERKE", False),
        ("Bolt", False),
        (f"{'x ' * (TEXT_WORDS_MAX - 2)}Bolt Werke", True),
        (f"{'x ' * (TEXT_WORDS_MAX - 1)}Bolt Werke", False),
        ("GmbH & Co. KG 4711", False),
        ("", False),
    ],
)
def test_a_name_is_in_a_text_with_all_its_words_side_by_side(text: str, *, found: bool) -> None:
    assert named(text, "Bolt Werke GmbH", "Zangra") == (["Bolt Werke GmbH"] if found else [])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("CREDIT BOLT WERKE", ["Bolt Werke"]),
        ("CREDIT BOLT", ["Bolt"]),
        ("BOLT FOR BOLT WERKE", []),
        ("BOLT WERKE, BOLT WERKE", ["Bolt Werke"]),
        ("BOLT WERKE FOR ZANGRA", []),
        ("ZANGRA OBO BOLT", []),
        ("NOBODY HERE", []),
        ("TRANSFER FROM BOLT", ["Bolt"]),
        ("ÜBERWEISUNG UEBERWEISUNG", []),
        ("CREDIT TRANSFER BANK BOLT", ["Transfer Bank Bolt"]),
    ],
)
def test_the_longer_name_is_meant_and_of_two_in_different_places_none(text: str, found: list[str]) -> None:
    names = "Bolt", "Bolt Werke", "Zangra", "Transfer GmbH", "Überweisung", "Transfer Bank Bolt"
    assert named(text, *names) == found


def test_whoever_has_a_name_is_called_by_it() -> None:
    assert not named("CREDIT BOLT", "Bolt", name="Holding AG")
    outcome = run([Item("e", name="Bolt")], [Line("i", text="CREDIT BOLT", name="Holding AG")], RULES)
    assert outcome.lines["i"][0] == Reason.COUNTERPARTY_MISMATCH
    outcome = run([Item("e", name="Bolt")], [Line("i", text="CREDIT ZANGRA", ultimate="Bolt")], RULES)
    assert outcome.levels("e", "i")["name"] == NameLevel.ULTIMATE


def test_another_account_is_somebody_elses_though_the_text_names_the_counterparty() -> None:
    outcome = run([Item("e", name="Bolt", iban="DE1")], [Line("i", text="CREDIT BOLT", iban="DE2")], RULES)
    assert outcome.lines["i"][0] == Reason.COUNTERPARTY_MISMATCH


ADAS = Item("ada", reference="INV-2026-0041", name="Ada Lovelace", iban="DE1")


@pytest.mark.parametrize(
    ("line", "mistaken"),
    [
        pytest.param(Line("i", text="BOLT WERKE INV-2026-0041"), True, id="quotes another one's number"),
        pytest.param(Line("i", text="BOLT WERKE", end_to_end_id="E2E-2026-41"), True, id="has an end-to-end id of his"),
        pytest.param(Line("i", text="Zangra INV-2026-0041"), False, id="nobody is named who has such an item"),
        pytest.param(Line("i", text="ADA LOVELACE INV-2026-0041"), False, id="the other one is named"),
        pytest.param(Line("i", text="BOLT WERKE FOR ADA LOVELACE INV-2026-0041"), False, id="both are named"),
        pytest.param(Line("i", text="BOLT WERKE INV-2026-0041", iban="DE1"), False, id="of the other one's account"),
        pytest.param(Line("i", text="BOLT WERKE INV-2026-0041", name="Ada Lovelace"), False, id="of his name"),
    ],
)
def test_whom_a_text_names_may_have_mistaken_the_number_of_another_one(line: Line, *, mistaken: bool) -> None:
    theirs = replace(ADAS, end_to_end_id="E2E-2026-41")
    [match] = [found for found in run([theirs, BOLT], [line], RULES).matches if found.item == "ada"]
    assert (match.auto, match.confidence) == (not mistaken, Confidence.MEDIUM if mistaken else Confidence.EXACT)
    # He has an item of another amount, or nobody knows whose number it is: then he may well pay for somebody.
    for other in (replace(BOLT, amount=9_000), replace(BOLT, name="Quentlin"), replace(BOLT, due=DAY - 90)):
        assert [found.auto for found in run([theirs, other], [line], RULES).matches if found.item == "ada"] == [True]
    assert [found.auto for found in run([replace(theirs, name=None), BOLT], [line], RULES).matches][:1] == [True]


def test_sums_of_whom_a_text_names_are_found() -> None:
    items = [
        Item("a", amount=10_050, reference="RE-1001", name="Bolt Werke"),
        Item("b", amount=20_177, reference="RE-1002", name="Bolt Werke"),
    ]
    [match] = run(items, [Line("i", amount=30_227, text="CREDIT BOLT WERKE")], RULES).matches
    assert match.legs == (("a", "i", 10_050), ("b", "i", 20_177))


def test_items_of_whom_a_text_names_are_looked_up_and_never_left_out() -> None:
    said = Line("i", amount=7, text="CREDIT BOLT WERKE"), Line("j", amount=7, name="Zangra", text="BOLT")
    lines = incoming_frame(said)
    similar = pl.DataFrame(schema=RESOLVED_SCHEMA)
    asked = next(reached(lines, similar)).payers
    assert {name_key("Bolt Werke"), name_key("Credit Bolt"), name_key("Zangra")} < asked
    assert name_key("Bolt") in asked
    rows = [BOLT, *(Item(f"o{at}", amount=50_000 + at, name=f"Quent {at}") for at in range(9))]
    sides = prepare(expected_frame(rows), lines, names_frame(rows))
    assert sides.expected["ordinal"].to_list() == [0]


def test_a_keys_place_tells_which_words_it_is_of() -> None:
    keys = text_name_keys("Miete an Bolt GmbH 4711")
    assert keys is not None
    assert [keys[at * NAME_WORDS_MAX : (at + 1) * NAME_WORDS_MAX] for at in range(3)] == [
        [0, name_key("an Miete"), name_key("Bolt Miete an"), 0],
        [0, name_key("an Bolt"), 0, 0],
        [name_key("Bolt"), 0, 0, 0],
    ]
    assert text_name_keys("RE 4711") is text_name_keys("Miete 4711 danke") is None
