from __future__ import annotations

from itertools import permutations

import pytest

from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import (
    ALTERNATIVES_MAX,
    ENGINE_VERSION,
    KEY_ITEMS_MAX,
    AmountLevel,
    Confidence,
    DateLevel,
    MatchingRules,
    Reason,
    ReferenceLevel,
    Side,
    Uniqueness,
)
from support.matching_frames import Item, Line, Outcome, run

AUTO_HIGH = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")


def only(outcome: Outcome) -> tuple[Confidence, Uniqueness, bool]:
    (pair,) = outcome.pairs.values()
    return pair.confidence, pair.status, pair.auto


def test_full_reference_and_equal_amount_is_exact_and_accepted() -> None:
    outcome = run([Item("e", reference="INV-2024-17")], [Line("i", text="Rechnung INV 2024 17 danke")])
    assert only(outcome) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
    assert outcome.pairs["e", "i"].amount == 10_000
    assert outcome.levels("e", "i")["reference"] == ReferenceLevel.FULL
    assert (outcome.items, outcome.lines, outcome.alternatives) == ({}, {}, [])
    assert outcome.proposals.engine_version == ENGINE_VERSION


def test_nothing_is_accepted_unless_the_rules_say_so() -> None:
    outcome = run([Item("e", reference="INV-17")], [Line("i", text="INV-17")], MatchingRules())
    assert only(outcome) == (Confidence.EXACT, Uniqueness.UNIQUE, False)


def test_end_to_end_id_proves() -> None:
    outcome = run([Item("e", end_to_end_id="E2E-000815")], [Line("i", end_to_end_id="e2e 000815")])
    assert only(outcome) == (Confidence.EXACT, Uniqueness.UNIQUE, True)


def test_placeholder_ids_prove_nothing() -> None:
    outcome = run([Item("e", end_to_end_id="NOTPROVIDED", due=1)], [Line("i", end_to_end_id="NOTPROVIDED")])
    assert not outcome.pairs


def test_reference_in_the_end_to_end_id_and_the_other_way_round() -> None:
    items = [Item("a", reference="INV-17017"), Item("b", end_to_end_id="ORDER-18", amount=5)]
    lines = [Line("x", end_to_end_id="INV17017"), Line("y", text="for ORDER-18", amount=5)]
    outcome = run(items, lines)
    assert {key: pair.confidence for key, pair in outcome.pairs.items()} == {
        ("a", "x"): Confidence.EXACT,
        ("b", "y"): Confidence.EXACT,
    }


@pytest.mark.parametrize("reference", ["4711", "RENT", "A1B"])
def test_short_or_digitless_reference_alone_is_no_proof(reference: str) -> None:
    outcome = run([Item("e", reference=reference)], [Line("i", structured=reference)], AUTO_HIGH)
    assert only(outcome) == (Confidence.MEDIUM, Uniqueness.UNIQUE, False)


@pytest.mark.parametrize("party", [{"iban": "DE89 3704 0044 0532 0130 00"}, {"name": "Müller & Söhne GmbH"}])
def test_counterparty_and_amount_unique_is_high(party: dict[str, str]) -> None:
    outcome = run([Item("e", **party)], [Line("i", **party)], AUTO_HIGH)
    assert only(outcome) == (Confidence.HIGH, Uniqueness.UNIQUE, True)
    assert not run([Item("e", **party)], [Line("i", **party)]).pairs["e", "i"].auto


def test_two_items_of_one_payer_are_contested_and_the_better_date_wins() -> None:
    items = [Item("may", iban="DE1", due=20_570), Item("june", iban="DE1", due=20_600)]
    outcome = run(items, [Line("i", iban="DE1", day=20_601)], AUTO_HIGH)
    assert list(outcome.pairs) == [("june", "i")]
    assert only(outcome) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    assert outcome.alternatives == [(("june", "i"), Side.EXPECTED, ("may", "i"))]
    assert outcome.items["may"][:2] == (Reason.AMBIGUOUS, "i")


def test_a_tie_is_proposed_as_ambiguous_with_its_alternatives() -> None:
    outcome = run([Item(f"e{at}", iban="DE1") for at in range(8)], [Line("i", iban="DE1")], AUTO_HIGH)
    assert only(outcome) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    assert len(outcome.alternatives) == ALTERNATIVES_MAX
    assert {reason for reason, *_ in outcome.items.values()} == {Reason.AMBIGUOUS}


def test_a_reference_on_two_items_proves_neither() -> None:
    items = [Item("a", reference="INV-17017"), Item("b", reference="INV-17017", amount=7)]
    outcome = run(items, [Line("i", text="INV-17017")], AUTO_HIGH)
    assert outcome.pairs["a", "i"].confidence is Confidence.MEDIUM
    assert not outcome.pairs["a", "i"].auto


def test_two_full_payments_of_one_item_are_ambiguous() -> None:
    lines = [Line("x", text="INV-17017"), Line("y", text="INV-17017 thanks", iban="DE1")]
    outcome = run([Item("e", reference="INV-17017")], lines)
    assert only(outcome) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    assert sorted(outcome.alternatives[0][2] + outcome.alternatives[0][0]) == ["e", "e", "x", "y"]
    assert [reason for reason, *_ in outcome.lines.values()] == [Reason.AMBIGUOUS]


def test_the_proof_wins_over_the_same_payer_and_amount() -> None:
    items = [Item("jan", reference="INV-10001", iban="DE1"), Item("feb", reference="INV-10002", iban="DE1")]
    lines = [Line("x", text="INV-10002", iban="DE1"), Line("y", text="INV-10001", iban="DE1")]
    outcome = run(items, lines)
    assert {key: pair.confidence for key, pair in outcome.pairs.items()} == {
        ("jan", "y"): Confidence.EXACT,
        ("feb", "x"): Confidence.EXACT,
    }


def test_amount_and_date_alone_are_proposed_and_never_accepted() -> None:
    outcome = run([Item("e")], [Line("i")], AUTO_HIGH)
    assert only(outcome) == (Confidence.LOW, Uniqueness.UNIQUE, False)


def test_amount_and_date_with_many_candidates_propose_nothing() -> None:
    outcome = run([Item(f"e{at}") for at in range(4)], [Line("i")])
    assert not outcome.pairs
    assert outcome.lines["i"][0] is Reason.AMBIGUOUS


def test_another_counterparty_is_no_match_by_amount() -> None:
    outcome = run([Item("e", name="Alpha")], [Line("i", name="Beta")])
    assert outcome.lines["i"] == (Reason.COUNTERPARTY_MISMATCH, "e", 0, 0)
    assert outcome.items["e"][:2] == (Reason.COUNTERPARTY_MISMATCH, "i")


def test_currencies_and_directions_never_mix() -> None:
    item = Item("e", reference="INV-17017", iban="DE1")
    usd = run([item], [Line("i", text="INV-17017", iban="DE1", currency="USD")])
    assert not usd.pairs
    assert usd.lines["i"][:2] == (Reason.CURRENCY_MISMATCH, "e")
    assert usd.items["e"][:2] == (Reason.CURRENCY_MISMATCH, "i")
    debit = run([item], [Line("i", text="INV-17017", iban="DE1", direction=-1)])
    assert not debit.pairs
    assert debit.lines["i"][0] is Reason.NO_CANDIDATE


def test_pending_is_proposed_and_not_accepted() -> None:
    outcome = run([Item("e", reference="INV-17017")], [Line("i", text="INV-17017", pending=True)], AUTO_HIGH)
    assert only(outcome) == (Confidence.EXACT, Uniqueness.UNIQUE, False)
    assert outcome.proposals.matches["pending"].to_list() == [True]


def test_an_item_that_only_a_pending_line_wants_says_so() -> None:
    items = [Item("a", reference="INV-17017"), Item("b", reference="INV-17017")]
    outcome = run(items, [Line("i", text="INV-17017", pending=True)])
    assert [reason for reason, *_ in outcome.items.values()] == [Reason.PENDING_ONLY]


def test_reversals_are_never_proposed() -> None:
    outcome = run(
        [Item("e", reference="INV-17017", iban="DE1")], [Line("i", text="INV-17017", iban="DE1", reversal=True)]
    )
    assert not outcome.pairs
    assert outcome.lines["i"][0] is Reason.NO_CANDIDATE


def test_a_flagged_duplicate_neither_competes_nor_is_accepted() -> None:
    lines = [Line("first", text="INV-17017"), Line("again", text="INV-17017", duplicate=True)]
    outcome = run([Item("e", reference="INV-17017")], lines)
    assert list(outcome.pairs) == [("e", "first")]
    assert only(outcome) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
    assert outcome.lines["again"][:2] == (Reason.DUPLICATE, "e")
    alone = run([Item("e", reference="INV-17017")], lines[1:], AUTO_HIGH)
    assert only(alone)[::2] == (Confidence.LOW, False)


def test_part_payment_takes_what_was_paid() -> None:
    outcome = run([Item("e", reference="INV-17017")], [Line("i", text="INV-17017", amount=4_000)])
    pair = outcome.pairs["e", "i"]
    assert (pair.amount, pair.confidence, pair.auto, pair.difference) == (4_000, Confidence.MEDIUM, False, -6_000)
    assert outcome.levels("e", "i")["amount"] == AmountLevel.SMALLER


def test_parts_are_proposed_up_to_the_open_amount() -> None:
    lines = [Line(f"i{at}", text="INV-17017", amount=amount) for at, amount in enumerate((3_000, 3_001, 3_002, 3_003))]
    outcome = run([Item("e", reference="INV-17017")], lines)
    assert {pair.line: pair.amount for pair in outcome.pairs.values()} == {"i0": 3_000, "i1": 3_001, "i2": 3_002}
    assert {pair.confidence for pair in outcome.pairs.values()} == {Confidence.MEDIUM}
    assert outcome.lines == {"i3": (Reason.AMOUNT_MISMATCH, "e", 0, -6_997)}


def test_overpayment_leaves_the_rest_open() -> None:
    outcome = run([Item("e", reference="INV-17017")], [Line("i", text="INV-17017", amount=10_500)])
    pair = outcome.pairs["e", "i"]
    assert (pair.amount, pair.confidence, pair.auto, pair.difference) == (10_000, Confidence.MEDIUM, False, 500)


def test_without_a_proof_another_amount_is_a_mismatch() -> None:
    outcome = run([Item("e", iban="DE1")], [Line("i", iban="DE1", amount=5_900)])
    assert not outcome.pairs
    assert outcome.lines["i"] == (Reason.AMOUNT_MISMATCH, "e", None, -4_100)
    assert outcome.items["e"] == (Reason.AMOUNT_MISMATCH, "i", None, -4_100)


@pytest.mark.parametrize(
    "rules",
    [
        MatchingRules(auto_accept=True, auto_accept_min_confidence="high", amount_tolerance_minor=100),
        MatchingRules(auto_accept=True, auto_accept_min_confidence="high", amount_tolerance_basis_points=100),
    ],
)
def test_a_tolerance_makes_amounts_equal(rules: MatchingRules) -> None:
    items = [Item("e", iban="DE1", reference="INV-17017")]
    by_account = run(items, [Line("i", iban="DE1", amount=9_900)], rules)
    assert only(by_account) == (Confidence.HIGH, Uniqueness.UNIQUE, True)
    by_reference = run(items, [Line("i", text="INV-17017", amount=9_900)], rules)
    assert only(by_reference) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
    assert by_reference.pairs["e", "i"].amount == 9_900
    beyond = run(items, [Line("i", iban="DE1", amount=9_899)], rules)
    assert only(beyond) == (Confidence.MEDIUM, Uniqueness.UNIQUE, False)


def test_the_band_of_an_item_settles_it_whole() -> None:
    item = Item("e", iban="DE1", band=(9_000, 11_000))
    outcome = run([item], [Line("i", iban="DE1", amount=10_700)], AUTO_HIGH)
    assert only(outcome) == (Confidence.HIGH, Uniqueness.UNIQUE, True)
    assert outcome.pairs["e", "i"].amount == 10_000
    assert outcome.levels("e", "i")["amount"] == AmountLevel.BAND
    assert not run([item], [Line("i", iban="DE1", amount=11_001)]).pairs


def test_outside_the_window_even_a_proof_is_not_proposed() -> None:
    item = Item("e", reference="INV-17017", due=20_600)
    assert run([item], [Line("i", text="INV-17017", day=20_660)]).pairs
    assert run([item], [Line("i", text="INV-17017", day=20_570)]).pairs
    late = run([item], [Line("i", text="INV-17017", day=20_664)])
    assert late.lines["i"] == (Reason.DATE_OUT_OF_WINDOW, "e", 4, 0)
    assert late.items["e"] == (Reason.DATE_OUT_OF_WINDOW, "i", 4, 0)
    early = run([item], [Line("i", text="INV-17017", day=20_569)])
    assert early.lines["i"][2] == 1


def test_the_span_of_an_item_and_missing_dates() -> None:
    item = Item("e", reference="INV-17017", due=None, span=(20_600, 20_700))
    assert run([item], [Line("i", text="INV-17017", day=20_650)]).levels("e", "i")["date"] == DateLevel.NEAR
    assert run([item], [Line("i", text="INV-17017", day=20_760)]).pairs
    assert not run([item], [Line("i", text="INV-17017", day=20_761)]).pairs
    assert run([item], [Line("i", text="INV-17017", day=None)]).levels("e", "i")["date"] == DateLevel.UNKNOWN
    endless = Item("e", reference="INV-17017", due=None, span=(20_600, None))
    assert run([endless], [Line("i", text="INV-17017", day=30_000)]).pairs


def test_a_required_reference_is_required() -> None:
    rules = MatchingRules(required=Required.REFERENCE)
    outcome = run([Item("e", iban="DE1")], [Line("i", iban="DE1")], rules)
    assert not outcome.pairs
    assert outcome.lines["i"][:2] == (Reason.MISSING_REFERENCE, "e")
    assert run([Item("e", reference="INV-17017")], [Line("i", text="INV-17017")], rules).pairs
    assert run([Item("e")], [Line("i")], rules).lines["i"][0] is Reason.MISSING_REFERENCE


def test_a_rejected_pair_is_not_proposed_again() -> None:
    items, lines = [Item("e", reference="INV-17017", iban="DE1")], [Line("i", text="INV-17017", iban="DE1")]
    outcome = run(items, lines, rejected=[("e", "i")])
    assert not outcome.pairs
    assert outcome.lines["i"] == (Reason.NO_CANDIDATE, None, None, None)


def test_a_line_that_quotes_more_than_the_budget_says_so() -> None:
    items = [
        Item(f"e{group}-{at}", reference=f"R{group:03d}", amount=1 + group)
        for group in range(12)
        for at in range(KEY_ITEMS_MAX)
    ]
    text = " ".join(f"R{group:03d}" for group in range(12))
    outcome = run(items, [Line("i", text=text, amount=77)])
    assert outcome.lines["i"][0] is Reason.BUDGET_EXHAUSTED


def test_a_common_reference_is_dropped_but_not_forgotten() -> None:
    items = [Item(f"e{at}", reference="RENT2024") for at in range(KEY_ITEMS_MAX + 1)]
    outcome = run([*items, Item("other", iban="DE1")], [Line("i", text="RENT2024", iban="DE1")], AUTO_HIGH)
    # The line quotes a reference that belongs to others, so "nothing else fits" cannot be said.
    assert list(outcome.pairs) == [("other", "i")]
    assert only(outcome) == (Confidence.MEDIUM, Uniqueness.UNBOUNDED, False)
    own = [Item("mine", reference="RENT2024", iban="DE1"), *items]
    outcome = run(own, [Line("i", text="RENT2024", iban="DE1")], AUTO_HIGH)
    assert outcome.levels("mine", "i")["reference"] == ReferenceLevel.COMMON
    assert only(outcome) == (Confidence.HIGH, Uniqueness.UNIQUE, True)
    assert run(items, [Line("i", text="RENT2024")]).lines["i"][0] is Reason.AMBIGUOUS


def test_a_common_payer_and_amount_is_ambiguous() -> None:
    outcome = run([Item(f"e{at}", iban="DE1") for at in range(KEY_ITEMS_MAX + 1)], [Line("i", iban="DE1")])
    assert not outcome.pairs
    assert outcome.lines["i"][0] is Reason.AMBIGUOUS
    assert {reason for reason, *_ in outcome.items.values()} == {Reason.AMBIGUOUS}


def test_rows_equal_in_all_content_are_ambiguous() -> None:
    items = [Item(f"e{at}", reference="INV-17017", iban="DE1", tie="same") for at in range(2)]
    lines = [Line(f"i{at}", text="INV-17017", iban="DE1", tie="same") for at in range(2)]
    outcome = run(items, lines, AUTO_HIGH)
    assert len(outcome.pairs) == 2
    assert {pair.status for pair in outcome.pairs.values()} == {Uniqueness.AMBIGUOUS}
    assert not any(pair.auto for pair in outcome.pairs.values())


def test_the_second_choice_between_equal_rows_is_marked_too() -> None:
    items = [Item(f"e{at}", iban="DE1", tie="same") for at in range(2)]
    outcome = run(items, [Line("near", iban="DE1"), Line("far", iban="DE1", day=20_640)], AUTO_HIGH)
    # The near line wins either item; what is left for the far one was decided by that.
    assert {pair.line: pair.status for pair in outcome.pairs.values()} == {
        "near": Uniqueness.AMBIGUOUS,
        "far": Uniqueness.AMBIGUOUS,
    }


def test_ties_are_broken_by_content_and_not_by_place() -> None:
    items = [Item(f"e{at}", iban="DE1") for at in range(4)]
    lines = [Line(f"i{at}", iban="DE1") for at in range(2)]
    first = run(items, lines)
    # Every fifth of the 24 orders.
    for order in list(permutations(items))[::5]:
        assert run(order, lines[::-1]).summary() == first.summary()


def test_empty_sides() -> None:
    nothing = run([], [])
    assert nothing.summary()[:4] == ([], {}, {}, [])
    assert run([Item("e")], []).items == {"e": (Reason.NO_CANDIDATE, None, None, None)}
    assert run([], [Line("i", text="INV-17017")]).lines == {"i": (Reason.NO_CANDIDATE, None, None, None)}


def test_empty_and_control_character_texts_match_nothing() -> None:
    texts = ["", " ", "\x00\x01\x02", "\u202e\u200b", "---", "\ud800"]
    items = [Item(f"e{at}", reference=t, end_to_end_id=t, iban=t, amount=1 + at) for at, t in enumerate(texts)]
    lines = [
        Line(f"i{at}", text=t, structured=t, end_to_end_id=t, iban=t, amount=90 + at) for at, t in enumerate(texts)
    ]
    assert not run(items, lines).pairs


def test_amounts_at_the_edge_of_64_bits() -> None:
    most = 2**63 - 1
    rules = MatchingRules(auto_accept=True, amount_tolerance_minor=5, amount_tolerance_basis_points=10_000)
    outcome = run([Item("e", amount=most, reference="INV-17017")], [Line("i", amount=most, text="INV-17017")], rules)
    assert only(outcome) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
    outcome = run([Item("e", amount=most, reference="INV-17017")], [Line("i", amount=3, text="INV-17017")], rules)
    assert outcome.levels("e", "i")["amount"] == AmountLevel.TOLERANCE
    tight = MatchingRules(auto_accept=True, amount_tolerance_basis_points=1)
    outcome = run([Item("e", amount=most, reference="INV-17017")], [Line("i", amount=1, text="INV-17017")], tight)
    assert (outcome.pairs["e", "i"].amount, outcome.pairs["e", "i"].difference) == (1, 1 - most)
    lines = [Line(f"i{at}", amount=most - 1, text="INV-17017") for at in range(3)]
    assert len(run([Item("e", amount=most, reference="INV-17017")], lines).pairs) == 1


def test_legs_never_take_more_than_is_open() -> None:
    items = [Item(f"e{at}", reference=f"INV-1701{at}", amount=1_000 + at) for at in range(4)]
    lines = [Line(f"i{at}", text=f"INV-1701{at % 4} INV-1701{at % 3}", amount=100 * at + 1) for at in range(14)]
    outcome = run(items, lines)
    for side, rows in (("item", items), ("line", lines)):
        for row in rows:
            assert sum(p.amount for p in outcome.pairs.values() if getattr(p, side) == row.id) <= row.amount


def test_counts_add_up() -> None:
    items = [Item("a", reference="INV-17017"), Item("b", iban="DE1", amount=7), Item("c", amount=8)]
    lines = [Line("x", text="INV-17017"), Line("y", amount=9, day=1)]
    counts = run(items, lines).proposals.counts
    assert (counts.expected, counts.incoming, counts.proposed, counts.auto_accepted, counts.ambiguous) == (
        3,
        2,
        1,
        1,
        0,
    )
    assert counts.open_expected == {"no_candidate": 2}
    assert counts.open_incoming == {"no_candidate": 1}
