"""Data made to match everything with everything cost about what ordinary data cost, counted in rows, not in seconds."""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import REMITTANCE_KEYS_MAX
from payrec.domain.matching import blind_parties, block
from payrec.domain.matching.columns import ColumnsError
from payrec.domain.matching.engine import propose
from payrec.domain.matching.keys import remittance_keys
from payrec.domain.matching.names import NAMES_SCHEMA, normalised, resolved
from payrec.domain.matching.rules import (
    ALTERNATIVES_MAX,
    BLIND_ITEMS_MAX,
    GROUP_LEGS_MAX,
    Confidence,
    GroupLevel,
    MatchingRules,
    Reason,
    Uniqueness,
)
from support.matching_frames import Item, Line, expected_frame, incoming_frame, level, only, run, sure
from support.matching_hostile import KINDS, ORDINARY, WORDY, joined_rows

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
ROWS = 20_000
MOST = 2**63 - 1

BAFFLING = ("every line pays the same fifty", "every line quotes the same batches")
"""Kinds whose lines have as many keys as those of WORDY."""


@pytest.mark.parametrize("kind", KINDS)
def test_work_is_in_proportion_to_what_comes_in(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a run of any size: what a small one may do beyond that is measured below.
    monkeypatch.setattr(block, "PAIRS_MIN", 1)
    monkeypatch.setattr(blind_parties, "BLIND_SETS_MIN", 1)
    items, lines = KINDS[kind].frames(ROWS)
    size = items.height + lines.height + int(lines["reference_keys"].list.len().sum())
    with joined_rows(monkeypatch) as joins:
        result = propose(items, lines, RULES)
    assert max(joins) <= 4 * size
    assert sum(joins) <= 45 * size
    assert result.counts.candidates <= 3 * (items.height + lines.height)
    assert result.alternatives.height <= 2 * ALTERNATIVES_MAX * result.counts.proposed
    # Whatever was left out, every line is proposed or has its reason.
    proposed = result.legs["incoming"].n_unique()
    assert proposed + sum(result.counts.open_incoming.values()) == lines.height
    assert result.legs["expected"].n_unique() + sum(result.counts.open_expected.values()) == items.height


def test_claims_on_the_rows_of_many_groups_are_counted_and_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    items, lines = KINDS["every line pays the same fifty"].frames(3_900)
    with joined_rows(monkeypatch) as joins:
        result = propose(items, lines, RULES)
    assert result.counts.candidates == 3_900 * 50
    # Each line's group has 50 items, and each of them up to 3,900 claims.
    assert max(joins) <= 2 * 50 * 3_900 * (ALTERNATIVES_MAX + 1)
    [group] = result.matches.filter(pl.col("size") > 1).iter_rows(named=True)
    # Items of its own of the amount of one that it quotes.
    assert 0 < group["rivals_expected"] <= 2 * (ALTERNATIVES_MAX + 1)
    assert 100_000 < group["rivals_incoming"] < 50 * 3_900
    assert not result.matches["auto"].any()


@pytest.mark.parametrize(
    "kind",
    [
        "every line quotes the same items",
        "every line quotes the same batches",
        "every line quotes the same dozen",
        "every line pays the same fifty",
        "as many of one payer and amount as may be",
        "as many of one payer as may be",
        "payers of one amount",
    ],
)
def test_what_the_budget_left_out_is_said_and_never_accepted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "PAIRS_MIN", 1)
    monkeypatch.setattr(blind_parties, "BLIND_SETS_MIN", 1)
    result = propose(*KINDS[kind].frames(ROWS), RULES)
    assert result.counts.open_incoming["budget_exhausted"] > 0
    assert result.counts.auto_accepted == 0


def test_another_order_of_the_rows_leaves_out_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "PAIRS_MIN", 1)
    monkeypatch.setattr(blind_parties, "BLIND_SETS_MIN", 1)
    for kind in ("as many of one payer and amount as may be", "payers of as many alike as are searched"):
        items, lines = KINDS[kind].frames(ROWS // 10)
        first = propose(items, lines, RULES)
        mixed = propose(items.sample(fraction=1, shuffle=True, seed=1), lines.reverse(), RULES)
        for name in ("matches", "legs", "alternatives", "open_expected", "open_incoming"):
            assert getattr(mixed, name).equals(getattr(first, name))


def peak_mib(kind: str, rows: int) -> int:
    """Return the most memory that a process had which proposed among so many rows."""
    script = (
        "import sys; sys.path[:0] = sys.argv[3:]\n"
        "from payrec.bench.process import peak_rss_mib\n"
        "from payrec.domain.matching.engine import propose\n"
        "from payrec.domain.matching.rules import MatchingRules\n"
        "from support.matching_hostile import KINDS\n"
        "propose(*KINDS[sys.argv[1]].frames(int(sys.argv[2])), MatchingRules(auto_accept=True))\n"
        "print(peak_rss_mib())\n"
    )
    command = [sys.executable, "-c", script, kind, str(rows), *sys.path]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603 - ours


def test_memory_is_that_of_ordinary_data() -> None:
    for ordinary, kinds in ((WORDY, BAFFLING), (ORDINARY, ("parts of everything",))):
        most = 2 * peak_mib(ordinary, 40_000)
        assert all(peak_mib(kind, 40_000) <= most for kind in kinds)


def test_ten_thousand_items_that_sum_to_one_payment() -> None:
    items = [Item(f"e{at}", amount=1_000 + at, iban="DE1", due=20_590 + at % 20) for at in range(GROUP_LEGS_MAX)]
    line = Line("x", amount=sum(item.amount for item in items), iban="DE1")
    unnamed = run(items, [line], RULES)
    assert unnamed.matches == []
    assert unnamed.lines["x"][0] is Reason.BUDGET_EXHAUSTED
    assert {reason[0] for reason in unnamed.items.values()} == {Reason.BUDGET_EXHAUSTED}
    batch = only(run([replace(item, group="PO-2026-7") for item in items], [replace(line, text="PO-2026-7")], RULES))
    assert (len(batch.legs), level(batch)) == (GROUP_LEGS_MAX, GroupLevel.BY_KEY)
    assert sure(batch) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
    few = run(items[:BLIND_ITEMS_MAX], [replace(line, amount=sum(item.amount for item in items[:50]))], RULES)
    assert not any(match.auto for match in few.matches)


EDGES = st.sampled_from([1, 2, 5, 2**31, 2**53, 2**62, 2**62 + 1, MOST - 5, MOST - 1, MOST])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(EDGES, min_size=1, max_size=5),
    st.lists(EDGES, min_size=1, max_size=4),
    st.sampled_from(["batch", "references", "instalments", "payer", "amount"]),
    st.sampled_from([0, 5, 10_000]),
)
def test_amounts_at_the_edge_never_wrap(asked: list[int], paid: list[int], held_by: str, points: int) -> None:
    rules = replace(RULES, amount_tolerance_basis_points=points, amount_tolerance_minor=points)
    party = {"iban": "DE1"} if held_by == "payer" else {}
    items = [
        Item(
            f"e{at}",
            amount=amount,
            reference="INV-10000" if held_by == "instalments" else f"INV-1000{at}",
            group="PO-2026-7" if held_by == "batch" else None,
            due=20_600 + at,
            band=(1, MOST) if at == 1 else (None, None),
            **party,  # type: ignore[arg-type]
        )
        for at, amount in enumerate(asked)
    ]
    texts = {
        "batch": "PO-2026-7",
        "references": " ".join(str(item.reference) for item in items),
        "instalments": "INV-10000",
    }
    text = texts.get(held_by)
    lines = [
        Line(f"x{at}", amount=amount, day=20_600 + at, text=text, **party)  # type: ignore[arg-type]
        for at, amount in enumerate(paid)
    ]
    outcome = run(items, lines, rules)
    for ids, rows, end in (("e", items, 0), ("x", lines, 1)):
        for at, row in enumerate(rows):
            taken = [leg[2] for match in outcome.matches for leg in match.legs if leg[end] == f"{ids}{at}"]
            assert all(amount >= 1 for amount in taken)
            assert sum(taken) <= row.amount
    for match in outcome.matches:
        assert match.amount == sum(leg[2] for leg in match.legs)
        if len(match.legs) == 1:
            amounts = {row.id: row.amount for row in (*items, *lines)}
            assert match.difference == amounts[match.line] - amounts[match.item]


@pytest.mark.parametrize("amount", [0, -1, -MOST - 1])
def test_an_amount_that_is_none_is_refused(amount: int) -> None:
    items, lines = expected_frame([Item("e")]), incoming_frame([Line("x")])
    wrong = pl.lit(amount, dtype=pl.Int64)
    for name in ("amount_minor", "total_minor"):
        with pytest.raises(ColumnsError, match=name):
            propose(items.with_columns(wrong.alias(name)), lines, RULES)
        with pytest.raises(ColumnsError, match=name):
            propose(items, lines.with_columns(wrong.alias(name)), RULES)


NOTHING = ["", " ", "\t\r\n", "\x00", "\x01\x02\x1f\x7f", "\u200b\u200d\ufeff", "\u202e\u2066\u2069", "...---///"]


@pytest.mark.parametrize("text", NOTHING)
def test_a_text_without_content_connects_nothing(text: str) -> None:
    item = Item("e", reference=text, end_to_end_id=text, name=text, iban=text, account=text, group=text)
    line = Line("x", amount=9_999, text=text, structured=text, end_to_end_id=text, name=text, iban=text, group=text)
    outcome = run([item], [replace(line, account=text)], RULES)
    assert not outcome.matches
    same = only(run([item], [replace(line, amount=10_000)], RULES))
    assert sure(same) == (Confidence.LOW, Uniqueness.UNIQUE, False)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("Jose\u0301 Nun\u0303ez", "José Nuñez"),  # combining marks
        ("\u202bשלום בע״מ\u202c", "שלום בע״מ"),  # marks of direction
        ("\u200fشركة النور", "شركة النور"),
        ("ＡＬＰＨＡ Ｔｒａｄｉｎｇ", "Alpha Trading"),  # full width
    ],
)
def test_a_name_is_the_same_however_it_is_encoded(ours: str, theirs: str) -> None:
    assert ours != theirs
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        outcome = run([Item("e", name=ours)], [Line("x", name=unicodedata.normalize(form, theirs))], RULES)
        assert sure(only(outcome)) == (Confidence.HIGH, Uniqueness.UNIQUE, True)


def test_a_text_of_many_combining_marks_costs_no_more() -> None:
    outcome = run([Item("e", name="Alpha" + "\u0301" * 400)], [Line("x", name="Alpha", text="é\u0301" * 30_000)], RULES)
    assert only(outcome).auto


def test_text_that_runs_the_other_way_proves_only_what_it_says() -> None:
    # Shown, it reads 71071-VNI; what counts is what is written.
    outcome = run([Item("e", reference="INV-17017")], [Line("x", text="\u202eINV-17017\u202c", amount=10_000)], RULES)
    assert only(outcome).auto
    turned = run([Item("e", reference="INV-17017")], [Line("x", text="\u202e71071-VNI")], RULES)
    assert only(turned).confidence is Confidence.LOW


@pytest.mark.parametrize("digits", ["1" * 140, "1234567890" * 14, "0" * 140])
def test_a_text_of_digits_alone_is_one_number(digits: str) -> None:
    # A reference that is a part of a longer number is not quoted by it.
    items = [Item(f"e{at}", reference=digits[at : at + 10], amount=10_000 + at) for at in range(10)]
    line = Line("x", text=digits, amount=10_003)
    assert len(remittance_keys(digits)) == 1
    assert not any(match.auto or match.confidence >= Confidence.HIGH for match in run(items, [line], RULES).matches)
    whole = run([Item("e", reference=digits)], [line], RULES)
    assert only(whole).confidence is Confidence.MEDIUM


def test_digits_in_any_grouping_are_bounded() -> None:
    for size in (1, 2, 3, 5, 8):
        text = " ".join("1234567890"[at % 10 : at % 10 + size] for at in range(140))
        assert len(remittance_keys(text)) <= REMITTANCE_KEYS_MAX


@pytest.mark.parametrize("day", [-(2**31), -700_000, 0, 20_600 - 31, 20_600 + 61, 2**31 - 1])
def test_a_day_outside_the_window_is_a_reason_and_never_a_match(day: int) -> None:
    item = Item("e", reference="INV-17017", iban="DE1", group="PO-2026-7")
    outcome = run([item], [Line("x", text="INV-17017 PO-2026-7", iban="DE1", day=day)], RULES)
    assert outcome.matches == []
    assert outcome.lines["x"][0] is Reason.DATE_OUT_OF_WINDOW
    assert outcome.lines["x"][2] == max(20_600 - 30 - day, day - 20_660)


def test_names_of_many_and_of_long_words_bring_few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3_000
    words = [f"{chr(65 + at % 26)}{at:05d}{'X' * (at % 60)}" for at in range(count // 10)]
    texts = [" ".join(words[(at * step) % len(words)] for step in (1, 3, 7, 11, 13, 17, 19, 23)) for at in range(count)]
    ours = pl.Series("key", range(count), dtype=pl.Int64)
    theirs = ours + count
    frame = pl.DataFrame(
        {"key": pl.concat([ours, theirs]), "text": [*texts, *(f"{text[:-1]} Q" for text in texts)]},
        schema=dict(NAMES_SCHEMA),
    )
    with joined_rows(monkeypatch) as joins:
        resolved(ours, theirs, normalised(frame))
    assert max(joins) <= 2 * count * 64
