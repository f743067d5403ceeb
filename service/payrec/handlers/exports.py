"""``/exports``."""

from __future__ import annotations

from fastapi.responses import Response, StreamingResponse

from payrec.errors import NotFoundError
from payrec.handlers.context import Context, ResourceId, problems
from payrec.handlers.downloads import FILE_MEDIA_TYPE, digest_headers, respond_download
from payrec.handlers.routing import GatedRouter

router = GatedRouter(tags=["exports"])


@router.get(
    "/exports/{export_id}/content",
    summary="Get an export's file",
    response_class=StreamingResponse,
    responses={
        200: {"content": {FILE_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
        **problems(NotFoundError),
    },
)
async def content(context: Context, export_id: ResourceId) -> Response:
    """Return the file of an export, until it expires."""
    found, chunks = await context.factory.create_export_service().content(context.caller, export_id)
    headers = {"Content-Length": str(found.bytes), **digest_headers(found.sha256)}
    return respond_download(chunks, name=found.name, media_type=FILE_MEDIA_TYPE, headers=headers)
