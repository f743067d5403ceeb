"""What is overdue: its tenant environment is told, once for each expected transaction."""

from __future__ import annotations

from typing import Final

import structlog

from payrec.constants.jobs import OVERDUE_TOLD_AT_ONCE
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope, today
from payrec.services.rounds import in_each_active
from payrec.services.work import Work
from payrec.storage.overdue_notices import OverdueNoticeStore

ACTION: Final = "expected_transaction.overdue"
"""The event, and the audit record that goes with it."""

ACTOR: Final = "overdue-notice"
"""Who writes it."""


class OverdueNoticeService:
    """Announces what has become overdue since the last time, by the tenant's day; also what came when it was already.

    A transaction is announced in the transaction that notes it, so neither a crash nor another process at the same
    time announces it twice, or forgets it.
    """

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.expected_transactions")

    async def announce(self) -> int:
        """Announce everything that is overdue; return how many expected transactions that were.

        A suspended environment is passed over, and told when it is open again.
        """
        request_id = str(self._work.ids.new())
        return await in_each_active(
            self._work,
            lambda scope: self._announce(scope, request_id),
            logger=self._logger,
            failed="overdue.not_announced",
        )

    async def _announce(self, scope: TenantScope, request_id: str) -> int:
        day = today(scope, self._work.clock.now())
        async with self._work.database.tenant(scope, readonly=True) as connection:
            if not await OverdueNoticeStore(connection).waits(today=day):
                return 0
        principal = Principal(kind="system", name=ACTOR, tenant_id=scope.tenant_id)
        caller = Caller(principal=principal, request_id=request_id, scope=scope)
        announced = 0
        while True:
            async with self._work.tenant(caller, scope) as unit:
                found = await OverdueNoticeStore(unit.connection).note(
                    today=day, at=unit.now, limit=OVERDUE_TOLD_AT_ONCE
                )
                for transaction_id in found:
                    unit.record(Record(action=ACTION, resource_id=transaction_id))
            announced += len(found)
            if len(found) < OVERDUE_TOLD_AT_ONCE:
                return announced
