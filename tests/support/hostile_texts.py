"""Texts that a browser would run, or turn round, if a page took them for anything but texts."""

from __future__ import annotations

from typing import Final

TAG: Final = "x-h"
"""An element that no page of ours has: where one is, a text has become one. Short enough for every field."""

SHORT: Final = f"\"'><{TAG}>"
"""What breaks out of an attribute and an element, for fields that take no more."""

LONG: Final = 10_000
"""Characters of a long text, where its field takes as many."""

RUNS: Final = "window.hacked=1"
DIRECTED: Final = "\u202e\u2066"
"""What turns round whatever follows it."""


def hostile(name: str, *, without: str = "") -> str:
    """Return a text that names its field and does all that a text can do to a page, without some characters.

    A formula at its begin, an end of the attribute and the element around it, scripts of every kind, braces of
    templates, and characters that turn round what follows.
    """
    text = (
        f"={name}{SHORT}<script>{RUNS}</script><img src=x onerror={RUNS}><svg onload={RUNS}>"
        f"<a href=javascript:{RUNS} onclick={RUNS}>{{{{7*7}}}}${{7*7}}{DIRECTED}"
    )
    return "".join(character for character in text if character not in without)
