"""Erasures: texts of a counterparty or a user go, everywhere but where a duty or a file keeps them, which is told."""

from __future__ import annotations

import base64
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.constants.privacy import ERASURE_BYTES_AT_ONCE
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.erasures import ERASED, ErasureSubject, Wanted, wanted
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.errors import (
    ConfigurationError,
    ConflictError,
    FieldError,
    MatchRunInProgressError,
    NotFoundError,
    UnavailableError,
    ValidationFailedError,
)
from payrec.models.common import Page
from payrec.models.erasures import ErasureCreate, ErasurePublic, ErasureQuery
from payrec.services.auto_runs import match_soon
from payrec.services.erasure_sweeps import Outcome, Sweep
from payrec.services.jobs import queue_job
from payrec.services.paging import Pager
from payrec.services.secret_box import SecretBox
from payrec.services.tenant_settings import effective_settings
from payrec.services.validation import identifier
from payrec.services.work import LostLeaseError, Unit, Work
from payrec.storage.erasures import ErasureStore, InstallationErasureStore, UserErasureStore
from payrec.storage.jobs import JobStore
from payrec.storage.listing import BY_CREATION
from payrec.storage.tenants import TenantStore

COLLECTION: Final = "/privacy/erasures"

_GIVEN: Final[dict[str, ErasureSubject]] = {
    "counterparty_name": "counterparty_name",
    "counterparty_account": "counterparty_account",
    "user_id": "user",
}
"""Of whom, by the member that says so."""


@dataclass(frozen=True, slots=True)
class _Installation:
    """What the control schema has of a tenant environment, and a text may stand in."""

    settings: dict[str, Any]
    """As they are stored."""
    records: list[dict[str, Any]]
    """Of what was changed of the tenant."""
    keys: list[dict[str, Any]]


class ErasureService:
    """Erases in the caller's tenant environment, and lists what was erased."""

    def __init__(self, *, work: Work, pager: Pager, box: SecretBox) -> None:
        self._work = work
        self._pager = pager
        self._box = box
        self._logger = structlog.get_logger("payrec.erasures")

    async def erase(self, caller: Caller, given: ErasureCreate) -> tuple[ErasurePublic, int, dict[str, str]]:
        """Erase, in one transaction, while nobody else decides; return what came of it, with status and headers.

        Where there is much to look through a job does it (202). The same again finds nothing any more.

        Raises
        ------
        ValidationFailedError
            Not exactly one of the three is given; what is given would be found in texts that mean something else, is
            an account of the tenant's own, is in too many transactions, or no user of the tenant.
        ConflictError
            The user is not disabled, or all that is found has to stay by a duty (``kept`` tells until when).
        MatchRunInProgressError
            A run may have read what is erased, and would write it again.
        RateLimitedError
            As many erasures wait as may.
        """
        subject, text = _subject(given)
        erasure_id, job_id = self._work.ids.new(), self._work.ids.new()
        outcome = Outcome()
        known = await self._installation(caller.tenant)
        # The user's own texts go last: who asks again, because the rest has failed, still finds whom it is about. Their
        # transaction is the second one all the same: a request that waits for its tenant's share has no connection yet.
        async with AsyncExitStack() as last, self._work.tenant(caller) as unit:
            texts = [wanted(subject, text)] if text is not None else await self._user(last, caller, given, outcome)
            store = ErasureStore(unit.connection)
            if subject == "counterparty_account" and any(map(texts[0].is_meant, await store.own_accounts())):
                detail = "is an account of your own"
                field = FieldError(pointer="/counterpartyAccount", code="own_account", detail=detail)
                raise ValidationFailedError.of(field)
            is_large = await store.size() > ERASURE_BYTES_AT_ONCE
            row: dict[str, Any] = {
                "id": erasure_id,
                "change_id": unit.change_id,
                "user_id": given.user_id,
                "job_id": job_id if is_large else None,
                "created_at": unit.now,
                "subject": subject,
                "reason": _without(texts, given.reason),
                "created_by": caller.principal.actor,
            }
            if is_large:
                sealed = self._sealed(erasure_id, texts)
                await queue_job(unit, job_id, "erasure", {"erasureId": str(erasure_id), "sealed": sealed})
            else:
                await self._sweep(last, unit, texts, subject, outcome, known)
            await store.add(row | _told(outcome))
            public = _public({**row, **_told(outcome), "status": "processing" if is_large else "completed"})
            headers = {**public.headers, "Location": f"/jobs/{job_id}"} if is_large else public.headers
            unit.record(_record(row, "privacy.erasure_started") if is_large else _record(row | _told(outcome)))
            unit.answer(202 if is_large else 201, public, headers)
        self._logger.info("privacy.erasure_started" if is_large else "privacy.erased", **_logged(row, outcome))
        return public, 202 if is_large else 201, headers

    async def run(self, caller: Caller, scope: TenantScope, job: dict[str, Any], _progress: Progress) -> None:
        """Erase what a job was queued for.

        Raises
        ------
        ValidationFailedError
            It is in too many transactions.
        ConflictError
            All that is found has to stay by a duty, or what is to be looked for cannot be read any more.
        UnavailableError
            A run is at work: it is tried again.
        LostLeaseError
            Another worker has taken over, or the job was cancelled.
        """
        erasure_id = UUID(job["params"]["erasureId"])
        texts = self._opened(erasure_id, job["params"]["sealed"])
        known = await self._installation(scope)
        try:
            async with AsyncExitStack() as last, self._work.tenant(caller, scope, resumed=True) as unit:
                store = ErasureStore(unit.connection)
                row = await store.get(erasure_id)
                if row is None:
                    raise AssertionError("an erasure is stored together with its job")
                outcome = Outcome.of(row["erased"], row["kept"])
                await self._sweep(last, unit, texts, row["subject"], outcome, known)
                await store.complete(erasure_id, reason=row["reason"], told=_told(outcome))
                result = {"erasureId": str(erasure_id)}
                if not await JobStore(unit.connection).finish(
                    job["id"], attempt=job["attempts"], now=unit.now, result=result
                ):
                    raise LostLeaseError
                unit.record(_record(row | _told(outcome)))
                unit.record(Record(action="job.succeeded", resource_id=job["id"]))
        except MatchRunInProgressError:
            raise UnavailableError("a matching run has read what is to be erased") from None
        self._logger.info("privacy.erased", **_logged(row, outcome))

    async def get(self, caller: Caller, erasure_id: str) -> ErasurePublic:
        """Return one.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await ErasureStore(connection).get(identifier(erasure_id))
        if row is None:
            raise NotFoundError
        return _public(row)

    async def page(self, caller: Caller, query: ErasureQuery) -> Page[ErasurePublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await ErasureStore(connection).page(listing.request, query)
        return listing.page(ErasurePublic, rows, data=[_public(row) for row in rows], more=more)

    async def _installation(self, scope: TenantScope) -> _Installation:
        """Return what is stored of the environment elsewhere; before it is opened, which takes a connection."""
        async with self._work.database.control(readonly=True) as connection:
            store = InstallationErasureStore(connection)
            return _Installation(
                settings=await TenantStore(connection).settings(scope.tenant_id),
                records=await store.records(scope.tenant_id),
                keys=await store.keys(scope),
            )

    async def _sweep(
        self,
        last: AsyncExitStack,
        unit: Unit,
        texts: list[Wanted],
        subject: ErasureSubject,
        outcome: Outcome,
        known: _Installation,
    ) -> None:
        await self._name_keys(last, texts, outcome, known)
        retention = effective_settings(known.settings).retention
        store = ErasureStore(unit.connection)
        await _refuse_while_matching(store)
        await store.hold()
        reopened = 0
        for what in texts:
            sweep = Sweep(unit, what, retention=retention, outcome=outcome, whole=subject != "user")
            await sweep.run()
            reopened += sweep.reopened
            if what.without(known.settings) != known.settings:
                outcome.keep("settings", "setting", 1, None)
            if records := sum(what.without(record) != record for record in known.records):
                outcome.keep("audit-log", "append_only", records, None)
        if writing := await store.running("export"):
            outcome.keep("exports", "being_written", writing, None)
        if unread := await store.unread():
            outcome.keep("imports", "being_written", unread, None)
        if not outcome.erased and any(why == "retention_duty" for _, why in outcome.kept):
            raise ConflictError("all of it has to be kept", kept=_told(outcome)["kept"])
        # For whoever verifies the log, and apart from what names anybody: an erasure to come takes nothing of it.
        unit.record(Record(action="audit_log.redacted", after={"count": outcome.redacted}))
        # One that has begun meanwhile has read what was there before.
        await _refuse_while_matching(store)
        if reopened:
            await match_soon(unit, self._work.ids.new())

    async def _name_keys(
        self, last: AsyncExitStack, texts: list[Wanted], outcome: Outcome, known: _Installation
    ) -> None:
        """Take texts out of the names of the environment's keys; as those of a user, after everything else."""
        named = [(key, left) for key in known.keys if (left := _without(texts, key["name"])) != key["name"]]
        if not named:
            return
        store = InstallationErasureStore(await last.enter_async_context(self._work.database.control()))
        for key, name in named:
            outcome.count("idempotency", await store.name_key(key, name))
        outcome.count("api_key", len(named))

    def _sealed(self, erasure_id: UUID, texts: list[Wanted]) -> str:
        """Return what is looked for as the job keeps it: nobody who reads the job reads it."""
        plain = json.dumps([[what.given, what.is_account] for what in texts]).encode()
        return base64.b64encode(self._box.seal(plain, owner=erasure_id.bytes)).decode()

    def _opened(self, erasure_id: UUID, sealed: str) -> list[Wanted]:
        try:
            plain = self._box.open(base64.b64decode(sealed), owner=erasure_id.bytes)
        except ConfigurationError:
            # ENCRYPTION_KEY was changed while the job waited.
            raise ConflictError("what was to be erased cannot be read any more: ask for the erasure again") from None
        return [Wanted(given, is_account=is_account) for given, is_account in json.loads(plain)]

    async def _user(self, last: AsyncExitStack, caller: Caller, given: ErasureCreate, outcome: Outcome) -> list[Wanted]:
        """Take a user's texts out of the control schema; return what is to be looked for in the environment."""
        connection = await last.enter_async_context(self._work.database.control())
        store = UserErasureStore(connection)
        user_id = given.user_id or UUID(int=0)
        user = await store.get(user_id, caller.tenant.tenant_id)
        if user is None:
            field = FieldError(pointer="/userId", code="unknown_user", detail="is no user of the tenant")
            raise ValidationFailedError.of(field)
        if user["status"] != "disabled":
            raise ConflictError("a user is to be disabled first")
        username = f"erased-{user_id}"
        await store.erase(user_id, username=username, at=self._work.clock.now())
        outcome.count("users")
        outcome.count("idempotency", await store.erase_answers(user, username=username))
        outcome.keep("users", "identity_provider", 1, None)
        if records := await store.records(user_id):
            outcome.keep("audit-log", "append_only", records, None)
        texts = [Wanted(text) for text in (user["email"], user["display_name"], user["username"]) if text]
        # One word is a word of others as well, a first name for example.
        return [what for what in texts if what.is_telling]


def _subject(given: ErasureCreate) -> tuple[ErasureSubject, str | None]:
    """Return of whom texts are erased, and the text that says so; None of a user.

    Raises
    ------
    ValidationFailedError
    """
    names = [name for name in _GIVEN if getattr(given, name) is not None]
    if len(names) != 1:
        detail = "exactly one of counterpartyName, counterpartyAccount and userId is required"
        raise ValidationFailedError.of(FieldError(pointer="", code="given_once", detail=detail))
    subject = _GIVEN[names[0]]
    if subject == "user":
        return subject, None
    text: str = getattr(given, names[0])
    what = wanted(subject, text)
    if what.is_too_short or what.is_in(ERASED):
        pointer = "/counterpartyAccount" if what.is_account else "/counterpartyName"
        detail = "would be found in texts that mean something else"
        raise ValidationFailedError.of(FieldError(pointer=pointer, code="too_short", detail=detail))
    return subject, text


async def _refuse_while_matching(store: ErasureStore) -> None:
    if await store.running("match"):
        raise MatchRunInProgressError("a matching run has read what is to be erased")


def _without(texts: list[Wanted], said: str) -> str:
    for what in texts:
        said = what.redacted(said)
    return said


def _told(outcome: Outcome) -> dict[str, Any]:
    return {
        "erased": [{"resource": name, "count": count} for name, count in sorted(outcome.erased.items())],
        "kept": [
            {"resource": name, "why": why, "count": count, "until": until.isoformat() if until else None}
            for (name, why), (count, until) in sorted(outcome.kept.items())
        ],
    }


def _record(row: dict[str, Any], action: str = "privacy.erased") -> Record:
    after: dict[str, Any] = {name: row[name] for name in ("subject", "erased", "kept") if name in row}
    return Record(action=action, resource_id=row["id"], reason=row["reason"], after=after)


def _logged(row: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    kept = sum(count for count, _ in outcome.kept.values())
    return {
        "erasure_id": str(row["id"]),
        "subject": row["subject"],
        "erased": sum(outcome.erased.values()),
        "kept": kept,
    }


def _public(row: dict[str, Any]) -> ErasurePublic:
    return ErasurePublic.model_validate({"updated_at": row["created_at"], "version": 1, **row})
