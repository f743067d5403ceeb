"""``/matching/aliases``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import InvalidCursorError, NotFoundError, ValidationFailedError
from payrec.handlers.context import (
    Context,
    ResourceId,
    problems,
    query_of,
    query_parameters,
    respond_page,
)
from payrec.handlers.routing import GatedRouter
from payrec.models.aliases import AliasPublic, AliasQuery
from payrec.models.common import Page

AliasList = Annotated[AliasQuery, Depends(query_of(AliasQuery))]

router = GatedRouter(tags=["matching"])


@router.get(
    "/matching/aliases",
    summary="List aliases",
    response_model=Page[AliasPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(AliasQuery),
)
async def list_(context: Context, query: AliasList) -> Response:
    """List the names on statements that matches have explained, newest first."""
    page = await context.factory.create_alias_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.delete(
    "/matching/aliases/{alias_id}", summary="Forget an alias", status_code=204, responses=problems(NotFoundError)
)
async def forget(context: Context, alias_id: ResourceId) -> Response:
    """Forget an alias for good: matches do not teach it again. Again is the same."""
    await context.factory.create_alias_service().forget(context.caller, alias_id)
    return Response(status_code=204)
