"""Rows of incoming transactions: made by column for a file as they are made for a single one."""

from __future__ import annotations

from datetime import date
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.identity import bank_key, content_key, fingerprint
from payrec.domain.incoming_transactions import (
    KEY_COLUMNS,
    STORED_COLUMNS,
    identity_of,
    key_columns,
    open_row,
    stored_columns,
    stored_row,
)
from payrec.domain.matching.keys import incoming_keys
from payrec.domain.statements import Batch, Entry, Money

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
        account=TEXTS,
        bank_reference=TEXTS,
        end_to_end_id=TEXTS,
        structured_reference=TEXTS,
        remittance=TEXTS,
        counterparty_name=TEXTS,
        counterparty_account=TEXTS,
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
        assert row["metadata"].get("checkNumber") == entry.check_number


@settings(max_examples=40)
@given(ENTRIES)
def test_keys_are_those_of_the_line(entries: list[Entry]) -> None:
    columns = key_columns(entries, identities=identities_of(entries))
    for at, entry in enumerate(entries):
        keys = incoming_keys(
            remittance=entry.remittance,
            structured_reference=entry.structured_reference,
            end_to_end_id=entry.end_to_end_id,
            counterparty_name=entry.counterparty_name,
            counterparty_account=entry.counterparty_account,
            account=entry.account,
            group=entry.batch.group_key if entry.batch is not None else None,
        )
        assert [column[at] for column in columns[:7]] == list(keys)


def test_which_of_several_a_line_is_orders_it() -> None:
    digest = fingerprint(Entry(amount_minor=1, currency="EUR", booking_on=date(2026, 1, 2)))
    identities = [content_key(digest, 0), content_key(digest, 7), bank_key("A", "b", 0)]
    ties = key_columns([Entry()] * 3, identities=identities)[7]
    assert ties[0] == int.from_bytes(digest[:8], "big", signed=True)
    assert ties[1] == ties[0] ^ 7
    assert ties[2] == int.from_bytes(identities[2][:8], "big", signed=True)
