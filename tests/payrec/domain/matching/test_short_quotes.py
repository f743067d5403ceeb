"""Items that a line quotes by a few characters: a group where all of them are its counterparty's and sum up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from payrec.domain.matching.rules import Confidence, GroupLevel, MatchingRules
from support.matching_frames import Item, Line, Proposal, level, run

AUTO = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
PAYER: dict[str, Any] = {"name": "Bolt", "iban": "DE1"}


def quoted(*amounts: int, references: str, line: int, text: str, **changes: Any) -> list[Proposal]:
    """Return the groups of a line that quotes items of its counterparty."""
    items = [
        Item(f"e{at}", amount=amount, reference=reference, **PAYER)
        for at, (amount, reference) in enumerate(zip(amounts, references.split(), strict=True))
    ]
    return run(items, [replace(Line("i", amount=line, text=text, **PAYER), **changes)], AUTO).groups


@pytest.mark.parametrize("references", ["INV-10001 3675", "3674 3675"])
def test_short_references_of_the_payer_are_a_group_where_all_of_them_sum_up(references: str) -> None:
    [group] = quoted(100, 250, references=references, line=350, text=references)
    assert (level(group), group.tried, group.named) == (GroupLevel.BY_QUOTES, 1, 2)
    assert (group.confidence, group.auto) == (Confidence.HIGH, False)


def test_who_says_nothing_of_himself_is_of_the_counterparty_of_what_he_quotes_in_full() -> None:
    silent: dict[str, Any] = {"references": "INV-10001 3675", "text": "INV-10001 3675", "line": 350}
    [group] = quoted(100, 250, **silent, name=None, iban=None)
    assert level(group) == GroupLevel.BY_QUOTES
    for shared in ({"name": None}, {"iban": None}):
        [group] = quoted(100, 250, **silent, **shared)
        assert level(group) == GroupLevel.BY_QUOTES
    items = [
        Item("a", amount=100, reference="INV-10001", **PAYER),
        Item("b", amount=250, reference="3675", name="Nagel"),
    ]
    assert not run(items, [Line("i", amount=350, text="INV-10001 3675")], AUTO).groups
    assert not quoted(100, 250, references="3674 3675", text="3674 3675", line=350, name=None, iban=None)


def test_short_references_prove_nothing_by_a_part_of_them_or_of_somebody_else() -> None:
    three = "INV-10001 3675 3676"
    assert not quoted(100, 250, 70, references=three, line=350, text=three)
    # Who is somebody else means the second by its amount alone, as whoever does not quote it.
    [rest] = quoted(100, 250, references="INV-10001 3675", line=350, text="INV-10001 3675", name="Nagel", iban="DE2")
    assert (level(rest), rest.auto) == (GroupLevel.BY_REFERENCES_AND_ONE, False)
    assert not quoted(100, 250, references="3674 3675", line=350, text="3674 3675", name="Nagel", iban="DE2")
    # One of them is the line's own.
    assert not quoted(350, 250, 100, references="3674 3675 3676", line=350, text="3674 3675 3676")
