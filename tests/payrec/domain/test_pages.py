"""What a page of a statement is, and which of its lines are equal to one of another page."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.identity import bank_key, content_key, fingerprint
from payrec.domain.incoming_transactions import identity_of
from payrec.domain.pages import Page, PageLine, page_line, page_of
from payrec.domain.statements import Balance, Entry, Statement

PAGE = Page("7", 1, 100)


def statement(opening_minor: int | None = 100, **fields: Any) -> Statement:
    balances = [] if opening_minor is None else [Balance("opening", opening_minor, "EUR", "credit")]
    return Statement(0, account="DE1", currency="EUR", balances=balances, **fields)


def entry(**fields: Any) -> Entry:
    known: dict[str, Any] = {"currency": "EUR", "booking_on": date(2026, 1, 2), "account": "DE1"}
    made = Entry(amount_minor=5, **known | fields)
    made.fingerprint = fingerprint(made)
    return made


def line(page: Page = PAGE, **fields: Any) -> PageLine:
    found = page_line(page, entry(**fields))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("made", "page"),
    [
        (statement(sequence_number="7", statement_id="7/2", page_number=2), Page("7", 2, 100)),
        (statement(statement_id="S", page_number=2), Page("S", 2, 100)),
        (statement(statement_id="X", page_number=2), Page("X", 2, 100)),
        (statement(sequence_number="7", page_number=2, opening_minor=None), Page("7", 2, 0)),
        (statement(sequence_number="7"), Page("7", 0, 100)),
        (statement(), Page("", 0, 100)),
        (statement(sequence_number="00000", page_number=2), Page("00000", 0, 100)),
        (statement(page_number=2), Page("", 0, 100)),
        (statement(sequence_number="7", opening_minor=None), None),
    ],
)
def test_a_page_is_known_by_its_number_and_the_balance_that_it_begins_with(made: Statement, page: Page | None) -> None:
    assert page_of(made) == page


def test_equal_lines_of_a_statement_are_equal_on_whatever_page() -> None:
    first = line()
    assert line(Page("7", 2, 100)).key == first.key
    assert line(Page("8", 1, 100)).key != first.key
    assert line(remittance="other").key != first.key
    assert replace(line(Page("7", 2, 0)), page=PAGE) == first


def test_equal_lines_of_one_bank_id_have_its_content_in_common() -> None:
    known = {"identity_kind": "bank", "identity_value": "B1"}
    first = line(**known)
    assert first.key != line().key
    # What a bank tells otherwise under one id is the same payment, but for amount, direction and date.
    assert line(**known, remittance="other").key == first.key
    assert line(**known, direction="debit").key != first.key


def test_lines_of_two_accounts_are_not_equal() -> None:
    known = {"identity_kind": "bank", "identity_value": "B1"}
    assert line(account="DE2").key != line().key
    assert line(**known, account="DE2").key != line(**known).key


def test_a_page_that_comes_later_knows_the_lines_that_are_stored_of_others() -> None:
    content = sha256(b"7\x1f" + entry().fingerprint)
    assert line().key == content.digest()[:16]
    banked = sha256(b"7\x1f" + bank_key("DE1", "B1", 0) + b"credit5EUR2026-01-02")
    assert line(identity_kind="bank", identity_value="B1").key == banked.digest()[:16]
    assert line(identity_kind="bank", identity_value="B1", occurrence=3).key == banked.digest()[:16]


def test_a_declared_id_is_one_on_all_pages() -> None:
    assert page_line(PAGE, entry(external_id="X1", identity_kind="bank", identity_value="X1")) is None


@given(number=st.integers(0, 2**31 - 1), occurrence=st.integers(0, 300), banked=st.booleans())
def test_the_identity_is_that_of_a_whole_statement(number: int, occurrence: int, banked: bool) -> None:  # noqa: FBT001
    known = {"identity_kind": "bank", "identity_value": "B1"} if banked else {}
    shown = page_line(PAGE, entry(**known, occurrence=occurrence))
    whole = entry(**known, occurrence=number)
    assert shown is not None
    assert shown.occurrence == occurrence
    assert shown.identity(number) == identity_of(whole)
    assert shown.identity(number) == (
        bank_key("DE1", "B1", number) if banked else content_key(whole.fingerprint, number)
    )
