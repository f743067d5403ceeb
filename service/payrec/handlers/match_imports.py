"""``/matches/import``: decisions that were made before, elsewhere."""

from __future__ import annotations

from fastapi.responses import Response

from payrec.errors import PayloadTooLargeError, UnreadableFileError, ValidationFailedError
from payrec.handlers.bodies import received, upload_body
from payrec.handlers.context import Context, problems, respond_import
from payrec.handlers.routing import GatedRouter
from payrec.models.imports import ImportPublic
from payrec.models.match_imports import MatchImportOptions

router = GatedRouter(tags=["matches"])


@router.post(
    "/matches/import",
    summary="Import decisions",
    status_code=201,
    response_model=ImportPublic,
    responses={
        200: {"description": "The same file with the same options came before: its import.", "model": ImportPublic},
        202: {"description": "A worker reads the file; Location is its job.", "model": ImportPublic},
        **problems(UnreadableFileError, ValidationFailedError, PayloadTooLargeError),
    },
    openapi_extra=upload_body(MatchImportOptions),
)
async def upload(context: Context) -> Response:
    """Upload JSON, JSON lines or a CSV of decisions that were made before, each of which becomes an accepted match.

    A record names its transactions by `expectedExternalId` and `incomingExternalId`, or by what the bank says of the
    line (`incomingBookingDate`, `incomingAccount`, …), and says `amountMinor` or `amount`, `decidedAt`, `decidedBy` and
    whether it was `reviewed`; in JSON also `legs` and `adjustments`. Matching learns from what was reviewed.
    """
    async with received(context.request, MatchImportOptions) as (file, options):
        created, status = await context.factory.create_import_service().upload(context.caller, file, options)
    return respond_import(created, status)
