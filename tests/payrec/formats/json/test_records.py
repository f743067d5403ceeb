from __future__ import annotations

import io
import json
from datetime import date
from typing import Any

import pytest

from payrec.constants import AMOUNT_MINOR_MAX, TEXT_LENGTH_MAX
from payrec.domain.statements import Batch, Entry, Money
from payrec.formats.base import ReadOptions
from payrec.formats.registry import parse
from support.json_records import GOOD, entry_of, read, rejection_of
from support.samples import (
    collect,
)


def test_every_field() -> None:
    entry = entry_of(
        account="de89 3704 0044 0532 0130 00",
        valueDate="2026-01-03T10:00:00+02:00",
        status="pending",
        remittance="Rechnung  1\nzweite Zeile",
        structuredReference="RF18539007547034",
        endToEndId="NOTPROVIDED",
        bankReference="B1",
        counterpartyName="  Müller\u0000 GmbH",
        counterpartyAccount="gb 1",
        ultimateCounterpartyName="Bolt",
        bankTransactionCode="PMNT-RCDT-ESCT",
        groupKey="G1",
        mandateId="M1",
        instructionId="I1",
        transactionId="T1",
        uetr="U1",
        purposeCode="SALA",
        returnReason="AC04",
        reversal=True,
        charges=[{"amountMinor": 5, "currency": "EUR", "direction": "debit"}],
        net={"amountMinor": 145, "currency": "EUR", "direction": "credit"},
        original={"amountMinor": 170, "currency": "USD"},
        exchangeRate="1.1",
        metadata={"order": "7"},
    )
    assert entry == Entry(
        line=1,
        account="DE89370400440532013000",
        status="pending",
        direction="credit",
        amount_minor=150,
        currency="EUR",
        reversal=True,
        booking_on=date(2026, 1, 2),
        value_on=date(2026, 1, 3),
        bank_reference="B1",
        transaction_id="T1",
        mandate_id="M1",
        instruction_id="I1",
        uetr="U1",
        structured_reference="RF18539007547034",
        remittance="Rechnung 1\nzweite Zeile",
        counterparty_name="Müller GmbH",
        counterparty_account="GB1",
        ultimate_counterparty_name="Bolt",
        bank_transaction_code="PMNT-RCDT-ESCT",
        purpose_code="SALA",
        return_reason="AC04",
        charges=[Money(5, "EUR", "debit")],
        net=Money(145, "EUR", "credit"),
        original=Money(170, "USD"),
        exchange_rate="1.1",
        batch=Batch("G1", None, itemised=True),
        external_id="X1",
        metadata={"order": "7"},
    )


def test_null_is_absent_and_options_fill_in() -> None:
    options = ReadOptions(currency="CHF", account="ch 1")
    entry = entry_of(
        currency=None, account=None, remittance=None, charges=None, amount=None, amountMinor=7, options=options
    )
    assert (entry.currency, entry.account, entry.amount_minor) == ("CHF", "ch 1", 7)
    assert entry_of(options=options).currency == "EUR"


def test_batch_may_be_given_whole() -> None:
    entry = entry_of(batch={"groupKey": "G", "count": 3, "itemised": False})
    assert entry.batch == Batch("G", 3, itemised=False)


def test_external_id_is_the_identity() -> None:
    text = json.dumps([GOOD, {k: v for k, v in GOOD.items() if k != "externalId"}])
    found = collect(
        parse(io.BytesIO(text.encode()), name="x", options=ReadOptions(), monotonic=lambda: 0.0), format="json"
    )
    first, second = found.entries[0]
    assert (first.identity_kind, first.identity_value, first.occurrence) == ("bank", "X1", 0)
    assert second.identity_kind == "fingerprint"


def test_creditor_reference_is_found_in_the_remittance() -> None:
    assert entry_of(remittance="pays RF18 5390 0754 7034").structured_reference == "RF18539007547034"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"amount": 1.5}, "amount_not_string"),
        ({"amount": 1}, "amount_not_string"),
        ({"amount": True}, "amount_not_string"),
        ({"amount": "1.505"}, "amount_precision"),
        ({"amount": "-1.50"}, "invalid_amount"),
        ({"amount": "1e3"}, "invalid_amount"),
        ({"amount": ""}, "invalid_amount"),
        ({"amount": None}, "invalid_amount"),
        ({"amountMinor": 150}, "invalid_amount"),
        ({"amount": None, "amountMinor": 1.5}, "invalid_amount"),
        ({"amount": None, "amountMinor": "150"}, "invalid_amount"),
        ({"amount": None, "amountMinor": True}, "invalid_amount"),
        ({"amount": None, "amountMinor": -1}, "invalid_amount"),
        ({"amount": None, "amountMinor": AMOUNT_MINOR_MAX + 1}, "invalid_amount"),
        ({"direction": "in"}, "missing_direction"),
        ({"direction": None}, "missing_direction"),
        ({"direction": []}, "missing_direction"),
        ({"currency": None}, "missing_currency"),
        ({"currency": "eur"}, "unknown_currency"),
        ({"currency": ""}, "unknown_currency"),
        ({"currency": {}}, "unknown_currency"),
        ({"bookingDate": "02.01.2026"}, "invalid_date"),
        ({"bookingDate": "2026-02-30"}, "invalid_date"),
        ({"valueDate": 20260102}, "invalid_date"),
        ({"id": "1"}, "unknown_field"),
        ({"Amount": "1.50"}, "unknown_field"),
        ({"status": "matched"}, "invalid_entry"),
        ({"status": []}, "invalid_entry"),
        ({"reversal": "yes"}, "invalid_entry"),
        ({"remittance": 7}, "invalid_entry"),
        ({"account": 7}, "invalid_entry"),
        ({"charges": {}}, "invalid_entry"),
        ({"charges": [1]}, "invalid_entry"),
        ({"charges": [{"amountMinor": 1, "currency": "EUR", "direction": "debit", "kind": "x"}]}, "unknown_field"),
        ({"charges": [{"amountMinor": 1.0, "currency": "EUR", "direction": "debit"}]}, "invalid_amount"),
        ({"exchangeRate": 1.1}, "invalid_entry"),
        ({"groupKey": 1}, "invalid_entry"),
        ({"batch": {"count": 1}}, "invalid_entry"),
        ({"batch": {"groupKey": "G", "count": True}}, "invalid_entry"),
        ({"metadata": {"a": 1}}, "invalid_entry"),
        ({"metadata": {"a": "x" * 501}}, "field_too_long"),
        ({"metadata": {str(i): "" for i in range(51)}}, "invalid_entry"),
        ({"counterpartyName": "x" * (TEXT_LENGTH_MAX + 1)}, "field_too_long"),
    ],
    ids=str,
)
def test_wrong_field_rejects_the_record(change: dict[str, Any], code: str) -> None:
    assert rejection_of(json.dumps(GOOD | change)) == code


@pytest.mark.parametrize(
    "record",
    [
        '{"externalId": "a", "externalId": "b"}',
        json.dumps(GOOD)[:-1] + ', "metadata": {"a": "1", "a": "2"}}',
        '{"amount": NaN}',
        '{"amountMinor": -Infinity}',
        '{"amountMinor": ' + "9" * 5000 + "}",
        '{"torn": }',
        '{"torn" 1}',
        '{"bad escape": "\\x"}',
        '{"unclosed": "}',
        "{'single': 1}",
        "1.5",
        '"text"',
        "null",
        "[]",
        "[1, [2]]",
        "nonsense",
    ],
)
def test_record_that_is_no_object_is_rejected_alone(record: str) -> None:
    if record == '{"unclosed": "}':
        # The line ends the string, but within an array the bracket is lost, and with it the array's structure.
        assert [p.code for p in read(f"{record}\n{json.dumps(GOOD)}").problems] == ["invalid_entry"]
        return
    assert rejection_of(record) == "invalid_entry"
