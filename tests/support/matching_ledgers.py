"""Many items and few lines that have things in common by chance, for properties of what lines may reach."""

from __future__ import annotations

from hypothesis import strategies as st

from support.matching_frames import Item, Line

NAMES = st.sampled_from(
    [None, "Zangra Handel", "Znagra Handel", "Quentlin Maschinenbau", "Quentlin Maschinenba", "Obrist Feinmechanik"]
)
ACCOUNTS = st.sampled_from([None, "DE1", "DE2", "DE3", "GIRO"])
AMOUNTS = st.sampled_from([1_000, 2_000, 3_000, 3_030, 5_000, 9_000])
WORDS = st.sampled_from(
    [None, "INV-70001", "INV-70002", "RENT", "4711", "PO-2026-7", "CN-10001", "INV-2026-70001", "INV-2026-70010"]
)
DIRECTIONS = st.sampled_from([1, 1, 1, -1])
CURRENCIES = st.sampled_from(["EUR", "EUR", "EUR", "USD"])


@st.composite
def ledgers(draw: st.DrawFn) -> tuple[list[Item], list[Line]]:
    """Draw many items and few lines that share payers, amounts, references and group ids by chance."""
    items = [
        Item(
            f"e{at}",
            amount=draw(AMOUNTS),
            direction=draw(DIRECTIONS),
            currency=draw(CURRENCIES),
            due=20_600 + draw(st.integers(0, 40)),
            reference=draw(WORDS),
            end_to_end_id=draw(st.sampled_from([None, None, "ORDER-00001"])),
            name=draw(NAMES),
            iban=draw(ACCOUNTS),
            account=draw(st.sampled_from([None, None, "GIRO"])),
            group=draw(st.sampled_from([None, None, "PO-2026-7", "INV-70001"])),
            band=draw(st.sampled_from([(None, None), (None, None), (900, 3_100)])),
        )
        for at in range(draw(st.integers(0, 24)))
    ]
    lines = [
        Line(
            f"i{at}",
            amount=draw(AMOUNTS),
            direction=draw(DIRECTIONS),
            currency=draw(CURRENCIES),
            day=20_600 + draw(st.integers(0, 40)),
            text=draw(WORDS | NAMES),
            name=draw(NAMES),
            ultimate=draw(st.none() | NAMES),
            iban=draw(ACCOUNTS),
            account=draw(st.sampled_from([None, None, "GIRO", "SAVINGS"])),
            group=draw(st.sampled_from([None, None, "PO-2026-7"])),
            reversal=draw(st.sampled_from([False, False, False, True])),
        )
        for at in range(draw(st.integers(0, 4)))
    ]
    return items, lines


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[Item], list[Line]]:
    """Draw more items of one amount than tell anything by it, some of them alike, and lines of that amount."""
    words = st.sampled_from(["Zangra", "Quentlin", "Obrist", "Handel", "Maschinenbau", "Nord"])
    names = st.none() | st.lists(words, min_size=1, max_size=3, unique=True).map(" ".join)
    accounts = st.sampled_from([None, "DE1", "DE2", "DE3"])
    items = [
        Item(
            f"e{at}",
            amount=draw(st.sampled_from([1_000, 1_000, 1_000, 2_000])),
            direction=draw(st.sampled_from([1, 1, 1, 1, -1])),
            currency=draw(st.sampled_from(["EUR"] * 7 + ["USD"])),
            due=20_600 + draw(st.integers(0, 9)),
            reference=draw(st.sampled_from([None, None, None, "INV-70001", "INV-70002", "INV-2026-70001"])),
            name=draw(names),
            iban=draw(accounts),
            # Some have an equal.
            tie=draw(st.sampled_from([None, None, "tie"])),
        )
        for at in range(draw(st.integers(10, 40)))
    ]
    lines = [
        Line(
            f"i{at}",
            amount=draw(st.sampled_from([1_000, 1_000, 2_000, 3_000])),
            day=20_600 + draw(st.integers(0, 9)),
            text=draw(st.sampled_from([None, None, "INV-70001", "INV-2026-70010"])),
            name=draw(names),
            iban=draw(st.sampled_from([None, None, "DE1"])),
        )
        for at in range(draw(st.integers(1, 4)))
    ]
    return items, lines
