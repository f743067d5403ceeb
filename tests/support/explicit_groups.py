"""What each way of looking for explicit groups finds by itself, by names instead of row numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from payrec.domain.matching.block import candidates
from payrec.domain.matching.groups import (
    CLAIM_SCHEMA,
    GROUP_SCHEMA,
    LEG_SCHEMA,
    Groups,
    by_key,
    by_quotes,
    by_short_quotes,
)
from payrec.domain.matching.proofs import Proofs, proofs_of
from payrec.domain.matching.reasons import FINDING_SCHEMA
from payrec.domain.matching.rules import GroupLevel, MatchingRules, Reason
from payrec.domain.matching.score import scored
from support.matching_frames import Item, Line
from support.scored_pairs import RULES, Ends, NamedSides

Why = tuple[Reason, bool, int | None, int | None]
"""The reason, whether it fits, days outside and the difference."""


@dataclass(frozen=True)
class Found:
    """What a way of looking has found, by names."""

    groups: dict[frozenset[Ends], dict[str, Any]]
    """By the ends of their legs."""
    amounts: dict[Ends, int]
    findings: dict[Ends, Why]
    scores: dict[Ends, int]
    claims: set[Ends]
    doubtful: tuple[set[str], set[str]]


class Look(NamedSides):
    """Both sides in content order, and what quotes what."""

    def __init__(
        self,
        items: Sequence[Item],
        lines: Sequence[Line],
        rules: MatchingRules = RULES,
        rejected: Iterable[Ends] = (),
    ) -> None:
        super().__init__(items, lines, rules)
        self.rules = rules
        pairs = scored(candidates(self.sides, rules).pairs, self.sides, rules)
        self.proofs: Proofs = proofs_of(pairs, self.sides, rules)
        self.rejected = self.refused(rejected)

    def by_key(self) -> Found:
        groups, claims, doubtful = by_key(self.sides, self.proofs, self.rejected, self.rules)
        assert claims.schema == CLAIM_SCHEMA
        its, theirs = {self.items[e] for e in doubtful.items}, {self.lines[i] for i in doubtful.lines}
        return replace(self.told(groups), claims=set(self.ends(claims)), doubtful=(its, theirs))

    def by_items(self) -> Found:
        return self.told(by_quotes(self.proofs, self.rules, of_lines=True))

    def by_lines(self) -> Found:
        return self.told(by_quotes(self.proofs, self.rules, of_lines=False))

    def by_short(self) -> Found:
        quoted = by_quotes(self.proofs, self.rules, of_lines=True)
        return self.told(by_short_quotes(self.proofs, quoted, self.rules))

    def told(self, found: Groups) -> Found:
        schemas = found.groups.schema, found.legs.schema, found.findings.schema
        assert schemas == (GROUP_SCHEMA, LEG_SCHEMA, FINDING_SCHEMA)
        assert found.groups["g"].to_list() == list(range(found.groups.height))
        legs = {row["g"]: self.ends(found.legs.filter(pl.col("g") == row["g"])) for row in found.groups.to_dicts()}
        assert sum(map(len, legs.values())) == found.legs.height
        findings = dict(zip(self.ends(found.findings), found.findings.to_dicts(), strict=True))
        assert len(findings) == found.findings.height
        return Found(
            groups={frozenset(legs[row["g"]]): row for row in found.groups.to_dicts()},
            amounts=dict(zip(self.ends(found.legs), found.legs["leg_minor"], strict=True)),
            findings={
                ends: (Reason(row["reason"]), row["fits"], row["days_outside"], row["difference_minor"])
                for ends, row in findings.items()
            },
            scores={ends: row["score_milli"] for ends, row in findings.items()},
            claims=set(),
            doubtful=(set(), set()),
        )


def said(row: dict[str, Any]) -> tuple[GroupLevel, int, int, int, bool]:
    return GroupLevel(row["level"]), row["tried"], row["named"], row["same"], row["unbounded"]


def only(found: Found) -> dict[str, Any]:
    [row] = found.groups.values()
    return row
