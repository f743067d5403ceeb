"""What may become of a match."""

from __future__ import annotations

from typing import Final

from payrec.domain.states import BEGIN, table

MATCH_STATES: Final = table(
    "match",
    (BEGIN, "propose", "proposed"),
    (BEGIN, "record", "accepted"),
    (BEGIN, "record", "pending_approval"),
    ("proposed", "accept", "accepted"),
    ("proposed", "accept", "pending_approval"),
    ("proposed", "reject", "rejected"),
    ("proposed", "supersede", "superseded"),
    ("pending_approval", "approve", "accepted"),
    ("pending_approval", "reject", "rejected"),
    ("pending_approval", "return", "pending_approval"),
    ("accepted", "accept", "accepted"),
    ("accepted", "return", "accepted"),
    ("accepted", "reverse", "reversed"),
)
"""``record`` is a match that a person, a run or an import states as decided. Accepting again changes nothing. What
beyond a limit needs another person waits as ``pending_approval``, and holds its amounts."""
