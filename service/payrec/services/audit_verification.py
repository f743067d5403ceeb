"""The audit log verified: whether everything that was sealed is still as it was, and what is gone or not sealed yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from payrec.constants.upkeep import AUDIT_BREAKS_NAMED_MAX, AUDIT_SEALS_READ
from payrec.domain.audit_chain import FIRST_ROOT, SealHash, is_committed
from payrec.domain.retention import Removed, removed
from payrec.domain.scope import TenantScope
from payrec.storage.audit_seals import AuditSealStore
from payrec.storage.database import Database

BreakKind = Literal[
    "record_changed",
    "record_missing",
    "record_unknown",
    "record_redacted",
    "seal_missing",
    "seal_unlinked",
    "seal_changed",
    "root_differs",
]
"""What can be wrong: of a record, of the chain, or in comparison with a kept root. ``record_redacted`` is of none in
particular: more have no content any more than erasures tell of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """One place where the log is not what was sealed."""

    kind: BreakKind
    seal: int | None = None
    change_id: UUID | None = None
    ordinal: int | None = None


@dataclass(slots=True)
class AuditVerification:
    """What came of it."""

    seals: int = 0
    records: int = 0
    """Sealed ones that are as they were."""
    redacted: Removed = field(default_factory=Removed)
    """Sealed ones whose content is gone by retention or erasure, with the instants of their changes."""
    erased: list[tuple[UUID, int]] = field(default_factory=list)
    """The first of those that an erasure has redacted: change and ordinal. They are there, without their content."""
    erased_count: int = 0
    waiting: int = 0
    """Records whose seal is still to come."""
    breaks: list[Break] = field(default_factory=list)
    """The first ones."""
    break_count: int = 0
    last_root: str | None = None
    """To be kept somewhere else."""

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return self.break_count == 0

    def found(self, kind: BreakKind, **where: Any) -> None:
        """Note a break."""
        self.break_count += 1
        if len(self.breaks) < AUDIT_BREAKS_NAMED_MAX:
            self.breaks.append(Break(kind=kind, **where))


class AuditVerificationService:
    """Verifies the chain of one tenant environment. Nothing is changed."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def verify(self, scope: TenantScope, kept_roots: Mapping[int, str] | None = None) -> AuditVerification:
        """Compute everything again, as of one instant, and compare.

        ``kept_roots`` are roots that were kept elsewhere (hexadecimal), by their seals. Those that the feed of events
        tells of are compared as well.
        """
        result = AuditVerification()
        roots: dict[int, str] = {}
        previous = FIRST_ROOT
        async with self._database.tenant(scope, readonly=True, snapshot=True) as connection:
            store = AuditSealStore(connection)
            dropped_before, told_erased = await store.removals()
            while seals := await store.page(after=result.seals, limit=AUDIT_SEALS_READ):
                for seal in seals:
                    # Those that are missing are named once; the next one does not follow the one before them.
                    if seal["sequence"] != result.seals + 1:
                        result.found("seal_missing", seal=result.seals + 1)
                    if seal["previous_root"] != previous:
                        result.found("seal_unlinked", seal=seal["sequence"])
                    await self._seal(store, seal, result, dropped_before)
                    result.seals, previous = seal["sequence"], seal["root"]
                    roots[seal["sequence"]] = seal["root"].hex()
            kept = [(row["sequence"], row["root"]) for row in await store.told()] + list((kept_roots or {}).items())
            for sequence, root in kept:
                if sequence not in roots:
                    result.found("seal_missing", seal=sequence)
                elif roots[sequence] != root.lower():
                    result.found("root_differs", seal=sequence)
            result.waiting, unknown = await store.not_sealed(seals=result.seals, limit=AUDIT_BREAKS_NAMED_MAX)
            for record in unknown:
                result.found("record_unknown", **record)
            if result.erased_count > told_erased:
                result.found("record_redacted")
        result.last_root = previous.hex() if roots else None
        return result

    @staticmethod
    async def _seal(
        store: AuditSealStore, seal: dict[str, Any], result: AuditVerification, dropped_before: UUID | None
    ) -> None:
        digest = SealHash(previous_root=seal["previous_root"], sequence=seal["sequence"])
        gone: list[datetime] = []
        for row in await store.committed(seal["sequence"]):
            change_id, ordinal = row["change_id"], row["ordinal"]
            digest.add(change_id, ordinal, row["commitment"])
            where = {"seal": seal["sequence"], "change_id": change_id, "ordinal": ordinal}
            # The root covers the id of the change, which begins with its time: nobody makes a record older.
            may_be_gone = row["salt"] is None and dropped_before is not None and change_id < dropped_before
            if row["at"] is None or not (row["is_there"] or may_be_gone):
                result.found("record_missing", **where)
            elif not row["is_there"]:
                gone.append(row["at"])
            elif not is_committed(row):
                result.found("record_changed", **where)
            elif row["salt"] is None:
                gone.append(row["at"])
                result.erased_count += 1
                result.erased += [(change_id, ordinal)][: AUDIT_BREAKS_NAMED_MAX - len(result.erased)]
            else:
                result.records += 1
        result.redacted += removed(gone)
        if digest.root != seal["root"] or digest.count != seal["count"]:
            result.found("seal_changed", seal=seal["sequence"])
