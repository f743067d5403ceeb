"""What may become of an expected transaction."""

from __future__ import annotations

from typing import Final

from payrec.domain.states import BEGIN, table

EXPECTED_STATES: Final = table(
    "expected transaction",
    (BEGIN, "create", "open"),
    ("open", "change", "open"),
    ("open", "annotate", "open"),
    ("open", "void", "void"),
    ("open", "match", "partially_matched"),
    ("open", "match", "matched"),
    ("partially_matched", "annotate", "partially_matched"),
    ("partially_matched", "match", "partially_matched"),
    ("partially_matched", "match", "matched"),
    ("partially_matched", "release", "partially_matched"),
    ("partially_matched", "release", "open"),
    ("matched", "annotate", "matched"),
    ("matched", "release", "partially_matched"),
    ("matched", "release", "open"),
)
"""``change`` may touch every field, ``annotate`` the texts and dates that no match rests on. ``release`` is what a
reversal or a return does. Nothing leads out of ``void``: who was wrong states the item again."""
