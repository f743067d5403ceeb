"""Which postings follow from decisions, in the order in which these were made.

A decision is posted once, and taken back by what counters it: a return by the part that it takes, a reversal by
whatever is left. So what was decided and taken back comes to nothing, code by code, whatever the settings are by then.
What was decided elsewhere the books have already: it is not posted, and taken back all the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final
from uuid import UUID

from payrec.domain.postings import (
    Adjusted,
    Codes,
    End,
    Line,
    Settlement,
    charges_of,
    countered,
    is_balanced,
    lines_beside,
    lines_of_classification,
    lines_of_match,
    netted,
)

_BESIDE: Final = "over_payment"
"""The type of adjustment of what a match takes of a line beside its legs, where it names none."""

_ELSEWHERE: Final = 0
"""The sequence of what the books have from elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A posting."""

    sequence: int
    kind: str
    source_id: UUID
    lines: tuple[Line, ...]
    codes_version: int
    effective_on: date
    change_id: UUID | None = None
    reverses_sequence: int | None = None
    reverses_id: UUID | None = None
    """The match that it takes back, where that was decided elsewhere and has no posting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a return takes of a payment: what the payment settled of an item, or what a match took of it beside."""

    taken: End
    taken_minor: int
    settled: End | None = None
    settled_minor: int = 0
    beside: str = _BESIDE
    """The type of adjustment that took it, where no item is open again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What a change has linked of a return to the payments of a match."""

    return_id: UUID
    change_id: UUID
    match_id: UUID
    effective_on: date
    parts: tuple[Part, ...]
    back: End | None = None
    """The return itself, for which a provider may have charged as well."""

    @property
    def taken_minor(self) -> int:
        """What it takes of the payments."""
        return sum(part.taken_minor for part in self.parts)


@dataclass(slots=True, kw_only=True)
class Ledger:
    """What was posted of some decisions, and what follows of others."""

    codes: Mapping[int, Codes]
    """By version, also those by which ``stored`` postings were made."""
    version: int
    """Of the codes of new decisions."""
    sequence: int
    """The last one that was given."""
    stored: Iterable[Posted] = ()
    """Matches and classifications that may be taken back, and what has taken back of them."""
    new: list[Posted] = field(default_factory=list)
    _sources: dict[UUID, Posted] = field(default_factory=dict)
    _counters: dict[int | UUID, list[Posted]] = field(default_factory=lambda: defaultdict(list))
    """By the sequence of what they take back, or by its match where it has none."""

    def __post_init__(self) -> None:
        for posted in sorted(self.stored, key=lambda posted: posted.sequence):
            self._keep(posted)

    def accept(
        self, match_id: UUID, settlements: Sequence[Settlement], adjustments: Iterable[Adjusted], on: date
    ) -> None:
        """Post what a match takes."""
        lines = lines_of_match(settlements, adjustments, self.codes[self.version])
        self._post("match", match_id, lines, on)

    def know(
        self, match_id: UUID, settlements: Sequence[Settlement], adjustments: Iterable[Adjusted], on: date
    ) -> None:
        """Take a match for one that the books have from elsewhere: by the codes by which it was first taken back."""
        version = next((counter.codes_version for counter in self._counters[match_id]), self.version)
        lines = lines_of_match(settlements, adjustments, self.codes[version])
        self._sources[match_id] = Posted(
            sequence=_ELSEWHERE, kind="match", source_id=match_id, lines=lines, codes_version=version, effective_on=on
        )

    def reverse(self, match_id: UUID, on: date) -> None:
        """Post the counter of what is left of a match; one that was never posted is not taken back either."""
        self._take_back("match_reversal", match_id, on)

    def give_back(self, returned: Returned) -> None:
        """Post the counter of what a return takes of a match, once, by the codes that the match was posted by."""
        original = self._sources.get(returned.match_id)
        if original is None or any(
            (counter.kind, counter.source_id, counter.change_id) == ("return", returned.return_id, returned.change_id)
            for counter in self._counters[_key(original)]
        ):
            return
        codes = self.codes[original.codes_version]
        lines = netted(*(countered(_lines_of(part, codes)) for part in returned.parts))
        if returned.back is not None:
            # What was charged for the payment is not given back by that.
            lines = netted(lines, charges_of(returned.back, returned.taken_minor, codes))
        self._post(
            "return", returned.return_id, lines, returned.effective_on, original=original, change_id=returned.change_id
        )

    def classify(
        self, line: End, minor: int, *, category: str | None, code: str | None, change_id: UUID | None, on: date
    ) -> None:
        """Post what a line is that nobody expected."""
        lines = lines_of_classification(line, minor, category, code, self.codes[self.version])
        self._post("classification", line.id, lines, on, change_id=change_id)

    def restore(self, line_id: UUID, on: date) -> None:
        """Post the counter of what a line was classified as, if it was at last."""
        self._take_back("classification_reversal", line_id, on)

    def _take_back(self, kind: str, source_id: UUID, on: date) -> None:
        original = self._sources.get(source_id)
        if original is None:
            return
        counters = self._counters[_key(original)]
        if all(counter.kind != kind for counter in counters):
            lines = countered(netted(original.lines, *(counter.lines for counter in counters)))
            self._post(kind, source_id, lines, on, original=original)

    def _post(
        self,
        kind: str,
        source_id: UUID,
        lines: tuple[Line, ...],
        on: date,
        *,
        original: Posted | None = None,
        change_id: UUID | None = None,
    ) -> None:
        """Give a posting its number; what moves nothing is none."""
        if not lines:
            return
        if not is_balanced(lines):
            raise AssertionError(f"the {kind} of {source_id} is not balanced")
        self.sequence += 1
        posted = Posted(
            sequence=self.sequence,
            kind=kind,
            source_id=source_id,
            lines=lines,
            codes_version=self.version if original is None else original.codes_version,
            effective_on=on,
            change_id=change_id,
            reverses_sequence=None if original is None else original.sequence or None,
            reverses_id=None if original is None or original.sequence else original.source_id,
        )
        self._keep(posted)
        self.new.append(posted)

    def _keep(self, posted: Posted) -> None:
        of = posted.reverses_sequence or posted.reverses_id
        if of is None:
            self._sources[posted.source_id] = posted
        else:
            self._counters[of].append(posted)


def _key(original: Posted) -> int | UUID:
    return original.sequence or original.source_id


def _lines_of(part: Part, codes: Codes) -> tuple[Line, ...]:
    """Return the lines by which a match has taken what a return takes back."""
    if part.settled is None:
        return lines_beside(part.taken, part.taken_minor, part.beside, codes)
    return lines_of_match([Settlement(part.taken, part.settled, part.taken_minor, part.settled_minor)], (), codes)
