"""What a sync knows of the objects that a source shows, which of them it reads, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from payrec.connectors.base import RemoteObject
from payrec.constants.sources import OBJECT_ATTEMPTS_MAX, OBJECT_TRIED_AGAIN_AFTER, PASSING_ERRORS

NOT_GIVEN: Final = {
    "code": "given_up",
    "detail": "was not there at any try (a name begins or ends with a slash), or changed, or ended its reader",
}
"""What is told of an object that was replaced, or gone, at each try."""


@dataclass(slots=True)
class Seen:
    """An object that is listed, and what is known of it."""

    found: RemoteObject
    key: bytes
    known: dict[str, Any]
    is_read: bool = False
    """Whether this sync has read it, or has found in it what was read before."""

    @property
    def is_imported(self) -> bool:
        """Whether it, or what had its name and version before, is an import that is completed."""
        return bool(self.known["state"] == "imported")

    @property
    def is_done(self) -> bool:
        """Whether it may be deleted or moved: an import has just what it has now."""
        return self.is_imported and (self.found.is_certain or self.is_read)


@dataclass(slots=True)
class Tally:
    """What a sync has done so far."""

    listed: int = 0
    imported: int = 0
    waiting: int = 0
    failures: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    objects: int = 0
    bytes: int = 0
    is_paused: bool = False
    """Its source was disabled meanwhile: what it has not come to says nothing of how the source does."""


def in_turn(seen: Sequence[Seen]) -> list[Seen]:
    """Return objects in the order in which they are read: behind those that are new, those that are read again.

    Of these the one comes first whose last turn was the longest ago, as there may be more than one sync reads.
    """
    new = [one for one in seen if not one.is_imported]
    return new + sorted((one for one in seen if one.is_imported), key=lambda one: one.known["updated_at"])


def has_tries(one: Seen, *, source_version: int) -> bool:
    """Tell whether an object has not been tried too often yet, since its source was changed."""
    return bool(one.known["attempts"] < OBJECT_ATTEMPTS_MAX or one.known["source_version"] != source_version)


def is_wanted(one: Seen, tally: Tally, *, source_version: int, at: datetime) -> bool:
    """Tell whether an object is to be read; notes one that has failed and is not tried now."""
    known = one.known
    if known["state"] == "importing":
        tally.waiting += 1
        return False
    if one.is_imported:
        # Where its version does not tell, the content alone does whether there is something new.
        return not one.found.is_certain
    if has_tries(one, source_version=source_version):
        return True
    # One without any error has ended its reader each time, and is let alone.
    error = known["error"] or NOT_GIVEN
    is_passing = known["error"] is not None and error["code"] in PASSING_ERRORS
    if is_passing and known["updated_at"] <= at - OBJECT_TRIED_AGAIN_AFTER:
        return True
    tally.failures.append((one.found.name, error))
    return False
