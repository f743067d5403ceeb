"""``/auth/api-keys``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import ConflictError, InvalidCursorError, NotFoundError, ValidationFailedError
from payrec.handlers.context import Context, ResourceId, problems, query_of, query_parameters, respond, respond_page
from payrec.handlers.routing import GatedRouter
from payrec.models.api_keys import ApiKeyCreate, ApiKeyCreated, ApiKeyPublic, ApiKeyQuery
from payrec.models.common import Page

ApiKeyList = Annotated[ApiKeyQuery, Depends(query_of(ApiKeyQuery))]

router = GatedRouter(tags=["auth"])


@router.post(
    "/auth/api-keys",
    summary="Create an API key",
    status_code=201,
    response_model=ApiKeyCreated,
    responses=problems(ConflictError, ValidationFailedError),
)
async def create(context: Context, given: ApiKeyCreate) -> Response:
    """Create a key for the request's tenant and environment. Its secret is in this answer only."""
    created = await context.factory.create_api_key_service().create(context.caller, given)
    return respond(created, 201, created.headers)


@router.get(
    "/auth/api-keys",
    summary="List API keys",
    response_model=Page[ApiKeyPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(ApiKeyQuery),
)
async def list_(context: Context, query: ApiKeyList) -> Response:
    """List the keys of the request's environment, without secrets."""
    page = await context.factory.create_api_key_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/auth/api-keys/{key_id}",
    summary="Get an API key",
    response_model=ApiKeyPublic,
    responses=problems(NotFoundError),
)
async def get(context: Context, key_id: ResourceId) -> Response:
    """Return one key's metadata."""
    return respond(await context.factory.create_api_key_service().get(context.caller, key_id))


@router.delete(
    "/auth/api-keys/{key_id}", summary="Revoke an API key", status_code=204, responses=problems(NotFoundError)
)
async def revoke(context: Context, key_id: ResourceId) -> Response:
    """Revoke a key; it is refused from the next request on. Again is the same."""
    await context.factory.create_api_key_service().revoke(context.caller, key_id)
    return Response(status_code=204)
