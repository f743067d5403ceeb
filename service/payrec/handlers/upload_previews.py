"""``/incoming-transactions/upload/preview``."""

from __future__ import annotations

from fastapi.responses import Response

from payrec.errors import (
    ConflictError,
    NotFoundError,
    PayloadTooLargeError,
    UnreadableFileError,
    ValidationFailedError,
)
from payrec.handlers.bodies import uploaded
from payrec.handlers.context import Context, problems
from payrec.handlers.incoming_transactions import UPLOAD_BODY
from payrec.handlers.routing import GatedRouter
from payrec.models.upload_previews import UploadPreview

router = GatedRouter(tags=["incoming transactions"])


@router.post(
    "/incoming-transactions/upload/preview",
    summary="Preview an upload",
    response_model=UploadPreview,
    responses=problems(UnreadableFileError, ValidationFailedError, PayloadTooLargeError, NotFoundError, ConflictError),
    openapi_extra=UPLOAD_BODY,
)
async def preview(context: Context) -> Response:
    """Read a file as an upload would, and store nothing: counts of all, and the first entries of each statement."""
    async with uploaded(context.request) as (file, options):
        document = await context.factory.upload_previews.preview(context.caller, file, options)
    return Response(document, media_type="application/json")
