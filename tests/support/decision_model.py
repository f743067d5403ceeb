"""A model of the life of matches: it knows amounts and the machines' tables, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from payrec.domain.match_states import MATCH_STATES

WHOLE = 100
"""The amount of each transaction."""

LIMIT = 60
"""What is above it needs a second person."""


@dataclass
class Money:
    """A transaction, as it must be."""

    is_item: bool
    matched: int = 0
    closed: str | None = None

    @property
    def open(self) -> int:
        """What is left."""
        return 0 if self.closed else WHOLE - self.matched

    @property
    def status(self) -> str:
        """What the amounts make of it."""
        untouched = "open" if self.is_item else "unmatched"
        return self.closed or ("matched" if not self.open else "partially_matched" if self.matched else untouched)


@dataclass
class Joined:
    """A match, as it must be."""

    takes: dict[str, int]
    status: str = "proposed"
    winner: str | None = None

    @property
    def is_adjusted(self) -> bool:
        """Whether a fee or an over-payment is in it: then it takes more at one end."""
        return len(set(self.takes.values())) > 1


@dataclass
class Model:
    """Everything of one example."""

    money: dict[str, Money] = field(default_factory=dict)
    matches: dict[str, Joined] = field(default_factory=dict)

    def refusal(self, match_id: str) -> str | None:
        """Return why a match cannot be accepted."""
        found = self.matches[match_id]
        if found.winner is not None:
            return "already_matched"
        return None if MATCH_STATES.allows(found.status, "accept") else "invalid_state"

    def accept(self, match_id: str) -> None:
        """Take the amounts of a match."""
        found = self.matches[match_id]
        if found.status == "accepted":
            return
        found.status = "pending_approval" if max(found.takes.values()) > LIMIT else "accepted"
        for name, minor in found.takes.items():
            self.money[name].matched += minor
        self.supersede(found.takes, match_id)

    def give_back(self, match_id: str) -> None:
        """Take the amounts of a match from it."""
        for name, minor in self.matches[match_id].takes.items():
            self.money[name].matched -= minor

    def supersede(self, names: Any, winner: str | None) -> None:
        """Have the proposals go for which too little is left of these."""
        for rival in self.matches.values():
            short = [n for n, minor in rival.takes.items() if n in names and minor > self.money[n].open]
            if rival.status == "proposed" and short:
                rival.status, rival.winner = "superseded", winner
