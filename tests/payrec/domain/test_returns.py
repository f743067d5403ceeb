"""Which lines take money back, in all the ways in which it is written, and from what of a payment it is taken."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.returns import Part, return_kind, taken_from, takes_back


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("PMNT-RCDT-RRTN", "return"),
        ("pmnt/iddt/updd", "return"),
        ("PMNTIDDTPRDD", "return"),
        ("RRTN", "return"),
        ("109", "return"),
        ("NRTI", "return"),
        ("NRTI+109+00931", "return"),
        ("GVC 181", "return"),
        ("PMNT-ICDT-RPCR", "recall"),
        ("PMNT-MCRD-UPCT", "chargeback"),
        ("Chargeback", "chargeback"),
        ("SecondChargeback", "chargeback"),
        ("T1201", "chargeback"),
        ("ChargebackReversed", "chargeback_won"),
        ("dispute_reversal", "chargeback_won"),
        ("payment_refund", "refund"),
        ("Refunded", "refund"),
        ("payout_reversal", "return"),
        ("charge_failure", "return"),
        ("payment_failure_refund", "return"),
        ("SettledReversed", "return"),
        ("T1106", "return"),
        ("partial_capture_reversal", "refund"),
    ],
)
def test_what_takes_a_payment_back_by_its_code(code: str, kind: str) -> None:
    assert return_kind(code) == kind


@pytest.mark.parametrize(
    "code", [None, "", "PMNT-RCDT-ESCT", "166", "1090", "NTRF+166+00931", "XXRRTN", "PMNTRCDTESCT", "\x00", "RÜCK"]
)
def test_what_does_not(code: str | None) -> None:
    assert return_kind(code) is None
    assert not takes_back(reversal=False, bank_transaction_code=code, return_reason=None)
    assert takes_back(reversal=True, bank_transaction_code=code, return_reason=None)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (None, "AC04", "return"),
        (None, " focr ", "recall"),
        ("PMNT-RDDT-UPDD", "MD06", "refund"),
        ("PMNT-MCRD-UPCT", "AC04", "chargeback"),
        ("109", "anything", "return"),
        (None, "  ", None),
    ],
)
def test_a_reason_says_more_than_that_it_is_a_return(code: str | None, reason: str, kind: str | None) -> None:
    assert return_kind(code, reason) == kind
    assert takes_back(reversal=False, bank_transaction_code=code, return_reason=reason) is (kind is not None)


def test_a_chargeback_that_was_won_takes_nothing_back() -> None:
    assert not takes_back(reversal=True, bank_transaction_code="ChargebackReversed", return_reason=None)


@given(st.text(max_size=40) | st.none(), st.text(max_size=10) | st.none())
def test_any_text_has_a_kind_or_none(code: str | None, reason: str | None) -> None:
    assert return_kind(code, reason) in {None, "return", "refund", "chargeback", "chargeback_won", "recall"}


MATCH = UUID(int=1)
PARTS = st.lists(
    st.builds(
        lambda amount, settled, item: Part(
            amount_minor=amount, settled_minor=settled, match_id=MATCH, expected_id=UUID(int=item)
        ),
        st.integers(1, 50),
        st.integers(1, 50),
        st.integers(1, 5),
    ),
    min_size=1,
    max_size=4,
)


@given(PARTS, st.integers(1, 250))
def test_what_is_taken_is_the_amount_and_never_more_than_a_part(parts: list[Part], amount: int) -> None:
    taken = taken_from(amount, parts)
    if taken is None:
        assert amount != sum(part.amount_minor for part in parts)
        assert len(parts) > 1 or parts[0].amount_minor < amount
        return
    assert sum(part.amount_minor for part in taken) == amount
    for part in taken:
        [of, *_] = [p for p in parts if p.expected_id == part.expected_id and p.amount_minor >= part.amount_minor]
        assert part.match_id == of.match_id
    assert sum(p.settled_minor for p in taken) <= sum(p.settled_minor for p in parts)


@given(st.integers(1, 100), st.integers(1, 1_000), st.lists(st.integers(1, 100), min_size=1, max_size=20))
def test_parts_of_a_part_settle_no_more_than_it_and_all_of_it_all(amount: int, settled: int, takes: list[int]) -> None:
    left = Part(amount_minor=amount, settled_minor=settled, match_id=MATCH)
    for take in takes:
        if not 0 < take <= left.amount_minor:
            continue
        taken = taken_from(take, [left])
        assert taken is not None
        left = Part(
            amount_minor=left.amount_minor - take,
            settled_minor=left.settled_minor - taken[0].settled_minor,
            match_id=MATCH,
        )
        assert left.settled_minor >= 0
        assert left.amount_minor or not left.settled_minor


@pytest.mark.parametrize(("amount", "settled"), [(1, 3), (2, 6), (3, 10)])
def test_what_is_taken_of_a_part_settles_its_share_rounded_down(amount: int, settled: int) -> None:
    part = Part(amount_minor=3, settled_minor=10, match_id=MATCH, expected_id=UUID(int=4))
    taken = Part(amount_minor=amount, settled_minor=settled, match_id=MATCH, expected_id=UUID(int=4))
    assert taken_from(amount, [part]) == [taken]
    assert taken_from(4, [part]) is None


def test_two_parts_of_one_amount_are_ambiguous_and_one_of_it_is_not() -> None:
    forty, other, sixty = (
        Part(amount_minor=amount, settled_minor=amount, match_id=MATCH, expected_id=UUID(int=item))
        for amount, item in ((40, 1), (40, 2), (60, 3))
    )
    assert taken_from(40, [forty, other, sixty]) is None
    assert taken_from(60, [forty, other, sixty]) == [sixty]
    assert taken_from(30, [forty, sixty]) is None
    assert taken_from(140, [forty, other, sixty]) == [forty, other, sixty]
