"""Webhooks and their deliveries on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema, field_validator, model_validator
from pydantic_core import PydanticCustomError

from payrec.constants.events import WEBHOOK_REDELIVERED_IDS_MAX, WEBHOOK_URL_LENGTH_MAX
from payrec.domain.events import ALL_EVENTS, EVENT_TYPES
from payrec.models.common import Instant, ListQuery, Public, Request, Resource, Text


def _known(value: str) -> str:
    if value != ALL_EVENTS and value not in EVENT_TYPES:
        raise PydanticCustomError("unknown_event", "must be a type of event, or * for all")
    return value


Url = Annotated[
    str,
    StringConstraints(min_length=1, max_length=WEBHOOK_URL_LENGTH_MAX),
    Field(description="https; no internal address, no credentials."),
]
WantedEvent = Annotated[
    str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": [ALL_EVENTS, *sorted(EVENT_TYPES)]})
]
WantedEvents = Annotated[list[WantedEvent], Field(min_length=1, max_length=len(EVENT_TYPES) + 1)]
EventId = Annotated[UUID, Field(strict=False)]
WebhookStatus = Literal["active", "disabled"]
DeliveryStatus = Literal["pending", "succeeded", "failed"]
RedeliveredStatus = Literal["missed", "failed", "succeeded"]

NEVER_ARRIVED: Final[tuple[RedeliveredStatus, ...]] = ("missed", "failed")
"""Of events that were given up, or came while the endpoint was disabled (missed)."""


class WebhookCreate(Request):
    """A new endpoint, told of events from now on."""

    url: Url
    events: WantedEvents
    description: Text | None = None


class WebhookPatch(Request):
    """What can be changed; null removes the description. An endpoint made active is told of events from then on."""

    url: Url | None = None
    events: WantedEvents | None = None
    description: Text | None = None
    status: WebhookStatus | None = None

    @field_validator("url", "events", "status")
    @classmethod
    def _kept(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError("not_removable", "cannot be removed")
        return value


class WebhookPublic(Resource):
    """An endpoint without its secret."""

    collection: ClassVar[str] = "/webhooks"

    url: str
    events: list[str]
    description: str | None
    status: WebhookStatus
    disabled_reason: Literal["requested", "gone", "failing"] | None
    failing_since: datetime | None
    previous_secret_until: datetime | None


class WebhookWithSecret(WebhookPublic):
    """A new endpoint, or one with a new secret, which is in this answer alone."""

    secret: str | None = Field(default=None, exclude_if=lambda v: v is None)


class WebhookQuery(ListQuery):
    """Filters of the endpoints."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: WebhookStatus | None = None


class WebhookDeliveryPublic(Public):
    """One event at one endpoint: how the last attempt went, and when the next one is."""

    id: UUID
    """Of the event; also the ``webhook-id``."""
    type: str
    resource_id: UUID
    status: DeliveryStatus
    attempts: int
    created_at: datetime
    attempted_at: datetime | None
    next_attempt_at: datetime | None
    duration_ms: int | None
    response_status: int | None
    response_excerpt: str | None
    error: str | None = Field(
        description="Why the last attempt failed. `secret_lost`: nothing is sent until the webhook has a new secret."
    )


class WebhookDeliveryQuery(ListQuery):
    """Filters of the deliveries."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: DeliveryStatus | None = None
    type: Text | None = None
    resource_id: UUID | None = None


class WebhookRedeliver(Request):
    """Which events are delivered again: those named, or all since an instant that have never arrived."""

    event_ids: Annotated[list[EventId], Field(min_length=1, max_length=WEBHOOK_REDELIVERED_IDS_MAX)] | None = None
    since: Instant | None = None

    @model_validator(mode="after")
    def _one(self) -> WebhookRedeliver:
        if (self.event_ids is None) == (self.since is None):
            raise PydanticCustomError("event_ids_or_since", "exactly one of eventIds and since is required")
        return self


class WebhookRedelivered(Public):
    """How many deliveries were begun again."""

    count: int
    has_more: bool = Field(description="There are more since that instant; ask again.")


class RedeliverParams(Request):
    """The ``params`` of a job of kind ``redeliver``: which events of a time one endpoint is told of again."""

    webhook_id: Annotated[UUID, Field(strict=False)]
    from_: Annotated[Instant, Field(alias="from")]
    to: Instant | None = None
    status: list[RedeliveredStatus] = Field(
        default_factory=lambda: list(NEVER_ARRIVED),
        min_length=1,
        max_length=3,
        description="Without it, what never arrived: missed and failed ones.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> RedeliverParams:
        if self.to is not None and self.to < self.from_:
            raise PydanticCustomError("range_reversed", "to must not be before from")
        return self


class RedeliverResult(Public):
    """The ``result`` of a job of kind ``redeliver``; of one that was broken off, what it had begun until then."""

    count: int
    """Deliveries that were begun again."""
    has_more: bool = Field(description="There are more, or may be; start another job.")
    position: int | None = Field(default=None, description="Up to which place of the feed it has come while it runs.")
    through: int | None = Field(default=None, description="The last place that it looks at.")


class WebhookTested(Public):
    """What a test message came to."""

    succeeded: bool
    response_status: int | None
    duration_ms: int
    response_excerpt: str | None
    error: str | None
