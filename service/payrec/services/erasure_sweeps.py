"""One erasure in one environment, step by step, in one transaction: found, taken out, and told of by numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final
from uuid import UUID

from payrec.constants import IDEMPOTENCY_RETENTION
from payrec.constants.privacy import ERASED_TRANSACTIONS_MAX
from payrec.domain.changes import Record
from payrec.domain.erasures import ERASED, Wanted, is_about, kept_until, redacted_row
from payrec.domain.matching.digits import quoted_digits, series_digits
from payrec.domain.matching.keys import name_key, remittance_keys
from payrec.errors import FieldError, ValidationFailedError
from payrec.models.erasures import KeptReason
from payrec.models.tenants import RetentionSettings
from payrec.services.work import Unit
from payrec.storage.allocations import Side
from payrec.storage.erasure_places import KEPT_COLUMNS, Place, change, find, place_of, places
from payrec.storage.erasures import ErasureStore, duty
from payrec.storage.history import STATED_TABLES, keep_stated
from payrec.storage.open_keys import OpenKeyStore
from payrec.storage.open_rows import stated_open_row
from payrec.storage.rows import columns_of

RESOURCES: Final = {
    "expected_transaction": "expected-transactions",
    "incoming_transaction": "incoming-transactions",
    "stated_row": "history",
    "alias": "matching/aliases",
    "alias_lesson": "matching/aliases",
    "audit_record": "audit-log",
    "import": "imports",
    "import_problem": "imports",
    "imported_match": "matches",
    "match": "matches",
    "match_state": "history",
    "allocation_state": "history",
    "job": "jobs",
    "event": "events",
    "outbox": "events",
    "webhook": "webhooks",
    "webhook_delivery": "webhooks",
    "idempotency": "idempotency-keys",
    "account": "accounts",
    "api_key": "api-keys",
}
"""What the interface calls what is in a table; others are told by the table's name."""

_OF_SIDE: Final = {Side.EXPECTED: "expected_transaction", Side.INCOMING: "incoming_transaction"}
_MATCH_IDS: Final = {"match": "id", "match_state": "match_id"}
"""Where a match's id is in the tables that say who has decided it."""
_PERSONAL: Final = (
    *("counterpartyName", "counterpartyAccount", "ultimateCounterpartyName"),
    *("remittance", "description", "mandateId"),
)
"""Members of a transaction on the wire that go with whom it is about."""


@dataclass(slots=True)
class Outcome:
    """What came of an erasure so far."""

    erased: Counter[str] = field(default_factory=Counter)
    """By resource."""
    kept: dict[tuple[str, KeptReason], tuple[int, date | None]] = field(default_factory=dict)
    """How many, and the last day, by resource and reason."""
    redacted: int = 0
    """Sealed audit records whose content is gone."""

    @classmethod
    def of(cls, erased: Sequence[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]]) -> Outcome:
        """Return what is stored of an erasure."""
        made = cls(Counter({one["resource"]: one["count"] for one in erased}))
        for one in kept:
            until = None if one["until"] is None else date.fromisoformat(one["until"])
            made.keep(one["resource"], one["why"], one["count"], until)
        return made

    def keep(self, resource: str, why: KeptReason, count: int, until: date | None) -> None:
        """Tell what stays."""
        before, last = self.kept.get((resource, why), (0, None))
        self.kept[resource, why] = (before + count, max((d for d in (last, until) if d is not None), default=None))

    def count(self, table: str, count: int = 1) -> None:
        """Count rows of a table that have lost texts."""
        if count:
            self.erased[RESOURCES.get(table, table.replace("_", "-"))] += count


class Sweep:
    """Takes what is wanted out of everything of an environment that is held (``ErasureStore.hold``)."""

    def __init__(
        self, unit: Unit, what: Wanted, *, retention: RetentionSettings, outcome: Outcome, whole: bool
    ) -> None:
        """``whole``: all texts of transactions go that are about who is wanted, and not what is wanted alone."""
        self._unit = unit
        self._connection = unit.connection
        self._store = ErasureStore(unit.connection)
        self._what = what
        self._duty_days = retention.audit_days
        self._raw_lines_days = retention.raw_lines_days
        self._outcome = outcome
        self._whole = whole
        self._today = unit.now.date()
        self._about: dict[Side, set[UUID]] = {side: set() for side in Side}
        """Transactions of whom is wanted, as far as they may be changed."""
        self._found: dict[Side, set[UUID]] = {side: set() for side in Side}
        """Those in which it stands at all, or stood once."""
        self._held: dict[Side, set[UUID]] = {side: set() for side in Side}
        """Those that have to stay."""
        self._imports: set[UUID] = set()
        self._matches: set[UUID] = set()
        """Of which it was told who has decided them; a file may have told it."""
        self.reopened = 0
        """Open rows that have other keys now."""

    async def run(self) -> None:
        """Erase. Transactions are first: what else is about them stays or goes with them."""
        for side in Side:
            await self._transactions(side)
        for side in Side:
            await self._history(side)
        await self._places()
        await self._aliases()
        await self._answers()
        await self._audit()
        await self._files()
        await self._set()

    async def _transactions(self, side: Side) -> None:
        table = _OF_SIDE[side]
        place = place_of(table)
        names_gone: set[int] = set()
        changes: list[tuple[dict[str, Any], dict[str, Any]]] = []
        more = (*duty(side), columns_of(STATED_TABLES[side], "t"))
        async for rows in find(self._connection, place, self._what, more=more):
            for row in rows:
                about = self._whole and is_about(row, self._what)
                after = redacted_row(row, side, self._what, whole=about)
                if not after and not about:
                    continue
                self._found[side].add(row["id"])
                if len(self._found[side]) > ERASED_TRANSACTIONS_MAX:
                    detail = f"more than {ERASED_TRANSACTIONS_MAX} transactions are about it"
                    raise ValidationFailedError.of(FieldError(pointer="", code="too_many", detail=detail))
                if self._stays(side, row["id"], row, table):
                    continue
                if about:
                    self._about[side].add(row["id"])
                if after:
                    changes.append((row, after))
                    names_gone.add(name_key(row["counterparty_name"]) or 0)
        ids = sorted(row["id"] for row, _ in changes)
        await keep_stated(self._connection, side, ids, change_id=self._unit.change_id)
        stamped = [(row, {**after, "updated_at": self._unit.now}) for row, after in changes]
        await change(self._connection, place, stamped, also="revision = revision + 1")
        rows = [self._open_row(side, row, after) for row, after in changes]
        self.reopened += await OpenKeyStore(self._connection).rekey(side, rows, revised=True)
        await self._store.forget_names(names_gone)
        self._outcome.count(table, len(changes))

    def _stays(self, side: Side, transaction_id: UUID, row: Mapping[str, Any], table: str) -> bool:
        """Tell whether a transaction is kept by a duty, and remember it."""
        until = kept_until(row["kept_from"], self._duty_days)
        if not row["is_bound"] or until <= self._today:
            return False
        if transaction_id not in self._held[side]:
            self._held[side].add(transaction_id)
            self._outcome.keep(RESOURCES[table], "retention_duty", 1, until)
        return True

    def _open_row(self, side: Side, row: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys that matching reads of what is left; what a line quotes besides stays quoted."""
        left = {**row, **after}
        opened = stated_open_row(side, left)
        if side is Side.EXPECTED:
            return opened
        remittance = row["remittance"] and self._what.redacted(row["remittance"])
        structured = left["structured_reference"]
        quoted = remittance_keys(remittance, structured, end_to_end_id=left["end_to_end_id"])
        return {
            **opened,
            "reference_keys": quoted,
            "quoted_digits": quoted_digits(remittance, structured),
            "series_digits": series_digits(remittance),
        }

    async def _history(self, side: Side) -> None:
        table = _OF_SIDE[side]
        place = place_of("stated_row")
        source = f"stated_row t JOIN {table} o ON o.id = t.transaction_id AND t.side = {int(side)}"
        told = [(row, True) for row in await self._store.stated(side, sorted(self._about[side]))]
        async for rows in find(self._connection, place, self._what, source=source, more=duty(side, "o")):
            for row in rows:
                whole = self._whole and is_about(row["stated"], self._what)
                if row["transaction_id"] in self._about[side]:
                    continue
                if not whole and not redacted_row(row["stated"], side, self._what, whole=False):
                    continue
                self._found[side].add(row["transaction_id"])
                if not self._stays(side, row["transaction_id"], row, table):
                    told.append((row, whole))
        self._about[side] |= {row["transaction_id"] for row, whole in told if whole}
        changes = []
        for row, whole in told:
            after = redacted_row(row["stated"], side, self._what, whole=whole)
            if after:
                changes.append((row, {"stated": {**row["stated"], **after}}))
        await change(self._connection, place, changes)
        self._outcome.count("stated_row", len(changes))

    async def _places(self) -> None:
        """Look through everything that no duty keeps and that has no meaning of its own."""
        for place in places():
            async for rows in find(self._connection, place, self._what):
                changes = []
                for row in rows:
                    after = {
                        name: left
                        for name in place.columns
                        if row[name] is not None and (left := self._what.without(row[name])) != row[name]
                    }
                    # Two that were called the same in other words, or were erased before, may not have one name now.
                    after |= {name: f"{after[name]} {_key_of(place, row)}" for name in place.unique & after.keys()}
                    if place.is_keyed and "counterparty_name" in after:
                        after["name_key"] = None
                    if after:
                        changes.append((row, after))
                if place.table == "import_problem":
                    self._imports |= {row["import_id"] for row, _ in changes}
                if (name := _MATCH_IDS.get(place.table)) is not None:
                    self._matches |= {row[name] for row, after in changes if "decided_by" in after}
                await change(self._connection, place, changes)
                self._outcome.count(place.table, len(changes))

    async def _aliases(self) -> None:
        gone: list[UUID] = []
        async for rows in find(self._connection, place_of("alias"), self._what):
            gone += [r["id"] for r in rows if any(map(self._what.is_in, (r["statement_name"], r["counterparty_name"])))]
        await self._store.forget_aliases(gone)
        lessons: list[UUID] = []
        place = place_of("alias_lesson")
        async for rows in find(self._connection, place, self._what):
            lessons += [row["match_id"] for row in rows if self._what.is_in(row["counterparty_name"])]
            told = [(row, {"taught_by": self._what.redacted(row["taught_by"])}) for row in rows]
            changes = [(row, after) for row, after in told if after["taught_by"] != row["taught_by"]]
            await change(self._connection, place, changes)
        await self._store.forget_lessons(lessons, name=ERASED)
        keys: list[int] = []
        async for rows in find(self._connection, place_of("counterparty_name"), self._what):
            keys += [row["name_key"] for row in rows if self._what.is_in(row["text"])]
        await self._store.forget_names(keys)
        self._outcome.count("alias", len(gone) + len(lessons))

    async def _answers(self) -> None:
        """Take it out of the answers that are kept for repeated requests, but for those with what has to stay."""
        place = place_of("idempotency")
        about = {str(transaction_id) for transaction_id in frozenset().union(*self._about.values())}
        held = {str(transaction_id) for transaction_id in frozenset().union(*self._held.values())}
        async for rows in find(self._connection, place, self._what):
            changes = []
            for row in rows:
                body = None if row["body"] is None else _json(row["body"])
                left, headers = self._what.without(_anonymous(body, about)), self._what.without(row["headers"])
                if (left, headers) == (body, row["headers"]):
                    continue
                if _is_of(body, held):
                    until = self._today + timedelta(days=IDEMPOTENCY_RETENTION.days + 1)
                    self._outcome.keep(RESOURCES[place.table], "retention_duty", 1, until)
                    continue
                told = None if left is None else json.dumps(left, ensure_ascii=False, separators=(",", ":"))
                changes.append((row, {"body": told, "headers": headers}))
            await change(self._connection, place, changes)
            self._outcome.count(place.table, len(changes))

    async def _audit(self) -> None:
        held = frozenset().union(*self._held.values())
        records = set(await self._store.records_of(sorted(frozenset().union(*self._about.values()))))
        kept = 0
        async for rows in find(self._connection, place_of("audit_record"), self._what, more=('t."resource_id"',)):
            for row in rows:
                if not any(self._what.without(row[name]) != row[name] for name in ("reason", "before", "after")):
                    continue
                if row["resource_id"] in held:
                    kept += 1
                else:
                    records.add((row["change_id"], row["ordinal"]))
        self._outcome.redacted += await self._store.redact(sorted(records))
        self._outcome.count("audit_record", len(records))
        if kept:
            until = max(
                until for (_, why), (_, until) in self._outcome.kept.items() if why == "retention_duty" and until
            )
            self._outcome.keep("audit-log", "retention_duty", kept, until)

    async def _files(self) -> None:
        """Delete the files that can be made again, and tell of those that cannot be changed."""
        for row in await self._store.drop_exports() if self._outcome.erased else ():
            self._unit.discard(row["object_id"])
            self._unit.record(Record(action="export.dropped", resource_id=row["id"]))
            self._outcome.count("exports")
        count, last = await self._store.files(
            expected=sorted(self._found[Side.EXPECTED]),
            incoming=sorted(self._found[Side.INCOMING]),
            matches=sorted(self._matches),
            imports=sorted(self._imports),
        )
        if last is not None:
            self._outcome.keep("imports", "file", count, last + timedelta(days=self._raw_lines_days + 1))

    async def _set(self) -> None:
        """Tell of what was handed over for good, and of what stops something where it is not as it was set."""
        place = place_of("posting", KEPT_COLUMNS - {"lines"})
        async for rows in find(self._connection, place, self._what):
            if count := sum(self._what.without(row["lines"]) != row["lines"] for row in rows):
                self._outcome.keep("postings", "append_only", count, None)
        for resource, value in await self._store.settings():
            if self._what.without(value) != value:
                self._outcome.keep(resource, "setting", 1, None)


def _key_of(place: Place, row: Mapping[str, Any]) -> str:
    """Return the text of a row's key."""
    return "-".join(str(row[name]) for name in place.key)


def _is_of(value: Any, ids: set[str]) -> bool:
    """Tell whether an answer has one of these transactions."""
    if isinstance(value, list):
        return any(_is_of(item, ids) for item in value)
    return isinstance(value, dict) and (value.get("id") in ids or _is_of([*value.values()], ids))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # pragma: no cover - answers are JSON
        return text


def _anonymous(value: Any, about: set[str]) -> Any:
    """Return an answer without what it says of whom these transactions are about."""
    if isinstance(value, list):
        return [_anonymous(item, about) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: _anonymous(item, about) for name, item in value.items()}
    if value.get("id") in about:
        found |= {name: None for name in _PERSONAL if name in found}
        found |= {"metadata": {}} if "metadata" in found else {}
    return found
