"""Reader of OFX and QFX files, of banks, credit cards and investment accounts, as a stream.

``STMTRS``, ``CCSTMTRS`` and ``INVSTMTRS`` are statements; there is a closing balance and no opening one, so balances
prove nothing. The bank's id of a transaction (FITID) is its identity within the account.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from payrec.constants import FIELD_BYTES_MAX, OFX_HEAD_CHARACTERS, TEXT_LENGTH_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.references import is_iban
from payrec.domain.statements import BalanceType, Entry, Parsed, Problem, Skipped, Statement, StatementEnd
from payrec.errors import UnreadableFileError
from payrec.formats.base import Detected, Head, ReadOptions, RecordError, Source
from payrec.formats.encoding import Decoder, decoded
from payrec.formats.lines import fed
from payrec.formats.ofx.tags import plain_fields, split_tags, texts_of
from payrec.formats.ofx.transaction import Transaction
from payrec.formats.ofx.values import account_number, created_at, day, read_balance, read_entry

_BEGINS: Final = re.compile(r"OFXHEADER:|<OFX>", re.IGNORECASE)
_ROOT: Final = re.compile(r"<OFX>", re.IGNORECASE)
_DOCTYPE: Final = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_VERSION: Final = re.compile(r"""\bVERSION\s*[:=]\s*["']?([0-9]{1,5})\b""")
"""Of OFX, in upper case; ``version`` is that of XML."""

_STATEMENTS: Final = frozenset({"STMTRS", "CCSTMTRS", "INVSTMTRS"})
_TRANSACTIONS: Final = frozenset({"STMTTRN", "STMTTRNP"})
_BEGIN_TAG: Final = "<STMTTRN>"
_END_TAG: Final = "</STMTTRN>"
_BALANCES: Final[dict[str, BalanceType]] = {"LEDGERBAL": "closing", "AVAILBAL": "closing_available"}
_BALANCE_FIELDS: Final = frozenset({"BALAMT", "DTASOF"})
_LISTS: Final = frozenset({"BANKTRANLIST", "BANKTRANLISTP", "INVTRANLIST"})
_INVESTMENTS: Final = "INVTRANLIST"
_CASH: Final = "INVBANKTRAN"
_LOAN_TRANSACTION: Final = "LOANSTMTTRN"
_ROOT_NAME: Final = "OFX"
_OUTER: Final = _STATEMENTS | _TRANSACTIONS | _LISTS | {*_BALANCES, _CASH, _ROOT_NAME}
"""Elements that are never part of a transaction: where one begins or ends, a transaction has ended."""
_DATES: Final = frozenset({"DTSTART", "DTEND"})
_NO_TRADES: Final = _DATES | {"SUBACCTFUND"}
"""Fields, not trades, even when they are empty."""


class OfxReader:
    """Recognises and reads OFX."""

    name = "ofx"

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:  # noqa: ARG002  # the interface
        """Look for the header or the root element near the start.

        Raises
        ------
        UnreadableFileError
            ``xml_dtd_forbidden``.

        """
        start = head.text[:OFX_HEAD_CHARACTERS]
        if not _BEGINS.search(start):
            return None
        root = _ROOT.search(head.text)
        before = head.text[: root.start()] if root is not None else start
        if _DOCTYPE.search(before):
            raise UnreadableFileError("xml_dtd_forbidden", "the file declares a document type")
        version = _VERSION.search(before)
        return Detected("ofx", version[1] if version is not None else None)

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:  # noqa: ARG002  # the interface
        """Yield statements, entries and problems.

        Raises
        ------
        UnreadableFileError
            ``xml_token_too_long``; ``no_statement``.

        """
        decoder = Decoder(head.encoding, fallback=head.encoding_fallback)
        document = _Document(options)
        yield from fed(texts_of(decoded(source, decoder)), document, decoder)
        if not document.statements:
            raise UnreadableFileError("no_statement", "the file holds no statement of an account")


class _Document:
    """The state between two tags: the open statement, and the open transaction, trade or balance in it."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._out: list[Parsed] = []
        self._line = 1
        self.statements = 0
        self._root_open = False
        self._created_at: str | None = None
        self._status_code = ""
        # The open statement.
        self._statement: Statement | None = None
        self._announced = False
        self._currency: str | None = None
        self._ordinal = 0
        self._list = ""
        # What is open in it.
        self._transaction: Transaction | None = None
        self._trade = ""
        self._balance = ""
        self._balance_fields: dict[str, str] = {}

    def take(self) -> list[Parsed]:
        """Return what has become known since the last call."""
        out, self._out = self._out, []
        return out

    def feed(self, text: str) -> None:
        """Take the next piece of the file; its last tag is complete."""
        at = 0
        while True:
            begin = text.find(_BEGIN_TAG, at)
            end = text.find(_END_TAG, begin) if begin >= 0 else -1
            if end < 0:
                break
            inner = text[begin + len(_BEGIN_TAG) : end]
            fields = plain_fields(inner) if len(inner) <= FIELD_BYTES_MAX else None
            if fields is None or not _OUTER.isdisjoint(fields):
                self._feed_tags(text[at : end + len(_END_TAG)])
            else:
                self._feed_tags(text[at:begin])
                self._end_parts()
                self._end_transaction("STMTTRN", self._line, fields, {})
                self._line += inner.count("\n")
            at = end + len(_END_TAG)
        self._feed_tags(text[at:])

    def _feed_tags(self, text: str) -> None:
        if "<" not in text:
            self._line += text.count("\n")
            return
        before, tags = split_tags(text)
        line = self._line + before.count("\n")
        for slash, written, rest, behind in tags:
            self._line = line
            name = written.upper()
            transaction = self._transaction
            if transaction is not None and name not in _OUTER:
                if slash:
                    transaction.end(name)
                else:
                    transaction.open(name, behind, closed=rest[-1:] == "/")
            elif slash:
                self._end(name)
            else:
                self._begin(name, behind.strip())
                if rest[-1:] == "/":
                    self._end(name)
            line += behind.count("\n") + rest.count("\n")
        self._line = line

    def close(self) -> None:
        """End what is open: the file is over."""
        if self._transaction is not None:
            self._transaction = None
            self._problem("invalid_entry", "the file ends within the transaction", rejects=True)
        if self._balance:
            self._balance = ""
            self._problem("invalid_balance", "the file ends within the balance")
        if self._root_open or self._statement is not None:
            self._problem("incomplete_file", "the file has no end: it may be cut off")
        self._end_statement()

    def _problem(self, code: str, detail: str, *, line: int | None = None, rejects: bool = False) -> None:
        self._out.append(
            Problem(
                code,
                "error" if rejects else "warning",
                rejects,
                statement=self._statement.index if self._statement else None,
                line=line or self._line,
                detail=detail,
            )
        )

    # Tags ------------------------------------------------------------------------------------------------------

    def _begin(self, name: str, value: str) -> None:
        if name in _OUTER:
            self._end_parts()
            self._begin_outer(name)
        elif self._trade:
            return
        elif self._balance:
            if name in _BALANCE_FIELDS:
                self._balance_fields.setdefault(name, value)
        elif self._list == _INVESTMENTS and not value and name not in _NO_TRADES:
            self._trade = name
            self._skip("ofx_investment")
        elif name == _LOAN_TRANSACTION:
            self._skip("ofx_loan")
        elif value:
            self._field(name, value)

    def _begin_outer(self, name: str) -> None:
        if name in _TRANSACTIONS:
            self._transaction = Transaction(name, self._line)
        elif name in _STATEMENTS:
            self._begin_statement()
        elif name in _BALANCES:
            self._balance = name
            self._balance_fields = {}
        elif name in _LISTS:
            self._list = name
        elif name == _ROOT_NAME:
            self._root_open = True

    def _end(self, name: str) -> None:
        if name in _OUTER:
            self._end_parts()
            if name in _STATEMENTS:
                self._end_statement()
            elif name in _LISTS:
                self._list = ""
            elif name == _ROOT_NAME:
                self._end_statement()
                self._root_open = False
        elif name == self._trade:
            self._trade = ""

    def _end_parts(self) -> None:
        """End the transaction, trade or balance that is open."""
        self._trade = ""
        if self._transaction is not None:
            transaction, self._transaction = self._transaction, None
            self._end_transaction(
                transaction.name, transaction.line, transaction.fields(), transaction.nested, flaw=transaction.flaw()
            )
        if self._balance:
            self._end_balance()

    def _field(self, name: str, value: str) -> None:
        """Take a field that is neither of a transaction nor of a balance."""
        statement = self._statement
        if name == "DTSERVER":
            self._created_at = created_at(value)
        elif name == "CODE":
            self._status_code = value[:16]
        elif name == "SEVERITY" and value.upper() == "ERROR":
            self._problem("ofx_status", f"the bank answers with status {self._status_code}")
        elif statement is None:
            return
        elif name == "CURDEF":
            self._currency = value.upper()
        elif name == "ACCTID" and statement.account is None and not self._announced:
            if len(value) <= TEXT_LENGTH_MAX:
                self._account(statement, value)
            else:
                self._problem("field_too_long", f"ACCTID is longer than {TEXT_LENGTH_MAX} characters: it is not read")
        elif name in _DATES and self._list:
            try:
                on = day(value)[0]
            except RecordError as error:
                self._problem(error.code, f"{name} of the statement: {error.detail}")
            else:
                statement.from_on, statement.to_on = (
                    (on, statement.to_on) if name == "DTSTART" else (statement.from_on, on)
                )

    # Statements ------------------------------------------------------------------------------------------------

    def _begin_statement(self) -> None:
        self._end_statement()
        self._statement = Statement(self.statements, created_at=self._created_at)
        self.statements += 1
        self._announced = False
        self._currency = None
        self._ordinal = 0

    def _account(self, statement: Statement, written: str | None) -> None:
        statement.account = account_number(written)
        statement.account_scheme = "iban" if statement.account and is_iban(statement.account) else "other"

    def _announce(self) -> Statement | None:
        """Yield the head as soon as something in the statement shows that it is complete."""
        statement = self._statement
        if statement is not None and not self._announced:
            self._announced = True
            if statement.account is None:
                self._account(statement, self._options.account)
            self._currency = self._currency or self._options.currency
            statement.currency = self._currency if self._currency in MINOR_UNITS else None
            self._out.append(statement)
        return statement

    def _end_statement(self) -> None:
        statement = self._announce()
        if statement is not None:
            self._out.append(StatementEnd(statement))
        self._statement = None
        self._list = ""

    def _end_balance(self) -> None:
        kind, self._balance = self._balance, ""
        statement = self._statement
        if statement is None:
            return
        currency = self._currency or self._options.currency
        balance, flaw = read_balance(self._balance_fields, _BALANCES[kind], currency)
        if balance is not None and statement.balance(balance.type) is None:
            statement.balances.append(balance)
        if flaw is not None:
            self._problem("invalid_balance", f"{kind}: {flaw}")

    # Transactions ----------------------------------------------------------------------------------------------

    def _skip(self, rule: str, line: int | None = None) -> None:
        statement = self._announce()
        self._out.append(Skipped(rule, statement.index if statement else None, line or self._line))

    def _end_transaction(
        self,
        name: str,
        line: int,
        fields: dict[str, str],
        nested: dict[str, dict[str, str]],
        flaw: RecordError | None = None,
    ) -> None:
        statement = self._announce()
        if statement is None:
            self._problem("entry_outside_statement", "it is in no statement", line=line, rejects=True)
            return
        if "CORRECTACTION" in fields and fields["CORRECTACTION"].upper() == "DELETE":
            self._skip("ofx_deletion", line)
            return
        entry = Entry(statement.index, line=line, account=statement.account)
        if name == "STMTTRNP":
            entry.status = "pending"
        try:
            if flaw is not None:
                raise flaw
            clamped = read_entry(fields, nested, self._currency, entry)
        except RecordError as error:
            self._problem(error.code, error.detail, line=line, rejects=True)
            return
        entry.index = self._ordinal
        self._ordinal += 1
        self._out.append(entry)
        if clamped:
            self._tell(entry, "date_clamped", "info", "a day that the month does not have became the last of the month")
        if "CORRECTFITID" in fields:
            self._tell(entry, "ofx_correction", "warning", "it replaces a transaction that was sent before")

    def _tell(self, entry: Entry, code: str, severity: str, detail: str) -> None:
        self._out.append(
            Problem(
                code, "info" if severity == "info" else "warning",
                statement=entry.statement, entry=entry.index, line=entry.line, detail=detail,
            )
        )  # fmt: skip


READER = OfxReader()
