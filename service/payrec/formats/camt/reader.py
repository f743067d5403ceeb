"""The reader of camt.052, 053 and 054: bank-to-customer reports, statements and notifications of ISO 20022.

All versions from 001.01 on, told by their shape: the elements that moved between versions are looked for at every
place. Streaming; memory does not grow with the number of entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.parsers import expat

from payrec.constants import CAMT_BALANCES_MAX, XML_DEPTH_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.references import is_iban
from payrec.domain.statements import (
    Balance,
    BalanceType,
    CheckResult,
    Parsed,
    Problem,
    Statement,
    StatementEnd,
    StatementKind,
    Totals,
)
from payrec.errors import UnreadableFileError
from payrec.formats import text
from payrec.formats.base import Detected, Head, ReadOptions, RecordError, Source
from payrec.formats.camt.entry import DIRECTIONS, EntryBuilder
from payrec.formats.camt.paths import MESSAGES
from payrec.formats.camt.xml import TOO_LONG, Record, Scanner, local_name, new_parser, too_deep
from payrec.formats.encoding import Decoder, decoded

_VERSION: Final = re.compile(r"camt\.05[234]\.[0-9]{3}\.[0-9]{2}")
_KNOWN_VERSION: Final = re.compile(r"camt\.05[234]\.001\.(?:0[1-9]|1[0-4])")
_DETECTED_DEPTH_MAX: Final = 8
_KINDS: Final[dict[str, StatementKind]] = {
    "camt.052": "interim",
    "camt.053": "statement",
    "camt.054": "notification",
}
_BALANCE_TYPES: Final[dict[str, BalanceType]] = {
    "OPBD": "opening",
    "PRCD": "previous_closing",
    "CLBD": "closing",
    "OPAV": "opening_available",
    "CLAV": "closing_available",
    "FWAV": "forward_available",
    "ITBD": "interim",
    "ITAV": "interim",
}
_NUMBER_DIGITS_MAX: Final = 9


class _FoundError(Exception):
    """Ends the look at the head: the message element is there."""

    def __init__(self, format_name: str, version: str | None) -> None:
        super().__init__(format_name)
        self.detected = Detected(format_name, version)


class CamtReader:
    """Reads the messages, however they are wrapped: in SOAP, behind an application header, or bare."""

    name = "camt"

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:  # noqa: ARG002  # the interface's parameter
        """Recognise an XML document with a statement, report or notification element.

        Raises
        ------
        UnreadableFileError
            ``xml_dtd_forbidden``, ``xml_too_deep``; ``not_a_statement`` for other messages of ISO 20022.

        """
        start = head.text.lstrip()
        if not start.startswith("<"):
            return None
        look = _Look()
        try:
            look.parser.Parse(start, False)  # noqa: FBT003  # expat takes no keywords
        except _FoundError as found:
            return found.detected
        except expat.ExpatError:
            # What comes before the message is not well-formed: perhaps it is no XML at all.
            pass
        if look.is_iso:
            raise UnreadableFileError(
                "not_a_statement", "the message is neither a report, a statement nor a notification"
            )
        return None

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:
        """Yield statements, entries and problems; see ``payrec.formats.base.Reader``."""
        if detected.version is not None and not _KNOWN_VERSION.fullmatch(detected.version):
            yield Problem("unknown_version", "info", detail="a version of the message that is newer than this reader")
        decoder = Decoder(head.encoding, fallback=head.encoding_fallback)
        message = _Message(detected.format, options)
        scanner = Scanner()
        begun = False
        for piece in decoded(source, decoder):
            # White space before the XML declaration is an error to the parser, and common.
            wanted = piece if begun else piece.lstrip()
            begun = begun or bool(wanted)
            yield from message.take(scanner.feed(wanted))
        yield from message.take(scanner.feed("", final=True))
        yield from decoder.told()
        if not message.count:
            raise UnreadableFileError("no_statement", "the message holds no statement")


class _Look:
    """Looks for the message element, and what kind of document it is otherwise."""

    def __init__(self) -> None:
        self.parser, _ = new_parser(" ")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.is_iso = False
        self._depth = 0

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > XML_DEPTH_MAX:
            raise too_deep()
        namespace, _, local = name.rpartition(" ")
        # Without a declaration of its prefix the name still carries it.
        local = local_name(local)
        if "iso:std:iso:20022" in namespace or (self._depth == 1 and local == "Document"):
            self.is_iso = True
        if self._depth <= _DETECTED_DEPTH_MAX and local in MESSAGES:
            version = _VERSION.search(namespace)
            raise _FoundError(MESSAGES[local], version[0] if version else None)

    def _end(self, _: str) -> None:
        self._depth -= 1

    def _doctype(self, name: str, *_: object) -> None:
        if name.lower() != "html":
            raise UnreadableFileError("xml_dtd_forbidden", "the file has a document type declaration")


class _Message:
    """Turns the scanner's events into statements and entries."""

    def __init__(self, format_name: str, options: ReadOptions) -> None:
        self.count = 0
        """Statements begun so far."""
        self._kind = _KINDS[format_name]
        self._options = options
        self._header: Record = {}
        self._head: Record = {}
        """The record of the statement that is open."""
        self._statement = Statement(0)
        self._before: Statement | None = None
        """The statement before the one that is open."""
        self._announced = True
        self._builder = EntryBuilder(0, None)

    def take(self, events: list[tuple[str, Record, int]]) -> Iterator[Parsed]:
        """Yield what the events are."""
        for kind, record, line in events:
            if kind == "entry":
                if not self._announced:
                    yield from self._announce()
                yield from self._entry(record, line)
            elif kind == "balance":
                yield from self._balance(record, line)
            elif kind == "header":
                self._header = record
            elif kind == "statement":
                self._statement = Statement(self.count, self._kind)
                self.count += 1
                self._head = record
                self._announced = False
            else:
                if not self._announced:
                    yield from self._announce()
                yield from self._end()

    def _announce(self) -> Iterator[Parsed]:
        """Yield the statement: all that stands before its first entry is known."""
        self._announced = True
        statement, head = self._statement, self._head
        statement.statement_id = text.reference(head.get("id"))
        statement.sequence_number = text.clean(head.get("sequence")) or text.clean(head.get("legal_sequence"))
        paging = head if "page" in head else self._header
        statement.page_number = _number(paging.get("page"))
        last = paging.get("last_page", "").strip()
        statement.last_page = last in ("true", "1") if last else None
        statement.is_page = statement.last_page is False or (statement.page_number or 0) > 1
        created = head.get("created") or self._header.get("created")
        statement.created_at = text.clean(created) if _is_date(created) else None
        for key, attribute in (("from", "from_on"), ("to", "to_on")):
            if _is_date(head.get(key)):
                setattr(statement, attribute, text.parse_iso_date(head[key].strip()))
        iban = text.account(head.get("iban"))
        statement.account = iban or text.account(head.get("other")) or text.own_account(self._options.account)
        statement.account_name = text.clean(head.get("name")) or text.clean(head.get("owner"))
        statement.account_bic = text.account(head.get("bic"))
        if statement.account is not None and is_iban(statement.account):
            statement.account_scheme = "iban"
        statement.currency = _currency(head.get("currency"))
        if statement.currency is None and statement.balances:
            statement.currency = statement.balances[0].currency
        self._settle_opening()
        if (before := self._before) is not None and _goes_on_from(before, statement):
            statement.first_page_id = before.first_page_id or before.statement_id
        self._before = statement
        self._builder = EntryBuilder(statement.index, statement.account)
        self._builder.currency = statement.currency or _currency(self._options.currency)
        yield statement
        if iban is not None and statement.account_scheme != "iban":
            yield Problem(
                "invalid_iban", "info", statement=statement.index, detail="the account fails its check digits"
            )
        if TOO_LONG in head:
            yield Problem(
                "field_too_long", statement=statement.index, detail="an element of the statement was left out"
            )

    def _settle_opening(self) -> None:
        """Let the closing balance of the day before open the statement where nothing else does."""
        statement = self._statement
        if statement.balance("opening") is None:
            previous = statement.balance("previous_closing")
            if previous is not None:
                previous.type = "opening"

    def _entry(self, record: Record, line: int) -> Iterator[Parsed]:
        statement, builder = self._statement, self._builder
        if statement.currency is None:
            statement.currency = builder.currency = _currency(record.get("amount_currency")) or builder.currency
        try:
            entries = builder.build(record, line)
        except RecordError as error:
            builder.problems.clear()
            yield Problem(error.code, "error", rejects=True, statement=statement.index, line=line, detail=error.detail)
            return
        yield from entries
        if builder.problems:
            last = statement.transaction_count - 1
            for problem in builder.problems:
                problem.entry = last if last >= 0 else None
                yield problem
            builder.problems.clear()

    def _balance(self, record: Record, line: int) -> Iterator[Parsed]:
        statement = self._statement
        try:
            balance = self._read_balance(record)
        except RecordError as error:
            yield Problem("invalid_balance", statement=statement.index, line=line, detail=error.detail)
            return
        if record.get("direction", "").strip() not in DIRECTIONS:
            yield Problem(
                "balance_sign_assumed", "info", statement=statement.index, line=line, detail="no CdtDbtInd: a credit"
            )
        statement.balances.append(balance)

    def _read_balance(self, record: Record) -> Balance:
        if len(self._statement.balances) >= CAMT_BALANCES_MAX or TOO_LONG in record:
            raise RecordError("invalid_balance", "more balances, or more text in one, than is read")
        currency = _currency(record.get("amount_currency")) or _currency(self._head.get("currency"))
        if currency is None:
            raise RecordError("invalid_balance", "the balance has no currency of ISO 4217")
        return Balance(
            type=_BALANCE_TYPES.get(record.get("type", "").strip(), "other"),
            amount_minor=text.amount_to_minor(record.get("amount", "").strip(), MINOR_UNITS[currency]),
            currency=currency,
            direction=DIRECTIONS.get(record.get("direction", "").strip(), "credit"),
            on=text.parse_iso_date(record["on"].strip()) if "on" in record else None,
        )

    def _end(self) -> Iterator[Parsed]:
        statement = self._statement
        self._settle_opening()
        if statement.currency is None:
            statement.currency = self._builder.currency
        statement.control_totals_check = _check_totals(self._head, statement)
        if statement.control_totals_check == "mismatch":
            yield Problem(
                "control_total_mismatch", statement=statement.index, detail="the entries are not those of TxsSummry"
            )
        yield StatementEnd(statement)


def _check_totals(head: Record, statement: Statement) -> CheckResult:
    """Compare the number and sum of entries that ``TxsSummry`` declares.

    Banks count pending and informational entries or not, so each way of counting is right; but one has to fit all.
    """
    digits = MINOR_UNITS.get(statement.currency or "")
    declared: list[int | None] = []
    for side in ("all", "credit", "debit"):
        declared.append(_number(head.get(f"{side}_count")))
        try:
            written = head.get(f"{side}_sum", "").strip()
            declared.append(text.amount_to_minor(written, digits) if written and digits is not None else None)
        except RecordError:
            declared.append(None)
    if not any(value is not None for value in declared):
        return "not_available"
    sums = Totals()
    for part in (statement.booked, statement.pending, statement.info):
        sums.credit_count += part.credit_count
        sums.credit_minor += part.credit_minor
        sums.debit_count += part.debit_count
        sums.debit_minor += part.debit_minor
        counted = (
            sums.credit_count + sums.debit_count,
            sums.credit_minor + sums.debit_minor,
            sums.credit_count,
            sums.credit_minor,
            sums.debit_count,
            sums.debit_minor,
        )
        if all(value is None or value == there for value, there in zip(declared, counted, strict=True)):
            return "ok"
    return "mismatch"


def _goes_on_from(before: Statement, statement: Statement) -> bool:
    """Tell whether a statement is the next page after another one of the file."""
    return (
        before.last_page is False
        and before.account == statement.account
        and before.page_number is not None
        and statement.page_number == before.page_number + 1
    )


def _number(written: str | None) -> int | None:
    digits = (written or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _NUMBER_DIGITS_MAX else None


def _is_date(written: str | None) -> bool:
    try:
        text.parse_iso_date((written or "").strip())
    except RecordError:
        return False
    return True


def _currency(written: str | None) -> str | None:
    """Return a currency of ISO 4217, None for anything else."""
    code = (written or "").strip().upper()
    return code if code in MINOR_UNITS else None


READER: Final = CamtReader()
