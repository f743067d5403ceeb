"""Which characters the bytes of a file are, and decoding them piece by piece.

In order: a byte-order mark, the encoding of a saved profile, the XML declaration, and else one pass over the head:
valid UTF-8, what the header of OFX says, or the Windows code page that its words are spelt in. A declaration is
believed only as far as the bytes can be that at all. A head of ASCII leaves it open: the first other byte decides then.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from payrec.constants import DETECTION_BYTES, FILE_PIECE_BYTES
from payrec.domain.statements import Problem
from payrec.errors import UnreadableFileError
from payrec.formats.base import Source
from payrec.formats.code_pages import code_page

_MARKS: Final = (
    (codecs.BOM_UTF32_LE, None),
    (codecs.BOM_UTF32_BE, None),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte-order marks, longer ones first: UTF-32 LE begins as UTF-16 LE does, and is not read."""

_XML_ENCODINGS: Final = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "utf-8",
    "usascii": "utf-8",  # as OFX 2 writes it
    "ascii": "utf-8",
    "iso-8859-1": "iso-8859-1",
    "iso8859-1": "iso-8859-1",
    "latin1": "iso-8859-1",
    "windows-1252": "cp1252",
    "cp1252": "cp1252",
    # A declaration that can be read byte by byte is not UTF-16, whatever it says: programs write it around a string
    # and save that as UTF-8.
    "utf-16": None,
    "utf-16le": None,
    "utf-16be": None,
}
"""What an XML declaration may say; None is settled by looking at the bytes."""

_PROFILE_ENCODINGS: Final = re.compile(
    r"utf-8|utf-16-le|utf-16-be|ascii|cp(?:437|85[0258]|866|125[0-8])|iso8859-[0-9]{1,2}|koi8-[ru]|mac-(?:roman|latin2)"
)
"""Names, as ``codecs`` normalises them, that a profile may set."""

_OFX_CHARSET: Final = re.compile(
    rb"""\s*OFXHEADER\s*:.{0,400}?\bCHARSET\s*:\s*(?:(125[0-8]|437|85[0258])|(?:ISO-?)?8859-1)\b""", re.DOTALL
)
"""What an OFX header may say; it is believed where the bytes are not UTF-8, for it often says 1252 when they are."""
_XML_DECLARATION: Final = re.compile(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
_UTF_16_XML: Final = (("utf-16-le", b"<\0?\0x\0"), ("utf-16-be", b"\0<\0?\0x"))


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of a file, and how many bytes of byte-order mark come before its text."""

    name: str
    guessed: bool = False
    mark_length: int = 0
    fallback: Callable[[bytes], str] | None = field(default=None, compare=False)
    """Tells by the bytes what the file is, if it has ASCII so far and is not UTF-8 where it first has more."""


def detect_encoding(data: bytes, *, complete: bool, profile: str | None = None) -> Encoding:
    """Tell the encoding of a file by its head.

    Parameters
    ----------
    data
        The first bytes, byte-order mark included.
    complete
        Nothing follows, so a torn character at the end is an error and not a cut.
    profile
        The encoding of the saved profile.

    Raises
    ------
    UnreadableFileError
        ``encoding_unsupported``.

    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            if name is None:
                raise UnreadableFileError("encoding_unsupported", "the file is UTF-32")
            return Encoding(name, mark_length=len(mark))
    if profile is not None:
        return Encoding(_profile_encoding(profile))
    for name, start in _UTF_16_XML:
        if data.startswith(start):
            return Encoding(name)
    declared = _XML_DECLARATION.match(data)
    if declared is not None:
        try:
            name = _XML_ENCODINGS[declared[1].decode("ascii").lower()]
        except KeyError:
            raise UnreadableFileError("encoding_unsupported", "the XML declares an encoding that is not read") from None
        if name is not None:
            return Encoding(name)
    charset = _OFX_CHARSET.match(data)
    named = None if charset is None else f"cp{charset[1].decode('ascii')}" if charset[1] else "iso-8859-1"
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data[:DETECTION_BYTES], final=complete)
    except UnicodeDecodeError:
        return Encoding(named or code_page(data[:DETECTION_BYTES]), guessed=named is None)
    return Encoding("utf-8", fallback=None if complete else lambda seen: named or code_page(seen))


def _profile_encoding(name: str) -> str:
    try:
        normal = codecs.lookup(name).name
    except (LookupError, ValueError):
        normal = ""
    if normal == "utf-16":
        normal = "utf-16-le"
    if not _PROFILE_ENCODINGS.fullmatch(normal):
        raise UnreadableFileError("encoding_unsupported", "the profile names an encoding that is not read")
    return normal


class Decoder:
    """Decodes a file piece by piece; bytes that are no character become U+FFFD, and ``told`` says so.

    With a ``fallback`` (of ``Encoding``) the file is read as that from the first byte on that is neither ASCII nor
    UTF-8, unless there was more than ASCII before: up to there both are the same.
    """

    __slots__ = ("_decoder", "_fallback", "damaged", "guessed")

    def __init__(self, encoding: str, *, fallback: Callable[[bytes], str] | None = None) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._fallback = fallback
        self.damaged = False
        """A byte could not be decoded so far."""
        self.guessed: str | None = None
        """What the fallback said the file is."""

    def decode(self, data: bytes, *, final: bool = False) -> str:
        """Return the characters that the bytes complete."""
        try:
            text = self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            if self._fallback is not None and error.object[: error.start].isascii():
                # What the error names begins with the bytes that the decoder held before the call.
                self.guessed, self._fallback = self._fallback(error.object), None
                self._decoder = codecs.getincrementaldecoder(self.guessed)()
                return self.decode(error.object, final=final)
            # A decoder that raised has kept the bytes it held before the call, so the same piece can be repeated.
            self.damaged = True
            self._decoder.errors = "replace"
            text = self._decoder.decode(data, final)
            self._decoder.errors = "strict"
        if self._fallback is not None and not text.isascii():
            self._fallback = None
        return text

    def told(self) -> Iterator[Problem]:
        """Yield what is to be told when all of the file was decoded."""
        if self.guessed is not None:
            yield guess(self.guessed)
        if self.damaged:
            yield Problem("undecodable_bytes", detail="bytes that the encoding does not have became U+FFFD")


def guess(name: str) -> Problem:
    """Return what is told of a file that is not UTF-8, where nothing says what else it is."""
    return Problem("encoding_guessed", "info", detail=f"not UTF-8 and without a declaration: {name}")


def decoded(source: Source, decoder: Decoder, *, size: int = FILE_PIECE_BYTES) -> Iterator[str]:
    """Yield the text of the source in pieces of at most ``size`` bytes."""
    while data := source.read(size):
        text = decoder.decode(data)
        if text:
            yield text
    tail = decoder.decode(b"", final=True)
    if tail:
        yield tail
