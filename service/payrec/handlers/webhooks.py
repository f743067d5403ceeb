"""``/webhooks`` and their deliveries."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import (
    ConflictError,
    InvalidCursorError,
    NotFoundError,
    UrlNotAllowedError,
    ValidationFailedError,
    VersionMismatchError,
)
from payrec.handlers.context import (
    NOTHING_GIVEN,
    Context,
    IfMatch,
    ResourceId,
    problems,
    query_of,
    query_parameters,
    respond,
    respond_page,
)
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.webhooks import (
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

WebhookList = Annotated[WebhookQuery, Depends(query_of(WebhookQuery))]
DeliveryList = Annotated[WebhookDeliveryQuery, Depends(query_of(WebhookDeliveryQuery))]

router = GatedRouter(tags=["webhooks"])


@router.post(
    "/webhooks",
    summary="Create a webhook",
    status_code=201,
    response_model=WebhookWithSecret,
    responses=problems(ConflictError, UrlNotAllowedError, ValidationFailedError),
)
async def create(context: Context, given: WebhookCreate) -> Response:
    """Add an endpoint that is told of events from now on. Its secret is in this answer only."""
    created = await context.factory.webhooks.create_service().create(context.caller, given)
    return respond(created, 201, created.headers)


@router.get(
    "/webhooks",
    summary="List webhooks",
    response_model=Page[WebhookPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(WebhookQuery),
)
async def list_(context: Context, query: WebhookList) -> Response:
    """List the endpoints, without their secrets, newest first."""
    page = await context.factory.webhooks.create_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/webhooks/{webhook_id}", summary="Get a webhook", response_model=WebhookPublic, responses=problems(NotFoundError)
)
async def get(context: Context, webhook_id: ResourceId) -> Response:
    """Return one endpoint, without its secret."""
    found = await context.factory.webhooks.create_service().get(context.caller, webhook_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.patch(
    "/webhooks/{webhook_id}",
    summary="Change, disable or enable a webhook",
    response_model=WebhookPublic,
    responses=problems(NotFoundError, VersionMismatchError, UrlNotAllowedError, ValidationFailedError),
)
async def patch(context: Context, webhook_id: ResourceId, given: WebhookPatch, if_match: IfMatch) -> Response:
    """Change an endpoint. What waits for one that is disabled is given up; active again, it begins with new events."""
    changed = await context.factory.webhooks.create_service().patch(context.caller, webhook_id, given, if_match)
    return respond(changed, headers={"ETag": changed.headers["ETag"]})


@router.delete(
    "/webhooks/{webhook_id}",
    summary="Delete a webhook",
    status_code=204,
    responses=problems(NotFoundError, VersionMismatchError, ValidationFailedError),
)
async def delete(context: Context, webhook_id: ResourceId, if_match: IfMatch) -> Response:
    """Delete an endpoint; nothing more is sent to it but what is under way."""
    await context.factory.webhooks.create_service().delete(context.caller, webhook_id, if_match)
    return Response(status_code=204)


@router.post(
    "/webhooks/{webhook_id}/rotate-secret",
    summary="Give a webhook a new secret",
    dependencies=[NOTHING_GIVEN],
    response_model=WebhookWithSecret,
    responses=problems(NotFoundError, VersionMismatchError),
)
async def rotate_secret(context: Context, webhook_id: ResourceId, if_match: IfMatch) -> Response:
    """Make a new secret, which is in this answer only. Those before sign as well for 24 hours."""
    rotated = await context.factory.webhooks.create_service().rotate(context.caller, webhook_id, if_match)
    return respond(rotated, headers=rotated.headers)


@router.post(
    "/webhooks/{webhook_id}/test",
    summary="Send a test message",
    dependencies=[NOTHING_GIVEN],
    response_model=WebhookTested,
    responses=problems(NotFoundError, ConflictError),
)
async def test(context: Context, webhook_id: ResourceId) -> Response:
    """Send a message of the type `webhook.test` at once, and tell what came of it."""
    return respond(await context.factory.webhooks.create_service().test(context.caller, webhook_id))


@router.get(
    "/webhooks/{webhook_id}/deliveries",
    summary="List deliveries",
    response_model=Page[WebhookDeliveryPublic],
    responses=problems(NotFoundError, InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(WebhookDeliveryQuery),
)
async def deliveries(context: Context, webhook_id: ResourceId, query: DeliveryList) -> Response:
    """List what became of events at an endpoint, the newest event first."""
    page = await context.factory.webhooks.create_service().deliveries(context.caller, webhook_id, query)
    return respond_page(context, page, query)


@router.post(
    "/webhooks/{webhook_id}/redeliver",
    summary="Deliver events again",
    status_code=202,
    response_model=WebhookRedelivered,
    responses=problems(NotFoundError, ConflictError, ValidationFailedError),
)
async def redeliver(context: Context, webhook_id: ResourceId, given: WebhookRedeliver) -> Response:
    """Deliver the named events again, or all since an instant that have never arrived."""
    begun = await context.factory.webhooks.create_service().redeliver(context.caller, webhook_id, given)
    return respond(begun, 202)
