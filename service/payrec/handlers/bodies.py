"""Bodies that are not one JSON document: forms, and uploads that stream to a spool file."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel
from python_multipart.multipart import MultipartParser, parse_options_header

from payrec.domain.disk import disk_room
from payrec.errors import BadRequestError, FieldError, ValidationFailedError
from payrec.handlers.context import once
from payrec.models.imports import UploadOptions
from payrec.services.imports import UploadedFile
from payrec.services.validation import validated

M = TypeVar("M", bound=BaseModel)

FORM_FIELDS_MAX: Final = 20
"""Fields of a form."""

FORM_BOUNDARY_LENGTH_MAX: Final = 70
"""RFC 2046 section 5.1.1."""

FORM_FIELD_BYTES_MAX: Final = 64 * 1024
"""Bytes of one field of a form that is not the file."""

NAME_LENGTH_MAX: Final = 255
"""Characters of a file's name."""

SPOOL_MEMORY_BYTES: Final = 1024 * 1024
"""Bytes of an upload that stay in memory; more goes to a file that is deleted with it."""

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")


def upload_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return what the OpenAPI document says of an upload whose options are those of a model."""
    schema = model.model_json_schema(by_alias=True)
    options, required = schema["properties"], ["file", *schema.get("required", ())]
    binary = {"type": "string", "format": "binary"}
    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {"type": "object", "required": required, "properties": {"file": binary, **options}}
                },
                "application/octet-stream": {"schema": binary},
                "application/x-ndjson": {"schema": binary},
                "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
            },
        },
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in options.items()
        ],
    }


async def form_or_json(request: Request) -> Any:
    """Return the members of a JSON object or of a form (``application/x-www-form-urlencoded``).

    Raises
    ------
    BadRequestError
    """
    state = request.scope["state"]
    if "json" in state:
        return state["json"]
    try:
        pairs = parse_qsl(
            (await request.body()).decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=FORM_FIELDS_MAX
        )
    except ValueError:
        raise BadRequestError("the body is not a form") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadRequestError("the form names a field twice")
    return found


class _Spool:
    """Receives a file: in memory while it is small, counted and hashed."""

    def __init__(self) -> None:
        self.stream = tempfile.SpooledTemporaryFile(max_size=SPOOL_MEMORY_BYTES)  # noqa: SIM115 - closed by the caller
        self.size = 0
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.stream.write(data)
        self.size += len(data)
        self._hash.update(data)

    def file(self, name: str) -> UploadedFile:
        self.stream.seek(0)
        clean = _UNPRINTABLE.sub("", name.replace("\\", "/").rsplit("/", 1)[-1])[:NAME_LENGTH_MAX] or "upload"
        return UploadedFile(self.stream, name=clean, size=self.size, sha256=self._hash.digest())  # type: ignore[arg-type]


@asynccontextmanager
async def uploaded(request: Request) -> AsyncIterator[tuple[UploadedFile, UploadOptions]]:
    """Receive an upload of transactions; as ``received``."""
    async with received(request, UploadOptions) as (file, given):
        media_type, _ = parse_options_header(request.headers.get("content-type", ""))
        options = given
        if media_type == b"application/json" and given.format == "auto":
            options = given.model_copy(update={"format": "json"})
        elif media_type == b"application/x-ndjson" and given.format == "auto":
            options = given.model_copy(update={"format": "jsonl"})
        yield file, options


@asynccontextmanager
async def received(request: Request, model: type[M]) -> AsyncIterator[tuple[UploadedFile, M]]:
    """Receive a file and its options whole; what was received is gone when the context ends, however it ends.

    Raises
    ------
    BadRequestError, ValidationFailedError, PayloadTooLargeError
    StorageFullError
        There is no room for it.
    """
    spool = _Spool()
    with disk_room():
        try:
            media_type, parameters = parse_options_header(request.headers.get("content-type", ""))
            options: Mapping[str, str] = once(request.query_params.multi_items())
            name = "upload"
            if media_type == b"multipart/form-data":
                form = await _Multipart(parameters.get(b"boundary", b""), spool).read(request)
                if options:
                    pointer = min(options)
                    raise ValidationFailedError.of(
                        FieldError(pointer=pointer, code="extra_forbidden", detail="options of a form are its fields")
                    )
                options, name = form.fields, form.name
            else:
                async for chunk in request.stream():
                    spool.write(chunk)
            given = validated(model, options)
            file = spool.file(name)
            state = request.scope["state"]
            # Whatever becomes of the request, another file is another request.
            state["caller"] = state["caller"].asking(file.sha256 + given.model_dump_json().encode())
            yield file, given
        finally:
            spool.stream.close()


class _Multipart:
    """A form with exactly one file, streamed: the file to the spool, the fields to memory within their limits."""

    def __init__(self, boundary: bytes, spool: _Spool) -> None:
        if not boundary or len(boundary) > FORM_BOUNDARY_LENGTH_MAX:
            raise BadRequestError(f"the multipart body needs a boundary of 1 to {FORM_BOUNDARY_LENGTH_MAX} characters")
        self.fields: dict[str, str] = {}
        self.name = "upload"
        self._spool = spool
        self._files = 0
        self._headers: dict[bytes, bytes] = {}
        self._header = (bytearray(), bytearray())
        self._field: str | None = None
        self._value = bytearray()
        self._ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_end": self._finish,
            },
        )

    async def read(self, request: Request) -> _Multipart:
        try:
            begun = False
            async for chunk in request.stream():
                # After a line break in front of the first part the parser skips what comes up to a hyphen, or up to the
                # end of what it was given: the same body would be read or refused by how it came in.
                first = chunk if begun else chunk.lstrip(b"\r\n")
                begun = begun or bool(first)
                self._parser.write(first)
            self._parser.finalize()
        except ValueError as error:
            if isinstance(error, UnicodeDecodeError) or type(error).__module__.startswith("python_multipart"):
                raise BadRequestError("the multipart body is malformed") from None
            raise
        if not self._ended:
            raise BadRequestError("the multipart body ends too early")
        if self._files != 1:
            raise ValidationFailedError.of(
                FieldError(pointer="/file", code="missing", detail="exactly one field named file is required")
            )
        return self

    def _begin(self) -> None:
        self._headers = {}
        self._header = (bytearray(), bytearray())
        self._field = None
        self._value = bytearray()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header[0].extend(data[start:end])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1].extend(data[start:end])

    def _header_end(self) -> None:
        self._headers[bytes(self._header[0]).lower()] = bytes(self._header[1])
        self._header = (bytearray(), bytearray())

    def _headers_finished(self) -> None:
        _, parameters = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = parameters.get(b"name", b"").decode("utf-8", "replace")
        if name == "file":
            self._files += 1
            self._field = None
            self.name = parameters.get(b"filename", b"upload").decode("utf-8", "replace")
            if self._files > 1:
                raise BadRequestError("the form has more than one file")
            return
        if name in self.fields or len(self.fields) >= FORM_FIELDS_MAX:
            raise BadRequestError("the form names a field twice, or has too many")
        self._field = name

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self._spool.write(data[start:end])
            return
        self._value.extend(data[start:end])
        if len(self._value) > FORM_FIELD_BYTES_MAX:
            raise BadRequestError("a field of the form is too long")

    def _end(self) -> None:
        if self._field is not None:
            self.fields[self._field] = self._value.decode("utf-8")

    def _finish(self) -> None:
        self._ended = True
