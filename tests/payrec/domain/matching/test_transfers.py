from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    TRANSFER_DAYS_MAX,
    AmountLevel,
    Confidence,
    DateLevel,
    EndToEndLevel,
    LineLevel,
    MatchingRules,
    MatchKind,
    PartyLevel,
    Reason,
    ReferenceLevel,
    Uniqueness,
)
from support.matching_frames import Item, Line, only, run, sure

AUTO_HIGH = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
OUT = Line("out", direction=-1, account="GIRO", iban="SAVINGS")
IN = Line("in", account="SAVINGS", iban="GIRO")
PAYOUT = Line("payout", direction=-1, account="PSP-EUR", group="PO-2026-7")
DEPOSIT = Line("deposit", account="GIRO", text="Payout PO-2026-7", name="Pay Provider", day=20_602)


@pytest.mark.parametrize(
    ("out", "back"),
    [
        (OUT, IN),
        (replace(OUT, iban=None), IN),
        (OUT, replace(IN, iban=None)),
        (OUT, replace(IN, day=20_600 + TRANSFER_DAYS_MAX)),
        (OUT, replace(IN, day=20_600 - TRANSFER_DAYS_MAX)),
        (replace(OUT, account=None, iban="SAVINGS"), replace(IN, iban=None)),
    ],
)
def test_two_own_accounts_that_name_each_other_are_a_transfer(out: Line, back: Line) -> None:
    outcome = run([], [out, back], AUTO_HIGH)
    match = only(outcome)
    assert (match.kind, match.legs) == (MatchKind.TRANSFER, (("in", "out", 10_000),))
    assert sure(match) == (Confidence.HIGH, Uniqueness.UNIQUE, True)
    assert not outcome.lines
    leg = outcome.proposals.legs.row(0, named=True)
    assert (leg["incoming"], leg["contra_incoming"]) == (1, 0)
    assert (leg["expected"], leg["contra_expected"], leg["settled_minor"]) == (None, None, 10_000)


def test_an_account_alone_is_no_proving_reference() -> None:
    assert sure(only(run([], [OUT, IN], MatchingRules(auto_accept=True)))) == (
        Confidence.HIGH,
        Uniqueness.UNIQUE,
        False,
    )


@pytest.mark.parametrize("end_to_end_id", ["TRF-20260310", None])
def test_an_end_to_end_id_proves_a_transfer_and_nothing_said_proves_none(end_to_end_id: str | None) -> None:
    lines = [replace(line, iban=None, end_to_end_id=end_to_end_id) for line in (OUT, IN)]
    outcome = run([], lines, AUTO_HIGH)
    if end_to_end_id is None:
        assert not outcome.matches
        assert {reason for reason, *_ in outcome.lines.values()} == {Reason.NO_CANDIDATE}
    else:
        assert sure(only(outcome)) == (Confidence.EXACT, Uniqueness.UNIQUE, True)


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("in", {"currency": "USD"}),
        ("in", {"amount": 9_999}),
        ("in", {"day": 20_600 + TRANSFER_DAYS_MAX + 1}),
        ("in", {"iban": "DE-SOMEBODY"}),
        ("out", {"iban": "DE-SOMEBODY"}),
        ("in", {"account": "GIRO"}),
        ("in", {"reversal": True}),
        ("out", {"duplicate": True}),
        ("out", {"direction": 1}),
        ("in", {"day": None}),
    ],
)
def test_what_differs_is_no_transfer(line: str, changes: dict[str, Any]) -> None:
    lines = [replace(one, **changes) if one.id == line else one for one in (OUT, IN)]
    assert not run([], lines, AUTO_HIGH).matches


SILENT = replace(DEPOSIT, text="card payments")


def test_a_payout_that_nothing_names_is_proposed_and_never_accepted_alone() -> None:
    match = only(run([], [PAYOUT, SILENT], AUTO_HIGH))
    assert (match.kind, match.legs) == (MatchKind.TRANSFER, (("deposit", "payout", 10_000),))
    assert sure(match) == (Confidence.MEDIUM, Uniqueness.UNIQUE, False)


def test_of_two_payouts_of_one_amount_the_one_that_is_named_leaves_the_other() -> None:
    twin, silent = replace(PAYOUT, id="twin", group="PO-2026-8"), replace(SILENT, id="silent")
    outcome = run([], [PAYOUT, twin, DEPOSIT, silent], AUTO_HIGH)
    assert {match.legs[0][:2]: sure(match) for match in outcome.matches} == {
        ("deposit", "payout"): (Confidence.EXACT, Uniqueness.UNIQUE, True),
        ("silent", "twin"): (Confidence.MEDIUM, Uniqueness.UNIQUE, False),
    }
    # As long as the bank's other line is not there, nobody says which of the two it is.
    early = only(run([], [PAYOUT, twin, silent], AUTO_HIGH))
    assert sure(early)[0] is Confidence.LOW


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("payout", {"group": None}),
        ("payout", {"group": "7"}),  # too short to be an id
        ("payout", {"reversal": True}),
        ("payout", {"account": None}),
        ("deposit", {"account": "PSP-EUR"}),
        ("deposit", {"amount": 9_999}),
        ("deposit", {"currency": "USD"}),
        ("deposit", {"day": 20_599}),
        ("deposit", {"day": 20_600 + TRANSFER_DAYS_MAX + 1}),
        ("deposit", {"group": "PO-2026-9"}),
        ("deposit", {"duplicate": True}),
    ],
)
def test_what_is_no_payout_by_its_amount(line: str, changes: dict[str, Any]) -> None:
    lines = [replace(one, **changes) if one.id == line else one for one in (PAYOUT, SILENT)]
    assert not run([], lines, AUTO_HIGH).matches


def test_an_item_that_a_deposit_fits_is_preferred_to_a_payout_of_its_amount() -> None:
    item = Item("item", name="Pay Provider")
    assert only(run([item], [PAYOUT, SILENT], AUTO_HIGH)).kind is MatchKind.ONE_TO_ONE


def test_an_end_to_end_id_of_one_own_account_and_an_unknown_one_proves_nothing() -> None:
    out, back = (replace(line, iban=None, end_to_end_id="TRF-20260310") for line in (OUT, IN))
    unknown = only(run([], [out, replace(back, account=None)], AUTO_HIGH))
    assert (unknown.kind, unknown.auto) == (MatchKind.REFUND, False)
    assert not run([], [replace(out, iban="DE-SOMEBODY"), back], AUTO_HIGH).matches
    # Nothing moves from an account to itself, whatever the bank writes as the counterparty's.
    same = [replace(line, iban="GIRO", account="GIRO") for line in (out, back)]
    assert only(run([], same, AUTO_HIGH)).kind is MatchKind.REFUND


def test_equal_claims_are_ambiguous_and_nearer_days_are_not() -> None:
    again = [replace(OUT, id="out2"), replace(IN, id="in2")]
    same = run([], [OUT, IN, *again], AUTO_HIGH)
    assert [sure(match) for match in same.matches] == [(Confidence.LOW, Uniqueness.AMBIGUOUS, False)] * 2
    later = [replace(line, day=20_603) for line in again]
    apart = run([], [OUT, IN, *later], AUTO_HIGH)
    assert set(apart.pairs) == {("in", "out"), ("in2", "out2")}
    assert {sure(match) for match in apart.matches} == {(Confidence.MEDIUM, Uniqueness.CONTESTED, False)}
    one = run([], [OUT, IN, replace(IN, id="in2")], AUTO_HIGH)
    assert sure(only(one)) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    assert [reason for reason, *_ in one.lines.values()] == [Reason.AMBIGUOUS]


def test_a_proof_is_better_than_an_account() -> None:
    proof = [replace(line, end_to_end_id="TRF-20260310") for line in (OUT, IN)]
    outcome = run([], [*proof, replace(OUT, id="other")], AUTO_HIGH)
    assert (list(outcome.pairs), sure(only(outcome))) == (
        [("in", "out")],
        (Confidence.EXACT, Uniqueness.UNIQUE, True),
    )


def test_a_pending_end_waits() -> None:
    match = only(run([], [OUT, replace(IN, pending=True)], AUTO_HIGH))
    assert (match.confidence, match.auto) == (Confidence.HIGH, False)


def test_many_alike_are_proposed_none() -> None:
    lines = [replace(line, id=f"{line.id}{at}") for line in (OUT, IN) for at in range(KEY_ITEMS_MAX + 1)]
    outcome = run([], lines, AUTO_HIGH)
    assert not outcome.matches
    assert {reason for reason, *_ in outcome.lines.values()} == {Reason.AMBIGUOUS}
    # A standing order of many months is no crowd: only what is near in time competes.
    months = [replace(line, id=f"{line.id}{at}", day=20_000 + 30 * at) for line in (OUT, IN) for at in range(40)]
    assert {sure(match) for match in run([], months, AUTO_HIGH).matches} == {(Confidence.HIGH, Uniqueness.UNIQUE, True)}


def test_without_a_reference_where_one_is_required() -> None:
    strict = replace(AUTO_HIGH, required=Required.REFERENCE)
    outcome = run([], [OUT, IN], strict)
    assert not outcome.matches
    assert {reason for reason, *_ in outcome.lines.values()} == {Reason.MISSING_REFERENCE}
    assert run([], [PAYOUT, DEPOSIT], strict).matches


@pytest.mark.parametrize(
    "deposit",
    [
        DEPOSIT,
        replace(DEPOSIT, text=None, end_to_end_id="PO-2026-7"),
        replace(DEPOSIT, text=None, group="PO-2026-7"),
        replace(DEPOSIT, iban="IE-OF-THE-PSP"),
        replace(DEPOSIT, account=None),
    ],
)
def test_a_payout_is_matched_with_its_deposit(deposit: Line) -> None:
    match = only(run([], [PAYOUT, deposit], AUTO_HIGH))
    assert (match.kind, match.legs) == (MatchKind.TRANSFER, (("deposit", "payout", 10_000),))
    assert sure(match) == (Confidence.EXACT, Uniqueness.UNIQUE, True)


def test_what_a_payment_service_takes_back_is_matched_as_well() -> None:
    taken = [replace(PAYOUT, direction=1), replace(DEPOSIT, direction=-1)]
    assert only(run([], taken, AUTO_HIGH)).legs == (("payout", "deposit", 10_000),)


def test_a_deposit_that_names_the_account_of_the_payment_service() -> None:
    deposit = replace(DEPOSIT, text=None, iban="PSP-EUR")
    assert only(run([], [replace(PAYOUT, group=None), deposit], AUTO_HIGH)).confidence is Confidence.HIGH


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"amount": 9_990}, Reason.AMOUNT_MISMATCH),
        ({"day": 20_650}, Reason.DATE_OUT_OF_WINDOW),
        ({"text": "Payout PO-2026-8"}, Reason.AMOUNT_MISMATCH),
    ],
)
def test_a_deposit_without_its_payout_says_why(changes: dict[str, Any], reason: Reason) -> None:
    other = Line("other", direction=-1, amount=77, account="PSP-EUR", group="PO-2026-8")
    outcome = run([], [PAYOUT, other, replace(DEPOSIT, **changes)], AUTO_HIGH)
    assert not outcome.matches
    assert outcome.lines["deposit"] == (reason, None, None, None)


ITEM = Item("e", name="Pay Provider", iban="GIRO", reference="INV-10001", end_to_end_id="E2E-100001")


@pytest.mark.parametrize(
    "line",
    [
        replace(IN, text="INV-10001"),
        replace(IN, end_to_end_id="E2E-100001"),
        replace(IN, name="Pay Provider"),
        replace(IN, amount=9_900, name="Pay Provider"),
        replace(IN, name=None),
    ],
)
def test_own_money_pays_no_item_at_any_stage(line: Line) -> None:
    for items in ([ITEM], [replace(ITEM, iban=None)]):
        outcome = run(items, [line, Line("elsewhere", amount=1, account="GIRO")], AUTO_HIGH)
        assert not outcome.matches
        assert outcome.lines["in"] == (Reason.NO_CANDIDATE, None, None, None)
        # The very same line from somebody else pays.
        other = replace(line, iban="DE-SOMEBODY" if line.text or line.end_to_end_id else None)
        assert run(items, [other, Line("elsewhere", amount=1, account="GIRO")], AUTO_HIGH).matches


def test_own_money_is_in_no_blind_group() -> None:
    items = [Item(f"e{at}", amount=1_000 * at + 7, name="Alpha", due=20_600 + at) for at in range(1, 5)]
    line = replace(IN, amount=sum(item.amount for item in items[:3]), name="Alpha")
    other = Line("elsewhere", amount=1, account="GIRO")
    assert run(items, [replace(line, iban=None), other]).groups
    assert not run(items, [line, other]).matches


def test_a_deposit_pays_no_item_unless_the_items_carry_its_group_id() -> None:
    named = replace(DEPOSIT, name="Alpha", text="PO-2026-7 INV-10001")
    other = replace(PAYOUT, amount=77)
    assert not run([Item("e", name="Alpha", reference="INV-10001")], [other, named], AUTO_HIGH).matches
    items = [
        Item(f"e{at}", amount=amount, reference=f"INV-1000{at}", group="PO-2026-7")
        for at, amount in enumerate((4_000, 6_000))
    ]
    outcome = run(items, [PAYOUT, replace(DEPOSIT, group="PO-2026-7", text=None)], AUTO_HIGH)
    assert only(outcome).ends == (frozenset({"e0", "e1"}), frozenset({"deposit"}))
    assert list(outcome.lines) == ["payout"]


@pytest.mark.parametrize("deposit", [DEPOSIT, replace(DEPOSIT, text=None, group="PO-2026-7")])
def test_what_a_payment_service_collected_pays_the_items_and_its_payout_is_a_transfer(deposit: Line) -> None:
    amounts = {"a": 4_000, "b": 6_100}
    items = [Item(name, amount=amount, reference=f"INV-1000{name}") for name, amount in amounts.items()]
    charges = [
        Line(f"charge-{name}", amount=amount, text=f"INV-1000{name}", account="PSP-EUR", group="PO-2026-7")
        for name, amount in amounts.items()
    ]
    back = Line("back", amount=100, direction=-1, text="INV-1000r", account="PSP-EUR", group="PO-2026-7")
    owed = Item("r", amount=100, direction=-1, reference="INV-1000r")
    outcome = run([*items, owed], [*charges, back, PAYOUT, deposit], AUTO_HIGH)
    assert set(outcome.pairs) == {("a", "charge-a"), ("b", "charge-b"), ("r", "back"), ("deposit", "payout")}
    assert {match.confidence for match in outcome.matches} == {Confidence.EXACT}
    assert {match.auto for match in outcome.matches} == {True}


def test_an_item_is_preferred_to_a_transfer_of_which_one_end_says_nothing() -> None:
    item = Item("e", direction=-1, reference="INV-10001")
    silent = replace(OUT, iban=None)
    outcome = run([item], [replace(silent, text="INV-10001"), IN], AUTO_HIGH)
    assert list(outcome.pairs) == [("e", "out")]
    assert outcome.lines == {"in": (Reason.AMBIGUOUS, None, None, None)}
    # Neither by amount alone nor by an amount that comes near.
    assert only(run([replace(item, reference=None)], [silent, IN], AUTO_HIGH)).kind is MatchKind.TRANSFER


def test_own_accounts_are_those_of_lines_and_of_items() -> None:
    item = Item("e", reference="INV-10001")
    line = replace(IN, text="INV-10001")
    assert run([item], [line], AUTO_HIGH).matches
    assert not run([item, Item("f", amount=5, account="GIRO")], [line], AUTO_HIGH).matches
    # A bank that writes the own account into both fields names nobody.
    assert run([item], [replace(line, iban="SAVINGS")], AUTO_HIGH).matches


@pytest.mark.parametrize("pair", [("in", "out"), ("out", "in")])
def test_a_rejected_transfer_is_not_proposed_again_and_takes_no_other_with_it(pair: tuple[str, str]) -> None:
    outcome = run([], [OUT, IN], AUTO_HIGH, [pair])
    assert not outcome.proposals.counts.proposed
    assert {name: told[0] for name, told in outcome.lines.items()} == dict.fromkeys(("in", "out"), Reason.NO_CANDIDATE)
    other = replace(IN, id="other", day=20_603)
    match = only(run([], [OUT, IN, other], AUTO_HIGH, [pair]))
    assert match.legs == (("other", "out", 10_000),)


BY_ID = [replace(line, iban=None, end_to_end_id="TRF-20260310") for line in (OUT, IN)]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([OUT, IN], {"account": PartyLevel.EQUAL, "end_to_end": 0, "reference": 0}),
        (BY_ID, {"account": 0, "end_to_end": EndToEndLevel.EQUAL, "reference": 0}),
        ([PAYOUT, DEPOSIT], {"account": 0, "end_to_end": 0, "reference": ReferenceLevel.FULL}),
        ([PAYOUT, SILENT], {"account": 0, "end_to_end": 0, "reference": 0}),
    ],
)
def test_what_the_two_ends_have_in_common_is_told(lines: list[Line], told: dict[str, int]) -> None:
    one, other = lines
    for days, near in ((0, DateLevel.NEAR), (TRANSFER_DAYS_MAX, DateLevel.CLOSE)):
        for pending in ((False, False), (True, False), (False, True)):
            ends = [replace(one, pending=pending[0]), replace(other, day=(one.day or 0) + days, pending=pending[1])]
            match = only(run([], ends, AUTO_HIGH))
            line = LineLevel.PENDING if any(pending) else LineLevel.BOOKED
            common = told | {"amount": AmountLevel.EQUAL, "date": near, "line": line}
            assert dict(match.levels) | common == dict(match.levels)
            assert match.auto == (not any(pending) and other is not SILENT)


@pytest.mark.parametrize(
    ("lines", "earliest"),
    [
        ([OUT, replace(IN, iban=None)], -TRANSFER_DAYS_MAX),
        ([replace(OUT, iban=None), IN], -TRANSFER_DAYS_MAX),
        (BY_ID, -TRANSFER_DAYS_MAX),
        ([PAYOUT, DEPOSIT], -TRANSFER_DAYS_MAX),
        # What nothing names arrives after it has left.
        ([PAYOUT, SILENT], 0),
    ],
)
def test_whatever_the_day_the_other_end_is_found_within_days_of_it_and_no_further(
    lines: list[Line], earliest: int
) -> None:
    def is_found(day: int, days: int) -> bool:
        one, other = lines
        return bool(run([], [replace(one, day=day), replace(other, day=day + days)], AUTO_HIGH).matches)

    for day in range(20_600, 20_600 + 2 * TRANSFER_DAYS_MAX + 1):
        assert is_found(day, earliest), day
        assert is_found(day, TRANSFER_DAYS_MAX), day
    assert not is_found(20_600, earliest - 1)
    assert not is_found(20_600, TRANSFER_DAYS_MAX + 1)


def test_an_end_that_a_crowd_may_have_is_not_sure_though_an_id_names_it() -> None:
    proof = [replace(line, end_to_end_id="TRF-20260310") for line in (OUT, IN)]
    for crowd in (OUT, IN):
        many = [replace(crowd, id=f"c{at}") for at in range(KEY_ITEMS_MAX)]
        match = only(run([], [*proof, *many], AUTO_HIGH))
        assert match.legs == (("in", "out", 10_000),)
        assert sure(match) == (Confidence.MEDIUM, Uniqueness.UNBOUNDED, False)
        # The other end need not be one of which too many are told.
        many.append(replace(crowd, id="last"))
        match = only(run([], [*BY_ID, *many], AUTO_HIGH))
        assert match.legs == (("in", "out", 10_000),)
        assert sure(match) == (Confidence.MEDIUM, Uniqueness.UNBOUNDED, False)
