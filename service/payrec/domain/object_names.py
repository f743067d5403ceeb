"""Names of remote objects, and the patterns that choose among them. Names are somebody else's: none is trusted."""

from __future__ import annotations

import re
from typing import Final

from payrec.constants.sources import OBJECT_NAME_LENGTH_MAX

_UNUSABLE: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
ANY: Final = "**"
"""In a pattern: any characters, slashes too."""


def is_usable(name: str) -> bool:
    """Tell whether a name can be stored and shown, and stays below the place where it was found."""
    if not 0 < len(name) <= OBJECT_NAME_LENGTH_MAX or _UNUSABLE.search(name):
        return False
    return not any(part in {"", ".", ".."} for part in name.split("/"))


def printable(name: str) -> str:
    """Return how a name is shown that cannot be used."""
    return _UNUSABLE.sub("\N{REPLACEMENT CHARACTER}", name)[:OBJECT_NAME_LENGTH_MAX]


def matches(pattern: str, name: str) -> bool:
    """Tell whether a pattern fits a whole name: ``?`` and ``*`` stop at slashes, ``**`` does not.

    All places in the pattern are followed at the same time, so the time is their product at most, whatever the
    pattern.
    """
    tokens = _tokens(pattern)
    places = _skipped(tokens, {0})
    for character in name:
        following: set[int] = set()
        for place in places:
            if place == len(tokens):
                continue
            part = tokens[place]
            if part == ANY or (part == "*" and character != "/"):
                following.add(place)
            elif (part == "?" and character != "/") or (part == character and part != "*"):
                following.add(place + 1)
        places = _skipped(tokens, following)
        if not places:
            return False
    return len(tokens) in places


def fixed_beginning(pattern: str) -> str:
    """Return the directories that every name has that a pattern fits, with the slash at the end."""
    plain = re.split(r"[*?]", pattern, maxsplit=1)[0]
    return plain[: plain.rfind("/") + 1]


def _tokens(pattern: str) -> list[str]:
    return re.findall(r"\*\*|.", pattern, re.DOTALL)


def _skipped(tokens: list[str], places: set[int]) -> set[int]:
    """Return the places with those behind stars, which may stand for nothing."""
    found = set(places)
    for place in places:
        following = place
        while following < len(tokens) and tokens[following] in {ANY, "*"}:
            following += 1
            found.add(following)
    return found
