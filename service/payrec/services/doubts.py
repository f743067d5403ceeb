"""What the engine cannot know of its proposals: the database tells of what else makes them less sure."""

from __future__ import annotations

from typing import Any

from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.rules import MatchingRules
from payrec.domain.scope import TenantScope
from payrec.services.asking import asking
from payrec.services.match_columns import Snapshot
from payrec.services.other_numbers import beside_other_numbers
from payrec.services.partial_runs import bounded
from payrec.services.settled_rivals import beside_settled
from payrec.storage.database import Database


async def doubted(
    database: Database,
    scope: TenantScope,
    params: dict[str, Any],
    snapshot: Snapshot,
    proposals: Proposals,
    rules: MatchingRules,
) -> Proposals:
    """Return the proposals of a run with what its filters, other numbers and earlier runs leave of them."""
    async with asking(database, scope) as ask:
        proposals = await bounded(ask, params, snapshot, proposals, rules)
        proposals = await beside_other_numbers(ask, snapshot, proposals)
        return await beside_settled(ask, snapshot, proposals)
