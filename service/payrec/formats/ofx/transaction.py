"""The fields of an OFX transaction while they come, tag by tag."""

from __future__ import annotations

from typing import Final

from payrec.constants import FIELD_BYTES_MAX
from payrec.formats.base import RecordError

_NESTED: Final = frozenset({"PAYEE", "BANKACCTTO", "CCACCTTO", "CURRENCY", "ORIGCURRENCY"})
"""Elements of a transaction whose own fields are wanted."""


class Transaction:
    """One transaction, from its start tag to its end."""

    __slots__ = ("_fields", "_opened", "_size", "line", "name", "nested")

    def __init__(self, name: str, line: int) -> None:
        self.name = name
        self.line = line
        self._fields: list[tuple[str, str]] = []
        self._opened: dict[str, int] = {}
        """Tags without a text to the number of fields before: elements that hold others, or empty fields."""
        self._size = 0
        self.nested: dict[str, dict[str, str]] = {}

    def open(self, name: str, text: str, *, closed: bool) -> None:
        """Take a start tag and the text behind it."""
        value = text.strip()
        self._size += len(text) + len(name)
        if self._size > FIELD_BYTES_MAX:
            return
        if value:
            if self._opened:
                self._opened.pop(name, None)
            self._fields.append((name, value))
        elif not closed:
            self._opened[name] = len(self._fields)

    def end(self, name: str) -> None:
        """Take an end tag: what came since its start tag, if that had no text, is not the transaction's own."""
        if self._opened and name in self._opened:
            at = self._opened.pop(name)
            inner = self._fields[at:]
            del self._fields[at:]
            if name in _NESTED:
                self.nested[name] = dict(inner)

    def fields(self) -> dict[str, str]:
        """Return its own fields; of those that come twice the first."""
        return dict(reversed(self._fields))

    def flaw(self) -> RecordError | None:
        """Return why it cannot be read, whatever its fields say."""
        if self._size > FIELD_BYTES_MAX:
            return RecordError("field_too_long", f"the transaction has more than {FIELD_BYTES_MAX} characters")
        if sum(name == "TRNAMT" for name, _ in self._fields) > 1:
            return RecordError("invalid_entry", "it has two amounts: an end and a begin are missing between them")
        return None
