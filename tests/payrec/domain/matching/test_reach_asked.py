"""What is asked for, question by question, until all that a few lines may reach is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from payrec.domain.matching import reach
from payrec.domain.matching.keys import account_key, name_key, reference_key
from payrec.domain.matching.names import normalised, resolved
from payrec.domain.matching.reach import TooFarError, Wanted, reached
from payrec.domain.matching.rules import KEY_ITEMS_MAX
from support.matching_frames import Item, Line, incoming_frame, names_frame
from support.reached_items import answer, with_ids

Asked = dict[str, set[int]]


class Reach:
    """What is asked for and found of items, for lines; ``named``, where the names of everybody are known."""

    def __init__(
        self,
        items: Sequence[Item],
        lines: Sequence[Line],
        *undecided: str,
        listed: str | None = None,
        named: bool = True,
    ) -> None:
        frame, its = with_ids(items), incoming_frame(lines)
        names = normalised(names_frame([*items, *lines]))
        similar = resolved(frame["name_key"], its["name_key"], names)
        places = [at for at, item in enumerate(items) if item.id in undecided]
        seeds = frame[places] if places else None
        said = None if listed is None else pl.Series([reference_key(listed)], dtype=pl.Int64)
        asking = reached(its, similar, seeds, names if named else None, said)
        self.questions: list[Wanted] = []
        wanted = next(asking)
        while True:
            self.questions.append(wanted)
            try:
                wanted = asking.send(answer(frame, wanted))
            except StopIteration as done:
                found = done.value
                break
        assert found["transaction_id"].is_unique().all()
        assert found.columns == frame.columns
        self.found = [items[at].id for at in found["ordinal"]]

    @property
    def asked(self) -> list[Asked]:
        """Return each question by keys; of amounts and of ids, how they are."""
        return [
            {name: set(keys) for name, keys in wanted.keys().items()}
            | ({"amounts": set(wanted.amounts)} if wanted.amounts else {})
            | ({"ids": set(map(int.from_bytes, wanted.ids))} if wanted.ids.len() else {})
            for wanted in self.questions
        ]


def keys_of(*texts: str) -> set[int]:
    return {key for text in texts if (key := reference_key(text)) is not None}


def accounts(*ibans: str) -> set[int]:
    return {key for iban in ibans if (key := account_key(iban)) is not None}


def payers(*names: str) -> set[int]:
    return {key for name in names if (key := name_key(name)) is not None}


def test_a_line_asks_by_all_that_it_says_and_then_by_its_amount() -> None:
    line = Line("x", amount=77, text="INV-70001", end_to_end_id="E2E-70002", group="GRP-70003", iban="DE1")
    line = replace(line, name="Alpha", ultimate="Beta")
    first, amount = Reach([Item("e", amount=5)], [line], listed="INV-70004").asked
    assert first["names"] >= keys_of("INV-70001", "E2E-70002", "GRP-70003", "INV-70004")
    assert (first["accounts"], first["payers"]) == (accounts("DE1"), payers("Alpha", "Beta"))
    assert amount == {"amounts": {77}}
    assert keys_of("INV-70004").isdisjoint(Reach([Item("e", amount=5)], [line]).asked[0]["names"])
    silent = Reach([Item("e", amount=5)], [Line("x", amount=77)])
    assert (silent.asked, silent.found) == ([{}, {"amounts": {77}}], [])


def test_whom_a_name_is_alike_is_asked_for_as_well() -> None:
    items = [Item("e", amount=5, name="Hartmann Maschinenbau")]
    reach_ = Reach(items, [Line("x", amount=77, name="HARTMAN MASCHINENBAU")])
    assert reach_.asked[0]["payers"] == payers("HARTMAN MASCHINENBAU", "Hartmann Maschinenbau")
    assert reach_.found == ["e"]


def test_of_whom_is_found_the_accounts_and_names_are_asked_for_once() -> None:
    items = [
        Item("quoted", amount=1, reference="INV-70001", iban="DE1"),
        Item("by account", amount=2, iban="DE1", name="Alpha"),
        Item("by name", amount=3, iban="DE2", name="Alpha"),
        Item("by its account", amount=4, iban="DE2"),
        Item("apart", amount=5, iban="DE3", name="Beta"),
    ]
    found = Reach(items, [Line("x", amount=77, text="INV-70001")])
    assert found.asked[1:] == [
        {"accounts": accounts("DE1")},
        {"payers": payers("Alpha")},
        {"accounts": accounts("DE2")},
        {"amounts": {77}},
        {"debits": keys_of("INV-70001")},
    ]
    assert found.found == ["quoted", "by account", "by name", "by its account"]
    # What the line says itself is not asked for again.
    again = Reach(items[:1], [Line("x", amount=77, text="INV-70001", iban="DE1")])
    assert again.asked[1] == {"amounts": {77}}
    named = Reach([Item("by name", amount=3, name="Alpha")], [Line("x", amount=77, name="Alpha")])
    assert named.asked == [{"payers": payers("Alpha")}, {"amounts": {77}}]


def of_amount(count: int, **more: Any) -> list[Item]:
    return [Item(f"e{at:02}", amount=999, name=f"Payer{at} Nobody", iban=f"DE{at}", **more) for at in range(count)]


def test_of_an_amount_those_of_its_currency_and_direction_are_asked_for_by_id() -> None:
    items = [
        Item("e", amount=999, reference="INV-20000"),
        Item("dollars", amount=999, currency="USD"),
        Item("out", amount=999, direction=-1),
        Item("less", amount=998),
        Item("quoted", amount=999, reference="INV-70001"),
    ]
    found = Reach(items, [Line("x", amount=999, text="INV-70001")])
    assert found.asked[1:3] == [{"amounts": {999}}, {"ids": {0}}], "which is not asked for again"
    assert found.found == ["quoted", "e"]
    # What they lead on to is not asked for.
    beside = [Item("e", amount=999, iban="DE1"), Item("beside", amount=5, iban="DE1")]
    assert Reach(beside, [Line("x", amount=999)]).found == ["e"]


def test_of_an_amount_that_many_have_some_come_and_those_that_a_line_may_mean() -> None:
    line = Line("x", amount=999, name="Zangra Sued")
    crowd = of_amount(KEY_ITEMS_MAX + 20)
    found = Reach(crowd, [line]).found
    assert len(found) == KEY_ITEMS_MAX + 1, "so that they are seen to be too many"
    assert len(Reach(crowd[: KEY_ITEMS_MAX + 1], [line]).found) == KEY_ITEMS_MAX + 1
    named = [
        *crowd,
        Item("named", amount=999, name="Zangra Nord", iban="DE99"),
        Item("its name", amount=999, name="Zangra Nord"),
        Item("its account", amount=999, iban="DE99"),
        Item("dollars", amount=999, currency="USD", name="Zangra Nord"),
        Item("others", amount=998, name="Zangra Nord"),
    ]
    found = Reach(named, [line]).found
    assert {"named", "its name", "its account"} <= set(found)
    assert len(found) == KEY_ITEMS_MAX + 1 + 3
    # Without the names nobody can tell, so all come.
    assert len(Reach(named, [line], named=False).found) == len(named) - 2


def test_what_is_nearly_quoted_comes_whoever_else_has_the_amount_and_does_not_count_among_them() -> None:
    near = Item("near", amount=999, reference="INV-2026-70001", iban="DE50", name="Omega")
    beside = Item("beside", amount=999, iban="DE50")
    line = Line("x", amount=999, text="INV-2026-70007")
    crowd = of_amount(KEY_ITEMS_MAX + 20)
    found = Reach([*crowd, near, beside], [line]).found
    assert {"near", "beside"} <= set(found)
    assert len(found) == KEY_ITEMS_MAX + 1 + 2
    # Of the others one more is too many, whether or not it comes first.
    few = crowd[: KEY_ITEMS_MAX + 1]
    assert len(Reach([near, *few], [line]).found) == KEY_ITEMS_MAX + 2


def test_each_amount_of_the_lines_is_a_crowd_of_its_own() -> None:
    crowd = of_amount(KEY_ITEMS_MAX + 5)
    others = [Item(f"o{at:02}", amount=888, name=f"Other{at} Body") for at in range(KEY_ITEMS_MAX + 5)]
    found = Reach([*crowd, *others], [Line("x", amount=999), Line("y", amount=888)]).found
    assert len(found) == 2 * (KEY_ITEMS_MAX + 1)


def test_credit_notes_of_what_is_found_and_what_else_they_name_are_asked_for() -> None:
    items = [
        Item("of the payer", amount=1, reference="INV-70001", iban="DE1"),
        Item("note", amount=2, direction=-1, group="INV-70001", reference="CN-70002"),
        Item("named by the note", amount=3, group="CN-70002"),
        Item("of its direction", amount=4, group="INV-70001"),
        Item("apart", amount=5, direction=-1, group="INV-70009"),
    ]
    found = Reach(items, [Line("x", amount=77, iban="DE1")])
    assert found.found == ["of the payer", "note", "named by the note", "of its direction"]
    assert found.asked[2:] == [
        {"debits": keys_of("INV-70001")},
        {"credits": keys_of("INV-70001", "CN-70002")},
        {"debits": keys_of("CN-70002")},
    ]
    # What is too short to prove names no credit note.
    short = [Item("e", amount=1, reference="3675", iban="DE1"), Item("note", amount=2, direction=-1, group="3675")]
    assert Reach(short, [Line("x", amount=77, iban="DE1")]).found == ["e"]


def test_what_is_undecided_is_found_with_its_credit_notes_and_not_with_its_counterparty() -> None:
    items = [
        Item("seed", amount=1, reference="INV-70001", iban="DE1"),
        Item("note", amount=2, direction=-1, group="INV-70001"),
        Item("of its counterparty", amount=3, iban="DE1"),
    ]
    assert Reach(items, [Line("x", amount=77)], "seed").found == ["seed", "note"]
    assert Reach(items, [Line("x", amount=77)]).found == []
    assert Reach(items, [Line("x", amount=1)], "seed").found == ["seed", "note"]


@pytest.mark.parametrize("most", [3, 4])
def test_after_so_many_questions_it_is_given_up(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "LOOK_UPS_MAX", most)
    chain = [Item(f"e{at}", amount=100 + at, iban=f"DE{at // 2}", name=f"Payer {(at + 1) // 2}") for at in range(20)]
    # The last one is of no account, and leads no further.
    items = [*chain[: most + 1], Item("end", amount=5, iban=chain[most].iban, name=chain[most].name)]
    assert len(Reach(items, [Line("x", amount=7, iban="DE0")]).found) == len(items)
    with pytest.raises(TooFarError):
        Reach(chain[: most + 3], [Line("x", amount=7, iban="DE0")])
    notes = [
        Item(f"n{at}", amount=100 + at, direction=1 - at % 2 * 2, reference=f"INV-7000{at}", group=f"INV-7000{at + 1}")
        for at in range(most + 3)
    ]
    with pytest.raises(TooFarError):
        Reach(notes, [Line("x", amount=7, end_to_end_id="INV-70000")])
