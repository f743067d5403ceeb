"""The tags of an OFX file, whether it is SGML (versions 1.x) or XML (2.x), as a stream.

SGML leaves out the end tags of fields, XML has them, and banks mix both; so neither is parsed as what it says it is.
A tag, and the text up to the next one, is all that is looked at: nothing is expanded, nothing is nested here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from payrec.constants import XML_TOKEN_BYTES_MAX
from payrec.errors import UnreadableFileError

_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9._-]*)((?:\s[^<>]*)?/?)>")
"""A ``<`` that is no tag, such as one in a text, is text."""
_FIELD: Final = re.compile(r"<([A-Z][A-Z0-9.]*)>\s*([^<\s](?:[^<]*[^<\s])?)")
_END: Final = re.compile(r"</([A-Z][A-Z0-9.]*)>")
_ENTITY: Final = re.compile(r"&(amp|lt|gt|quot|apos|nbsp|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});")
_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": " "}
_CODE_POINT_MAX: Final = 0x10FFFF
_CDATA: Final = re.compile(r"<!\[CDATA\[|\]\]>")

Tag = tuple[str, str, str, str]
"""``/`` of an end tag, name as written, what stands behind the name (``/`` closes at once), the text that follows."""


def texts_of(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the file in pieces that end before a tag: every tag in them is complete, and so is the text behind it.

    Raises
    ------
    UnreadableFileError
        ``xml_token_too_long``: a tag with the text behind it has more than XML_TOKEN_BYTES_MAX characters.

    """
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    pending = ""
    for piece in pieces:
        # Of what waited, only its last tag can have become complete: no tag has another's begin within it.
        looked_at = max(pending.rfind("<"), 0)
        pending += newlines.decode(piece)
        last = pending.rfind("<", looked_at)
        # Behind a tag a text follows that may go on in the next piece, so the last tag waits with it.
        while last > 0 and not _TAG.match(pending, last):
            last = pending.rfind("<", looked_at, last)
        _check_lengths(pending, final=False)
        if last > 0:
            yield pending[:last]
            pending = pending[last:]
    pending += newlines.decode("", final=True)
    _check_lengths(pending, final=True)
    yield pending


def _check_lengths(text: str, *, final: bool) -> None:
    """Refuse a tag that is too long with the text behind it, wherever the pieces of the file end."""
    if len(text) <= XML_TOKEN_BYTES_MAX:
        return
    begins = [0, *(found.start() for found in _TAG.finditer(text)), len(text)]
    torn = text.rfind("<")
    if not final and torn > max(begins[-2], text.rfind(">")):
        # What may become a tag with the next piece is not yet part of the text before it.
        begins.insert(-1, torn)
    if any(end - begin > XML_TOKEN_BYTES_MAX for begin, end in pairwise(begins)):
        raise UnreadableFileError("xml_token_too_long", f"a text is longer than {XML_TOKEN_BYTES_MAX} characters")


def split_tags(text: str) -> tuple[str, list[Tag]]:
    """Return what stands before the first tag, and the tags."""
    parts = _TAG.split(text)
    return parts[0], list(zip(parts[1::4], parts[2::4], parts[3::4], parts[4::4], strict=True))


def plain_fields(text: str) -> dict[str, str] | None:
    """Return the fields of an element that holds nothing but fields with a text, each once; else None.

    This is how nearly every transaction is, and several times as fast as going from tag to tag, which has to say the
    same: which of both is taken depends on where the pieces of the file end.
    """
    found = _FIELD.findall(text)
    ends = text.count("</")
    if len(found) + ends != text.count("<"):
        return None
    fields = dict(found)
    if len(fields) < len(found):
        return None
    # An end tag of something else may end more than a field, and what is none at all belongs to the text.
    ended = _END.findall(text) if ends else []
    return fields if len(ended) == ends and fields.keys() >= set(ended) else None


def value_of(text: str) -> str:
    """Return the text with its entities resolved, once; an ampersand that begins none is one."""
    if "<!" in text:
        text = _CDATA.sub("", text)
    return _ENTITY.sub(_resolve, text) if "&" in text else text


def _resolve(found: re.Match[str]) -> str:
    name = found[1]
    if name[0] != "#":
        return _NAMED[name]
    code = int(f"0{name[1:]}", 0) if name[1] == "x" else int(name[1:])
    return chr(code) if 0 < code <= _CODE_POINT_MAX else found[0]
