"""Marks show what both sides have in common, and never change a text."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.console.highlights import Highlights, in_series, quotations

HOSTILE = st.one_of(
    st.none(),
    st.text(max_size=60),
    st.sampled_from(["<script>alert(1)</script>", "\u202eRE-17\u202c", "ﬁ-2026-0017", "ß" * 30, "RE-17 " * 400]),
    st.text("RE-17 ./\u00a0", max_size=40),
)
FEATURES = ("reference", "end_to_end", "amount", "account", "name", "group")


@dataclass
class Row:
    id: UUID
    reference: str | None = None
    remittance: str | None = None
    structured_reference: str | None = None
    end_to_end_id: str | None = None
    group_key: str | None = None
    counterparty_name: str | None = None
    counterparty_account: str | None = None
    ultimate_counterparty_name: str | None = None


@dataclass
class Seen:
    feature: str
    weight: float
    level: str = "equal"


TEXTS = tuple(name for name in Row.__dataclass_fields__ if name != "id")
ROWS = st.lists(st.builds(Row, id=st.uuids(), **dict.fromkeys(TEXTS, HOSTILE)), max_size=3, unique_by=lambda r: r.id)
SEEN = st.lists(
    st.builds(Seen, st.sampled_from(FEATURES), st.floats(-5, 5), st.sampled_from(["equal", "text", "ultimate"])),
    unique_by=lambda s: s.feature,
)


def marked(found: Highlights, row: Row, field: str) -> list[tuple[str, str]]:
    """Return the marked pieces of a text, each with its label."""
    return [(part.text, part.mark.label) for part in found.parts(row, field) if part.mark is not None]


@given(SEEN, ROWS, ROWS)
def test_the_pieces_of_a_text_are_the_text(seen: list[Seen], items: list[Row], lines: list[Row]) -> None:
    found = Highlights(seen, items=items, lines=lines)
    for row in [*items, *lines]:
        for field in TEXTS:
            parts = found.parts(row, field)
            assert "".join(part.text for part in parts) == (getattr(row, field) or "")
            assert all(part.text for part in parts)


@given(ROWS, ROWS)
def test_without_evidence_nothing_is_marked(items: list[Row], lines: list[Row]) -> None:
    found = Highlights([], items=items, lines=lines)
    assert not any(marked(found, row, field) for row in [*items, *lines] for field in TEXTS)


@given(st.text("ABC123", min_size=5, max_size=12), st.text(max_size=20), st.text(max_size=20))
def test_a_quoted_reference_is_found_wherever_it_stands(reference: str, before: str, after: str) -> None:
    text = f"{before} {reference} {after}"
    begin = len(before) + 1
    spans = quotations(text, reference)
    assert any(start <= begin < end or begin <= start < begin + len(reference) for start, end in spans)


@pytest.mark.parametrize(
    ("text", "reference", "quoted"),
    [
        ("Payment re-2026 0017, thanks", "RE-2026-0017", ["re-2026 0017"]),
        ("RF18 5390 0754 7034", "RF18539007547034", ["RF18 5390 0754 7034"]),
        ("INV20260017", "20260017", ["20260017"]),
        ("INV120260017", "20260017", []),
        ("XRE-17Y", "RE-17", []),
        ("RE-17/RE-17", "re17", ["RE-17", "RE-17"]),
        ("１２３４５", "12345", ["１２３４５"]),
        ("A-1", "A1", []),
        ("", "RE-17", []),
    ],
)
def test_a_quotation_is_a_word(text: str, reference: str, quoted: list[str]) -> None:
    assert [text[begin:end] for begin, end in quotations(text, reference)] == quoted


def test_each_item_of_a_group_is_found_by_its_own_number() -> None:
    items = [Row(uuid4(), reference="RE-001"), Row(uuid4(), reference="RE-002")]
    line = Row(uuid4(), remittance="RE-002, RE-001")
    found = Highlights([Seen("amount", 3), Seen("reference", 5)], items=items, lines=[line])
    assert marked(found, line, "remittance") == [("RE-002", "2.2"), ("RE-001", "2.1")]
    assert marked(found, items[1], "reference") == [("RE-002", "2.2")]
    amount = found.mark("amount")
    assert amount is not None
    assert amount.label == "1"
    assert found.mark("date") is None


@pytest.mark.parametrize(
    ("text", "reference", "last"),
    [
        ("INV-2026-1401/02/03", "INV-2026-1402", "02"),
        ("INV-2026-1401, 402", "INV-2026-1402", "402"),
        ("2026-1401 on 02.03. and 1402", "INV-2026-1402", "1402"),
        ("INV-2026-1401 to 1403", "INV-2026-1402", None),
        ("INV-2026-1401/02/03", "INV-2026-1404", None),
        ("INV-2026-1401/02/03", "1402", None),
        ("INV-2026-1401", "INV-2026-1401", None),
    ],
)
def test_the_end_of_a_reference_is_marked_in_a_list(text: str, reference: str, last: str | None) -> None:
    assert [text[begin:end] for begin, end in in_series(text, reference)] == ([] if last is None else [last])


def test_each_item_of_a_list_that_is_written_short_is_found() -> None:
    items = [Row(uuid4(), reference=f"INV-2026-140{at}") for at in (1, 2, 3)]
    line = Row(uuid4(), remittance="INV-2026-1401/02/03 of 04.02.")
    found = Highlights([Seen("reference", 5)], items=items, lines=[line])
    assert marked(found, line, "remittance") == [("INV-2026-1401", "1.1"), ("02", "1.2"), ("03", "1.3")]
    assert marked(found, items[1], "reference") == [("INV-2026-1402", "1.2")]


def test_words_that_names_share_are_marked_or_those_that_only_one_has() -> None:
    item, line = Row(uuid4(), counterparty_name="Müller Logistik GmbH"), Row(uuid4(), counterparty_name="MUELLER LOG.")
    alike = Highlights([Seen("name", 2)], items=[item], lines=[line])
    assert marked(alike, item, "counterparty_name") == [("Müller", "1"), ("Logistik", "1")]
    assert marked(alike, line, "counterparty_name") == [("MUELLER", "1"), ("LOG", "1")]
    apart = Highlights([Seen("name", -2)], items=[item], lines=[line])
    assert [text for text, _ in marked(apart, item, "counterparty_name")] == ["Müller", "Logistik", "GmbH"]
    [part, *_] = apart.parts(item, "counterparty_name")
    assert part.mark is not None
    assert not part.mark.speaks_for
    # What both have speaks for nothing there, and neither does a legal form.
    item, line = (
        Row(uuid4(), counterparty_name="Dirk Leunig GmbH"),
        Row(uuid4(), counterparty_name="Dirk Leunig 70 Zeichen"),
    )
    apart = Highlights([Seen("name", -2)], items=[item], lines=[line])
    assert marked(apart, item, "counterparty_name") == []
    assert [text for text, _ in marked(apart, line, "counterparty_name")] == ["70", "Zeichen"]


@pytest.mark.parametrize(
    ("level", "compared"),
    [("ultimate", "ultimate_counterparty_name"), ("similar", "counterparty_name"), ("text", "remittance")],
)
def test_a_name_is_marked_where_it_was_compared(level: str, compared: str) -> None:
    item = Row(uuid4(), counterparty_name="Bolt GmbH")
    line = Row(uuid4(), counterparty_name="Bolt Holding", ultimate_counterparty_name="BOLT", remittance="ACH BOLT 4711")
    found = Highlights([Seen("name", 4.1, level)], items=[item], lines=[line])
    assert marked(found, item, "counterparty_name") == [("Bolt", "1")]
    assert [name for name in TEXTS if marked(found, line, name)] == [compared]


def test_accounts_are_the_same_whatever_their_blanks() -> None:
    item = Row(uuid4(), counterparty_account="DE89 3704 0044 0532 0130 00")
    line = Row(uuid4(), counterparty_account="de89370400440532013000")
    found = Highlights([Seen("account", 2)], items=[item], lines=[line])
    assert marked(found, item, "counterparty_account") == [(item.counterparty_account, "1")]
    assert marked(found, line, "counterparty_account") == [(line.counterparty_account, "1")]
