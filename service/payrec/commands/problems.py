"""``payrec problems``: the catalogue of errors, without a database or a single setting."""

from __future__ import annotations

import argparse

from payrec import problems
from payrec.commands.terminal import say


def run(_arguments: argparse.Namespace) -> int:
    """Print the catalogue."""
    say(problems.catalogue().rstrip("\n"))
    return 0
