"""Which pairs are looked at: by references, ids and counterparties; what too many have, and who is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from payrec.domain.matching import block
from payrec.domain.matching.block import (
    Candidates,
    candidates,
    keyed,
)
from payrec.domain.matching.line_rules import Bounds, LineRule, Scope
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    KEY_LINES_MAX,
    LINE_CANDIDATES_MAX,
    EndToEndLevel,
    MatchingRules,
    ReferenceLevel,
)
from support.matching_frames import DAY, Item, Line
from support.scored_pairs import RULES, Ends, NamedSides, sides_of

FULL, PARTIAL, COMMON = (level.value for level in (ReferenceLevel.FULL, ReferenceLevel.PARTIAL, ReferenceLevel.COMMON))
SAME_ID, PART_ID = EndToEndLevel.EQUAL.value, EndToEndLevel.PARTIAL.value


NO_PAYERS = [Line(f"i{at}", amount=at + 1) for at in range(8)]
"""Lines enough that no item is left out."""


def test_keys_are_of_one_currency_and_direction_and_of_one_amount_on_demand() -> None:
    items = [
        Item("a", iban="DE1"),
        Item("b", iban="DE1", amount=5),
        Item("c", iban="DE1", currency="USD"),
        Item("d", iban="DE1", direction=-1),
        Item("none"),
        Item("again", iban="DE1", due=DAY + 1),
    ]
    frame = sides_of(items, NO_PAYERS).expected
    name_of = {row: items[at].id for row, at in frame.select("row", "ordinal").iter_rows()}

    def classes(*, with_amount: bool) -> list[set[str]]:
        found = keyed(frame, "account_key", with_amount=with_amount)
        assert found.schema == {"row": pl.UInt32, "key": pl.Int64}
        rows = found.group_by("key").agg("row")["row"].to_list()
        return sorted(({name_of[row] for row in some} for some in rows), key=sorted)

    assert classes(with_amount=False) == [{"a", "again", "b"}, {"c"}, {"d"}]
    assert classes(with_amount=True) == [{"a", "again"}, {"b"}, {"c"}, {"d"}]
    assert keyed(frame, "name_key").schema == {"row": pl.UInt32, "key": pl.Int64}
    assert keyed(frame, "name_key", with_amount=True).is_empty()
    # The lowest bit tells what proves.
    proving = sides_of([Item("a", reference="INV-10001"), Item("b", reference="3675")], NO_PAYERS).expected
    keys_of = dict(keyed(proving, "reference_key").rows())
    assert [keys_of[row] & 1 for row, at in proving.select("row", "ordinal").sort("ordinal").iter_rows()] == [1, 0]


class Look(NamedSides):
    """What is found of items and lines, by names."""

    def __init__(self, items: Sequence[Item], lines: Sequence[Line], rules: MatchingRules = RULES) -> None:
        super().__init__(items, lines, rules)
        self.found: Candidates = candidates(self.sides, rules)
        assert_frame_equal(self.found.pairs, self.found.pairs.unique(["e", "i"]).sort("e", "i"))
        assert self.found.pairs.columns == ["e", "i", "reference", "end_to_end"]

    def named(self, pairs: pl.DataFrame) -> dict[Ends, tuple[int, int]]:
        return dict(zip(self.ends(pairs), pairs.select(pl.exclude("e", "i")).rows(), strict=True))

    @property
    def pairs(self) -> dict[Ends, tuple[int, int]]:
        return self.named(self.found.pairs)

    def told(self, name: str) -> list[str]:
        """Return the rows of which something is told."""
        rows = getattr(self.found, name)
        assert rows.dtype == pl.UInt32
        names = self.lines if name.endswith("lines") else self.items
        return sorted(names[row] for row in rows)

    @property
    def crowded(self) -> dict[str, tuple[int, int]]:
        return {self.lines[i]: (many, full) for i, many, full in self.found.crowded.iter_rows()}


@pytest.mark.parametrize(
    ("item", "line", "levels"),
    [
        ({"reference": "INV-10001"}, {"text": "for INV-10001"}, (FULL, 0)),
        ({"reference": "INV-10001"}, {"structured": "INV10001"}, (FULL, 0)),
        ({"reference": "INV-10001"}, {"end_to_end_id": "INV-10001"}, (FULL, 0)),
        ({"reference": "3675"}, {"text": "for 3675"}, (PARTIAL, 0)),
        ({"end_to_end_id": "E2E-70001"}, {"end_to_end_id": "E2E-70001"}, (0, SAME_ID)),
        ({"end_to_end_id": "E2E-70001"}, {"text": "E2E-70001"}, (0, SAME_ID)),
        ({"end_to_end_id": "3675"}, {"end_to_end_id": "3675"}, (0, PART_ID)),
        (
            {"reference": "INV-10001", "end_to_end_id": "3675"},
            {"text": "INV-10001", "end_to_end_id": "3675"},
            (FULL, PART_ID),
        ),
        ({"iban": "DE1"}, {"iban": "DE1"}, (0, 0)),
        ({"name": "Alpha"}, {"name": "Alpha"}, (0, 0)),
        ({"name": "Hartmann Maschinenbau"}, {"name": "HARTMAN MASCHINENBAU"}, (0, 0)),
        ({"iban": "DE1", "reference": "INV-10001"}, {"iban": "DE1", "text": "INV-10001"}, (FULL, 0)),
    ],
)
def test_what_makes_a_pair(item: dict[str, Any], line: dict[str, Any], levels: tuple[int, int]) -> None:
    of_item, of_line = Item("e", **item), Line("i", **line)
    other = Item("other", amount=7, reference="INV-99999", name="Zangra", iban="DE9")
    found = Look([of_item, other], [of_line])
    assert found.pairs == {("e", "i"): levels}
    assert (found.crowded, found.told("alike_items"), found.told("capped_lines")) == ({}, [], [])
    for changes in ({"currency": "USD"}, {"direction": -1}, {"reversal": True}):
        assert not Look([of_item], [replace(of_line, **changes)]).pairs
    by_quote = levels != (0, 0)
    assert bool(Look([of_item], [replace(of_line, amount=1)]).pairs) == by_quote
    assert bool(candidates(sides_of([of_item], [of_line]), RULES).pairs.height)
    in_full = FULL in levels or SAME_ID in levels
    of_proof = block.quoted_in_full(found.sides)
    assert list(found.named(of_proof)) == ([("e", "i")] if in_full else [])
    repeated = sides_of([of_item], [replace(of_line, duplicate=True)])
    assert block.quoted_in_full(repeated).is_empty(), "what is repeated pays nothing"


def test_without_the_amount_the_counterparty_alone_makes_a_pair_where_another_amount_may_do() -> None:
    line = Line("i", amount=7, iban="DE1")
    for item in ({"band": (5, None)}, {"band": (None, 20_000)}, {"terms": ((7, DAY),)}):
        assert Look([Item("e", iban="DE1", **item), Item("other", iban="DE1")], [line]).pairs == {("e", "i"): (0, 0)}
    for rules in ({"amount_tolerance_minor": 1}, {"amount_tolerance_basis_points": 1}):
        assert list(Look([Item("e", iban="DE1")], [line], replace(RULES, **rules)).pairs) == [("e", "i")]  # type: ignore[arg-type]
    assert not Look([Item("e", iban="DE1")], [line]).pairs


def test_another_amount_may_do_for_the_lines_of_a_rule() -> None:
    rule = LineRule(name="r", scope=Scope(minor_max=100), bounds=Bounds(amount_tolerance_minor=1))
    lines = [Line("i", amount=100, iban="DE1"), Line("above", amount=101, iban="DE1")]
    banded = Item("banded", amount=500, band=(1, 600), name="Zangra", iban="DE1")
    found = Look([Item("e", iban="DE1"), banded], lines, replace(RULES, line_rules=(rule,)))
    assert set(found.pairs) == {("e", "i"), ("banded", "i"), ("banded", "above")}


def items_of(count: int, **more: Any) -> list[Item]:
    return [Item(f"e{at:02}", **{"amount": 1_000 + at, **more}) for at in range(count)]


def test_a_reference_of_too_many_items_makes_no_pair_and_is_counted() -> None:
    text = "RENT-2026 and 3675"
    for reference, full in (("RENT-2026", 1), ("3675", 0)):
        most = items_of(KEY_ITEMS_MAX, reference=reference)
        found = Look(most, [Line("i", text=text)])
        assert (len(found.pairs), found.crowded) == (KEY_ITEMS_MAX, {})
        assert block.quoted_in_full(found.sides).height == KEY_ITEMS_MAX * full
        found = Look([*most, Item("more", reference=reference)], [Line("i", text=text), Line("other", text="RENT")])
        assert (found.pairs, found.crowded) == ({}, {"i": (1, full)})
    # An item that has it twice is one.
    rent = items_of(KEY_ITEMS_MAX + 1, reference="RENT-2026")
    twice = replace(rent[0], end_to_end_id="RENT-2026")
    assert Look([twice, *rent[1:-1]], [Line("i", text=text)]).crowded == {}
    both = [*rent, *(replace(item, id=f"f{item.id}", reference="3675") for item in rent)]
    assert Look(both, [Line("i", text=text, end_to_end_id="RENT-2026")]).crowded == {"i": (2, 1)}


def test_what_is_found_otherwise_says_that_it_has_a_reference_of_many() -> None:
    crowd = items_of(13, reference="RENT-2026")
    own, id_ = Item("own", iban="DE1", reference="RENT-2026"), Item("id", iban="DE1", end_to_end_id="RENT-2026")
    lines = [Line("i", iban="DE1", text="RENT-2026"), Line("silent", iban="DE1")]
    found = Look([*crowd, own, id_, Item("else", iban="DE1", reference="INV-10001")], lines)
    assert found.pairs == {(name, line.id): (COMMON if (name, line.id) == ("own", "i") else 0, 0)
                           for name in ("own", "id", "else") for line in lines}  # fmt: skip
    # What is quoted in full besides stays so.
    better = replace(own, end_to_end_id="E2E-70001")
    assert Look([*crowd, better], [replace(lines[0], text="RENT-2026 E2E-70001")]).pairs == {
        ("own", "i"): (COMMON, SAME_ID)
    }


def test_of_a_line_that_quotes_too_many_the_rarest_are_looked_at() -> None:
    def quoted(count: int, each: int) -> tuple[list[Item], str]:
        texts = [f"INV-{10_000 + at}" for at in range(count)]
        items = [Item(f"{text}/{at}", amount=100 + at, reference=text) for text in texts for at in range(each)]
        return items, " ".join(texts)

    items, text = quoted(LINE_CANDIDATES_MAX // 4, 4)
    found = Look(items, [Line("i", text=text)])
    assert (len(found.pairs), found.told("capped_lines")) == (LINE_CANDIDATES_MAX, [])
    more = [*items, Item("rare", amount=1, reference="RARE-10001")]
    lines = [Line("i", text=f"{text} RARE-10001"), Line("few", text="RARE-10001 INV-10000")]
    found = Look(more, lines)
    assert found.told("capped_lines") == ["i"]
    of_line = [e for e, i in found.pairs if i == "i"]
    assert ("rare" in of_line, len(of_line)) == (True, LINE_CANDIDATES_MAX - 3)
    assert len(found.pairs) - len(of_line) == 5
    proofs = block.quoted_in_full(found.sides)
    assert found.named(proofs) == found.pairs


def test_the_rarest_come_first_and_all_of_the_budget_is_used() -> None:
    def of(text: str, count: int) -> list[Item]:
        return [Item(f"{text}/{at}", amount=100 + at, reference=text) for at in range(count)]

    rare = [item for at in range(30) for item in of(f"RARE-{20_000 + at}", 1)]
    often = [item for at in range(9) for item in of(f"INV-{10_000 + at}", 4)]
    text = " ".join(sorted({str(item.reference) for item in [*rare, *often]}))
    found = Look([*rare, *often], [Line("i", text=text)])
    assert {item.id for item in rare} <= {e for e, _ in found.pairs}
    assert len(found.pairs) == len(rare) + 8 * 4
    most = [item for at in range(LINE_CANDIDATES_MAX // 4) for item in of(f"INV-{10_000 + at}", 4)]
    items = [*most, *of("RENT-30000", 5)]
    text = " ".join(sorted({str(item.reference) for item in items}))
    found = Look(items, [Line("i", text=text)])
    assert {e for e, _ in found.pairs} == {item.id for item in most}


def test_a_counterparty_of_too_many_items_or_lines_of_one_amount_makes_no_pair() -> None:
    most = [Item(f"e{at:02}", iban="DE1", due=DAY + at) for at in range(KEY_ITEMS_MAX)]
    lines = [Line(f"i{at:02}", iban="DE1", day=DAY + at) for at in range(KEY_LINES_MAX)]
    found = Look(most, lines)
    assert len(found.pairs) == KEY_ITEMS_MAX * KEY_LINES_MAX
    assert (found.told("alike_items"), found.told("alike_lines")) == ([], [])
    one_more = [*most, Item("more", iban="DE1", due=DAY - 1)]
    found = Look([*one_more, Item("of others", iban="DE2")], [*lines[:2], Line("of others", iban="DE2")])
    assert list(found.pairs) == [("of others", "of others")]
    assert found.told("alike_items") == sorted(item.id for item in one_more)
    assert found.told("alike_lines") == ["i00", "i01"]
    assert (found.told("capped_items"), found.told("capped_lines")) == ([], [])
    found = Look(most[:1], [*lines, Line("more", iban="DE1", day=DAY - 1)])
    assert (found.pairs, found.told("alike_items"), len(found.told("alike_lines"))) == ({}, ["e00"], KEY_LINES_MAX + 1)


def test_whose_counterparty_has_others_of_the_same_amount() -> None:
    items = [
        Item("a", iban="DE1", name="Alpha"),
        Item("b", iban="DE1"),
        Item("c", name="Alpha"),
        Item("less", iban="DE1", name="Alpha", amount=9_999),
        Item("dollars", iban="DE1", name="Alpha", currency="USD"),
        Item("else", iban="DE2", name="Omega"),
        Item("nobody"),
        Item("nobody again"),
    ]
    assert Look(items, NO_PAYERS).told("repeated") == ["a", "b", "c"]
    assert Look(items[:1], NO_PAYERS).told("repeated") == []
    assert Look([items[0], items[2]], NO_PAYERS).told("repeated") == ["a", "c"]
    assert Look(items, NO_PAYERS).told("siblings") == []


def test_references_beyond_the_budget_of_all_lines_are_told_of_items_and_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(block, "PAIRS_MIN", 1)
    items = [Item(f"e{at}", amount=100 + at, reference="INV-10001") for at in range(3)]
    items.append(Item("own", amount=7, reference="INV-20000"))
    lines = [Line(f"i{at}", day=DAY + at, amount=50 + at, text="INV-10001") for at in range(3)]
    # Seven references and lines, and nine pairs by one of them.
    found = Look(items, [*lines, Line("x", text="INV-20000 nothing")])
    assert found.pairs == {("own", "x"): (FULL, 0)}
    assert (found.told("capped_items"), found.told("capped_lines")) == (["e0", "e1", "e2"], ["i0", "i1", "i2"])
    found = Look(items, lines[:2])
    assert (len(found.pairs), found.told("capped_items")) == (6, [])
    # As many items as may share a reference bring pairs, and more of them bring none.
    crowd = [replace(item, reference="INV-10001") for item in items_of(KEY_ITEMS_MAX + 1)]
    assert len(Look(crowd[:-1], lines[:2]).told("capped_items")) == KEY_ITEMS_MAX
    assert Look(crowd, lines[:2]).told("capped_items") == []


def test_what_has_the_same_amount_is_a_pair_unless_too_many_have() -> None:
    items = [Item("a"), Item("less", amount=9_999), Item("dollars", currency="USD"), Item("out", direction=-1)]
    look = Look(items, [Line("x", name="Alpha"), Line("y", amount=9_999)])
    found = block.amount_pairs(look.sides.expected, look.sides.incoming)
    assert look.named(found.pairs) == {("a", "x"): (0, 0), ("less", "y"): (0, 0)}
    assert_frame_equal(found.pairs, found.pairs.sort("e", "i"))
    for many, few in ((13, 1), (1, 13)):
        items = [Item(f"e{at:02}", due=DAY + at) for at in range(many)]
        look = Look(items, [Line(f"i{at:02}", day=DAY + at) for at in range(few)])
        found = block.amount_pairs(look.sides.expected, look.sides.incoming)
        assert (found.pairs.height, found.crowded_items.len(), found.crowded_lines.len()) == (0, many, few)
    assert not found.capped_items.len()


def test_counterparties_beyond_the_budget_of_a_join_are_told_of_items_and_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(block, "PAIRS_MIN", 1)
    items = [Item(f"e{at}", iban="DE1", due=DAY + at) for at in range(3)]
    lines = [Line(f"i{at}", iban="DE1", day=DAY + at) for at in range(4)]
    # Twelve pairs of seven rows.
    found = Look([*items, Item("else", iban="DE2")], [*lines, Line("x", iban="DE2")])
    assert list(found.pairs) == [("else", "x")]
    assert (found.told("capped_items"), found.told("alike_items")) == (["e0", "e1", "e2"], ["e0", "e1", "e2"])
    assert (found.told("capped_lines"), found.told("alike_lines")) == (["i0", "i1", "i2", "i3"],) * 2
