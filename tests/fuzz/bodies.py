"""What holds for any body of an upload: the same file and options however it comes in, or a typed refusal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request

from fuzz.cases import UNSTORABLE, finished
from payrec.domain.caller import Caller, IdempotentRequest
from payrec.domain.principal import ANONYMOUS
from payrec.errors import BadRequestError, PayrecError, ValidationFailedError
from payrec.handlers.bodies import received
from payrec.models.imports import UploadOptions
from payrec.services.read_options import read_options

_CALLER = Caller(
    principal=ANONYMOUS, request_id="fuzz", idempotency=IdempotentRequest(key=b"key", fingerprints=(b"whole",))
)


class _Upload:
    """As much of a request as the receiver of uploads looks at, its body in pieces."""

    def __init__(self, media_type: str, body: bytes, piece: int) -> None:
        self.headers = Headers({"content-type": media_type})
        self.query_params = QueryParams("")
        self.scope = {"state": {"caller": _CALLER}}
        self._pieces = [body[at : at + piece] for at in range(0, len(body), piece)]

    async def stream(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def _received(upload: _Upload) -> tuple[Any, ...]:
    try:
        async with received(cast("Request", upload), UploadOptions) as (file, options):
            content = file.stream.read()
            assert len(content) == file.size
            assert file.name.isprintable() or not UNSTORABLE.search(file.name)
            read_options(options)
            # However a body comes in, its repetition is known.
            return content, file.name, file.sha256, repr(options), upload.scope["state"]["caller"]
    except (BadRequestError, ValidationFailedError) as error:
        return _said(error)


def _said(error: PayrecError) -> tuple[Any, ...]:
    return error.code, sorted((field.pointer, field.code) for field in error.errors)


def check_upload(data: bytes) -> None:
    """Receive an upload in one piece and in small ones; the case is a media type, a line break and the body."""
    first, _, body = data.partition(b"\n")
    media_type = first.decode("latin-1")
    whole = finished(_received(_Upload(media_type, body, len(body) or 1)))
    for piece in (1, 2 + len(data) % 11):
        found = finished(_received(_Upload(media_type, body, piece)))
        assert found == whole, f"pieces of {piece} say something else"
