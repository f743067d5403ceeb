"""What was deleted because its time was over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Things of one kind that are gone, and of when the oldest and the newest one were."""

    count: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None

    def __add__(self, other: Removed) -> Removed:
        """Return both together."""
        instants = [at for at in (self.oldest, self.newest, other.oldest, other.newest) if at is not None]
        return Removed(
            count=self.count + other.count, oldest=min(instants, default=None), newest=max(instants, default=None)
        )


def removed(instants: Iterable[datetime]) -> Removed:
    """Return what is gone where each thing is known by its instant."""
    found = list(instants)
    return Removed(count=len(found), oldest=min(found, default=None), newest=max(found, default=None))


@dataclass(slots=True)
class RetentionReport:
    """What one run of the retention removed, in all environments, by kind."""

    removed: dict[str, Removed] = field(default_factory=dict)
    failed: int = 0
    """Kinds of environments that could not be looked at; they are the next run's."""

    def add(self, kind: str, what: Removed) -> None:
        """Count what was removed of a kind."""
        self.removed[kind] = self.of(kind) + what

    def of(self, kind: str) -> Removed:
        """Return what was removed of a kind."""
        return self.removed.get(kind, Removed())
