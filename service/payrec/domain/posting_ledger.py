"""Which postings follow from decisions, in the order in which these were made.

A decision is posted once, and taken back by what counters it: a return by the part that it takes, a reversal by
whatever is left. So what was decided and taken back comes to nothing, code by code, whatever the settings are by then.
What was decided elsewhere the books have already: it is not posted, and taken back all the same.

A return and its payment are lines of their own, and both have moved: where no match has the payment, the two are posted
against each other. So of each line the books have what is neither open nor ignored of it.
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
    lines_against,
    lines_beside,
    lines_of_classification,
    lines_of_match,
    netted,
    share_of,
    taken_of,
)

BESIDE: Final = "over_payment"
"""The type of adjustment of what a match takes of a line beside its legs, where it names none."""

_ELSEWHERE: Final = 0
"""The sequence of what the books have from elsewhere."""

_NOTHING: Final[Mapping[UUID, int]] = {}


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
    """The match that it takes back, where that has no posting: it was decided elsewhere, or rejected."""
    charged: Mapping[UUID, int] = field(default_factory=dict)
    """What it says that providers have kept, by the ids of lines: of all of which they have kept something. Nothing is
    said by a posting of a time when this was not kept."""

    @property
    def moved(self) -> dict[UUID, int]:
        """What it debits of each line; a return of a time when it named its payment is told from that."""
        named = {line.incoming_id for line in self.lines}
        is_old = self.kind == "return" and self.source_id not in named
        sums: dict[UUID, int] = defaultdict(int)
        for line in self.lines:
            if line.incoming_id is not None:
                sums[self.source_id if is_old else line.incoming_id] += line.minor
        return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a return takes of a payment: what the payment settled of an item, or what a match took of it beside."""

    taken: End
    taken_minor: int
    settled: End | None = None
    settled_minor: int = 0
    beside: str = BESIDE
    """The type of adjustment that took it where no item is open again, or that took of it what its item has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What a change has linked of a return to the payments of a match, or to what was open of payments."""

    change_id: UUID
    match_id: UUID | None
    effective_on: date
    parts: tuple[Part, ...]
    back: End
    """The return itself, for which a provider may have charged as well."""
    until_change_id: UUID | None = None
    """The change that gave it back to the payments."""

    @property
    def taken_minor(self) -> int:
        """What it takes of the payments."""
        return sum(part.taken_minor for part in self.parts)

    @property
    def moved(self) -> list[tuple[End, int]]:
        """What it takes of payments, and of itself."""
        return [*((part.taken, part.taken_minor) for part in self.parts), (self.back, self.taken_minor)]


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
    _offsets: dict[tuple[UUID, UUID, UUID | None], Posted] = field(default_factory=dict)
    """What returns took where the books have no match, by return, change and match if any."""
    _of_line: dict[UUID, list[tuple[int, int | None]]] = field(default_factory=lambda: defaultdict(list))
    """What each posting debits of a line, and what it says was kept of it."""

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

    def reverse(
        self, match_id: UUID, on: date, returned: Sequence[Returned] = (), settlements: Sequence[Settlement] = ()
    ) -> None:
        """Post the counter of what is left of a match; one that was never posted is not taken back either.

        What returns have taken of its payments stays taken: these are against each other from then on. Of lines of
        which others have parts, these have what is kept of them, however the parts were rounded one after the other.
        """
        self._take_back("match_reversal", match_id, on, returned, settlements)

    def give_back(self, returned: Returned) -> None:
        """Post the counter of what a return takes of a match, once, by the codes that the match was posted by.

        Of the payment the match keeps what it has. The money that went the other way is the return's own.
        """
        original = None if returned.match_id is None else self._sources.get(returned.match_id)
        back = returned.back
        if original is None or any(
            (counter.kind, counter.source_id, counter.change_id) == ("return", back.id, returned.change_id)
            for counter in self._counters[_key(original)]
        ):
            return
        codes = self.codes[original.codes_version]
        lines = netted(*(countered(_lines_of(part, back, codes)) for part in returned.parts))
        charged: dict[UUID, int] = {}
        if _is_kept(back):
            # What was charged for the payment is not given back by that.
            charged[back.id] = self._share(back, returned.taken_minor)
            lines = netted(lines, charges_of(back, charged[back.id], codes))
        self._post(
            "return",
            back.id,
            lines,
            returned.effective_on,
            original=original,
            change_id=returned.change_id,
            charged=charged,
        )

    def offset(self, returned: Returned) -> None:
        """Post a return and its payments against each other, once: no match has them in the books."""
        if (returned.back.id, returned.change_id, returned.match_id) not in self._offsets:
            lines, charged = self._against([returned], self.codes[self.version])
            self._post(
                "return",
                returned.back.id,
                lines,
                returned.effective_on,
                reverses_id=returned.match_id,
                change_id=returned.change_id,
                charged=charged,
            )

    def release(self, returned: Returned) -> None:
        """Post the counter of what was given back to payments, if a return was posted against them, once."""
        original = self._offsets.get((returned.back.id, returned.change_id, returned.match_id))
        until = returned.until_change_id
        if original is None or any(counter.change_id == until for counter in self._counters[_key(original)]):
            return
        lines, charged = self._against([returned], self.codes[original.codes_version], sign=-1)
        self._post(
            "return_reversal",
            returned.back.id,
            lines,
            returned.effective_on,
            original=original,
            change_id=until,
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

    def _share(self, line: End, minor: int, *, moved: int = 0, charged: int = 0) -> int:
        """Return what is kept of an amount of a line: what makes it right for all that was taken of it until then.

        So the shares of its parts come to the whole, whatever they are rounded to. A negative amount is given back.
        Before that, the same posting has ``moved`` an amount of the line, and ``charged`` one for it.
        """
        if minor == line.whole_minor or not _is_kept(line):
            return share_of(line, minor)
        for its, said in self._of_line[line.id]:
            moved += its
            # What does not say what it charged has charged what its part comes to by itself.
            charged += its // abs(its) * line.sign * share_of(line, abs(its)) if said is None else said
        return share_of(line, line.sign * moved + minor) - charged

    def _against(
        self,
        returned: Sequence[Returned],
        codes: Codes,
        *,
        sign: int = 1,
        undone: Sequence[Posted] = (),
        left: Iterable[End] = (),
    ) -> tuple[tuple[Line, ...], Mapping[UUID, int]]:
        """Return the lines of returns and their payments against each other, and what they charge.

        With the counter of what is ``undone`` by the same posting, and what of lines is ``left`` charged as it is then.
        """
        moved, charged = _summed(one.moved for one in undone), _summed(one.charged for one in undone)
        charges = {line_id: -minor for line_id, minor in charged.items()}
        against: list[Line] = []
        moves = [*((end, 0) for end in left), *(move for one in returned for move in one.moved)]
        minors = _summed({end.id: sign * minor} for end, minor in moves)
        ends = {end.id: end for end, _ in moves}
        for line_id, minor in minors.items():
            end = ends[line_id]
            share = self._share(end, minor, moved=-moved[line_id], charged=-charged[line_id])
            against += lines_against(end, minor, share, codes)
            if _is_kept(end):
                charges[line_id] = share - charged[line_id]
        return netted(countered(netted(*(one.lines for one in undone))), against), charges

    def _take_back(
        self,
        kind: str,
        source_id: UUID,
        on: date,
        returned: Sequence[Returned] = (),
        settlements: Sequence[Settlement] = (),
    ) -> None:
        original = self._sources.get(source_id)
        if original is None:
            return
        counters = self._counters[_key(original)]
        if all(counter.kind != kind for counter in counters):
            codes = self.codes[original.codes_version]
            # A posting of a time when it did not say what it charged is countered as it is.
            left = [end for end, _ in taken_of(settlements, ()) if end.id in original.charged]
            lines, charged = self._against(returned, codes, undone=[original, *counters], left=left)
            self._post(kind, source_id, lines, on, original=original, charged=charged)

    def _post(
        self,
        kind: str,
        source_id: UUID,
        lines: tuple[Line, ...],
        on: date,
        *,
        original: Posted | None = None,
        reverses_id: UUID | None = None,
        change_id: UUID | None = None,
        charged: Mapping[UUID, int] = _NOTHING,
    ) -> None:
        """Give a posting its number; what moves nothing is none. Nothing is taken back before it counts."""
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
            effective_on=on if original is None else max(on, original.effective_on),
            change_id=change_id,
            reverses_sequence=None if original is None else original.sequence or None,
            reverses_id=reverses_id if original is None or original.sequence else original.source_id,
            charged=charged,
        )
        self._keep(posted)
        self.new.append(posted)

    def _keep(self, posted: Posted) -> None:
        of = posted.reverses_sequence or posted.reverses_id
        if of is not None:
            self._counters[of].append(posted)
        elif posted.kind != "return":
            self._sources[posted.source_id] = posted
        if posted.kind == "return" and posted.change_id is not None and posted.reverses_sequence is None:
            self._offsets[posted.source_id, posted.change_id, posted.reverses_id] = posted
        for line_id, minor in posted.moved.items():
            if minor:
                self._of_line[line_id].append((minor, posted.charged.get(line_id)))


def _summed(given: Iterable[Mapping[UUID, int]]) -> dict[UUID, int]:
    sums: dict[UUID, int] = defaultdict(int)
    for one in given:
        for key, minor in one.items():
            sums[key] += minor
    return sums


def _key(original: Posted) -> int | UUID:
    return original.sequence or original.source_id


def _is_kept(line: End) -> bool:
    """Tell whether a provider has kept something of a line."""
    return line.beside_minor != 0


def _lines_of(part: Part, back: End, codes: Codes) -> tuple[Line, ...]:
    """Return the lines that a return counters: those by which a match has taken the amount, as if of the return."""
    taken = back._replace(sign=part.taken.sign)
    if part.settled is None:
        return lines_beside(taken, part.taken_minor, part.beside, codes)
    minor, more = part.settled_minor, part.settled_minor - part.taken_minor
    if part.settled.currency != taken.currency or not more:
        return lines_of_match([Settlement(taken, part.settled, part.taken_minor, minor)], (), codes, {})
    leg = Settlement(taken, part.settled, part.taken_minor, part.taken_minor)
    return lines_of_match([leg], [Adjusted(part.beside, part.settled.id, more)], codes, {})
