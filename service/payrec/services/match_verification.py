"""One match verified: what it rests on, and whether each thing still computes to the same. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from payrec.domain.matching.rules import GROUP_LEGS_MAX, GroupLevel, Level
from payrec.domain.matching.weights import PRIOR_WEIGHT, weight_of
from payrec.domain.money import format_minor
from payrec.domain.scope import TenantScope
from payrec.errors import NotFoundError
from payrec.services import (
    match_adjustments,
    match_checks,
    match_evidence_checks,
    match_group_proof,
    match_money_checks,
)
from payrec.services.match_checks import Check
from payrec.services.match_ends import ENDS, side_of, taken_of
from payrec.services.match_rendering import rendered
from payrec.services.validation import identifier
from payrec.storage.allocations import Side
from payrec.storage.database import Database
from payrec.storage.matches import MatchStore

NAMED_MAX: Final = GROUP_LEGS_MAX + 1
"""Open transactions beside a group that are looked at: one more than any group may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One line of the score."""

    feature: str
    level: str
    milli: int
    """Thousandths of log-odds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A transaction that is not what the match was made for."""

    side: str
    id: UUID
    revision: int
    """What the match was made for."""
    revision_now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a match rests on, and what of it holds."""

    id: UUID
    status: str
    kind: str
    currency: str
    amount: str
    """Decimal, in ``currency``."""
    created_by: str
    explanation: str | None
    """None where what is stored cannot be told."""
    prior_milli: int
    score_milli: int
    weights: list[Weight]
    checks: list[Check]
    changed: list[Changed]

    @property
    def holds(self) -> bool:
        """Whether every check does."""
        return all(check.holds for check in self.checks)


class MatchVerificationService:
    """Verifies matches of a tenant environment."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def verify(self, scope: TenantScope, match_id: str) -> Verification:
        """Look at one match again, in one view of the data.

        Raises
        ------
        NotFoundError
        """
        wanted = identifier(match_id)
        async with self._database.tenant(scope, readonly=True, snapshot=True) as connection:
            store = MatchStore(connection)
            row = await store.get(wanted)
            if row is None:
                raise NotFoundError
            levels, readable = match_checks.levels_of(row)
            checks = [readable]
            if readable.holds:
                checks += await _looked_at(store, row, levels)
        return Verification(
            id=row["id"],
            status=row["status"],
            kind=row["kind"],
            currency=row["currency"],
            amount=format_minor(row["amount_minor"], row["currency"]),
            created_by=row["created_by"],
            explanation=rendered(row).explanation if all(c.holds for c in checks if c.name in _TOLD) else None,
            prior_milli=PRIOR_WEIGHT,
            score_milli=row["score"],
            weights=[
                Weight(feature=name, level=level.name.lower(), milli=weight_of(name, level, row["corrections"]))
                for name, level in levels.items()
                if level != 0
            ],
            checks=checks,
            changed=_changed(row),
        )


_TOLD: Final = frozenset({"stored", "proof"})
"""The checks without which a match cannot be told in words."""


async def _looked_at(store: MatchStore, row: dict[str, Any], levels: dict[str, Level]) -> list[Check]:
    """Make all checks of a match that can be read; of one without levels a person alone knows why."""
    checks = []
    if row["levels"] is not None:
        legs = match_checks.joined_legs(row, GroupLevel(levels["group"]))
        checks.append(match_checks.score(row, levels))
        if match_money_checks.is_money(row):
            checks += [match_money_checks.confidence(row, levels), match_money_checks.evidence(row, levels, legs[0])]
        else:
            checks += [match_checks.confidence(row, levels), match_evidence_checks.evidence(levels, legs)]
    checks += [match_checks.sums(row, levels), match_adjustments.adjustments(row, levels)]
    checks.append(await _allocations(store, row))
    if (row["proof"] or {}).get("rules"):
        checks.append(match_checks.rules(row))
    group = GroupLevel(levels["group"])
    return checks if group is GroupLevel.UNKNOWN else checks + await _proofs(store, row, group)


async def _allocations(store: MatchStore, row: dict[str, Any]) -> Check:
    of_side = {side: [t.transaction_id for t in taken_of(row) if t.side is side] for side in Side}
    found = await store.standing(row["id"], expected=of_side[Side.EXPECTED], incoming=of_side[Side.INCOMING])
    return match_checks.allocations(row, {(r["side"], r["id"]): (r["minor"], r["own_minor"]) for r in found})


async def _proofs(store: MatchStore, row: dict[str, Any], group: GroupLevel) -> list[Check]:
    """Look at the record of a group and, while it is a proposal and nothing has changed, look for it again."""
    record = match_group_proof.proof(row, group)
    searched = group in match_group_proof.HYPOTHESES and group not in match_group_proof.TOLD_ONLY
    if not record.holds or row["status"] != "proposed" or _changed(row) or not searched:
        return [record]
    side, centre = match_group_proof.centre_of(row, group)
    if side == "incoming":
        found = await store.named_items(
            centre,
            by_key=group in {GroupLevel.BY_KEY, GroupLevel.BY_KEY_LESS, GroupLevel.BY_KEY_NET},
            short=group is GroupLevel.BY_QUOTES,
            less=group.less_credits,
            limit=NAMED_MAX,
        )
    else:
        found = await store.named_lines(centre, limit=NAMED_MAX)
    then = {r["id"]: r["open_minor"] for r in found if r["created_at"] <= row["created_at"]}
    beside = match_group_proof.Beside(open_minor=then, since=len(found) - len(then))
    return [record, match_group_proof.again(row, group, beside)]


def _changed(row: dict[str, Any]) -> list[Changed]:
    found = {
        (side, leg[f"{side}_id"]): Changed(
            side=side_of(leg, side).name.lower(),
            id=leg[f"{side}_id"],
            revision=leg[f"{side}_revision"],
            revision_now=leg[f"{side}_revision_now"],
        )
        for leg in row["legs"]
        for side, _ in ENDS
        if leg[f"{side}_revision"] != leg[f"{side}_revision_now"]
    }
    return list(found.values())
