"""Reader of transactions in JSON: an array, ``{"transactions": […]}``, or one object a line, as a stream.

The fields are those of the interface's incoming transactions. Records are cut out of the stream one by one, so that
neither a file of any length nor a hostile one takes more memory than one record. ``externalId`` is the identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from payrec.constants import FILE_ACCOUNTS_MAX, JSON_LINES_LOOKED_AT, JSON_RECORD_BYTES_MAX
from payrec.domain.references import is_iban
from payrec.domain.statements import Parsed, Problem, Statement, StatementEnd
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.base import Detected, Head, ReadOptions, RecordError, Source
from payrec.formats.encoding import Decoder, decoded
from payrec.formats.json.records import decode_record, decode_value, entry_of, record_end, refuse_depth
from payrec.formats.lines import lines_of

_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_BEGINS: Final = re.compile(r"""\s*(?:(\[)\s*(?:[\]{\["0-9tfn-]|$)|\{\s*(?:["}]|$))""")


class JsonReader:
    """Recognises and reads JSON and JSON lines."""

    name = "json"

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:  # noqa: ARG002  # the interface
        """Look at the first characters; an object that is complete on the first line is a record of its own.

        Raises
        ------
        UnreadableFileError
            ``json_too_deep``: the first line is a record nested too deep.

        """
        content = head.text
        begins = _BEGINS.match(content)
        if begins is None:
            return None
        if begins[1] is not None:
            return Detected("json")
        first, *others = content.lstrip().split("\n", JSON_LINES_LOOKED_AT)
        enveloped = '"transactions"' in first
        if not enveloped and first.startswith("{"):
            refuse_depth(first)
        if _is_record(first) or (not enveloped and any(map(_is_record, others))):
            return Detected("jsonl")
        # An object over many lines, or one that the end of the head cuts off: the envelope. Else a torn line.
        several_lines = any(other.strip() for other in others)
        return Detected("json" if '"transactions"' in content or several_lines else "jsonl")

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:
        """Yield entries, and a statement (``transactions``) for each account and currency that they move, as it comes.

        Raises
        ------
        UnreadableFileError
            ``json_too_deep``, ``line_too_long`` (a record beyond its limit), ``invalid_json`` (the array around the
            records is torn), ``no_statement`` (an object without ``transactions``).
        PayloadTooLargeError
            More than FILE_ACCOUNTS_MAX accounts.

        """
        decoder = Decoder(head.encoding, fallback=head.encoding_fallback)
        records = records_of(source, decoder, detected)
        statements: dict[tuple[str | None, str], Statement] = {}
        array = None if detected.format == "jsonl" else "" if head.text.lstrip().startswith("[") else "/transactions"
        ordinal = -1
        for line, record in records:
            if isinstance(record, Problem):
                yield record
                continue
            ordinal += 1
            try:
                if isinstance(record, RecordError):
                    raise record
                entry = entry_of(record, options)
            except RecordError as error:
                # A whole array may be one line: where in it the record stands is all that finds it again.
                place = "" if array is None else f" (at {array}/{ordinal})"
                yield Problem(error.code, "error", rejects=True, line=line, detail=error.detail + place)
                continue
            entry.line = line
            # What moves the account says which one it is, as in reports of providers.
            key = (entry.account, entry.currency if entry.net is None else entry.net.currency)
            statement = statements.get(key)
            if statement is None:
                statement = statements[key] = _statement(len(statements), *key)
                yield statement
            entry.statement = statement.index
            yield entry
        yield from decoder.told()
        for statement in statements.values():
            yield StatementEnd(statement)


def _is_record(line: str) -> bool:
    """Tell whether the line is an object by itself, and no envelope."""
    if not line.startswith("{"):
        return False
    try:
        value = decode_record(line)
    except (RecordError, UnreadableFileError):
        return False
    return isinstance(value, dict) and "transactions" not in value


def _statement(index: int, account: str | None, currency: str) -> Statement:
    if index >= FILE_ACCOUNTS_MAX:
        raise PayloadTooLargeError(f"the file has more than {FILE_ACCOUNTS_MAX} accounts")
    scheme = "iban" if account is not None and is_iban(account) else "other"
    return Statement(
        index,
        kind="transactions",
        account=account,
        account_scheme=scheme,  # type: ignore[arg-type]  # one of the two
        currency=currency,
    )


Record = tuple[int, Any]
"""Line of the file, and a decoded value, the ``RecordError`` for which it is rejected, or a ``Problem`` to pass on."""


def records_of(source: Source, decoder: Decoder, detected: Detected) -> Iterator[Record]:
    """Yield the records of a file, whatever they are of; raises as ``JsonReader.read``."""
    return _lines(source, decoder) if detected.format == "jsonl" else _Envelope(source, decoder).records()


def _lines(source: Source, decoder: Decoder) -> Iterator[Record]:
    """Yield one record a line; a torn line costs itself alone."""
    number = 0
    for lines in lines_of(source, decoder, length_max=JSON_RECORD_BYTES_MAX):
        for line in lines:
            number += 1
            if not line or line.isspace():
                continue
            try:
                record = decode_record(line)
            except RecordError as error:
                record = error
            yield number, record


class _Envelope:
    """Cuts the records out of an array, which may stand in an object as ``transactions``."""

    def __init__(self, source: Source, decoder: Decoder) -> None:
        self._pieces = decoded(source, decoder)
        self._buffer = ""
        self._at = 0
        self._complete = False
        """The buffer holds all that is left of the file."""
        self._line = 1
        self._counted = 0
        """Offset up to which the buffer's lines are counted."""

    def records(self) -> Iterator[Record]:
        """Yield the elements of the array."""
        if self._next() == "[":
            yield from self._array()
        else:
            yield from self._object()
        if self._next():
            raise _invalid("there is something behind the end")

    def _object(self) -> Iterator[Record]:
        self._expect("{")
        seen = False
        separator = "" if self._next() == "}" else ","
        while separator == ",":
            self._next()
            line, key = self._value()
            if not isinstance(key, str):
                raise _invalid("an object must have names")
            self._expect(":")
            if key == "transactions":
                if seen or self._next() != "[":
                    raise _invalid("transactions must be one array")
                seen = True
                yield from self._array()
            else:
                self._next()
                if isinstance(self._value()[1], RecordError):
                    raise _invalid("the object around the records is torn")
                yield line, Problem("unknown_field", line=line, detail="beside transactions: it is not read")
            separator = self._next()
            if separator == ",":
                self._at += 1
        self._expect("}")
        if not seen:
            raise UnreadableFileError("no_statement", "the object has no transactions")

    def _array(self) -> Iterator[Record]:
        self._expect("[")
        if self._next() == "]":
            self._at += 1
            return
        while True:
            self._next()
            yield self._value()
            if self._next() != ",":
                break
            self._at += 1
        self._expect("]")

    def _value(self) -> Record:
        """Take one value, which begins at the next character; a record that is not JSON is its error."""
        line = self._here()
        begin = self._at
        try:
            value, self._at = decode_value(self._buffer, begin)
        except RecordError as error:
            self._at = record_end(self._buffer, begin, complete=self._complete)
            if self._at == begin:
                raise _invalid("a value is missing") from error
            value = error
        if self._at - begin > JSON_RECORD_BYTES_MAX:
            raise UnreadableFileError("line_too_long", f"a record is longer than {JSON_RECORD_BYTES_MAX} characters")
        return line, value

    def _next(self) -> str:
        """Move to the next character that is not blank and return it, nothing at the end of the file.

        Behind it the buffer holds at least as much as the longest record has, or the rest of the file.
        """
        while True:
            blanks = _BLANKS.match(self._buffer, self._at)
            self._at = blanks.end() if blanks is not None else self._at
            if self._complete or len(self._buffer) - self._at > JSON_RECORD_BYTES_MAX:
                return self._buffer[self._at : self._at + 1]
            self._here()
            piece = next(self._pieces, None)
            if piece is None:
                self._complete = True
            else:
                self._buffer = self._buffer[self._at :] + piece
                self._at = self._counted = 0

    def _here(self) -> int:
        """Return the line of the next character."""
        self._line += self._buffer.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _expect(self, character: str) -> None:
        if self._next() != character:
            raise _invalid("the array or object around the records is torn")
        self._at += 1


def _invalid(detail: str) -> UnreadableFileError:
    return UnreadableFileError("invalid_json", detail)


READER = JsonReader()
