"""Ends of transfers that name somebody: what is somebody else's payment is no own money."""

from __future__ import annotations

from dataclasses import replace

from payrec.domain.matching.rules import Confidence, MatchingRules, MatchKind, NameLevel, Uniqueness
from support.matching_frames import Item, Line, only, run, sure

AUTO_HIGH = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
OUT = Line("out", direction=-1, account="GIRO", iban="SAVINGS")
IN = Line("in", account="SAVINGS", iban="GIRO")
BY_ID = [replace(line, iban=None, end_to_end_id="TRF-20260310") for line in (OUT, IN)]


def test_an_id_that_a_customer_and_a_supplier_use_makes_no_transfer_of_them() -> None:
    invoice = Item("e", reference="INV-2026-6001", name="Ada Lovelace")
    paid = Line("in", account="SAVINGS", end_to_end_id="2026-03", name="Ada Lovelace", text="INV-2026-6001")
    for out in (replace(BY_ID[0], end_to_end_id="2026-03", name=name) for name in ("Bolt Works", None)):
        outcome = run([invoice], [out, paid], AUTO_HIGH)
        assert sure(outcome.pairs["e", "in"]) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
        assert list(outcome.lines) == ["out"]
    # Where no item fits, two names are for a person.
    names = [replace(line, name=name) for line, name in zip(BY_ID, ("Bolt Works", "Ada Lovelace"), strict=True)]
    match = only(run([], names, AUTO_HIGH))
    assert (match.kind, match.confidence, match.auto) == (MatchKind.TRANSFER, Confidence.MEDIUM, False)
    assert dict(match.levels)["name"] == NameLevel.DIFFERENT
    assert only(run([], [replace(line, name="Our Company") for line in BY_ID], AUTO_HIGH)).auto


def test_a_payment_of_somebody_else_on_the_account_that_is_named_is_no_sure_end() -> None:
    out = replace(OUT, name="Our Company")
    customer = replace(IN, iban=None, name="Ada Lovelace")
    match = only(run([], [out, customer], AUTO_HIGH))
    assert (match.kind, match.confidence, match.auto) == (MatchKind.TRANSFER, Confidence.MEDIUM, False)
    # The account that it is from, an id that both have, or no other name says that it is ours.
    for changes in ({"iban": "GIRO"}, {"name": "Our Company"}, {"name": None}):
        assert only(run([], [out, replace(customer, **changes)], AUTO_HIGH)).auto
    assert only(run([], [replace(line, end_to_end_id="TRF-20260310") for line in (out, customer)], AUTO_HIGH)).auto
    # And the one that is ours is meant, though it arrives later.
    ours = replace(customer, id="ours", name="Our Company", day=20_602)
    match = only(run([], [out, customer, ours], AUTO_HIGH))
    assert (match.legs[0][:2], match.auto) == (("ours", "out"), True)


def test_what_both_ends_name_alike_or_nobody_stays_own_money() -> None:
    for name in ("Our Company", None):
        lines = [replace(line, name=name, text="INV-2026-6001") for line in BY_ID]
        assert only(run([Item("e", reference="INV-2026-6001")], lines, AUTO_HIGH)).kind is MatchKind.TRANSFER
