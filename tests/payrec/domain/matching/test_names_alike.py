"""Names that may be one because the amount is equal: proposed for a person, and nothing else made of it."""

from __future__ import annotations

import pytest

from payrec.domain.matching.rules import Confidence, MatchingRules, NameLevel, Reason
from support.matching_frames import Item, Line, run

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")


@pytest.mark.parametrize(
    ("asked", "paid"),
    [
        ("Maria Baumann", "MARIABAUMANN"),
        ("MARIABAUMANN", "Maria Baumann"),
        ("Nils Ferrari", "Nls Ferrari"),
        ("Katarzyna Lehmann", "KATARZYNA LEHMANN UND FRANCOIS LEHMANN"),
        ("Wim Maier", "W. Maier"),
        ("Lange Immobilien e.K.", "LANGE IMMOBIIEN EK"),
    ],
)
def test_an_equal_amount_makes_up_for_a_name_that_is_nearly_the_same(asked: str, paid: str) -> None:
    # Others of the same words, so that the name alone means nobody.
    others = [
        Item(f"o{at}", amount=50_000 + at, name=f"{first} {asked.rsplit(maxsplit=1)[-1]}", iban=f"DE9{at}")
        for at, first in enumerate(["Oskar", "Petra", "Quirin", "Ruth", "Sofia", "Theo", "Ulla", "Vera", "Willi"])
    ]
    outcome = run([Item("e", amount=12_345, name=asked), *others], [Line("i", amount=12_345, name=paid)], RULES)
    [match] = outcome.matches
    assert match.legs == (("e", "i", 12_345),)
    assert outcome.levels("e", "i")["name"] == NameLevel.SIMILAR
    assert (match.confidence, match.auto) == (Confidence.MEDIUM, False)


@pytest.mark.parametrize("paid", ["Petra Huber", "PayCollect", "Wim Kaiser", "M", "WIMMAIERLOGISTIKZENTRUM"])
def test_another_name_is_another_counterparty(paid: str) -> None:
    outcome = run([Item("e", name="Wim Maier")], [Line("i", name=paid)], RULES)
    assert not outcome.matches
    assert outcome.lines["i"][0] == Reason.COUNTERPARTY_MISMATCH


def test_an_equal_amount_tells_which_of_two_a_short_name_means() -> None:
    items = [Item("e", amount=12_345, name="Vensolka Software"), Item("o", amount=50_000, name="Vensolka Swiss")]
    outcome = run(items, [Line("i", amount=12_345, name="Vensolka SW")], RULES)
    assert outcome.levels("e", "i")["name"] == NameLevel.SIMILAR


def test_it_is_worth_what_a_similar_name_is_and_others_of_the_amount_are_as_before() -> None:
    [similar] = run([Item("e", name="Albrador Logistik")], [Line("i", name="Albrador Log.")], RULES).matches
    items = [Item("e", name="Maria Baumann"), Item("o", name="Petra Huber"), Item("n", due=20_590), Item("p", amount=7)]
    outcome = run(items, [Line("i", name="MARIABAUMANN"), Line("j", amount=7)], RULES)
    match = outcome.pairs["e", "i"]
    assert (match.score, match.levels) == (similar.score, similar.levels)
    assert outcome.levels("p", "j")["name"] == NameLevel.UNKNOWN
    assert outcome.items["o"][0] == Reason.COUNTERPARTY_MISMATCH
    assert [item for _, _, (item, _) in outcome.alternatives] == ["n"]


def test_what_else_forbids_a_pair_still_does() -> None:
    outcome = run([Item("e", name="Maria Baumann")], [Line("i", name="MARIABAUMANN", day=20_000)], RULES)
    assert not outcome.matches
    assert outcome.lines["i"][0] == Reason.DATE_OUT_OF_WINDOW


@pytest.mark.parametrize(("paid", "meant"), [("Lorenzen Nord und Partner", "e11"), ("Moll Nord und Partner", "e12")])
def test_a_word_of_the_name_tells_a_common_amount_apart(paid: str, meant: str) -> None:
    names = ["Arndt", "Bergmann", "Cordes", "Dierks", "Ehlers", "Fink", "Gehrke", "Hansen", "Ihde", "Jessen", "Kruse"]
    items = [
        Item(f"e{at}", amount=999, name=f"{name} Nord GmbH") for at, name in enumerate([*names, "Lorenzen", "Moll"])
    ]
    [match] = run(items, [Line("i", amount=999, name=paid)], RULES).matches
    assert match.legs == ((meant, "i", 999),)


def test_alike_names_of_one_amount_compete() -> None:
    items = [Item(f"e{at}", name="Maria Baumann", iban=f"DE{at}") for at in range(2)]
    matches = run(items, [Line("i", name="MARIABAUMANN")], RULES).matches
    assert all(match.confidence is Confidence.LOW for match in matches)
