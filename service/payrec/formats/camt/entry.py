"""One camt entry (``Ntry``) and its details (``TxDtls``) to one transaction, or to one for each detail of a batch.

The direction is ``CdtDbtInd`` as it stands: ``RvslInd`` only says that it takes something back (a reversed credit is
booked as DBIT with RvslInd true, and is money out). Source: ISO 20022 message definition reports of camt.052, 053 and
054, and what banks write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from typing import Final

from payrec.constants import REMITTANCE_LENGTH_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.identity import OccurrenceCounter, bank_identity, fingerprint
from payrec.domain.references import find_creditor_reference
from payrec.domain.statements import Batch, Direction, Entry, EntryStatus, Money, Problem
from payrec.formats import text
from payrec.formats.base import RecordError
from payrec.formats.camt.xml import TOO_LARGE, TOO_LONG, Record
from payrec.formats.return_fees import tell_fee_apart

DIRECTIONS: Final[dict[str, Direction]] = {"CRDT": "credit", "DBIT": "debit"}
"""CreditDebitCode of ISO 20022."""

_STATUSES: Final[dict[str, EntryStatus]] = {"BOOK": "booked", "PDNG": "pending", "FUTR": "pending", "INFO": "info"}
_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0"})
_REFERENCES: Final = frozenset(
    {
        "end_to_end_id",
        "transaction_id",
        "instruction_id",
        "payment_information_id",
        "mandate_id",
        "uetr",
        "check_number",
    }
)
"""Keys of a detail that are attributes of an entry by the same name."""
_OF_WHOLE: Final = frozenset({"charges", "instructed", "instructed_currency"})
"""Keys of an entry whose amounts are of all of its details together."""
_BATCH_COUNT_DIGITS_MAX: Final = 9
_RATE_LENGTH_MAX: Final = 20


class EntryBuilder:
    """Builds the transactions of one statement."""

    def __init__(self, statement: int, account: str | None) -> None:
        self.statement = statement
        self.account = account
        self.currency: str | None = None
        """What an amount without currency is in: the statement's."""
        self.problems: list[Problem] = []
        """What is to be told about entries that were accepted."""
        self._batches = OccurrenceCounter()

    def build(self, record: Record, line: int) -> list[Entry]:
        """Return the transactions of one entry, in the order of the file.

        Raises
        ------
        RecordError
            The entry cannot be accepted: ``invalid_amount``, ``amount_precision``, ``unknown_currency``,
            ``missing_direction``, ``invalid_date``, ``field_too_long``, ``batch_too_large``.

        """
        if TOO_LONG in record:
            raise RecordError("field_too_long", "an element has more text than is read")
        details: list[Record] = record.get("details", [])
        if TOO_LARGE in record:
            raise RecordError("batch_too_large", "the entry has more details, or more text in them, than is read")
        entry = self._line(record, line)
        if len(details) < 2:
            detail = details[0] if details else {}
            entry.batch = self._batch_of_line(entry, record, detail)
            self._describe(entry, record, detail)
            self._set_charges_apart(entry, detail.get("charges") or record.get("charges"), detail or record)
            self._identify(entry, None)
            return [entry]
        return self._batch(entry, record, details)

    def _batch_of_line(self, entry: Entry, record: Record, detail: Record) -> Batch | None:
        """Return the batch that an entry with one detail or none is.

        One of a single payment is known by the id of its detail, which another report of it may not have.
        """
        count = _count(record.get("batch_count"))
        own = text.reference(detail.get("bank_reference"))
        if count == 1 and own is not None and own != entry.bank_reference:
            return Batch(self._group_key(entry), 1, itemised=True)
        if count is None or (count == 1 and detail):
            return None
        return Batch(None, count, itemised=False)

    def _line(self, record: Record, line: int) -> Entry:
        """Return what all transactions of the entry share."""
        amount_minor, currency = self._amount(record, "amount")
        direction = DIRECTIONS.get(record.get("direction", "").strip())
        if direction is None:
            raise RecordError("missing_direction", "the entry has no CdtDbtInd of CRDT or DBIT")
        entry = Entry(self.statement, 0, line)
        entry.account = self.account
        entry.status = self._status(record.get("status"), line)
        entry.direction = direction
        entry.amount_minor = amount_minor
        entry.currency = currency
        entry.reversal = record.get("reversal", "").strip() in _TRUE
        entry.booking_on = _on(record.get("booking"))
        entry.value_on = _on(record.get("value"))
        entry.entry_reference = text.reference(record.get("entry_reference"))
        entry.bank_reference = text.reference(record.get("bank_reference"))
        return entry

    def _status(self, written: str | None, line: int) -> EntryStatus:
        if written is None:
            return "booked"
        status = _STATUSES.get(written.strip().upper())
        if status is None:
            self._tell("unknown_status", line, "the status is none of ISO 20022: taken as booked")
            return "booked"
        return status

    def _amount(self, record: Record, key: str) -> tuple[int, str]:
        """Return the amount at the key in minor units, and its currency."""
        written = record.get(key)
        if written is None:
            raise RecordError("invalid_amount", "the amount is missing")
        currency = record[key + "_currency"].strip().upper() or self.currency
        if currency is None:
            raise RecordError("invalid_amount", "the amount has no currency")
        digits = MINOR_UNITS.get(currency)
        if digits is None:
            raise RecordError("unknown_currency", "the currency is not one of ISO 4217")
        return text.amount_to_minor(written.strip(), digits), currency

    def _batch(self, entry: Entry, record: Record, details: list[Record]) -> list[Entry]:
        """Split a batch whose details add up to it; keep any other as one transaction with its details."""
        shared_by_parts = {key: value for key, value in record.items() if key not in _OF_WHOLE}
        parts = [self._part(entry, shared_by_parts, detail) for detail in details]
        balanced = all(parts) and sum(_signed(part) for part in parts if part) == _signed(entry)
        if not balanced:
            self._describe(entry, record, {})
            self._identify(entry, None)
            entry.batch = Batch(None, len(details), itemised=False)
            entry.details = [
                part or self._part_without_amount(entry, shared_by_parts, detail)
                for part, detail in zip(parts, details, strict=True)
            ]
            self._tell("batch_details_unbalanced", entry.line, "the details do not add up to their entry")
            return [entry]
        if record.get("charges"):
            self._tell("batch_charges", entry.line, "the charges of the batch are no detail's: they are left out")
        batch = Batch(self._group_key(entry), len(parts), itemised=True)
        shared = _repeated_references(parts)
        for ordinal, (part, detail) in enumerate(zip(parts, details, strict=True)):
            if part is not None:
                part.batch = batch
                self._set_charges_apart(part, detail.get("charges"), detail)
                own = part.bank_reference is not None and part.bank_reference not in shared
                if own and part.bank_reference != entry.bank_reference:
                    self._identify(part, None)
                else:
                    part.bank_reference = part.bank_reference or entry.bank_reference
                    self._identify(part, ordinal)
        return [part for part in parts if part is not None]

    def _part(self, entry: Entry, record: Record, detail: Record) -> Entry | None:
        """Return the detail as a transaction, None when it has no amount in the entry's currency."""
        for key in ("amount", "transaction", "instructed"):
            try:
                amount_minor, currency = self._amount(detail, key)
            except RecordError:
                continue
            if currency == entry.currency:
                part = self._part_without_amount(entry, record, detail)
                part.amount_minor = amount_minor
                return part
        return None

    def _part_without_amount(self, entry: Entry, record: Record, detail: Record) -> Entry:
        part = Entry(entry.statement, 0, entry.line)
        part.account = entry.account
        part.status = entry.status
        part.direction = DIRECTIONS.get(detail.get("direction", "").strip(), entry.direction)
        part.currency = entry.currency
        part.reversal = entry.reversal
        part.booking_on = entry.booking_on
        part.value_on = entry.value_on
        part.entry_reference = entry.entry_reference
        self._describe(part, record, detail)
        return part

    def _group_key(self, entry: Entry) -> str:
        """Return the identity of the entry as a whole; the same one again in this statement gets a number."""
        digest = fingerprint(entry)
        key = bank_identity(entry) or digest.hex()
        before = self._batches.count(digest)
        return f"{key}#{before}" if before else key

    def _identify(self, entry: Entry, ordinal: int | None) -> None:
        """Set the bank's identity, where there is one: the reference of the servicer names one booking."""
        if entry.bank_reference is not None:
            entry.ordinal_within_bank_reference = ordinal
            entry.identity_kind = "bank"
            entry.identity_value = bank_identity(entry) or ""

    def _describe(self, entry: Entry, record: Record, detail: Record) -> None:
        """Fill in what the detail says, and the entry where the detail is silent."""
        get = detail.get
        if "bank_reference" in detail:
            entry.bank_reference = text.reference(get("bank_reference")) or entry.bank_reference
        for key, value in detail.items():
            if key in _REFERENCES:
                setattr(entry, key, text.reference(value))
        entry.purpose_code = text.clean(get("purpose"))
        entry.return_reason = text.clean(get("return_reason"))
        entry.bank_transaction_code = _code(detail) or _code(record)
        self._remit(entry, record, detail)
        _set_counterparty(entry, detail)
        self._add_amounts(entry, record, detail)

    def _remit(self, entry: Entry, record: Record, detail: Record) -> None:
        lines = detail.get("remittance")
        if lines is not None:
            entry.remittance = text.clean_lines("\n".join(lines))
        if entry.remittance is None:
            additional = text.clean_lines(detail.get("additional")) or text.clean_lines(record.get("additional"))
            # The documents that are paid go before what the bank says of the booking.
            documents = text.clean_lines("\n".join(detail.get("documents", ())))
            entry.remittance = "\n".join(filter(None, (documents, additional))) or None
        remittance = entry.remittance
        if remittance is not None and len(remittance) > REMITTANCE_LENGTH_MAX:
            raise RecordError("field_too_long", "the remittance lines together have more text than is read")
        entry.structured_reference = text.reference(detail.get("structured"))
        if entry.structured_reference is None and remittance is not None:
            entry.structured_reference = find_creditor_reference(remittance)

    def _add_amounts(self, entry: Entry, record: Record, detail: Record) -> None:
        """Add charges, and the amount in another currency; a wrong one is left out and told, the entry is not lost."""
        written = detail.get("charges") or record.get("charges")
        if written:
            for charge in written:
                self._charge(entry, charge)
        source = detail if "instructed" in detail else record
        if "instructed" in source:
            try:
                amount_minor, currency = self._amount(source, "instructed")
            except RecordError as error:
                self._tell("invalid_original", entry.line, error.detail)
            else:
                if currency != entry.currency:
                    entry.original = Money(amount_minor, currency)
        rate = detail.get("rate") or record.get("rate")
        if rate is not None and len(rate) <= _RATE_LENGTH_MAX:
            entry.exchange_rate = text.clean(rate)

    def _charge(self, entry: Entry, charge: Record) -> None:
        records = charge.get("charges")
        if records:
            for one in records:
                self._charge(entry, one)
            return
        key = "amount" if "amount" in charge else "total"
        if key in charge:
            try:
                amount_minor, currency = self._amount(charge, key)
            except RecordError as error:
                self._tell("invalid_charge", entry.line, error.detail)
                return
            direction = DIRECTIONS.get(charge.get("direction", "").strip(), "debit")
            entry.charges.append(Money(amount_minor, currency, direction))

    def _set_charges_apart(self, entry: Entry, written: list[Record] | None, source: Record) -> None:
        """Tell what a return takes back from the fee in its amount, unless a charge says that it is not in there."""
        said = set(_inclusions(written or []))
        if not said or not _FALSE.isdisjoint(said):
            return
        original_minor = None
        if "instructed" in source:
            with suppress(RecordError):
                minor, currency = self._amount(source, "instructed")
                original_minor = minor if currency == entry.currency else None
        tell_fee_apart(entry, original_minor=original_minor, included=said <= _TRUE)

    def _tell(self, code: str, line: int | None, detail: str) -> None:
        self.problems.append(Problem(code, statement=self.statement, line=line, detail=detail))


def _on(written: str | None) -> date | None:
    return None if written is None else text.parse_iso_date(written.strip())


def _inclusions(written: list[Record]) -> Iterator[str]:
    """Yield what each charge says of whether the amount includes it: version 2 of the messages does not say."""
    for charge in written:
        records = charge.get("charges")
        if records:
            yield from _inclusions(records)
        else:
            yield charge.get("included", "").strip()


def _signed(entry: Entry) -> int:
    return entry.amount_minor if entry.direction == "credit" else -entry.amount_minor


def _count(written: str | None) -> int | None:
    """Return a Max15NumericText as number, None when it is none."""
    digits = (written or "").strip().lstrip("0")
    if not digits or len(digits) > _BATCH_COUNT_DIGITS_MAX or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def _code(record: Record) -> str | None:
    """Return the bank transaction code: domain, family and sub-family, else the bank's own."""
    domain = record.get("domain")
    if domain is not None:
        return text.clean("-".join(filter(None, (domain, record.get("family"), record.get("sub_family")))))
    return text.clean(record.get("proprietary"))


def _repeated_references(parts: list[Entry | None]) -> set[str]:
    """Return the references that several details of one batch share: they name no single one of them."""
    seen: set[str] = set()
    repeated: set[str] = set()
    for part in parts:
        if part is not None and part.bank_reference is not None:
            (repeated if part.bank_reference in seen else seen).add(part.bank_reference)
    return repeated


def _is_own(entry: Entry, detail: Record, side: str) -> bool:
    """Whether the account of a party is the one that the entry is booked on."""
    account = text.account(detail.get(side + "_iban") or detail.get(side + "_other"))
    return account is not None and account == entry.account


def _set_counterparty(entry: Entry, detail: Record) -> None:
    """Set who paid, or was paid; where that side is empty it is the other one, unless that is the account itself.

    A payment that comes back has the parties that it had when it went: then the account itself is on that side.
    """
    sides: tuple[str, ...] = ("debtor", "creditor") if entry.direction == "credit" else ("creditor", "debtor")
    if _is_own(entry, detail, sides[0]) and not _is_own(entry, detail, sides[1]):
        sides = sides[1:]
    for ordinal, side in enumerate(sides):
        name = text.clean(detail.get(side + "_name"))
        account = text.account(detail.get(side + "_iban") or detail.get(side + "_other"))
        bic = text.account(detail.get(side + "_bic"))
        if name is None and account is None and (bic is None or ordinal):
            continue
        if ordinal and _is_own(entry, detail, side):
            continue
        entry.counterparty_name = name or entry.counterparty_name
        entry.counterparty_account = account
        entry.counterparty_bic = bic or entry.counterparty_bic
        entry.ultimate_counterparty_name = text.clean(detail.get(side + "_ultimate"))
        if name is not None or account is not None:
            return
