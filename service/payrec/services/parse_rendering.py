"""A file that was read, in the words of the interface: what statements, entries and problems are as JSON.

What may be absent is left out; what an entry has no value for is null. Amounts are minor units, never negative, with
their direction; dates are as written in the file.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from payrec.domain.statements import Balance, Entry, Money, Problem, Skipped, Statement, Totals
from payrec.errors import PayrecError
from payrec.formats.registry import ParsedFile

SCHEMA_VERSION = 1
"""Of the document; grows when a field changes its meaning."""


def file_document(file: ParsedFile, *, size: int, sha256: str | None) -> dict[str, Any]:
    """Return what is known of the file itself; its members only where it is a container."""
    members = [
        {"name": m.name, "bytes": m.bytes, **({"skippedBy": m.skipped_by} if m.skipped_by else {})}
        for m in file.members
    ]
    return {"name": file.name, "bytes": size, "sha256": sha256, "container": file.container, "members": members}


def counts_document(file: ParsedFile, *, duplicates: int) -> dict[str, int]:
    """Return what became of the records; all but the statements add up to ``records``."""
    counts = file.counts
    return {
        "statements": counts.statements,
        "records": counts.records,
        "accepted": counts.accepted - duplicates,
        "duplicates": duplicates,
        "skipped": counts.skipped,
        "rejected": counts.rejected,
    }


def error_document(error: PayrecError) -> dict[str, Any]:
    """Return why the file cannot be read, with whatever the error says beside its reason."""
    return {"code": error.code, "reason": error.code, "tried": [], **error.members, "detail": error.detail}


def statement_document(statement: Statement) -> dict[str, Any]:
    """Return a statement without its entries. ``checks`` comes last, for its continuity to be added."""
    account: dict[str, Any] = {"id": statement.account, "scheme": statement.account_scheme}
    document: dict[str, Any] = {
        "index": statement.index,
        "kind": statement.kind,
        "statementId": statement.statement_id,
        "account": _with(account, name=statement.account_name, bic=statement.account_bic),
        "currency": statement.currency,
        "balances": [balance_document(balance) for balance in statement.balances],
        "totals": {
            "booked": _totals(statement.booked),
            "pending": _totals(statement.pending),
            "info": _totals(statement.info),
        },
        "entryCount": statement.entry_count,
        "transactionCount": statement.transaction_count,
        "firstBookingDate": _day(statement.first_booking_on),
        "lastBookingDate": _day(statement.last_booking_on),
    }
    _with(
        document,
        sequenceNumber=statement.sequence_number,
        pageNumber=statement.page_number,
        lastPage=statement.last_page,
        createdAt=statement.created_at,
        **{"from": _day(statement.from_on), "to": _day(statement.to_on)},
    )
    document["checks"] = {
        "balance": statement.balance_check,
        "balanceDifferenceMinor": statement.balance_difference_minor,
        "controlTotals": statement.control_totals_check,
    }
    return document


def balance_document(balance: Balance) -> dict[str, Any]:
    """Return a balance."""
    return {
        "type": balance.type,
        "amountMinor": balance.amount_minor,
        "currency": balance.currency,
        "direction": balance.direction,
        "date": _day(balance.on),
    }


def entry_document(entry: Entry) -> dict[str, Any]:
    """Return a transaction; one that was not stored on its own (a detail) has no identity."""
    document: dict[str, Any] = {
        "index": entry.index,
        "line": entry.line,
        "status": entry.status,
        "direction": entry.direction,
        "amountMinor": entry.amount_minor,
        "currency": entry.currency,
        "reversal": entry.reversal,
        "bookingDate": _day(entry.booking_on),
        "valueDate": _day(entry.value_on),
        "entryReference": entry.entry_reference,
        "bankReference": entry.bank_reference,
        "transactionId": entry.transaction_id,
        "endToEndId": entry.end_to_end_id,
        "mandateId": entry.mandate_id,
        "instructionId": entry.instruction_id,
        "paymentInformationId": entry.payment_information_id,
        "uetr": entry.uetr,
        "checkNumber": entry.check_number,
        "structuredReference": entry.structured_reference,
        "remittance": entry.remittance,
        "counterpartyName": entry.counterparty_name,
        "counterpartyAccount": entry.counterparty_account,
        "counterpartyBic": entry.counterparty_bic,
        "ultimateCounterpartyName": entry.ultimate_counterparty_name,
        "bankTransactionCode": entry.bank_transaction_code,
        "purposeCode": entry.purpose_code,
        "returnReason": entry.return_reason,
        "charges": [_money(charge) for charge in entry.charges],
    }
    if entry.net is not None:
        document["net"] = _money(entry.net)
    if entry.original is not None:
        document["original"] = {"amountMinor": entry.original.amount_minor, "currency": entry.original.currency}
    if entry.exchange_rate is not None:
        document["exchangeRate"] = entry.exchange_rate
    batch = entry.batch
    if batch is not None:
        document["batch"] = {"groupKey": batch.group_key, "count": batch.count, "itemised": batch.itemised}
    if entry.details:
        document["details"] = [
            {**entry_document(detail), "index": ordinal} for ordinal, detail in enumerate(entry.details)
        ]
    if entry.identity_value:
        document["identity"] = {
            "kind": entry.identity_kind,
            "value": entry.identity_value,
            "occurrence": entry.occurrence,
        }
    document["metadata"] = entry.metadata
    return document


def problem_document(problem: Problem) -> dict[str, Any]:
    """Return a problem; ``statement`` and ``entry`` are indexes, ``line`` a line of the file."""
    document = {
        "code": problem.code,
        "severity": problem.severity,
        "rejects": problem.rejects,
        "detail": problem.detail,
    }
    return _with(document, statement=problem.statement, entry=problem.entry, line=problem.line)


def problem_of(skipped: Skipped) -> Problem:
    """Return a record that was left out as something to know, so that it is not lost in silence."""
    detail = f"left out by the rule {skipped.rule}"
    return Problem(skipped.rule, "info", statement=skipped.statement, line=skipped.line, detail=detail)


def _totals(totals: Totals) -> dict[str, int]:
    return {
        "creditCount": totals.credit_count,
        "creditMinor": totals.credit_minor,
        "debitCount": totals.debit_count,
        "debitMinor": totals.debit_minor,
    }


def _money(money: Money) -> dict[str, Any]:
    return {"amountMinor": money.amount_minor, "currency": money.currency, "direction": money.direction}


def _day(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _with(document: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """Add what is there."""
    document.update({name: value for name, value in optional.items() if value is not None})
    return document
