"""Adyen's payment accounting report: a row for each stage of a payment, of which few moved money."""

from __future__ import annotations

import pytest

from payrec.errors import UnreadableFileError
from support.csv_files import entries, read, reason, signed, skipped

HEADER = (
    "Company Account,Merchant Account,Psp Reference,Merchant Reference,Payment Method,Booking Date,TimeZone,"
    "Main Currency,Main Amount,Record Type,Payment Currency,Received (PC),Authorised (PC),Captured (PC),"
    "Settlement Currency,Payable (SC),Commission (SC),Markup (SC)\n"
)
LIFE = """\
Acme,AcmeDE,88153987,INV-1,visa,2026-03-01 10:00:00,CET,EUR,100.00,Received,EUR,100.00,,,,,,
Acme,AcmeDE,88153987,INV-1,visa,2026-03-01 10:00:01,CET,EUR,100.00,Authorised,EUR,-100.00,100.00,,,,,
Acme,AcmeDE,88153987,INV-1,visa,2026-03-01 11:00:00,CET,EUR,100.00,SentForSettle,EUR,,-100.00,100.00,,,,
Acme,AcmeDE,88153987,INV-1,visa,2026-03-03 11:00:00,CET,EUR,100.00,Settled,EUR,,,-100.00,EUR,98.90,,1.10
Acme,AcmeDE,88153988,INV-1,visa,2026-03-04 11:00:00,CET,EUR,-30.00,SentForRefund,EUR,,,-30.00,,,,
Acme,AcmeDE,88153988,INV-1,visa,2026-03-05 11:00:00,CET,EUR,-30.00,Refunded,EUR,,,30.00,EUR,-30.00,,
Acme,AcmeDE,88153987,INV-1,visa,2026-03-08 11:00:00,CET,EUR,-70.00,NotificationOfChargeback,EUR,,,,,,,
Acme,AcmeDE,88153987,INV-1,visa,2026-03-09 11:00:00,CET,EUR,-70.00,Chargeback,EUR,,,,EUR,-70.00,,
"""
REPORT = HEADER + LIFE
MAIN, PAYABLE = {"columns": {"amount": "Main Amount"}}, {"columns": {"amount": "Payable (SC)"}}
NOT_MOVED = [("csv_not_done_row", line) for line in (2, 3, 4, 6, 8)]


def test_a_payment_is_a_line_once_whatever_became_of_it() -> None:
    assert reason(REPORT, currency="EUR") == "csv_no_header"
    assert signed(entries(REPORT, currency="EUR", profile=MAIN)) == [10_000, -3_000, -7_000]
    assert signed(entries(REPORT, currency="EUR", profile=PAYABLE)) == [9_890, -3_000, -7_000]
    for profile in (MAIN, PAYABLE):
        assert skipped(REPORT, currency="EUR", profile=profile) == NOT_MOVED


def test_a_profile_may_have_the_stage_as_code_or_text() -> None:
    for role, value in (("bankTransactionCode", "Record Type"), ("remittance", ["Merchant Reference", "Record Type"])):
        profile = {"columns": {"amount": "Main Amount", role: value}}
        assert signed(entries(REPORT, currency="EUR", profile=profile)) == [10_000, -3_000, -7_000]


def test_the_dialect_reads_the_report_alike() -> None:
    dialect = read(REPORT, currency="EUR", profile=MAIN)[1].file.dialect
    assert dialect is not None
    assert skipped(REPORT, profile=dialect) == NOT_MOVED


@pytest.mark.parametrize(
    ("stage", "is_line"),
    [
        *((stage, False) for stage in ("Refused", "Error", "Cancelled", "Expired", "CaptureFailed", "RefundFailed")),
        *((stage, False) for stage in ("AuthorisedPending", "SettledExternally", "RefundedExternallyWithInfo")),
        *((stage, True) for stage in ("SettledBulk", "SettledReversed", "RefundedReversed", "SecondChargeback")),
        *((stage, True) for stage in ("ChargebackReversed", "AuthorisationSchemeFee", "MerchantPayout", "Unheard")),
    ],
)
def test_what_moved_nothing_is_known_by_its_name(stage: str, *, is_line: bool) -> None:
    text = HEADER + LIFE.splitlines(keepends=True)[3].replace("Settled", stage)
    profile = {**MAIN, "sign": "as_is"}
    assert len(entries(text, currency="EUR", profile=profile)) == is_line
    assert skipped(text, currency="EUR", profile=profile) == ([] if is_line else [("csv_not_done_row", 2)])


def test_the_words_are_those_of_adyen_alone() -> None:
    text = REPORT.replace("Psp Reference", "Number")
    assert len(entries(text, currency="EUR", profile=MAIN)) == 8


def test_an_amount_that_a_profile_names_is_in_the_currency_of_its_name() -> None:
    """``Settlement Currency`` is that of what reached the account, not of what was paid."""
    text = REPORT.replace("CET,EUR", "CET,USD")
    main, payable = (entries(text, currency="GBP", profile=profile) for profile in (MAIN, PAYABLE))
    assert ({entry.currency for entry in main}, {entry.currency for entry in payable}) == ({"USD"}, {"EUR"})
    named = {"columns": {"amount": 8, "currency": "Settlement Currency"}}
    assert {entry.currency for entry in entries(text, profile=named)} == {"EUR"}


def test_stages_without_a_sign_are_asked_about() -> None:
    text = REPORT.replace("-30.00", "30.00").replace("-70.00,Ch", "70.00,SecondCh").replace("-70.00", "70.00")
    with pytest.raises(UnreadableFileError) as refused:
        read(text, currency="EUR", profile=MAIN)
    assert refused.value.question is not None
    answer = refused.value.question.alternatives[0].value
    assert answer == {"direction": {"column": 9, "debit": ["refunded", "secondchargeback"]}}
    assert signed(entries(text, currency="EUR", profile=MAIN | answer)) == [10_000, -3_000, -7_000]
