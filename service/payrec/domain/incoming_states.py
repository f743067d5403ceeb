"""What may become of an incoming transaction."""

from __future__ import annotations

from typing import Final

from payrec.domain.states import BEGIN, table

INCOMING_STATES: Final = table(
    "transaction",
    (BEGIN, "announce", "pending"),
    (BEGIN, "record", "unmatched"),
    (BEGIN, "record", "ignored"),
    ("pending", "book", "unmatched"),
    ("pending", "ignore", "ignored"),
    ("pending", "restore", "pending"),
    ("unmatched", "ignore", "ignored"),
    ("unmatched", "classify", "classified"),
    ("unmatched", "restore", "unmatched"),
    ("unmatched", "match", "partially_matched"),
    ("unmatched", "match", "matched"),
    ("unmatched", "link", "unmatched"),
    ("unmatched", "link", "linked"),
    ("unmatched", "return", "unmatched"),
    ("unmatched", "return", "reversed"),
    ("ignored", "book", "ignored"),
    ("ignored", "restore", "pending"),
    ("ignored", "restore", "unmatched"),
    ("classified", "restore", "unmatched"),
    ("partially_matched", "restore", "partially_matched"),
    ("partially_matched", "match", "partially_matched"),
    ("partially_matched", "match", "matched"),
    ("partially_matched", "release", "partially_matched"),
    ("partially_matched", "release", "unmatched"),
    ("partially_matched", "link", "partially_matched"),
    ("partially_matched", "link", "matched"),
    ("partially_matched", "return", "partially_matched"),
    ("partially_matched", "return", "unmatched"),
    ("partially_matched", "return", "matched"),
    ("partially_matched", "return", "reversed"),
    ("matched", "release", "partially_matched"),
    ("matched", "release", "unmatched"),
    ("matched", "return", "matched"),
    ("matched", "return", "reversed"),
    ("matched", "give_back", "partially_matched"),
    ("partially_matched", "give_back", "partially_matched"),
    ("unmatched", "give_back", "unmatched"),
    ("linked", "give_back", "unmatched"),
    ("reversed", "give_back", "unmatched"),
)
"""``announce`` is a line that is not booked, ``book`` its booking. ``match`` and ``release`` are what accepting and
reversing a match do to its lines; ``return`` is money taken back of a payment, and ``link`` is that seen from the line
which takes it back. Both are undone (``give_back``) when an item comes that a payment may pay which nobody expected
when it was taken back. Recorded as ignored is a line of nothing (``zero_amount``), which nobody restores. To
``restore`` what is open says that it is no duplicate."""
