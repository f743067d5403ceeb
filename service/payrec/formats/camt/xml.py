"""The XML of camt messages as a stream of small records, on the standard library's expat.

The tree of the paths that are wanted (``payrec.formats.camt.paths``) is walked along with the document: text at a
wanted path goes into the record under construction, everything else is passed over. A record is a plain dictionary and
lives until its element ends, so memory does not grow with the file. Only local names are looked at, so every
namespace, prefix and wrapper is the same.

Hostile input: a document type declaration is refused before anything in it is looked at, so there are no entities
but the five of XML; depth, the length of tokens, the number of names, text and the size of one entry are bounded.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn
from xml.parsers import expat

from payrec.constants import (
    BATCH_DETAILS_MAX,
    FIELD_BYTES_MAX,
    XML_DEPTH_MAX,
    XML_ENTRY_CHARACTERS_MAX,
    XML_NAMES_MAX,
    XML_TOKEN_BYTES_MAX,
)
from payrec.errors import UnreadableFileError
from payrec.formats.camt.paths import AMOUNT, PASS, RECORD, TEXTS, TREE, Node

Record = dict[str, Any]
"""What was found at the wanted paths of one element: text by key, lists of text, lists of records."""

_LIST_ITEM_CHARACTERS: Final = 64
"""What an item of a list counts besides its text, so that a million empty ones are not free."""

_SHORT: Final = 1024
"""Characters of a text that is certainly within the limit of bytes."""

TOO_LONG: Final = "#too_long"
"""Key that is set in the record of an entry when one of its texts was beyond FIELD_BYTES_MAX."""
TOO_LARGE: Final = "#too_large"
"""Key that is set when an entry had more details, or more text altogether, than is read."""


def local_name(name: str) -> str:
    """Return the name without its prefix."""
    return name[name.rfind(":") + 1 :]


def _refuse_declaration(*_: object) -> NoReturn:
    raise UnreadableFileError("xml_dtd_forbidden", "the file has a document type declaration")


def new_parser(namespace_separator: str | None = None) -> tuple[expat.XMLParserType, dict[str, Any]]:
    """Return a parser that refuses declarations, and the dictionary of all names that it met."""
    names: dict[str, Any] = {}
    parser = expat.ParserCreate("utf-8", namespace_separator, names)
    parser.StartDoctypeDeclHandler = _refuse_declaration
    parser.EntityDeclHandler = _refuse_declaration
    parser.UnparsedEntityDeclHandler = _refuse_declaration
    parser.ExternalEntityRefHandler = _refuse_declaration
    return parser, names


def too_deep() -> UnreadableFileError:
    """Return the refusal of a document with too many levels."""
    return UnreadableFileError("xml_too_deep", f"the file has more than {XML_DEPTH_MAX} levels of elements")


class Scanner:
    """Feeds a document to expat and keeps the events of each piece: kind, record, and the line where it began.

    ``header`` and ``balance``, ``entry`` and ``statement_end`` come with their complete record. ``statement`` comes
    when the element begins, with the same record as ``statement_end``, still being filled.
    """

    __slots__ = (
        "_chunks",
        "_fed",
        "_names",
        "_node",
        "_parser",
        "_path",
        "_record",
        "_records",
        "_size",
        "_skip",
        "events",
    )

    def __init__(self) -> None:
        self._parser, self._names = new_parser()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._chunks: list[str] = []
        # The list's own method is the handler: white space between elements then costs no Python call.
        self._parser.CharacterDataHandler = self._chunks.append
        self._fed = 0
        self._node = TREE
        self._path: list[Node] = []
        self._record: Record = {}
        """The record under construction: the last of all that are."""
        self._records: list[tuple[Record, int]] = [(self._record, 0)]
        self._size = 0
        """Characters of the entry under construction."""
        self._skip = 0
        """Levels below the element that is passed over."""
        self.events: list[tuple[str, Record, int]] = []

    def feed(self, text: str, *, final: bool = False) -> list[tuple[str, Record, int]]:
        """Parse the next piece of the document and return its events.

        Raises
        ------
        UnreadableFileError
            ``xml_malformed``, ``xml_dtd_forbidden``, ``xml_too_deep``, ``xml_token_too_long``, ``xml_too_many_names``.

        """
        self.events = []
        try:
            self._parser.Parse(text, final)
        except expat.ExpatError as error:
            raise UnreadableFileError("xml_malformed", f"line {error.lineno} is not well-formed XML") from error
        self._fed += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        if not final and self._fed - self._parser.CurrentByteIndex > XML_TOKEN_BYTES_MAX:
            raise UnreadableFileError("xml_token_too_long", f"a tag or comment is over {XML_TOKEN_BYTES_MAX} bytes")
        if len(self._names) > XML_NAMES_MAX:
            raise UnreadableFileError("xml_too_many_names", f"the file has more than {XML_NAMES_MAX} names of elements")
        self._trim()
        return self.events

    def _trim(self) -> None:
        """Forget text that nobody wants, and most of a text that is too long already."""
        chunks = self._chunks
        if self._node.kind in (PASS, RECORD):
            chunks.clear()
        elif sum(map(len, chunks)) > FIELD_BYTES_MAX:
            chunks[:] = ["".join(chunks)[: FIELD_BYTES_MAX + 1]]

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._skip:
            self._skip += 1
            if self._skip + len(self._path) > XML_DEPTH_MAX:
                raise too_deep()
            return
        node = self._node.children.get(name) or self._node.children.get(local_name(name))
        if node is None:
            if not self._node.wraps:
                self._skip = 1
                return
            node = self._node
        if len(self._path) >= XML_DEPTH_MAX:
            raise too_deep()
        kind = node.kind
        if kind == RECORD:
            if not self._begin_record(node):
                self._skip = 1
                return
        elif kind:
            if self._chunks:
                self._chunks.clear()
            if kind == AMOUNT:
                record = self._record
                # The first amount wins, and its currency is the one beside it.
                if node.key not in record:
                    record[node.key + "_currency"] = attributes.get("Ccy", "")
        self._path.append(self._node)
        self._node = node

    def _begin_record(self, node: Node) -> bool:
        """Begin a record; False when the entry is too large already and the element is to be passed over."""
        record: Record = {}
        line = 0
        if node.event is None:
            items = self._record.setdefault(node.key, [])
            self._size += _LIST_ITEM_CHARACTERS
            if len(items) >= BATCH_DETAILS_MAX or self._size > XML_ENTRY_CHARACTERS_MAX:
                self._mark(TOO_LARGE)
                return False
            items.append(record)
        else:
            line = self._parser.CurrentLineNumber
            if node.event == "entry":
                self._size = 0
            elif node.event == "statement_end":
                self.events.append(("statement", record, line))
        self._records.append((record, line))
        self._record = record
        return True

    def _end(self, _: str) -> None:
        if self._skip:
            self._skip -= 1
            return
        node = self._node
        kind = node.kind
        if kind == RECORD:
            record, line = self._records.pop()
            self._record = self._records[-1][0]
            if node.event is not None:
                self.events.append((node.event, record, line))
        elif kind and self._chunks:
            chunks = self._chunks
            text = chunks[0] if len(chunks) == 1 else "".join(chunks)
            chunks.clear()
            if not text.isspace():
                # The common case is settled here: a call for each element would cost a tenth of all the time.
                if kind != TEXTS and len(text) < _SHORT and self._size < XML_ENTRY_CHARACTERS_MAX:
                    if node.key not in self._record:
                        self._size += len(text)
                        self._record[node.key] = text
                else:
                    self._keep_text(node, text)
        self._node = self._path.pop()

    def _keep_text(self, node: Node, text: str) -> None:
        record = self._record
        if len(text) * 4 > FIELD_BYTES_MAX and len(text.encode("utf-8", "replace")) > FIELD_BYTES_MAX:
            self._mark(TOO_LONG)
        elif self._size + len(text) > XML_ENTRY_CHARACTERS_MAX:
            self._mark(TOO_LARGE)
        elif node.kind == TEXTS:
            self._size += len(text) + _LIST_ITEM_CHARACTERS
            record.setdefault(node.key, []).append(text)
        elif node.key not in record:
            self._size += len(text)
            record[node.key] = text

    def _mark(self, key: str) -> None:
        """Note it in the records under construction, up to the one that will be an event."""
        for record, line in reversed(self._records):
            record[key] = ""
            if line:
                break
