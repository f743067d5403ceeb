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
    share_of,
    taken_of,
)

_BESIDE: Final = "over_payment"
"""The type of adjustment of what a match takes of a line beside its legs, where it names none."""

_REVERSALS: Final = frozenset({"match_reversal", "classification_reversal"})
"""The kinds of postings that counter all that is left of another one."""

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
    charged: Mapping[UUID, int] = field(default_factory=dict)
    """What it says that providers have kept, by the ids of lines: of all of which they have kept something. Nothing is
    said by a posting of a time when this was not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a return takes of a payment: what the payment settled of an item, or what a match took of it beside."""

    taken: End
    taken_minor: int
    settled: End | None = None
    settled_minor: int = 0
    beside: str = _BESIDE
    """The type of adjustment that took it where no item is open again, or that took of it what its item has not."""


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
    _of_line: dict[UUID, list[Posted]] = field(default_factory=lambda: defaultdict(list))
    """What has taken of a line, whether it stands or not: matches and classifications; or its parts as a return."""

    def __post_init__(self) -> None:
        for posted in sorted(self.stored, key=lambda posted: posted.sequence):
            self._keep(posted)

    def accept(
        self, match_id: UUID, settlements: Sequence[Settlement], adjustments: Sequence[Adjusted], on: date
    ) -> None:
        """Post what a match takes."""
        charged = {
            end.id: self._share(end, minor) for end, minor in taken_of(settlements, adjustments) if _is_kept(end)
        }
        lines = lines_of_match(settlements, adjustments, self.codes[self.version], charged)
        self._post("match", match_id, lines, on, charged=charged)

    def know(
        self, match_id: UUID, settlements: Sequence[Settlement], adjustments: Sequence[Adjusted], on: date
    ) -> None:
        """Take a match for one that the books have from elsewhere: by the codes by which it was first taken back."""
        version = next((counter.codes_version for counter in self._counters[match_id]), self.version)
        # Nobody knows in which order they were decided there: what is kept of each amount by itself.
        ends = taken_of(settlements, adjustments)
        charged = {end.id: share_of(end, minor) for end, minor in ends if _is_kept(end)}
        self._keep(
            Posted(
                sequence=_ELSEWHERE,
                kind="match",
                source_id=match_id,
                lines=lines_of_match(settlements, adjustments, self.codes[version], charged),
                codes_version=version,
                effective_on=on,
                charged=charged,
            )
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
        charged: dict[UUID, int] = {}
        if returned.back is not None and _is_kept(returned.back):
            # What was charged for the payment is not given back by that.
            charged[returned.return_id] = self._share(returned.back, returned.taken_minor)
            lines = netted(lines, charges_of(returned.back, charged[returned.return_id], codes))
        self._post(
            "return",
            returned.return_id,
            lines,
            returned.effective_on,
            original=original,
            change_id=returned.change_id,
            charged=charged,
        )

    def classify(
        self, line: End, minor: int, *, category: str | None, code: str | None, change_id: UUID | None, on: date
    ) -> None:
        """Post what a line is that nobody expected."""
        share = self._share(line, minor)
        lines = lines_of_classification(line, minor, category, code, self.codes[self.version], share)
        charged = {line.id: share} if _is_kept(line) else {}
        self._post("classification", line.id, lines, on, change_id=change_id, charged=charged)

    def restore(self, line_id: UUID, on: date) -> None:
        """Post the counter of what a line was classified as, if it was at last."""
        self._take_back("classification_reversal", line_id, on)

    def _share(self, line: End, minor: int) -> int:
        """Return what is kept of an amount of a line: what makes it right for all that was taken of it until then.

        So the shares of its parts come to the whole, whatever they are rounded to.
        """
        taken = charged = 0
        if minor != line.whole_minor and _is_kept(line):
            for posted in self._of_line[line.id]:
                if not self._is_taken_back(posted):
                    part = _taken(posted, line)
                    taken += part
                    charged += posted.charged.get(line.id, share_of(line, part))
        return share_of(line, taken + minor) - charged

    def _is_taken_back(self, posted: Posted) -> bool:
        """Tell whether all that was left of a posting was taken back, or of that of which it took a part back."""
        of = posted.reverses_sequence or posted.reverses_id or _key(posted)
        return any(counter.kind in _REVERSALS for counter in self._counters[of])

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
        charged: Mapping[UUID, int] | None = None,
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
            charged=charged or {},
        )
        self._keep(posted)
        self.new.append(posted)

    def _keep(self, posted: Posted) -> None:
        of = posted.reverses_sequence or posted.reverses_id
        if of is None:
            self._sources[posted.source_id] = posted
        else:
            self._counters[of].append(posted)
        for line_id in _lines_taken(posted):
            self._of_line[line_id].append(posted)


def _key(original: Posted) -> int | UUID:
    return original.sequence or original.source_id


def _lines_taken(posted: Posted) -> set[UUID]:
    """Return the lines of which a posting takes something: none of those that it gives something back of."""
    if posted.kind in _REVERSALS:
        return set()
    if posted.kind == "return":
        return {posted.source_id}
    return {line.incoming_id for line in posted.lines if line.incoming_id is not None}


def _taken(posted: Posted, line: End) -> int:
    """Return what a posting takes of a line. A return takes what it gives back, from lines on its other side."""
    of_return = posted.kind == "return"
    own = (one.minor for one in posted.lines if one.incoming_id == line.id or (of_return and one.incoming_id))
    return line.sign * sum(own)


def _is_kept(line: End) -> bool:
    """Tell whether a provider has kept something of a line."""
    return line.beside_minor != 0


def _lines_of(part: Part, codes: Codes) -> tuple[Line, ...]:
    """Return the lines by which a match has taken what a return takes back."""
    if part.settled is None:
        return lines_beside(part.taken, part.taken_minor, part.beside, codes)
    minor, more = part.settled_minor, part.settled_minor - part.taken_minor
    if part.settled.currency != part.taken.currency or not more:
        return lines_of_match([Settlement(part.taken, part.settled, part.taken_minor, minor)], (), codes, {})
    leg = Settlement(part.taken, part.settled, part.taken_minor, part.taken_minor)
    return lines_of_match([leg], [Adjusted(part.beside, part.settled.id, more)], codes, {})
