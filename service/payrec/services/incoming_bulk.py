"""Many incoming transactions in one request: each is stored or refused by itself, all that are right at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.incoming_transactions import identity_of
from payrec.domain.statements import Entry
from payrec.errors import DuplicateContentError, DuplicateExternalIdError, PayrecError
from payrec.models.common import BulkResults
from payrec.models.incoming_transactions import IncomingTransactionCreate, IncomingTransactionsCreate
from payrec.services.accounts import name_accounts
from payrec.services.auto_runs import match_soon
from payrec.services.bulk_results import Results, read_items
from payrec.services.incoming_rows import accounts_of, creation, named, repeats, rows_of, stated
from payrec.services.loading import with_care
from payrec.services.meanwhile import FEW, aside
from payrec.services.validation import validated
from payrec.services.work import Unit, Work
from payrec.storage.duplicates import DuplicateStore
from payrec.storage.incoming_loading import IncomingLoadingStore
from payrec.storage.period_locks import PeriodLockStore


class IncomingBulkService:
    """Stores incoming transactions of the caller's tenant environment, thousands at once."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.incoming_transactions")

    async def create(self, caller: Caller, given: IncomingTransactionsCreate) -> BulkResults:
        """Store each item that is right; of those with one externalId the first.

        Raises
        ------
        UnavailableError
            Others store the same, again and again.
        """
        # Thousands of items take a while: others are answered meanwhile.
        right, wrong = await asyncio.to_thread(read_items, given.items, _read)
        # The last attempt is like the others: there is no lock that it could have alone.
        results, count = await with_care(lambda **_: self._create(caller, right, wrong))
        self._logger.info("incoming_transactions.created", count=count, refused=len(given.items) - count)
        return results

    async def _create(
        self, caller: Caller, right: Mapping[int, Entry], wrong: Mapping[int, PayrecError]
    ) -> tuple[BulkResults, int]:
        results = Results(caller)
        await aside(results.refuse_all, wrong, few=len(wrong) <= FEW)
        first_id = self._work.ids.block(len(right) or 1)
        ids = {index: UUID(int=first_id + place) for place, index in enumerate(right)}
        identities = {index: identity_of(named(entry, ids[index])) for index, entry in right.items()}
        async with self._work.tenant(caller) as unit:
            store = DuplicateStore(unit.connection)
            await store.hold(entry.fingerprint for entry in right.values())
            refused = await _refused(unit, right, identities, ids)
            await aside(results.refuse_all, refused, few=len(refused) <= FEW)
            new = {index: entry for index, entry in right.items() if index not in refused}
            rows, opened, allocations = await asyncio.to_thread(_rows, new, ids, identities, unit)
            await IncomingLoadingStore(unit.connection).add(rows, opened, allocations)
            await PeriodLockStore(unit.connection).flag_late([ids[index] for index in new])
            fingerprints = [entry.fingerprint for entry in new.values()]
            await store.flag(fingerprints, change_id=unit.change_id, at=unit.now)
            for index, entry in new.items():
                results.succeed(index, 201, ids[index])
                unit.record(creation(entry, ids[index]))
            told = results.told()
            unit.answer(200, told)
            await name_accounts(unit, self._work.ids, accounts_of(new.values()))
            if new:
                await match_soon(unit, self._work.ids.new())
        return told, len(new)


def _read(_: int, item: Any) -> Entry:
    return stated(validated(IncomingTransactionCreate, item))


async def _refused(
    unit: Unit, right: Mapping[int, Entry], identities: Mapping[int, bytes], ids: Mapping[int, UUID]
) -> dict[int, PayrecError]:
    """Return by their place why some are not stored: they are there already, or their content is."""
    places, entries = list(right), list(right.values())
    found: dict[int, PayrecError] = {}
    known = await IncomingLoadingStore(unit.connection).known(
        [entry.external_id for entry in entries], [identities[index] for index in places]
    )
    twins: dict[int, dict[str, Any]] = {}
    if unit.caller.tenant.reject_duplicates:
        fingerprints = [entry.fingerprint for entry in entries]
        twins = await DuplicateStore(unit.connection).twins(fingerprints, [identities[index] for index in places])
    given: dict[str, UUID] = {}
    for place, (index, entry) in enumerate(right.items()):
        name = entry.external_id
        taken = known.get(place) or (given.get(name) if name is not None else None)
        if taken is not None:
            found[index] = DuplicateExternalIdError(existingId=str(taken))
        elif place in twins and repeats(entry, twins[place]):
            found[index] = DuplicateContentError(existingId=str(twins[place]["id"]))
        elif name is not None:
            given[name] = ids[index]
    return found


def _rows(
    new: Mapping[int, Entry], ids: Mapping[int, UUID], identities: Mapping[int, bytes], unit: Unit
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what is stored of entries, the open rows of those that have an amount, and the states of the others."""
    rows, opened, allocations = [], [], []
    for index, entry in new.items():
        row, open_ = rows_of(entry, transaction_id=ids[index], identity=identities[index], unit=unit)
        rows.append(row)
        if entry.amount_minor:
            opened.append(open_)
        else:
            allocations.append(_nothing(ids[index], unit))
    return rows, opened, allocations


def _nothing(transaction_id: UUID, unit: Unit) -> dict[str, Any]:
    """Return the state of a line of nothing."""
    return {
        "side": 2,
        "transaction_id": transaction_id,
        "amount_minor": 0,
        "status": "ignored",
        "reason_code": "zero_amount",
        "version": 1,
        "updated_at": unit.now,
        "change_id": unit.change_id,
    }
