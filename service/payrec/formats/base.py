"""What every reader of bank files shares: its options, the head it detects by, and its interface."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from payrec.domain.statements import Parsed

DateOrder = Literal["ymd", "dmy", "mdy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the caller knows about the file; all of it may be absent."""

    format: str = "auto"
    currency: str | None = None
    account: str | None = None
    date_order: DateOrder | None = None
    profile: Mapping[str, Any] = field(default_factory=dict)
    """A saved profile for CSV: delimiter, decimal, columns, and so on."""
    accounts: Collection[str] = ()
    """What own accounts are called of which a file was loaded: see ``payrec.formats.account_names``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first 64 KiB of the file after its container: what detection may look at."""

    data: bytes
    """Without byte-order mark."""
    encoding: str
    """Python codec name: utf-8, utf-16-le, utf-16-be, cp1252, iso-8859-1."""
    encoding_guessed: bool
    text: str
    """``data`` decoded; bytes that cannot be decoded are U+FFFD."""
    complete: bool
    """The file is no longer than the head."""
    encoding_fallback: Callable[[bytes], str] | None = None
    """What tells the encoding of the rest, where the head leaves it open: see ``payrec.formats.encoding``."""


@dataclass(slots=True)
class Detected:
    """A reader recognised the file."""

    format: str
    """As the interface names it: camt.053, mt940, mt942, csv, json, jsonl …"""
    version: str | None = None
    dialect: dict[str, Any] | None = None


class Source(Protocol):
    """The bytes of one file after its container, without byte-order mark, from the start. Counted and bounded."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, and no bytes at the end."""
        ...


@runtime_checkable
class ArchiveSource(Source, Protocol):
    """A source that may be an archive itself (a workbook), and counts what its reader gets out of it."""

    def expanded(self, size: int, /) -> None:
        """Count bytes that came out; raises as ``read`` does at the limits of size and time."""
        ...


class Reader(Protocol):
    """One family of formats. Stateless: all state of a file lives in the generator that ``read`` returns."""

    name: str
    """The family, for ``ReadOptions.format`` and the ``tried`` list: camt, mt940, csv, json."""

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:
        """Recognise the file by its content alone.

        Raises
        ------
        UnreadableFileError
            When the file is certainly of this family and cannot be read (``xml_dtd_forbidden``, ``not_a_statement``).
        """
        ...

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:
        """Yield statements, entries and problems as a stream.

        A wrong record is a ``Problem`` with ``rejects`` and never takes a neighbour along; a wrong structure raises
        ``UnreadableFileError``. Totals, counts, first and last dates, fingerprints, occurrences and the balance check
        are not the reader's work: ``payrec.formats.accounting`` adds them.
        """
        ...


class RecordError(ValueError):
    """One record cannot be accepted; becomes a ``Problem`` with ``rejects``."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail or code)
        self.code = code
        self.detail = detail or code
