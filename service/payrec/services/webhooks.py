"""Webhooks: endpoints that are told of events, their secrets, and what became of deliveries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import structlog
from pydantic_core import to_json

from payrec.constants.events import (
    WEBHOOK_REDELIVERIES_MAX,
    WEBHOOK_SECRET_OVERLAP,
    WEBHOOK_TEST_WAIT_SECONDS,
    WEBHOOKS_MAX,
)
from payrec.domain.addresses import Destinations, UrlRefusedError
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.events import TEST_EVENT_TYPE
from payrec.errors import ConfigurationError, ConflictError, FieldError, NotFoundError, UrlNotAllowedError
from payrec.models.common import Page
from payrec.models.webhooks import (
    NEVER_ARRIVED,
    WebhookCreate,
    WebhookDeliveryPublic,
    WebhookDeliveryQuery,
    WebhookPatch,
    WebhookPublic,
    WebhookQuery,
    WebhookRedeliver,
    WebhookRedelivered,
    WebhookTested,
    WebhookWithSecret,
)
from payrec.services.paging import Pager
from payrec.services.validation import check_version, identifier
from payrec.services.webhook_secrets import WebhookSecrets
from payrec.services.work import Unit, Work
from payrec.shares import TenantShares
from payrec.storage.events import EventStore
from payrec.storage.listing import BY_CREATION
from payrec.storage.webhook_deliveries import BY_EVENT, WebhookDeliveryStore
from payrec.storage.webhooks import WebhookStore

if TYPE_CHECKING:
    from payrec.services.webhook_sender import WebhookSender

COLLECTION: Final = "/webhooks"

_NO_RETRY: Final = {"failures": 0, "failing_since": None, "paused_until": None}


class WebhookService:
    """Keeps the endpoints of the caller's tenant environment."""

    def __init__(
        self,
        *,
        work: Work,
        pager: Pager,
        secrets: WebhookSecrets,
        destinations: Destinations,
        sender: Callable[[], WebhookSender],
        tests: TenantShares,
    ) -> None:
        self._work = work
        self._pager = pager
        self._secrets = secrets
        self._destinations = destinations
        self._sender = sender
        self._tests = tests
        self._logger = structlog.get_logger("payrec.webhooks")

    async def create(self, caller: Caller, given: WebhookCreate) -> WebhookWithSecret:
        """Add an endpoint. Its secret is in this answer and nowhere else; a replayed answer is without it.

        Raises
        ------
        UrlNotAllowedError
            The address names one that nothing is sent to.
        ConflictError
            The environment has as many endpoints as it may.
        """
        self._check_url(given.url)
        webhook_id = self._work.ids.new()
        secret, sealed = self._secrets.make(webhook_id)
        async with self._work.tenant(caller) as unit:
            store = WebhookStore(unit.connection)
            if await store.count() >= WEBHOOKS_MAX:
                raise ConflictError(f"an environment has at most {WEBHOOKS_MAX} webhooks; delete one first")
            await store.add(
                {
                    "id": webhook_id,
                    "position": await EventStore(unit.connection).head(),
                    "created_at": unit.now,
                    "updated_at": unit.now,
                    "url": given.url,
                    "status": "active",
                    "description": given.description,
                    "events": given.events,
                    "secret_sealed": sealed,
                }
            )
            public = WebhookWithSecret.model_validate(await self._stored(unit, webhook_id))
            after = {"url": given.url, "events": given.events}
            unit.record(Record(action="webhook.created", resource_id=webhook_id, after=after))
            unit.answer(201, public, public.headers)
        return public.model_copy(update={"secret": secret})

    async def get(self, caller: Caller, webhook_id: str) -> WebhookPublic:
        """Return an endpoint.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await WebhookStore(connection).get(identifier(webhook_id))
        if row is None:
            raise NotFoundError
        return WebhookPublic.model_validate(row)

    async def page(self, caller: Caller, query: WebhookQuery) -> Page[WebhookPublic]:
        """Return a page of the endpoints.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await WebhookStore(connection).page(listing.request, query)
        return listing.page(
            WebhookPublic,
            rows,
            more=more,
        )

    async def patch(self, caller: Caller, webhook_id: str, given: WebhookPatch, if_match: str | None) -> WebhookPublic:
        """Change an endpoint. One that is disabled gives up what was to be delivered; active again, it begins anew.

        Raises
        ------
        NotFoundError, VersionMismatchError, UrlNotAllowedError
        """
        if given.url is not None:
            self._check_url(given.url)
        async with self._work.tenant(caller) as unit:
            store, before = await self._locked(unit, webhook_id)
            check_version(if_match, before["version"])
            after = given.model_dump(exclude_unset=True)
            changes = dict(after)
            if given.url is not None and given.url != before["url"]:
                changes |= _NO_RETRY  # whoever failed was at the other address
            if given.status is not None and given.status != before["status"]:
                changes["disabled_reason"] = "requested" if given.status == "disabled" else None
                changes |= {"lease_until": None, **_NO_RETRY}
                if given.status == "active":
                    changes["position"] = await EventStore(unit.connection).head()
                else:
                    await WebhookDeliveryStore(unit.connection, before["id"]).end_pending(error="webhook_disabled")
            if changes:
                await store.update(before["id"], changes, at=unit.now)
            await store.schedule(before["id"], caller.tenant.environment_id, unit.now)
            told = {name: before[name] for name in after}
            unit.record(Record(action="webhook.updated", resource_id=before["id"], before=told, after=after))
            if changes.get("disabled_reason") == "requested":
                data = {"reason": "requested"}
                unit.record(Record(action="webhook.disabled", resource_id=before["id"], data=data))
            public = WebhookPublic.model_validate(await self._stored(unit, before["id"]))
            unit.answer(200, public, {"ETag": public.headers["ETag"]})
        return public

    async def delete(self, caller: Caller, webhook_id: str, if_match: str | None) -> None:
        """Delete an endpoint; nothing more is sent to it but what is under way.

        Raises
        ------
        NotFoundError, VersionMismatchError
        """
        async with self._work.tenant(caller) as unit:
            store, before = await self._locked(unit, webhook_id)
            check_version(if_match, before["version"])
            await store.delete(before["id"])
            await store.schedule(before["id"], caller.tenant.environment_id, unit.now)
            unit.record(Record(action="webhook.deleted", resource_id=before["id"], before={"url": before["url"]}))

    async def rotate(self, caller: Caller, webhook_id: str, if_match: str | None) -> WebhookWithSecret:
        """Give an endpoint a new secret; those before sign as well for ``WEBHOOK_SECRET_OVERLAP``.

        Raises
        ------
        NotFoundError, VersionMismatchError
        """
        async with self._work.tenant(caller) as unit:
            store, before = await self._locked(unit, webhook_id)
            check_version(if_match, before["version"])
            secret, sealed = self._secrets.make(before["id"])
            changes = {
                "secret_sealed": sealed,
                "previous_secret_sealed": self._secrets.before(before, now=unit.now),
                "previous_secret_until": unit.now + WEBHOOK_SECRET_OVERLAP,
            }
            await store.update(before["id"], changes, at=unit.now)
            unit.record(Record(action="webhook.secret_rotated", resource_id=before["id"]))
            public = WebhookWithSecret.model_validate(await self._stored(unit, before["id"]))
            unit.answer(200, public, public.headers)
        return public.model_copy(update={"secret": secret})

    async def test(self, caller: Caller, webhook_id: str) -> WebhookTested:
        """Send a message of the type ``webhook.test`` at once, and return what came of it. It is in no feed or log.

        Raises
        ------
        NotFoundError
        ConflictError
            Its secret cannot be opened, so nothing can be signed for it until it has a new one.
        RateLimitedError
            As many of the tenant are under way as may be.
        """
        await self._work.check(caller, in_control=False)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await WebhookStore(connection).get(identifier(webhook_id))
        if row is None:
            raise NotFoundError
        message_id, now = self._work.ids.new(), self._work.clock.now()
        message = {
            "id": message_id,
            "type": TEST_EVENT_TYPE,
            "timestamp": now,
            "tenantId": caller.tenant.tenant_id,
            "environment": caller.tenant.environment,
            "data": {"resourceType": "webhook", "resourceId": row["id"]},
        }
        try:
            keys = self._secrets.keys_of(row, now=now)
        except ConfigurationError:
            detail = "the stored secret cannot be opened any more: give the webhook a new one by its rotate-secret"
            raise ConflictError(detail) from None
        tenant_id, body = caller.tenant.tenant_id, to_json(message)
        share = await self._tests.taken(tenant_id, seconds=WEBHOOK_TEST_WAIT_SECONDS)
        try:
            async with self._sender() as sender:
                answer = await sender.send(row["url"], tenant_id=tenant_id, message_id=message_id, body=body, keys=keys)
        finally:
            share.release()
        tested = WebhookTested(
            succeeded=answer.is_success,
            response_status=answer.status,
            duration_ms=answer.duration_ms,
            response_excerpt=answer.excerpt,
            error=None if answer.is_success else answer.outcome,
        )
        async with self._work.tenant(caller) as unit:
            after = {"outcome": answer.outcome}
            unit.record(Record(action="webhook.tested", resource_id=row["id"], after=after))
            unit.answer(200, tested)
        return tested

    async def deliveries(
        self, caller: Caller, webhook_id: str, query: WebhookDeliveryQuery
    ) -> Page[WebhookDeliveryPublic]:
        """Return a page of what became of events at an endpoint.

        Raises
        ------
        NotFoundError, InvalidCursorError
        """
        wanted = identifier(webhook_id)
        collection = f"{COLLECTION}/{webhook_id}/deliveries"
        listing = self._pager.listing(collection, query, BY_EVENT, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            if await WebhookStore(connection).get(wanted) is None:
                raise NotFoundError
            rows, more = await WebhookDeliveryStore(connection, wanted).page(listing.request, query)
        return listing.page(
            WebhookDeliveryPublic,
            rows,
            more=more,
        )

    async def redeliver(self, caller: Caller, webhook_id: str, given: WebhookRedeliver) -> WebhookRedelivered:
        """Have events delivered again, ``WEBHOOK_REDELIVERIES_MAX`` at a time; return how many were begun.

        Raises
        ------
        NotFoundError
        ConflictError
            The endpoint is disabled.
        """
        async with self._work.tenant(caller) as unit:
            store, before = await self._locked(unit, webhook_id)
            if before["status"] != "active":
                raise ConflictError("the webhook is disabled; make it active first")
            deliveries = WebhookDeliveryStore(unit.connection, before["id"])
            if given.since is not None:
                count = await deliveries.redeliver_between(
                    given.since, at=unit.now, limit=WEBHOOK_REDELIVERIES_MAX, states=NEVER_ARRIVED
                )
            else:
                count = await deliveries.redeliver(given.event_ids or [], at=unit.now)
            await store.schedule(before["id"], caller.tenant.environment_id, unit.now)
            unit.record(Record(action="webhook.redelivered", resource_id=before["id"], after={"count": count}))
            public = WebhookRedelivered(count=count, has_more=count == WEBHOOK_REDELIVERIES_MAX)
            unit.answer(202, public)
        return public

    def _check_url(self, url: str) -> None:
        try:
            self._destinations.check_url(url)
        except UrlRefusedError as refused:
            field = FieldError(pointer="/url", code=refused.code, detail=refused.detail)
            raise UrlNotAllowedError(errors=[field]) from None

    async def _locked(self, unit: Unit, webhook_id: str) -> tuple[WebhookStore, dict[str, Any]]:
        store = WebhookStore(unit.connection)
        row = await store.get(identifier(webhook_id), lock=True)
        if row is None:
            raise NotFoundError
        return store, row

    @staticmethod
    async def _stored(unit: Unit, webhook_id: UUID) -> dict[str, Any]:
        row = await WebhookStore(unit.connection).get(webhook_id)
        if row is None:
            raise AssertionError("a webhook is there after it was stored")
        return row
