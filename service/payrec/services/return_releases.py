"""Payments that were taken back before anybody expected them: they get that back when an item comes that they may pay.

What was taken of an open amount without a person rests on nobody having expected the payment. When an item comes of
which that is not so any more, the payment is to pay it first and the return to take that back, as if the item had been
there before: so nothing depends on the order in which files come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.incoming_transactions import open_row_of
from payrec.domain.matching.keys import is_proving
from payrec.domain.scope import TenantScope
from payrec.services.work import Unit, Work
from payrec.storage.database import Connection
from payrec.storage.open_rows import reopen
from payrec.storage.returns import ReturnStore


async def newly_expected(connection: Connection, *, limit: int) -> frozenset[UUID]:
    """Return the payments of which was taken too early, at most so many."""
    store = ReturnStore(connection)
    early = await store.early(limit=limit)
    return frozenset(await store.newly_named([key for row in early for key in _keys(row)]) if early else ())


async def release(work: Work, caller: Caller, scope: TenantScope, payments: Collection[UUID]) -> set[UUID]:
    """Give back to payments what was taken of them too early, and return the returns that took it."""
    async with work.tenant(caller, scope, resumed=True) as unit:
        return await _release(unit, sorted(payments))


async def _release(unit: Unit, payments: list[UUID]) -> set[UUID]:
    store = ReturnStore(unit.connection)
    returns = await store.early_returns(payments)
    await store.lock(items=[], lines=[*payments, *returns], change_id=unit.change_id, at=unit.now)
    ended, changed = await store.release(payments, change_id=unit.change_id, at=unit.now)
    await reopen(unit.connection, incoming=[row["id"] for row in changed], change_id=unit.change_id)
    for row in sorted(changed, key=lambda row: row["id"]):
        after = {"status": row["status"], "openAmountMinor": row["open_minor"]}
        unit.record(Record(action="incoming_transaction.reopened", resource_id=row["id"], after=after))
    return {row["reversal_id"] for row in ended}


def _keys(row: dict[str, Any]) -> Iterator[tuple[UUID, str, int]]:
    """Give what a payment says that could name an item, as matching compares it."""
    said = open_row_of(row)
    for key in {*said["reference_keys"], said["end_to_end_key"]}:
        if key is not None and is_proving(key):
            yield row["id"], "name", key
    for key in (said["account_key"], said["name_key"]):
        if key is not None:
            yield row["id"], "party", key
