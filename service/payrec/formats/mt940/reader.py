"""Reader of SWIFT MT940 and MT942 files (``.sta``, ``.940``), as a stream.

A message is a sequence of fields, ``:tag:`` and what follows up to the next tag. ``:20:`` opens a statement; a line of
nothing but ``-`` or ``-}`` ends it, and so does the next ``:20:`` or the end of the file. The bank's reference of a
line repeats (it may name a whole batch), so it is not an identity: entries are known by their fingerprint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from payrec.constants import FIELD_BYTES_MAX, MT940_BALANCES_MAX, TEXT_LENGTH_MAX
from payrec.domain.references import is_iban
from payrec.domain.statements import BalanceType, Entry, Parsed, Problem, Statement, StatementEnd
from payrec.formats import text
from payrec.formats.base import Detected, Head, ReadOptions, RecordError, Source
from payrec.formats.encoding import Decoder
from payrec.formats.lines import fed, lines_of
from payrec.formats.mt940.details import read_details
from payrec.formats.mt940.lines import parse_account, parse_balance, parse_control_total, parse_created_at, parse_entry

_TAG: Final = re.compile(r":(NS|[0-9]{2}[A-Z]?):")
_TAGS: Final = frozenset(
    "NS 13 13D 20 21 25 25P 28 28C 34F 60F 60M 61 62F 62M 64 65 86 90C 90D".split()  # noqa: SIM905  # as one reads them
)
_OUTSIDE: Final = frozenset("-{\x01\x02\x03\x1a")
"""How a line begins that may be none of a field: an end mark, a SWIFT block, SOH or ETX between messages."""
_SWIFT_BLOCK: Final = re.compile(r"\{[1-5]:[^\n]*")
_CONTROLS: Final = "".join(map(chr, [*range(33), 127]))
"""Blanks and control characters: files from a host have SOH before and ETX after a message."""

# Without line ends among the blanks: from each of many blank lines on, all others would be looked through.
_BEGINS: Final = re.compile(r"^[\x00-\x09\x0b-\x20]*(?:\{4:)?:(?:20|25P?):", re.MULTILINE)
_CONTENT: Final = re.compile(r"^:(?:60[FM]|61|62[FM]|34F|13D):", re.MULTILINE)
_INTERIM: Final = re.compile(r"^:(?:34F|13D):", re.MULTILINE)
_OPENING: Final = re.compile(r"^:60[FM]:", re.MULTILINE)

_BALANCES: Final[dict[str, BalanceType]] = {
    "60F": "opening",
    "60M": "opening",
    "62F": "closing",
    "62M": "closing",
    "64": "closing_available",
    "65": "forward_available",
}
_OPENS: Final = frozenset({"20", "25", "25P", "28", "28C", "60F", "60M", "34F", "13D"})
"""Tags that begin a statement when none is open: some banks leave out ``:20:``."""


class Mt940Reader:
    """Recognises and reads MT940 and MT942."""

    name = "mt940"

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:  # noqa: ARG002  # the interface
        """Look for ``:20:`` or ``:25:`` at the begin of a line, and a balance, an entry or an interim head."""
        content = head.text
        if not _BEGINS.search(content) or not _CONTENT.search(content):
            return None
        if _INTERIM.search(content) and not _OPENING.search(content):
            return Detected("mt942")
        return Detected("mt940")

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:  # noqa: ARG002  # the interface
        """Yield statements, entries and problems.

        A statement is interim when it has the head of an MT942 (``34F`` or ``13D``) and no opening balance.

        Raises
        ------
        UnreadableFileError
            ``line_too_long``.

        """
        decoder = Decoder(head.encoding, fallback=head.encoding_fallback)
        yield from fed(lines_of(source, decoder), _Messages(options), decoder)


def _check_size(size: int, tag: str) -> None:
    if size > FIELD_BYTES_MAX:
        raise RecordError("field_too_long", f"field {tag} is longer than {FIELD_BYTES_MAX} characters")


class _Messages:
    """The state between two lines: the open field, the entry that waits for its details, the open statement."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._out: list[Parsed] = []
        self._line = 0
        self._index = 0
        # The open field.
        self._tag = ""
        self._field: list[str] = []
        self._field_line = 0
        self._field_size = 0
        # The entry that waits: its fields 86 and NS may follow.
        self._entry: Entry | None = None
        self._clamped = False
        self._details: list[str] = []
        self._ns: list[str] = []
        self._details_size = 0
        self._entry_size = 0
        # The open statement.
        self._statement: Statement | None = None
        self._announced = False
        self._has_reference = False
        self._interim = False
        self._currency: str | None = None
        self._ordinal = 0
        self._sums: dict[str, list[int]] = {}
        self._controls: dict[str, tuple[int, int] | None] = {}

    # Lines -----------------------------------------------------------------------------------------------------

    def feed(self, lines: list[str]) -> None:
        """Take the next lines of the file."""
        number = self._line
        for original in lines:
            number += 1
            self._line = number
            line = self._outside_fields(original) if original[:1] in _OUTSIDE else original
            if line and not (line[0] == ":" and self._begin_field(line)) and self._tag:
                self._continue_field(line)

    def _begin_field(self, line: str) -> bool:
        found = _TAG.match(line)
        if found is None or (found[1] not in _TAGS and self._tag in {"86", "NS", "61"} and found[1].isdigit()):
            return False  # A text that begins with a time, such as ":08:15", is no field.
        if self._tag:
            self._end_field()
        self._tag = found[1]
        content = line[found.end() :]
        self._field = [content]
        self._field_line = self._line
        self._field_size = len(content) + 1
        return True

    def _continue_field(self, line: str) -> None:
        self._field_size += len(line) + 1
        # What is too long is counted, not kept: an entry is rejected for it when it is complete.
        if self._field_size <= FIELD_BYTES_MAX:
            self._field.append(line)

    def _outside_fields(self, line: str) -> str:
        """Handle end marks and SWIFT blocks; return what is left of the line."""
        bare = line.strip(_CONTROLS)
        if bare in {"-", "-}"} or bare.startswith("-}{"):
            self._end_statement()
            return ""
        if _SWIFT_BLOCK.match(bare):
            self._end_field()
            return bare.partition("{4:")[2]
        return line.lstrip(_CONTROLS) if line[0] < " " else line

    def take(self) -> list[Parsed]:
        """Return what has become known since the last call."""
        out, self._out = self._out, []
        return out

    def close(self) -> None:
        """End what is open: the file is over."""
        self._end_statement()

    # Fields ----------------------------------------------------------------------------------------------------

    def _end_field(self) -> None:
        tag, self._tag = self._tag, ""
        if tag == "61":
            self._flush_entry()
            self._begin_entry()
        elif tag in {"86", "NS"}:
            self._add_details(tag)
        elif tag in _TAGS:
            self._flush_entry()
            self._head_field(tag)

    def _head_field(self, tag: str) -> None:
        content = self._field[0]
        if self._field_size > TEXT_LENGTH_MAX:
            self._problem("field_too_long", f"field {tag} is longer than {TEXT_LENGTH_MAX} characters: it is not read")
            content = ""
            self._field = [content]
        if tag == "20" or (tag in {"25", "25P"} and self._begins_next_account()):
            self._close_statement()
        if self._statement is None and tag not in _OPENS:
            return
        statement = self._statement or self._open_statement()
        match tag:
            case "20":
                self._has_reference = True
            case "25" | "25P":
                self._account(statement, content)
            case "28" | "28C":
                self._number(statement, content)
            case "34F" | "13D":
                self._interim_head(statement, tag, content)
            case "90C" | "90D":
                direction = "credit" if tag == "90C" else "debit"
                self._controls[direction] = parse_control_total(content, self._currency)
            case _ if tag in _BALANCES:
                self._balance(statement, tag, content)

    def _begins_next_account(self) -> bool:
        """Tell whether a field 25 begins a statement by itself: the file has no ``:20:``, or it has entries before it.

        Entries that went out keep their account, which must not depend on how many of them are out already.
        """
        statement = self._statement
        return statement is not None and (
            self._announced or (statement.account is not None and not self._has_reference)
        )

    def _account(self, statement: Statement, content: str) -> None:
        statement.account, currency = parse_account(content)
        statement.account_scheme = "iban" if statement.account and is_iban(statement.account) else "other"
        if len(self._field) > 1:
            statement.account_bic = text.clean(self._field[1])
        self._currency = self._currency or currency

    def _number(self, statement: Statement, content: str) -> None:
        statement.statement_id = text.clean(content)
        number, _, page = (statement.statement_id or "").partition("/")
        statement.sequence_number = number or None
        if page.isdecimal() and len(page) <= 9:
            statement.page_number = int(page)

    def _interim_head(self, statement: Statement, tag: str, content: str) -> None:
        self._interim = True
        if tag == "13D":
            statement.created_at = parse_created_at(content)
        elif content[:3].isalpha() and content[:3].isascii() and self._currency is None:
            self._currency = content[:3]

    def _balance(self, statement: Statement, tag: str, content: str) -> None:
        kind = _BALANCES[tag]
        parsed = parse_balance(content, kind, self._currency or self._options.currency)
        # The opening balance has the last word on the currency, as long as no entry went out in another.
        if self._currency is None or (kind == "opening" and parsed.currency is not None and not self._announced):
            self._currency = parsed.currency
        if tag in {"62F", "62M"}:
            statement.last_page = tag == "62F"
        if tag in {"60M", "62M"}:
            # Another page comes before it, or follows. What begins and ends with final balances is whole.
            statement.is_page = True
        if parsed.balance is not None and len(statement.balances) < MT940_BALANCES_MAX:
            statement.balances.append(parsed.balance)
        if parsed.flaw is not None:
            self._problem("invalid_balance", parsed.flaw)

    def _problem(self, code: str, detail: str, *, line: int | None = None, rejects: bool = False) -> None:
        self._out.append(
            Problem(
                code,
                "error" if rejects else "warning",
                rejects,
                statement=self._statement.index if self._statement else None,
                line=line or self._field_line,
                detail=detail,
            )
        )

    # Entries ---------------------------------------------------------------------------------------------------

    def _begin_entry(self) -> None:
        statement = self._statement
        if statement is None:
            self._problem("entry_outside_statement", "the entry stands outside any statement", rejects=True)
            return
        if not self._announced:
            self._announce(statement)
        entry = Entry(statement.index, line=self._field_line, account=statement.account)
        try:
            _check_size(self._field_size, "61")
            self._clamped = parse_entry(self._field, self._currency, entry)
        except RecordError as error:
            self._problem(error.code, error.detail, rejects=True)
        else:
            self._entry = entry
            self._entry_size = self._field_size

    def _add_details(self, tag: str) -> None:
        if self._entry is None:
            return  # Information about the statement, or about an entry that was rejected.
        self._details_size += self._field_size
        if self._details_size <= FIELD_BYTES_MAX:
            (self._details if tag == "86" else self._ns).extend(self._field)

    def _flush_entry(self) -> None:
        entry = self._entry
        if entry is None:
            return
        self._entry = None
        try:
            _check_size(self._details_size, "86")
            read_details(entry, self._details, self._ns, size=self._details_size + self._entry_size)
        except RecordError as error:
            self._problem(error.code, error.detail, line=entry.line, rejects=True)
        else:
            self._accept(entry)
        self._details = []
        self._ns = []
        self._details_size = 0

    def _accept(self, entry: Entry) -> None:
        entry.index = self._ordinal
        self._ordinal += 1
        sums = self._sums[entry.direction]
        sums[0] += 1
        sums[1] += (entry.net or entry).amount_minor
        self._out.append(entry)
        if self._clamped:
            self._out.append(
                Problem(
                    "date_clamped", "info", statement=entry.statement, entry=entry.index, line=entry.line,
                    detail="a day that the month does not have became the last of the month",
                )
            )  # fmt: skip

    # Statements ------------------------------------------------------------------------------------------------

    def _open_statement(self) -> Statement:
        self._statement = statement = Statement(self._index, is_page=None)
        self._index += 1
        self._announced = self._has_reference = self._interim = False
        self._currency = None
        self._ordinal = 0
        self._sums = {"credit": [0, 0], "debit": [0, 0]}
        self._controls = {}
        return statement

    def _announce(self, statement: Statement) -> None:
        """Yield the head, as soon as an entry or the end shows that it is complete."""
        self._announced = True
        if self._currency is None:
            self._currency = self._options.currency
        if statement.account is None:
            statement.account = text.own_account(self._options.account)
            statement.account_scheme = "iban" if statement.account and is_iban(statement.account) else "other"
        statement.currency = self._currency
        if self._interim and statement.balance("opening") is None:
            statement.kind = "interim"
        self._out.append(statement)

    def _end_statement(self) -> None:
        if self._tag:
            self._end_field()
        self._flush_entry()
        self._close_statement()

    def _close_statement(self) -> None:
        statement = self._statement
        if statement is None:
            return
        if not self._announced:
            self._announce(statement)
        statement.currency = statement.currency or self._currency
        if self._controls:
            self._check_controls(statement)
        if statement.balance("opening") is not None and statement.last_page is None:
            self._problem("incomplete_file", "the statement has no closing balance: the file may be cut off")
        statement.is_page = bool(statement.is_page)
        self._out.append(StatementEnd(statement))
        self._statement = None

    def _check_controls(self, statement: Statement) -> None:
        """Compare fields 90C and 90D with the entries."""
        wrong = [d for d, control in self._controls.items() if control != tuple(self._sums[d])]
        statement.control_totals_check = "mismatch" if wrong else "ok"
        for direction in wrong:
            self._problem("control_total_mismatch", f"the {direction} entries are not what the file says of them")


READER = Mt940Reader()
