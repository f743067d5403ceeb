"""``/accounts``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import (
    AccountTakenError,
    InvalidCursorError,
    NotFoundError,
    PeriodLockedError,
    ValidationFailedError,
    VersionMismatchError,
)
from payrec.handlers.context import (
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
from payrec.models.accounts import (
    AccountCreate,
    AccountPublic,
    AccountQuery,
    AccountUpdate,
    BookBalancePublic,
    BookBalancePut,
)
from payrec.models.common import Page

AccountList = Annotated[AccountQuery, Depends(query_of(AccountQuery))]

router = GatedRouter(tags=["accounts"])


@router.post(
    "/accounts",
    summary="Create an account",
    status_code=201,
    response_model=AccountPublic,
    responses=problems(AccountTakenError, ValidationFailedError),
)
async def create(context: Context, given: AccountCreate) -> Response:
    """Say what an account is before its first line comes; whoever stores a line of a new one makes it as well."""
    created = await context.factory.create_account_service().create(context.caller, given)
    return respond(created, 201, created.headers)


@router.get(
    "/accounts",
    summary="List accounts",
    response_model=Page[AccountPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(AccountQuery),
)
async def list_(context: Context, query: AccountList) -> Response:
    """List accounts, each in one currency."""
    page = await context.factory.create_account_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/accounts/{account_id}",
    summary="Get an account",
    response_model=AccountPublic,
    responses=problems(NotFoundError),
)
async def get(context: Context, account_id: ResourceId) -> Response:
    """Return one account."""
    found = await context.factory.create_account_service().get(context.caller, account_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.patch(
    "/accounts/{account_id}",
    summary="Change an account",
    response_model=AccountPublic,
    responses=problems(NotFoundError, VersionMismatchError, ValidationFailedError),
)
async def patch(context: Context, account_id: ResourceId, given: AccountUpdate, if_match: IfMatch) -> Response:
    """Change what is given; without an opening balance of its own, an account has that of its earliest statement."""
    changed = await context.factory.create_account_service().update(context.caller, account_id, given, if_match)
    return respond(changed, headers={"ETag": changed.headers["ETag"]})


@router.put(
    "/accounts/{account_id}/book-balances",
    summary="Say what the books have",
    response_model=BookBalancePublic,
    responses=problems(NotFoundError, PeriodLockedError, ValidationFailedError),
)
async def put_book_balance(context: Context, account_id: ResourceId, given: BookBalancePut) -> Response:
    """Store the ledger's balance of the account at the end of a day, in the place of what was said of that day."""
    return respond(await context.factory.create_account_service().put_book_balance(context.caller, account_id, given))
