"""Payments that quote a number which is built like their item's, and is not it: nothing is accepted for these unseen.

Whoever pays an invoice that has not been told yet says its number. It is nobody's among what is open, and the amount
and the payer may fit another invoice of his that is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from payrec.domain.matching.certificate import proved
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.other_numbers import ends_in_another_letter, quotes_another
from payrec.domain.matching.partial import of_other_numbers
from payrec.domain.matching.rules import Confidence, GroupLevel, ReferenceLevel
from payrec.services.asking import Ask
from payrec.services.match_columns import Snapshot, ids_at, texts_of
from payrec.services.meanwhile import FEW, aside
from payrec.storage.allocations import Side
from payrec.storage.other_numbers import OtherNumberStore

_ENDS: Final = {Side.EXPECTED: "expected", Side.INCOMING: "incoming"}
_ANOTHER: Final = {
    ReferenceLevel.ABSENT.value: quotes_another,
    # A number with a digit mistaken is built like the item's as well.
    ReferenceLevel.NEAR.value: ends_in_another_letter,
    ReferenceLevel.PARTIAL.value: ends_in_another_letter,
}
"""What tells by the level of the reference, as far as the engine knows it, that the texts have another number."""


async def beside_other_numbers(ask: Ask, snapshot: Snapshot, proposals: Proposals) -> Proposals:
    """Return the proposals, of which no pair is sure where the payment names another number and not the item."""
    legs = unnamed(proposals)
    if legs.is_empty():
        return proposals
    few = legs.height <= FEW
    wanted = await aside(_wanted, snapshot, legs, few=few)
    store = OtherNumberStore(await ask())
    texts = {side: await store.texts(side, wanted[side]) for side in Side}
    return await aside(less_quoting, proposals, texts, few=few)


def unnamed(proposals: Proposals) -> pl.DataFrame:
    """Return the legs, by ``proposal``, of pairs that are sure though the line does not quote the item in full."""
    # Sets that are sure without a name have lines that quote nothing.
    sure = (
        proposals.matches.with_row_index("proposal")
        .filter(
            pl.col("confidence") >= Confidence.HIGH.value,
            pl.col("group_level") == GroupLevel.UNKNOWN.value,
            pl.col("reference_level").is_in(list(_ANOTHER)),
            ~proved(),
        )
        .select("proposal")
    )
    return proposals.legs.join(sure, on="proposal", how="semi").drop_nulls(list(_ENDS.values()))


def _wanted(snapshot: Snapshot, legs: pl.DataFrame) -> dict[Side, dict[str, list[Any]]]:
    """Return the ids of each side's transactions and the proposals that ask for them."""
    wanted = {}
    for side, end in _ENDS.items():
        ids = texts_of(ids_at(snapshot, legs[end], end))
        wanted[side] = {"proposal": legs["proposal"].to_list(), "id": ids.to_list()}
    return wanted


def less_quoting(proposals: Proposals, texts: Mapping[Side, Iterable[tuple[int, str]]]) -> Proposals:
    """Return the proposals, of which no pair is sure whose line quotes another number.

    ``texts`` are those of the pairs of ``unnamed`` with the numbers of their proposals: references of items, and
    whatever quotes on lines.
    """
    quoted = defaultdict(list)
    for proposal, text in texts[Side.INCOMING]:
        quoted[proposal].append(text)
    levels = proposals.matches["reference_level"]
    found = [
        proposal
        for proposal, reference in texts[Side.EXPECTED]
        if _ANOTHER[levels[proposal]](reference, quoted[proposal])
    ]
    return of_other_numbers(proposals, pl.Series("proposal", found, dtype=pl.UInt32))
