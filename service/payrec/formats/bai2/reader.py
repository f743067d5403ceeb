"""Reader of BAI2 files, as a stream.

A file (01 to 99) holds groups (02 to 98) of one bank and day, and those hold accounts (03 to 49), each a statement of
its transactions (16). Trailers carry sums of all amounts as written, and numbers of records. The bank's reference of a
transaction repeats, so it is not an identity: entries are known by their fingerprint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

from payrec.constants import BAI2_LINES_LOOKED_AT
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.references import is_iban
from payrec.domain.statements import Direction, Parsed, Problem, Severity, Skipped, Statement, StatementEnd
from payrec.errors import UnreadableFileError
from payrec.formats import text
from payrec.formats.bai2.records import Fields, Record, RunOn, Stray, records_of
from payrec.formats.bai2.values import (
    AccountHead,
    Directions,
    NonMonetaryError,
    created_at,
    day,
    read_account,
    read_transaction,
    whole,
    written_amount,
)
from payrec.formats.base import Detected, Head, ReadOptions, RecordError, Source
from payrec.formats.encoding import Decoder
from payrec.formats.lines import fed, lines_of

_DEFAULT_CURRENCY: Final = "USD"
"""Of a group that names none (Version 2, record 02)."""
_VERSION: Final = "2"
_FILE_HEADER: Final = re.compile(r"[ \t\r\n]*01,([^/\r\n]*)")
_FILE_HEADER_FIELDS: Final = 8
_VERSION_FIELD: Final = 7
_DATE: Final = re.compile(r"[^,]*,[^,]*,[0-9]{6},")
_GROUP_HEADER: Final = re.compile(r"(?:^|/)[ \t]*02,", re.MULTILINE)
_SKIPPED_GROUPS: Final = {"2": "bai2_deletion", "4": "bai2_test"}
"""Group status to the rule by which its transactions are left out."""
_CORRECTION: Final = "3"
_INTERIM_MODIFIERS: Final = frozenset({"1", "3"})
"""As-of date modifiers of a day that is not over: interim data of the previous or of the same day."""


class Bai2Reader:
    """Recognises and reads BAI2."""

    name = "bai2"

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:  # noqa: ARG002  # the interface
        """Look for a file header at the start and a group header within the next lines."""
        content = head.text
        header = _FILE_HEADER.match(content)
        if header is None:
            return None
        if content[header.end() : header.end() + 1] != "/" and not _DATE.match(header[1]):
            return None  # A table whose first cell is 01.
        lines = content[header.end() :].splitlines()[: BAI2_LINES_LOOKED_AT + 1]
        if not _GROUP_HEADER.search("\n".join(lines)):
            return None
        fields = [field.strip() for field in header[1].split(",")]
        version = fields[_VERSION_FIELD] if len(fields) >= _FILE_HEADER_FIELDS else ""
        return Detected("bai2", version if version.isdecimal() and len(version) <= 2 else None)

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:
        """Yield statements, entries and problems.

        Raises
        ------
        UnreadableFileError
            ``line_too_long``; ``no_statement``: the file holds no account.

        """
        if detected.version not in (None, _VERSION):
            yield Problem("unknown_version", "info", detail="a version of BAI that this reader was not made for")
        decoder = Decoder(head.encoding, fallback=head.encoding_fallback)
        file = _File(options)
        yield from fed(records_of(lines_of(source, decoder)), file, decoder)
        if not file.accounts:
            raise UnreadableFileError("no_statement", "the file holds no account")


class _Sums:
    """What a trailer is compared with: of an account, a group or the file."""

    __slots__ = ("amount_minor", "parts", "records")

    def __init__(self) -> None:
        self.amount_minor = 0
        """Sum of all amounts as written."""
        self.records = 0
        self.parts = 0
        """Accounts of a group, groups of the file."""

    def add(self, other: _Sums) -> None:
        """Add one part that is complete."""
        self.amount_minor += other.amount_minor
        self.records += other.records
        self.parts += 1


class _File:
    """The state between two records: the open file, group and account."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._directions = Directions(options.profile)
        self._out: list[Parsed] = []
        self._line = 0
        self.accounts = 0
        """Records 03 so far, those of groups that are left out included."""
        self._index = 0
        self._file: _Sums | None = None
        self._created_at: str | None = None
        # The open group.
        self._group: _Sums | None = None
        self._skip_rule: str | None = None
        self._as_of: date | None = None
        self._group_currency: str | None = None
        self._interim = False
        # The open account.
        self._account: _Sums | None = None
        self._statement: Statement | None = None
        self._currency = ""
        self._totals: dict[Direction, tuple[int | None, int | None]] = {}
        self._found: dict[Direction, list[int]] = {}
        self._checks: list[bool] = []

    def take(self) -> list[Parsed]:
        """Return what has become known since the last call."""
        out, self._out = self._out, []
        return out

    def feed(self, records: list[Record | Stray | RunOn]) -> None:
        """Take the next records."""
        for record in records:
            self._add(record)

    def _add(self, record: Record | Stray | RunOn) -> None:
        self._line = record.line
        if isinstance(record, Record):
            if record.code == "16":
                self._transaction(record)
            else:
                self._frame(record)
            if record.wrapped:
                self._problem("bai2_layout", "a text goes on in a line that is no continuation record", "info")
        elif isinstance(record, RunOn):
            self._problem("bai2_layout", "a line holds several records", "info")
        else:
            self._problem("invalid_entry", "the line is no record", rejects=True)

    def close(self) -> None:
        """End what is open: the file is over."""
        self._end_file()

    def _frame(self, record: Record) -> None:
        fields = Fields(record)
        match record.code:
            case "01":
                self._end_file()
                self._file = _Sums()
                self._file.records = record.physical
                fields.next(), fields.next()
                self._created_at = created_at(fields.next(), fields.next())
            case "02":
                self._begin_group(record, fields)
            case "03":
                self._begin_account(record)
            case "49":
                self._end_account(record, fields)
            case "98":
                self._end_group(record, fields)
            case "99":
                self._end_file(record, fields)
            case _:
                self._problem("invalid_entry", "a continuation of no record", rejects=True)
        if fields.stray:
            self._stray()

    def _stray(self) -> None:
        self._problem("bai2_layout", "what stands behind the end of the record is not read")

    def _problem(self, code: str, detail: str, severity: Severity = "warning", *, rejects: bool = False) -> None:
        self._out.append(
            Problem(
                code,
                "error" if rejects else severity,
                rejects,
                statement=self._statement.index if self._statement else None,
                line=self._line,
                detail=detail,
            )
        )

    # Groups and the file ---------------------------------------------------------------------------------------

    def _begin_group(self, record: Record, fields: Fields) -> None:
        self._end_group()
        self._group = _Sums()
        self._group.records = record.physical
        _, _, status, digits, _, currency, modifier = (fields.next() for _ in range(7))
        self._skip_rule = _SKIPPED_GROUPS.get(status)
        self._group_currency = currency.upper() or None
        self._interim = modifier in _INTERIM_MODIFIERS
        self._as_of = None
        if self._skip_rule is not None:
            self._problem(self._skip_rule, "the group is no report of transactions: it is left out", "info")
        elif status == _CORRECTION:
            self._problem("bai2_correction", "the group corrects one that was sent before")
        if digits:
            try:
                self._as_of, clamped = day(digits)
            except RecordError as error:
                self._problem(error.code, f"as-of date of the group: {error.detail}")
            else:
                if clamped:
                    self._problem("date_clamped", "a day that the month does not have became its last", "info")

    def _end_group(self, record: Record | None = None, fields: Fields | None = None) -> None:
        self._end_account()
        group, self._group = self._group, None
        if record is None or fields is None:
            if group is not None:
                self._problem("incomplete_file", "the group has no trailer")
        elif group is None:
            self._problem("control_total_mismatch", "a trailer of no group")
        else:
            group.records += record.physical
            written = (fields.next(), fields.next(), fields.next())
            self._compare("group", written, (group.amount_minor, group.parts, group.records))
        if group is not None and self._file is not None:
            self._file.add(group)
        self._skip_rule = self._group_currency = self._as_of = None
        self._interim = False

    def _end_file(self, record: Record | None = None, fields: Fields | None = None) -> None:
        self._end_group()
        file, self._file = self._file, None
        if record is None or fields is None:
            if file is not None:
                self._problem("incomplete_file", "the file has no trailer: it may be cut off")
        elif file is None:
            self._problem("control_total_mismatch", "a trailer of no file")
        else:
            file.records += record.physical
            written = (fields.next(), fields.next(), fields.next())
            self._compare("file", written, (file.amount_minor, file.parts, file.records))
        self._created_at = None

    def _compare(self, what: str, written: tuple[str, ...], found: tuple[int, ...]) -> bool | None:
        """Compare the fields of a trailer with what came; None when all of them are blank."""
        wrong = [f"{is_} and not {says[:32]}" for says, is_ in zip(written, found, strict=True) if _differs(says, is_)]
        if wrong:
            self._problem("control_total_mismatch", f"found for the trailer of the {what}: {', '.join(wrong)}")
            return False
        return True if any(written) else None

    # Accounts --------------------------------------------------------------------------------------------------

    def _begin_account(self, record: Record) -> None:
        self._end_account()
        self.accounts += 1
        self._account = _Sums()
        self._account.records = record.physical
        inherited = self._group_currency or self._options.currency or _DEFAULT_CURRENCY
        head = read_account(record, inherited, self._as_of)
        self._account.amount_minor = head.signed_minor
        if self._skip_rule is not None:
            return
        self._currency = head.currency or inherited
        self._totals = head.totals
        self._found = {"credit": [0, 0], "debit": [0, 0]}
        self._checks = []
        self._open_statement(head)
        for flaw in head.flaws:
            self._problem("invalid_balance", flaw)
        if head.stray:
            self._stray()

    def _open_statement(self, head: AccountHead) -> None:
        account = head.account or text.own_account(self._options.account)
        self._statement = statement = Statement(
            self._index,
            kind="interim" if self._interim else "statement",
            account=account,
            account_scheme="iban" if account and is_iban(account) else "other",
            currency=self._currency if self._currency in MINOR_UNITS else None,
            created_at=self._created_at,
            from_on=self._as_of,
            to_on=self._as_of,
            balances=head.balances,
        )
        self._index += 1
        self._out.append(statement)

    def _end_account(self, record: Record | None = None, fields: Fields | None = None) -> None:
        account, self._account = self._account, None
        if record is None or fields is None:
            if account is not None:
                self._problem("incomplete_file", "the account has no trailer")
        elif account is None:
            self._problem("control_total_mismatch", "a trailer of no account")
        else:
            account.records += record.physical
            agrees = self._compare("account", (fields.next(), fields.next()), (account.amount_minor, account.records))
            if agrees is not None:
                self._checks.append(agrees)
        if account is not None and self._group is not None:
            self._group.add(account)
        if self._statement is not None:
            self._end_statement(self._statement)

    def _end_statement(self, statement: Statement) -> None:
        """Compare the totals of both sides with the transactions."""
        for side, written in self._totals.items():
            if written == (None, None):
                continue
            minor, count = self._found[side]
            agrees = written[0] in (None, minor) and written[1] in (None, count)
            self._checks.append(agrees)
            if not agrees:
                self._problem("control_total_mismatch", f"the {side}s are not what the account's head says of them")
        if self._checks:
            statement.control_totals_check = "ok" if all(self._checks) else "mismatch"
        self._out.append(StatementEnd(statement))
        self._statement = None
        self._totals = {}

    # Transactions ----------------------------------------------------------------------------------------------

    def _transaction(self, record: Record) -> None:
        account = self._account
        if account is None:
            self._problem("entry_outside_statement", "the transaction stands outside any account", rejects=True)
            return
        account.records += record.physical
        statement = self._statement
        if statement is None:
            account.amount_minor += written_amount(record)
            self._out.append(Skipped(self._skip_rule or "", line=record.line))
            return
        try:
            read = read_transaction(record, self._currency, self._directions)
        except NonMonetaryError:
            account.amount_minor += written_amount(record)
            self._out.append(Skipped("bai2_non_monetary", statement.index, record.line))
            return
        except RecordError as error:
            account.amount_minor += written_amount(record)
            self._problem(error.code, error.detail, rejects=True)
            return
        account.amount_minor += read.signed_minor
        entry = read.entry
        entry.statement = statement.index
        entry.booking_on = self._as_of
        found = self._found[entry.direction]
        found[0] += entry.amount_minor
        found[1] += 1
        self._out.append(entry)
        if read.signed_minor < 0:
            self._problem("negative_amount", "the amount is negative: it counts for the other side", "info")
        if read.clamped:
            self._problem("date_clamped", "a day that the month does not have became its last", "info")
        if read.stray:
            self._stray()


def _differs(says: str, found: int) -> bool:
    """Tell whether a trailer's field contradicts; a blank one says nothing."""
    if not says:
        return False
    try:
        return whole(says) != found
    except RecordError:
        return True


READER = Bai2Reader()
