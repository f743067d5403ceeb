"""Many expected transactions in one request: each is created or refused by itself, all that are right at once."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.errors import DuplicateExternalIdError, PayrecError
from payrec.models.common import BulkResults
from payrec.models.expected_transactions import ExpectedTransactionCreate, ExpectedTransactionsBulk
from payrec.services.auto_runs import match_soon
from payrec.services.bulk_results import Results, read_items
from payrec.services.expected_rows import Stated, creation, rows_of, stated
from payrec.services.loading import with_care
from payrec.services.meanwhile import FEW, aside
from payrec.services.validation import validated
from payrec.services.work import Work
from payrec.storage.expected_loading import ExpectedLoadingStore
from payrec.storage.expected_transactions import ExpectedTransactionStore


class ExpectedBulkService:
    """Creates expected transactions of the caller's tenant environment, thousands at once."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.expected_transactions")

    async def create(self, caller: Caller, given: ExpectedTransactionsBulk) -> BulkResults:
        """Create each item that is right; of those with one externalId the first.

        Raises
        ------
        UnavailableError
            Others store the same, again and again.
        """
        # Thousands of items take a while: others are answered meanwhile.
        right, wrong = await asyncio.to_thread(read_items, given.items, _read)
        results, count = await with_care(lambda *, alone: self._create(caller, right, wrong, alone=alone))
        self._logger.info("expected_transactions.created", count=count, refused=len(given.items) - count)
        return results

    async def _create(
        self, caller: Caller, right: dict[int, Stated], wrong: dict[int, PayrecError], *, alone: bool
    ) -> tuple[BulkResults, int]:
        results = Results(caller)
        await aside(results.refuse_all, wrong, few=len(wrong) <= FEW)
        async with self._work.tenant(caller) as unit:
            store = ExpectedLoadingStore(unit.connection)
            await store.begin(alone=alone)
            names = [item.given.external_id for item in right.values() if item.given.external_id is not None]
            known = await ExpectedTransactionStore(unit.connection).known(names)
            taken = {name: row["id"] for name, row in known.items()}
            new: list[Stated] = []
            known_already: dict[int, PayrecError] = {}
            first_id = self._work.ids.block(len(right) or 1)
            for index, item in right.items():
                name = item.given.external_id
                if name is not None and name in taken:
                    known_already[index] = DuplicateExternalIdError(existingId=str(taken[name]))
                    continue
                transaction_id = UUID(int=first_id + len(new))
                new.append(item)
                if name is not None:
                    taken[name] = transaction_id
                results.succeed(index, 201, transaction_id)
            await aside(results.refuse_all, known_already, few=len(known_already) <= FEW)
            rows, opened = await asyncio.to_thread(
                rows_of, new, first_id=first_id, at=unit.now, change_id=unit.change_id
            )
            await store.add(rows, opened)
            for row in rows:
                unit.record(creation(row))
            told = results.told()
            unit.answer(200, told)
            if rows:
                await match_soon(unit, self._work.ids.new())
        return told, len(rows)


def _read(_: int, item: Any) -> Stated:
    return stated(validated(ExpectedTransactionCreate, item))
