"""Rows of incoming transactions: made by column for a file as they are made for a single one."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import KEYS_VERSION
from payrec.domain.identity import bank_key, content_key, fingerprint
from payrec.domain.incoming_transactions import (
    KEY_COLUMNS,
    STORED_COLUMNS,
    identity_before,
    identity_of,
    key_columns,
    open_row,
    open_row_of,
    stored_columns,
    stored_row,
)
from payrec.domain.matching.keys import incoming_keys
from payrec.domain.returns import takes_back
from payrec.domain.statements import Batch, Direction, Entry, EntryStatus, Money

ID = UUID(int=7)
IDENTITY = bank_key("DE1", "B", 0)

TEXTS = st.none() | st.sampled_from(
    ["INV-17017", "Miete 2024 00 17", "Müller GmbH", "DE02120300000000202051", "NONREF"]
)
MONEY = st.none() | st.builds(Money, st.integers(0, 10**15), st.just("USD"), st.sampled_from(["credit", "debit"]))
ENTRIES = st.lists(
    st.builds(
        Entry,
        statement=st.integers(0, 3),
        line=st.none() | st.integers(1, 9),
        status=st.sampled_from(["booked", "pending"]),
        direction=st.sampled_from(["credit", "debit"]),
        amount_minor=st.integers(0, 10**15),
        currency=st.just("EUR"),
        reversal=st.booleans(),
        booking_on=st.none() | st.dates(),
        value_on=st.none() | st.dates(),
        account=TEXTS,
        bank_reference=TEXTS,
        end_to_end_id=TEXTS,
        structured_reference=TEXTS,
        remittance=TEXTS,
        counterparty_name=TEXTS,
        counterparty_account=TEXTS,
        ultimate_counterparty_name=TEXTS,
        check_number=TEXTS,
        bank_transaction_code=st.none() | st.sampled_from(["PMNT-RRCT-RRTN", "NTRF+166"]),
        return_reason=st.none() | st.just("AC04"),
        charges=st.lists(MONEY.filter(lambda money: money is not None), max_size=2),
        net=MONEY,
        original=MONEY,
        batch=st.none() | st.builds(Batch, TEXTS, st.none() | st.integers(1, 9), st.booleans()),
        identity_kind=st.sampled_from(["bank", "fingerprint"]),
        identity_value=st.sampled_from(["a", "b"]),
        occurrence=st.integers(0, 300),
        external_id=st.none() | st.just("X"),
        metadata=st.sampled_from([{}, {"a": "b"}]),
    ),
    min_size=1,
    max_size=5,
)


def identities_of(entries: list[Entry]) -> list[bytes]:
    for entry in entries:
        entry.fingerprint = fingerprint(entry)
    return list(map(identity_of, entries))


@settings(max_examples=40)
@given(ENTRIES)
def test_several_rows_are_those_of_each(entries: list[Entry]) -> None:
    identities = identities_of(entries)
    ids = [UUID(int=at) for at in range(len(entries))]
    stored = stored_columns(entries, transaction_ids=ids, identities=identities)
    keys = key_columns(entries, identities=identities)
    assert (len(stored), len(keys)) == (len(STORED_COLUMNS), len(KEY_COLUMNS))
    for at, entry in enumerate(entries):
        row = stored_row(entry, transaction_id=ids[at], identity=identities[at])
        assert [column[at] for column in stored] == list(row.values())
        opened = open_row(entry, transaction_id=ids[at], identity=identities[at])
        assert [column[at] for column in keys] == [opened[name] for name in KEY_COLUMNS]
        net, original, batch = entry.net, entry.original, entry.batch
        assert row["net_minor"] == (net and (-net.amount_minor if net.direction == "debit" else net.amount_minor))
        assert row["net_currency"] == (net and net.currency)
        assert row["original_minor"] == (original and original.amount_minor)
        assert row["pending"] == (entry.status == "pending")
        assert row["group_key"] == (batch and batch.group_key)
        checks = {} if entry.check_number is None else {"checkNumber": entry.check_number}
        assert row["metadata"] == entry.metadata | checks


def whole(**fields: Any) -> Entry:
    """Return an entry of which everything is known that is stored, each part of it another."""
    known: dict[str, Any] = {
        "statement": 2,
        "line": 9,
        "status": "pending",
        "direction": "debit",
        "amount_minor": 12_345,
        "currency": "EUR",
        "reversal": True,
        "booking_on": date(1970, 1, 3),
        "value_on": date(1970, 1, 5),
        "account": "DE1",
        "bank_reference": "bank-1",
        "transaction_id": "transaction-1",
        "end_to_end_id": "end-1",
        "mandate_id": "mandate-1",
        "instruction_id": "instruction-1",
        "uetr": "uetr-1",
        "check_number": "4711",
        "structured_reference": "RF18539007547034",
        "remittance": "Invoice 17017",
        "counterparty_name": "Müller GmbH",
        "counterparty_account": "DE2",
        "ultimate_counterparty_name": "Bolt GmbH",
        "bank_transaction_code": "NTRF+166",
        "purpose_code": "SALA",
        "return_reason": "AC04",
        "charges": [Money(25, "EUR", "debit"), Money(3, "USD")],
        "net": Money(12_320, "GBP", "debit"),
        "original": Money(13_000, "CHF", "credit"),
        "exchange_rate": "1.0625",
        "batch": Batch("group-1", 3, itemised=True),
        "external_id": "external-1",
        "fingerprint": b"fingerprint",
        "metadata": {"a": "b"},
    }
    return Entry(**known | fields)


def test_a_stored_row_has_everything_in_its_own_column() -> None:
    assert stored_row(whole(), transaction_id=ID, identity=IDENTITY) == {
        "id": ID,
        "amount_minor": 12_345,
        "net_minor": -12_320,
        "original_minor": 13_000,
        "booking_on": date(1970, 1, 3),
        "value_on": date(1970, 1, 5),
        "statement_index": 2,
        "line": 9,
        "pending": True,
        "reversal": True,
        "identity": IDENTITY,
        "fingerprint": b"fingerprint",
        "currency": "EUR",
        "direction": "debit",
        "external_id": "external-1",
        "account": "DE1",
        "remittance": "Invoice 17017",
        "structured_reference": "RF18539007547034",
        "end_to_end_id": "end-1",
        "bank_reference": "bank-1",
        "counterparty_name": "Müller GmbH",
        "counterparty_account": "DE2",
        "ultimate_counterparty_name": "Bolt GmbH",
        "bank_transaction_code": "NTRF+166",
        "group_key": "group-1",
        "mandate_id": "mandate-1",
        "instruction_id": "instruction-1",
        "transaction_id": "transaction-1",
        "uetr": "uetr-1",
        "purpose_code": "SALA",
        "return_reason": "AC04",
        "net_currency": "GBP",
        "original_currency": "CHF",
        "exchange_rate": "1.0625",
        "charges": (
            {"amountMinor": 25, "currency": "EUR", "direction": "debit"},
            {"amountMinor": 3, "currency": "USD", "direction": None},
        ),
        "batch": {"groupKey": "group-1", "count": 3, "itemised": True},
        "metadata": {"a": "b", "checkNumber": "4711"},
    }


def test_what_an_entry_does_not_say_is_stored_as_nothing() -> None:
    row = stored_row(Entry(amount_minor=5, currency="EUR"), transaction_id=ID, identity=IDENTITY)
    assert {name: value for name, value in row.items() if value is not None} == {
        "id": ID,
        "amount_minor": 5,
        "statement_index": 0,
        "pending": False,
        "reversal": False,
        "identity": IDENTITY,
        "fingerprint": b"",
        "currency": "EUR",
        "direction": "credit",
        "metadata": {},
    }


def keys_of(entry: Entry) -> dict[str, Any]:
    return incoming_keys(
        remittance=entry.remittance,
        structured_reference=entry.structured_reference,
        end_to_end_id=entry.end_to_end_id,
        counterparty_name=entry.counterparty_name,
        counterparty_account=entry.counterparty_account,
        account=entry.account,
        group=entry.batch.group_key if entry.batch is not None else None,
        ultimate_counterparty_name=entry.ultimate_counterparty_name,
    )._asdict()


@pytest.mark.parametrize(("status", "pending"), [("booked", False), ("pending", True)])
@pytest.mark.parametrize(("direction", "sign"), [("credit", 1), ("debit", -1)])
def test_an_open_row_is_all_that_matching_reads(
    direction: Direction, sign: int, status: EntryStatus, *, pending: bool
) -> None:
    entry = whole(direction=direction, status=status)
    assert open_row(entry, transaction_id=ID, identity=IDENTITY) == {
        **keys_of(entry),
        "tie_key": int.from_bytes(IDENTITY[:8], "big", signed=True),
        "reversal": True,
        "transaction_id": ID,
        "open_minor": 12_345,
        "total_minor": 12_345,
        "booking_day": 2,
        "value_day": 4,
        "direction": sign,
        "pending": pending,
        "currency": "EUR",
        "keys_version": KEYS_VERSION,
    }


@pytest.mark.parametrize(
    ("reversal", "code", "reason", "takes"),
    [
        (False, None, None, False),
        (True, None, None, True),
        (False, "PMNT-RRCT-RRTN", None, True),
        (False, None, "AC04", True),
        (False, "NTRF+166", None, False),
        (True, "NTRF+166", None, True),
        (True, "ChargebackReversed", None, False),
    ],
)
def test_an_open_row_says_whether_the_line_takes_money_back(
    code: str | None, reason: str | None, *, reversal: bool, takes: bool
) -> None:
    entry = whole(reversal=reversal, bank_transaction_code=code, return_reason=reason)
    assert open_row(entry, transaction_id=ID, identity=IDENTITY)["reversal"] is takes
    assert stored_row(entry, transaction_id=ID, identity=IDENTITY)["reversal"] is reversal


@settings(max_examples=40)
@given(ENTRIES, st.none() | st.just(UUID(int=9)))
def test_a_stored_transaction_opens_as_its_entry_did(entries: list[Entry], import_id: UUID | None) -> None:
    for entry, identity in zip(entries, identities_of(entries), strict=True):
        row = stored_row(entry, transaction_id=ID, identity=identity)
        opened = open_row_of({**row, "import_id": import_id, "revision": 4, "duplicate": True})
        said = import_id is not None or entry.external_id is not None
        tie = identity if said else entry.fingerprint
        assert opened == {**open_row(entry, transaction_id=ID, identity=tie), "revision": 4, "duplicate": True}


@pytest.mark.parametrize(
    ("said", "external_id", "import_id"),
    [(True, None, UUID(int=9)), (True, "X", None), (True, "X", UUID(int=9)), (False, None, None)],
)
def test_an_identity_of_our_own_making_orders_nothing(
    external_id: str | None, import_id: UUID | None, *, said: bool
) -> None:
    entry = whole(external_id=external_id, fingerprint=bytes(range(16)))
    row = stored_row(entry, transaction_id=ID, identity=IDENTITY)
    opened = open_row_of({**row, "import_id": import_id, "revision": 1, "duplicate": False})
    tie = IDENTITY if said else entry.fingerprint
    assert opened["tie_key"] == int.from_bytes(tie[:8], "big", signed=True)


@pytest.mark.parametrize(
    ("fields", "identity"),
    [
        ({"external_id": "X"}, bank_key(None, "X", 0)),
        ({"external_id": "X", "identity_kind": "bank", "identity_value": "X"}, bank_key(None, "X", 0)),
        ({"external_id": ""}, bank_key(None, "", 0)),
        ({"identity_kind": "bank", "identity_value": "B"}, bank_key("DE1", "B", 3)),
        ({"identity_value": "B"}, content_key(bytes(range(16)), 3)),
    ],
)
def test_an_entry_is_known_by_its_declared_id_then_by_that_of_the_bank_then_by_its_content(
    fields: dict[str, Any], identity: bytes
) -> None:
    assert identity_of(Entry(account="DE1", occurrence=3, fingerprint=bytes(range(16)), **fields)) == identity


@pytest.mark.parametrize(
    ("fields", "identity"),
    [
        ({}, None),
        ({"external_id": "X"}, None),
        ({"external_id": "X", "reused_id": "B"}, None),
        ({"reused_id": "B"}, bank_key("DE1", "B", 3)),
    ],
)
def test_an_id_that_a_bank_used_twice_is_what_the_second_entry_had_alone(
    fields: dict[str, Any], identity: bytes | None
) -> None:
    assert identity_before(Entry(account="DE1", occurrence=3, **fields)) == identity


@settings(max_examples=40)
@given(ENTRIES)
def test_keys_are_those_of_the_line(entries: list[Entry]) -> None:
    columns = key_columns(entries, identities=identities_of(entries))
    for at, entry in enumerate(entries):
        assert [column[at] for column in columns[:10]] == list(keys_of(entry).values())
        assert columns[11][at] == takes_back(
            reversal=entry.reversal,
            bank_transaction_code=entry.bank_transaction_code,
            return_reason=entry.return_reason,
        )


def test_which_of_several_a_line_is_orders_it() -> None:
    digest = fingerprint(Entry(amount_minor=1, currency="EUR", booking_on=date(2026, 1, 2)))
    identities = [content_key(digest, 0), content_key(digest, 7), bank_key("A", "b", 0)]
    ties = key_columns([Entry()] * 3, identities=identities)[10]
    assert ties[0] == int.from_bytes(digest[:8], "big", signed=True)
    assert ties[1] == ties[0] ^ 7
    assert ties[2] == int.from_bytes(identities[2][:8], "big", signed=True)
