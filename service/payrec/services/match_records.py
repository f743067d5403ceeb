"""The record of one match: everything known of it in one document, as of one instant, in one order."""

from __future__ import annotations

import json
from typing import Any, Final
from uuid import UUID

from pydantic.alias_generators import to_camel

from payrec.domain.audit_chain import is_committed
from payrec.domain.caller import Caller
from payrec.domain.principal import ENGINE_ACTOR_PREFIX
from payrec.errors import NotFoundError
from payrec.models.audit_log import AuditLogQuery, AuditRecordPublic
from payrec.models.match_records import (
    EnginePublic,
    MatchRecordPublic,
    MatchStatePublic,
    RecordedReturnPublic,
    RecordedTransactionPublic,
    SealedRecordPublic,
    SealPublic,
    SourcePublic,
    SupersededPublic,
)
from payrec.services.audit_log import control_page
from payrec.services.match_rendering import rendered
from payrec.services.validation import identifier
from payrec.storage.allocations import Side
from payrec.storage.audit_log import SORTS
from payrec.storage.database import Connection, Database
from payrec.storage.listing import PageRequest
from payrec.storage.match_records import MatchRecordStore
from payrec.storage.matches import MatchStore

TRANSACTIONS_SHOWN_MAX: Final = 1_000
"""Transactions of a match that its record has; each has its own address for the rest."""

RECORDS_SHOWN_MAX: Final = 1_000
"""Audit records, and so for returns and for proposals that gave way."""

_NEVER: Final = "infinity"
_NAMES: Final = {Side.EXPECTED: "expected", Side.INCOMING: "incoming"}


class MatchRecordService:
    """Tells an auditor of a match of the caller's tenant environment."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def get(self, caller: Caller, match_id: str) -> MatchRecordPublic:
        """Return the record of a match.

        Raises
        ------
        NotFoundError
        """
        wanted = identifier(match_id)
        async with self._database.tenant(caller.tenant, readonly=True, snapshot=True) as connection:
            row = await MatchStore(connection).get(wanted)
            if row is None:
                raise NotFoundError
            found = await _found(connection, row)
        # One after the other: who holds a connection and waits for a second one, waits for others who do the same.
        return MatchRecordPublic.model_validate({**found, "engine": await self._engine(caller, row, found["run"])})

    async def _engine(self, caller: Caller, row: dict[str, Any], run: dict[str, Any] | None) -> EnginePublic:
        query = AuditLogQuery(type="tenant.settings_updated", to=row["created_at"])
        request = PageRequest(limit=1, sort=SORTS["-createdAt"])
        changes, _ = await control_page(self._database, caller.tenant, request, query)
        version, _, calibration = row["created_by"].removeprefix(ENGINE_ACTOR_PREFIX).partition("+")
        is_engine = row["created_by"].startswith(ENGINE_ACTOR_PREFIX)
        return EnginePublic(
            made_by=row["created_by"],
            engine_version=version if is_engine else None,
            calibration_version=int(calibration) if is_engine and calibration else None,
            run_id=row["run_id"],
            rules_version=((run or {}).get("result") or {}).get("rulesVersion"),
            run_finished_at=(run or {}).get("finished_at"),
            settings_change=AuditRecordPublic.of_row(changes[0]) if changes else None,
            proof=None if _is_withheld(row) else row["proof"],
        )


async def _found(connection: Connection, row: dict[str, Any]) -> dict[str, Any]:
    store = MatchRecordStore(connection)
    ends = list(dict.fromkeys(end for leg in row["legs"] for end in _ends(leg)))
    shown = {side: [i for s, i in ends[:TRANSACTIONS_SHOWN_MAX] if s is side] for side in Side}
    decided = await store.decided(row["id"])
    transactions: dict[tuple[Side, UUID], dict[str, Any]] = {}
    for side, ids in shown.items():
        rows = await store.transactions(side, ids, decided_at=decided.get("from_at") or _NEVER)
        transactions |= {(side, found["id"]): found for found in rows}
    sources = await store.sources(shown[Side.INCOMING])
    files = {source["import_id"] for source in sources.values()}
    about = [row["id"], *(i for _, i in ends[:TRANSACTIONS_SHOWN_MAX]), *sorted(files)]
    about += [row["run_id"]] if row["run_id"] is not None else []
    about += [UUID(row["imported"]["import_id"])] if row["imported"] else []
    audit = await store.audit(about, limit=RECORDS_SHOWN_MAX + 1)
    states = await store.states(row["id"])
    superseded = await store.superseded(
        row["id"], expected=shown[Side.EXPECTED], incoming=shown[Side.INCOMING], limit=RECORDS_SHOWN_MAX
    )
    returns = await store.returns(row["id"], limit=RECORDS_SHOWN_MAX)
    return {
        "match": rendered(row),
        "run": await store.run(row["run_id"]) if row["run_id"] is not None else None,
        "states": [
            MatchStatePublic.model_validate({**s, "returned_amount_minor": s["returned_minor"]}) for s in states
        ],
        "counted_from": decided.get("from_at"),
        "counted_until": decided.get("to_at"),
        "transactions": [
            _transaction(side, transactions[side, found], sources.get(found))
            for side, found in ends[:TRANSACTIONS_SHOWN_MAX]
            if (side, found) in transactions
        ],
        "transaction_count": len(ends),
        "returns": [_returned(link) for link in returns],
        "superseded": [SupersededPublic.model_validate({**s, "superseded_at": s["updated_at"]}) for s in superseded],
        "audit": [_sealed(record) for record in audit[:RECORDS_SHOWN_MAX]],
        "audit_complete": len(audit) <= RECORDS_SHOWN_MAX and len(ends) <= TRANSACTIONS_SHOWN_MAX,
        "audit_log": f"/audit-log?resourceId={row['id']}",
    }


def _is_withheld(row: dict[str, Any]) -> bool:
    return bool(row["sampled"] and row["status"] == "proposed")


def _ends(leg: dict[str, Any]) -> list[tuple[Side, UUID]]:
    """Return both transactions of a leg as ``MatchStore`` tells them: where both are of one side, one is a contra."""
    first = Side.INCOMING if leg["expected_contra"] else Side.EXPECTED
    second = Side.EXPECTED if leg["incoming_contra"] else Side.INCOMING
    return [(first, leg["expected_id"]), (second, leg["incoming_id"])]


def _transaction(side: Side, row: dict[str, Any], source: dict[str, Any] | None) -> RecordedTransactionPublic:
    now = _stated(row["now"])
    before = _stated(row["before_change"]) if row["before_change"] is not None else now
    return RecordedTransactionPublic(
        side=_NAMES[side],
        id=row["id"],
        status=row["status"],
        allocated_minor=row["allocated_minor"],
        stated=now,
        stated_when_decided=before if before != now else None,
        changed_at=row["stated_at"],
        source=_source(source) if source is not None else None,
    )


def _stated(row: dict[str, Any]) -> dict[str, Any]:
    """Return a stored row as it goes over the wire: PostgreSQL writes bytes as text with a prefix."""
    return {
        to_camel(name): value.removeprefix("\\x") if isinstance(value, str) and name in _HASHES else value
        for name, value in sorted(row.items())
        if value is not None and name not in _HIDDEN
    }


_HASHES: Final = frozenset({"identity", "fingerprint"})
_HIDDEN: Final = frozenset({"id"})


def _source(row: dict[str, Any]) -> SourcePublic:
    statement = None
    if row["ordinal"] is not None:
        statement = {
            "index": row["ordinal"],
            "kind": row["kind"],
            "statementId": row["statement_id"],
            "sequenceNumber": row["sequence_number"],
            "account": row["account"],
            "from": row["from_on"],
            "to": row["to_on"],
        }
    return SourcePublic.model_validate({**row, "file_name": row["name"], "statement": statement})


def _returned(row: dict[str, Any]) -> RecordedReturnPublic:
    return RecordedReturnPublic.model_validate(
        {**row, "incoming_transaction_id": row["incoming_id"], "expected_transaction_id": row["expected_id"]}
    )


def _sealed(row: dict[str, Any]) -> SealedRecordPublic:
    seal = None
    if row["sequence"] is not None:
        seal = SealPublic(
            sequence=row["sequence"],
            sealed_at=row["sealed_at"],
            root=row["root"].hex(),
            commitment=row["commitment"].hex(),
            holds=row["salt"] is not None and is_committed(row),
        )
    before, after = (None if row[name] is None else json.loads(row[name]) for name in ("before", "after"))
    public = AuditRecordPublic.of_row(
        {
            **{name: row[name] for name in ("at", "actor", "resource_id", "reason", "request_id")},
            "change_id": str(row["change_id"]),
            "id": row["ordinal"],
            "type": row["action"],
            "before": before,
            "after": after,
        }
    )
    return SealedRecordPublic.model_validate({**public.model_dump(), "seal": seal})
