"""How the statements of an account follow each other: judged when one is stored, and again when its neighbour comes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, Final
from uuid import UUID

from payrec.constants import CONTINUITY_DAY_STATEMENTS_MAX, CONTINUITY_STATEMENTS_MAX
from payrec.domain.changes import Record
from payrec.domain.continuity import FINDINGS, Ends, Judgement, ends_of, judge_day, sequence_of
from payrec.domain.statements import Problem, Statement
from payrec.models.imports import StatementGap
from payrec.services.work import Unit
from payrec.storage.imports import ImportStore
from payrec.storage.statements import Place, StatementStore

GAP_ACTION: Final = "import.statement_gap"
"""The event, and the audit record that goes with it."""

JUDGED_AGAIN_ACTION: Final = "import.statement_judged_again"
"""The audit record of an earlier import of which something is told differently, because a neighbour came."""


def statement_row(statement: Statement, import_id: UUID) -> dict[str, Any]:
    """Return the row of a statement that was read whole; what it follows is not judged yet."""
    opening, closing = statement.balance("opening"), statement.balance("closing")
    ends = ends_of(statement, import_id, statement.index)
    return {
        "import_id": import_id,
        "ordinal": statement.index,
        "opening_minor": opening.signed_minor if opening else None,
        "closing_minor": closing.signed_minor if closing else None,
        "balance_difference_minor": statement.balance_difference_minor,
        "credit_minor": statement.credit_minor,
        "debit_minor": statement.debit_minor,
        "first_booking_on": statement.first_booking_on,
        "last_booking_on": statement.last_booking_on,
        "entry_count": statement.entry_count,
        "transaction_count": statement.transaction_count,
        "kind": statement.kind,
        "account": statement.account,
        "currency": statement.currency,
        "statement_id": statement.statement_id,
        "sequence_number": statement.sequence_number,
        "balance_check": statement.balance_check,
        "balances": [
            {
                "type": b.type,
                "amountMinor": b.amount_minor,
                "currency": b.currency,
                "direction": b.direction,
                "date": b.on.isoformat() if b.on else None,
            }
            for b in statement.balances
        ],
        "page_number": ends.page,
        "is_last_page": ends.is_last_page,
        "from_on": ends.from_on,
        "to_on": ends.to_on,
        "opened_on": ends.opened_on,
        "chained_on": ends.chained_on,
        "continuity": "not_available",
    }


async def store_statements(unit: Unit, import_id: UUID, rows: Sequence[dict[str, Any]]) -> None:
    """Store the statements of an import, and judge them and those that come after them.

    Who stores statements of the same account at the same time is waited for, from here to the end of the transaction.
    So this comes last: what it waits for must not wait for what the transaction has done before.
    """
    for row in rows[CONTINUITY_STATEMENTS_MAX:]:
        row["chained_on"] = None
    store = StatementStore(unit.connection)
    await store.add([{**row, "change_id": unit.change_id} for row in rows])
    touched = {(row["account"], row["currency"], row["chained_on"]) for row in rows if row["chained_on"] is not None}
    if not touched:
        return
    await store.hold_accounts({account for account, _, _ in touched})
    stored = await store.neighbours(touched, limit=CONTINUITY_DAY_STATEMENTS_MAX)
    before = {(row["import_id"], row["ordinal"]): row for row in stored}
    changed = [j for j in _judgements(stored, touched) if _values(j) != _known(before[j.ends.key])]
    if not changed:
        return
    await store.judge([{"import_id": j.ends.key[0], "ordinal": j.ends.key[1], **_values(j)} for j in changed])
    await _tell(unit, import_id, changed, before)


def _judgements(rows: Iterable[dict[str, Any]], touched: set[Place]) -> Iterator[Judgement]:
    """Yield the judgements of the days that were touched, and of the next one after each."""
    for _, account in groupby(rows, key=lambda row: (row["account"], row["currency"])):
        days: list[tuple[Place | None, list[Ends]]] = [(None, [])]
        for place, day in groupby(account, key=lambda row: (row["account"], row["currency"], row["chained_on"])):
            days.append((place, [stored_ends(row) for row in day]))
        for (earlier, before), (later, found) in pairwise(days):
            if later in touched or earlier in touched:
                yield from judge_day(found, before)


def stored_ends(row: dict[str, Any]) -> Ends:
    """Return the ends of a statement that is stored."""
    return Ends(
        key=(row["import_id"], row["ordinal"]),
        account=row["account"],
        currency=row["currency"],
        chained_on=row["chained_on"],
        from_on=row["from_on"],
        to_on=row["to_on"],
        opened_on=row["opened_on"],
        opening_minor=row["opening_minor"],
        closing_minor=row["closing_minor"],
        sequence=sequence_of(row["sequence_number"]),
        page=row["page_number"],
        is_last_page=row["is_last_page"],
        statement_id=row["statement_id"],
        content=(row["entry_count"], row["credit_minor"], row["debit_minor"]),
    )


def _values(judgement: Judgement) -> dict[str, Any]:
    return {
        "continuity": judgement.continuity,
        "expected_opening_minor": judgement.expected_minor,
        "expected_on": judgement.expected_on,
    }


def _known(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("continuity", "expected_opening_minor", "expected_on")}


async def _tell(
    unit: Unit, import_id: UUID, changed: Sequence[Judgement], before: dict[tuple[UUID, int], dict[str, Any]]
) -> None:
    """Tell what is said now: as problems of the imports that the statements are in, as events, and to the audit."""
    imports = ImportStore(unit.connection)
    others: dict[UUID, list[Judgement]] = defaultdict(list)
    for judgement in changed:
        if judgement.ends.key[0] != import_id:
            others[judgement.ends.key[0]].append(judgement)
    if others:
        await imports.touch(list(others), at=unit.now)
        await imports.forget_continuity([j.ends.key for found in others.values() for j in found])
    problems = [
        (
            j.ends.key[0],
            Problem(FINDINGS[j.continuity], j.severity, statement=j.ends.key[1], detail=j.detail),
        )
        for j in changed
        if j.continuity in FINDINGS
    ]
    if problems:
        await imports.tell_problems(problems)
    for judgement in changed:
        if judgement.continuity == "gap":
            data = _gap(judgement).model_dump(mode="json", by_alias=True)
            unit.record(Record(action=GAP_ACTION, resource_id=judgement.ends.key[0], data=data))
    for other, found in others.items():
        was = {str(j.ends.key[1]): before[j.ends.key]["continuity"] for j in found}
        now = {str(j.ends.key[1]): j.continuity for j in found}
        unit.record(Record(action=JUDGED_AGAIN_ACTION, resource_id=other, before=was, after=now))


def _gap(judgement: Judgement) -> StatementGap:
    ends, previous = judgement.ends, judgement.previous
    return StatementGap(
        import_id=ends.key[0],
        account=ends.account or "",
        currency=ends.currency or "",
        statement_ids=[previous.statement_id if previous else None, ends.statement_id],
        sequence_numbers=[previous.sequence if previous else None, ends.sequence],
        expected_opening_minor=judgement.expected_minor,
        opening_minor=ends.opening_minor,
        difference_minor=judgement.difference_minor,
        previous_closing_date=judgement.expected_on,
        closing_date=ends.chained_on,
    )
