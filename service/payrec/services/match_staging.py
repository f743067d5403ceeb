"""From the engine's proposals to the rows of the database: what they take, what stays, what is new. Blocking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import polars as pl

from payrec.domain.caller import IdSource
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.rules import Confidence, MatchingRules, MatchKind, Uniqueness
from payrec.domain.matching.score import LEVELS
from payrec.services.match_columns import Snapshot, ids_at, values_at
from payrec.services.match_json import adjustments_of, alternatives_of, proof
from payrec.storage.binary_copy import encoded, ids_from
from payrec.storage.binary_reading import decoded
from payrec.storage.changes import EVENT_IDS_MAX
from payrec.storage.match_proposals import (
    ALLOCATION_COLUMNS,
    EVENT_COLUMNS,
    LEG_COLUMNS,
    MATCH_COLUMNS,
    PROPOSED_ORDINAL,
    TAKEN_COLUMNS,
)
from payrec.storage.rows import CopiedRows

_CONFIDENCES: Final = {c.value: c.name.lower() for c in Confidence}
_KINDS: Final = {k.value: k.name.lower() for k in MatchKind}
_UNIQUENESSES: Final = {u.value: u.name.lower() for u in Uniqueness}
_SIDES: Final = (("expected", 1), ("incoming", 2))
_ENDS: Final = ("expected", "contra_expected", "incoming", "contra_incoming")
_SEED: Final = 1
_STORED_SCHEMA: Final = {"id": pl.Binary(), "content_key": pl.Int64()}
_JSON: Final = ("alternatives", "adjustments", "proof")
_INSTANT: Final = pl.Datetime("us", "UTC")
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TAKEN_STATUS: Final = (
    pl.when(pl.col("minor") == pl.col("open_minor")).then(pl.lit("matched")).otherwise(pl.lit("partially_matched"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What all rows of a run have in common."""

    run_id: UUID
    change_id: UUID
    actor: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    """What proposals take of each transaction."""

    staged: tuple[bytes, bytes]
    """Of either side, in TAKEN_COLUMNS."""
    accepted: tuple[pl.DataFrame, pl.DataFrame]
    """Of either side what is accepted at once, in TAKEN_COLUMNS and by id."""

    def allocations(self, allocated: Sequence[Sequence[int]], stamp: Stamp) -> bytes:
        """Return what is accepted at once in ALLOCATION_COLUMNS, except at places where there is an allocation."""
        if not any(taken.height for taken in self.accepted):
            return b""
        rows = [
            (taken.filter(~pl.col("place").is_in(places)) if places else taken).select(
                "transaction_id",
                # What an untouched one has in all is what is open of it.
                amount_minor="open_minor",
                allocated_minor="minor",
                updated_at=_instant(stamp.at),
                version=pl.lit(2, dtype=pl.Int32),
                side=pl.lit(side, dtype=pl.Int16),
                status=_TAKEN_STATUS,
                change_id=pl.lit(stamp.change_id.bytes),
            )
            for taken, places, (_, side) in zip(self.accepted, allocated, _SIDES, strict=True)
        ]
        return encoded(pl.concat(rows).select(ALLOCATION_COLUMNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """New rows."""

    matches: bytes
    legs: bytes
    events: bytes


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposals of a run that are still to be written."""

    matches: pl.DataFrame
    """Those of the engine with ``proposal``, their number, and ``match_id``."""
    legs: pl.DataFrame
    adjustments: pl.DataFrame
    alternatives: pl.DataFrame
    ruled: pl.DataFrame
    snapshot: Snapshot
    rules: MatchingRules
    match_ids: pl.Series
    """Of all proposals that there were at first, by their number; they follow each other."""
    waiting: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.UInt32))
    """The numbers of those that would be accepted, and need a person first."""

    @property
    def status(self) -> pl.Expr:
        """What a proposal is stored as."""
        waits = pl.col("proposal").is_in(self.waiting.implode())
        decided = pl.when(waits).then(pl.lit("pending_approval")).otherwise(pl.lit("accepted"))
        return pl.when("auto").then(decided).otherwise(pl.lit("proposed"))

    def without(self, numbers: pl.Series) -> Draft:
        """Return the draft without proposals of these numbers."""
        if numbers.is_empty():
            return self
        gone = pl.DataFrame({"proposal": numbers.cast(pl.UInt32)})
        return replace(
            self,
            **{
                name: getattr(self, name).join(gone, on="proposal", how="anti", maintain_order="left")
                for name in ("matches", "legs", "adjustments", "alternatives")
            },
        )

    def joining(self, expected: Sequence[int], incoming: Sequence[int]) -> pl.Series:
        """Return the numbers of the proposals that take something of transactions at these places."""
        taken = _taken(self)
        return pl.concat(
            [
                taken[side].filter(pl.col("place").is_in(places))["proposal"]
                for (side, _), places in zip(_SIDES, (expected, incoming), strict=True)
            ]
        ).unique()

    def takes(self) -> Takes:
        """Return what all proposals together take of each transaction."""
        staged, accepted = [], []
        taken = _taken(self)
        accepts = pl.repeat(value=False, n=self.match_ids.len(), dtype=pl.Boolean, eager=True)
        accepts = accepts.scatter(self.matches.filter("auto")["proposal"], True)  # noqa: FBT003 - the value that is written
        for side, _ in _SIDES:
            frame, ids = getattr(self.snapshot, side), getattr(self.snapshot, f"{side}_ids")
            rows = (
                taken[side]
                .with_columns(accepts=accepts[taken[side]["proposal"]])
                .with_columns(
                    minor=pl.when("accepts").then("minor").otherwise(0), by=pl.when("accepts").then("proposal")
                )
                .group_by("place")
                .agg(pl.sum("minor"), pl.min("by"))
            )
            rows = rows.with_columns(
                winner=values_at(self.match_ids, rows["by"]),
                transaction_id=values_at(ids, rows["place"]),
                open_minor=values_at(frame["amount_minor"], rows["place"]),
                revision=values_at(frame["version"], rows["place"]),
            )
            # As numbers, ids are sorted ten times as fast.
            number = pl.col("transaction_id").bin.reinterpret(dtype=pl.Int128, endianness="big")
            rows = rows.sort(number).select(TAKEN_COLUMNS)
            staged.append(encoded(rows))
            accepted.append(rows.filter(pl.col("minor") > 0))
        return Takes(staged=(staged[0], staged[1]), accepted=(accepted[0], accepted[1]))

    def kept(self, stored: CopiedRows | None) -> tuple[pl.DataFrame, bytes]:
        """Return the proposals that are among the ``stored`` ones just the same, and the ids of those.

        ``stored`` is what ``MatchProposalStore.stored`` returns.
        """
        if stored is None:
            return self.matches.clear(), b""
        there = decoded(stored, _STORED_SCHEMA).unique("content_key", keep="first", maintain_order=True)
        same = self.matches.with_columns(content_key=self._content_keys()).join(there, on="content_key")
        return same, encoded(same.select("id"))

    def rows(self, takes: Takes, stamp: Stamp) -> Rows:
        """Render what is new, and tell of it and of what it takes."""
        if self.matches.is_empty():
            return Rows(matches=b"", legs=b"", events=b"")
        matches = self.matches.with_columns(content_key=self._content_keys())
        return Rows(
            matches=encoded(_match_rows(self, matches, stamp).select(MATCH_COLUMNS), json=_JSON),
            legs=encoded(_leg_rows(self, stamp).select(LEG_COLUMNS)),
            events=encoded(_events(self, takes, stamp)),
        )

    def _content_keys(self) -> pl.Series:
        """Return a hash of all that a proposal says, null where it is accepted at once."""
        # Decisions are most of a big run, and nobody asks for their keys.
        matches = self.matches.filter(~pl.col("auto"))
        if matches.is_empty():
            return pl.repeat(None, self.matches.height, dtype=pl.Int64, eager=True).alias("key")
        legs, adjustments, alternatives = (
            frame.join(matches.select("proposal"), on="proposal", how="semi", maintain_order="left")
            for frame in (self.legs, self.adjustments, self.alternatives)
        )
        ids = {name: ids_at(self.snapshot, legs[name], name) for name in _ENDS}
        parts = [legs.with_columns(**ids, **_revisions(self.snapshot, legs))]
        parts += [
            frame.with_columns(**{name: ids_at(self.snapshot, frame[name], name) for name in ("expected", "incoming")})
            for frame in (adjustments, alternatives)
        ]
        matches = matches.with_columns(group_size_max=pl.lit(self.rules.group_size_max))
        for number, part in enumerate(parts):
            if part.is_empty():
                matches = matches.with_columns(pl.lit(None, dtype=pl.UInt64).alias(f"part_{number}"))
                continue
            # The order within a proposal counts.
            said = part.with_columns(place=_place())
            hashes = said.select("proposal", said.drop("proposal").hash_rows(seed=_SEED).alias(f"part_{number}"))
            sums = hashes.group_by("proposal").agg(pl.col(f"part_{number}").sum())
            matches = matches.join(sums, on="proposal", how="left", maintain_order="left")
        said = matches.drop("proposal", "match_id", "auto", "probability_ppm")
        keys = matches.select("proposal", said.hash_rows(seed=_SEED).reinterpret(signed=True).alias("key"))
        # What no rule has decided has the key that it had before there were any.
        named = self.ruled.select("proposal", rule=pl.col("rules").hash(seed=_SEED).reinterpret(signed=True))
        keys = keys.join(named, on="proposal", how="left", maintain_order="left").with_columns(
            key=pl.col("key").xor(pl.col("rule").fill_null(0))
        )
        return self.matches.select("proposal").join(keys, on="proposal", how="left", maintain_order="left")["key"]


def draft_of(proposals: Proposals, snapshot: Snapshot, ids: IdSource, rules: MatchingRules) -> Draft:
    """Return the draft of everything that was proposed, with new ids."""
    count = proposals.matches.height
    new = ids_from(ids.block(max(count, 1)), count)
    return Draft(
        matches=proposals.matches.with_row_index("proposal").with_columns(match_id=new),
        legs=proposals.legs,
        adjustments=proposals.adjustments,
        alternatives=proposals.alternatives,
        ruled=proposals.ruled,
        snapshot=snapshot,
        rules=rules,
        match_ids=new,
    )


def _taken(draft: Draft) -> dict[str, pl.DataFrame]:
    """Return ``proposal, place, minor`` of each side: what legs and adjustments take of a transaction."""
    legs, adjustments = draft.legs, draft.adjustments
    ends = {
        "expected": (("expected", "settled_minor"), ("contra_expected", "amount_minor")),
        "incoming": (("incoming", "amount_minor"), ("contra_incoming", "settled_minor")),
    }
    found = {}
    for side, of_side in ends.items():
        parts = [(legs, end, minor) for end, minor in of_side] + [(adjustments, side, "amount_minor")]
        # Most of them name nobody; the first gives the columns.
        filled = [part for part in parts if part[0][part[1]].null_count() < part[0].height] or parts[:1]
        found[side] = pl.concat(
            frame.select("proposal", place=end, minor=minor).drop_nulls("place") for frame, end, minor in filled
        )
    return found


def _ids(draft: Draft, end: str) -> pl.Series:
    return ids_at(draft.snapshot, draft.legs[end], end)


def _revisions(snapshot: Snapshot, legs: pl.DataFrame) -> dict[str, pl.Series | pl.Expr]:
    """Return the revisions of what each leg joins."""
    found = {}
    for end in _ENDS:
        versions = getattr(snapshot, end.removeprefix("contra_"))["version"]
        found[end] = values_at(versions, legs[end])
    contra = found["contra_expected"].zip_with(found["contra_expected"].is_not_null(), found["contra_incoming"])
    return {
        "expected_revision": found["expected"],
        "incoming_revision": found["incoming"],
        "contra_revision": contra,
    }


def _of_ends(draft: Draft, ends: Sequence[str], column: str) -> pl.Series:
    """Return a column of the first of these ends that each leg has."""
    legs = draft.legs
    result: pl.Series | None = None
    for end in ends:
        values: pl.Series = getattr(draft.snapshot, end.removeprefix("contra_"))[column]
        here = values_at(values, legs[end])
        result = here if result is None else result.zip_with(result.is_not_null(), here)
        if not result.null_count():
            break
    assert result is not None, "there is an end"
    return result


def _place() -> pl.Expr:
    """Return the place of each row among those of its proposal, from 0; they are beside each other."""
    # A window over each proposal takes fifty times as long.
    row = pl.int_range(pl.len())
    return (row - pl.when(_starts()).then(row).forward_fill()).cast(pl.Int32)


def _starts() -> pl.Expr:
    return pl.col("proposal").ne_missing(pl.col("proposal").shift())


def _leg_rows(draft: Draft, stamp: Stamp) -> pl.DataFrame:
    legs = draft.legs
    # Both are in the order of the proposals, and each has a leg.
    match = legs.select(_starts().cum_sum() - 1).to_series()
    chosen = draft.matches.select("auto", "match_id")[match]
    return legs.with_columns(
        **{f"{end}_id": _ids(draft, end) for end in _ENDS},
        **_revisions(draft.snapshot, legs),
        match_id=chosen["match_id"],
        ordinal=_place().cast(pl.Int16),
        valid_from=chosen.select(pl.when("auto").then(pl.lit(stamp.change_id.bytes)))[:, 0],
        settled_currency=_of_ends(draft, ("expected", "contra_incoming", "contra_expected"), "currency"),
    )


def of_legs(draft: Draft) -> pl.DataFrame:
    """Return for each match the ``currency`` of its first leg and the day, ``effective_on``, of its last line."""
    lines = ("incoming", "contra_incoming")
    legs = pl.DataFrame(
        {
            "proposal": draft.legs["proposal"],
            "currency": _of_ends(draft, (*lines, "expected"), "currency"),
            "day": _of_ends(draft, lines, "booking_day"),
            "contra_day": _of_ends(draft, lines[::-1], "booking_day"),
        }
    ).with_columns(effective_on=pl.max_horizontal("day", "contra_day"), match=_starts().cum_sum() - 1)
    first = legs.filter(_starts())
    several = legs.filter(pl.col("match").is_duplicated()).group_by("match").agg(pl.max("effective_on"))
    last = first["effective_on"].scatter(several["match"], several["effective_on"])
    return first.select("currency").with_columns(last)


def _match_rows(draft: Draft, matches: pl.DataFrame, stamp: Stamp) -> pl.DataFrame:
    at, auto = _instant(stamp.at), pl.col("auto")
    rows = pl.concat([matches, of_legs(draft)], how="horizontal")
    for name, said in (
        ("alternatives", alternatives_of(draft.alternatives, draft.snapshot)),
        ("adjustments", adjustments_of(draft.adjustments, draft.snapshot)),
        ("rules", draft.ruled),
    ):
        if said.is_empty():
            rows = rows.with_columns(pl.lit(None, dtype=pl.String).alias(name))
        else:
            rows = rows.join(said, on="proposal", how="left", maintain_order="left")
    return rows.with_columns(
        id="match_id",
        run_id=pl.lit(stamp.run_id.bytes),
        created_at=at,
        updated_at=at,
        decided_at=pl.when(auto).then(at),
        effective_on=pl.when(auto).then(pl.col("effective_on").cast(pl.Date)),
        score="score_milli",
        candidates=(pl.col("tried") + pl.col("rivals_expected") + pl.col("rivals_incoming")).cast(pl.Int32),
        status=draft.status,
        kind=pl.col("kind").replace_strict(_KINDS, return_dtype=pl.String),
        confidence=pl.col("confidence").replace_strict(_CONFIDENCES, return_dtype=pl.String),
        uniqueness=pl.col("status").replace_strict(_UNIQUENESSES, return_dtype=pl.String),
        created_by=pl.lit(stamp.actor),
        created_change_id=pl.lit(stamp.change_id.bytes),
        decided_by=pl.when(auto).then(pl.lit(stamp.actor)),
        levels=pl.concat_arr(pl.col(LEVELS).cast(pl.Int16)),
        proof=proof(draft.rules),
    )


def _instant(at: datetime) -> pl.Expr:
    # To give polars the instant itself takes it twenty times as long.
    return pl.lit((at - _FIRST) // _MICROSECOND, dtype=pl.Int64).cast(_INSTANT)


def _events(draft: Draft, takes: Takes, stamp: Stamp) -> pl.DataFrame:
    """Return the events of new matches and of what is accepted at once, each naming a bounded number of them."""
    sources = [("match", draft.matches.select(id="match_id", status=draft.status))]
    for taken, (side, _) in zip(takes.accepted, _SIDES, strict=True):
        sources.append((f"{side}_transaction", taken.select(id="transaction_id", status=_TAKEN_STATUS)))
    told = [
        # In the order of the proposals, which is that of their new ids.
        of_status.select(chunk=pl.int_range(pl.len()) // EVENT_IDS_MAX, resource_ids="id")
        .group_by("chunk", maintain_order=True)
        .agg("resource_ids")
        .with_columns(type=pl.lit(f"{noun}.{status}"))
        for noun, rows in sources
        for status in ("proposed", "pending_approval", "accepted", "matched", "partially_matched")
        if not (of_status := rows.filter(pl.col("status") == status)).is_empty()
    ]
    return (
        pl.concat(told)
        .with_row_index("number", offset=PROPOSED_ORDINAL + 1)
        .with_columns(change_id=pl.lit(stamp.change_id.bytes), ordinal=pl.col("number").cast(pl.Int64))
        .select(EVENT_COLUMNS)
    )
