"""Where stored files are kept outside the database: an object store, or a directory that all processes share.

The machine's own credentials are found by the library, in its variables or at the metadata service; the URL has none.
A directory is written here and not by that library, which does not flush what it writes: a file must be on the disk
before the row is that names it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import obstore
import structlog
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from payrec.connectors.objectstore import GONE, refusal_of
from payrec.constants.blobs import (
    BLOB_CONNECT_SECONDS,
    BLOB_PART_BYTES,
    BLOB_PARTS_AT_ONCE,
    BLOB_RANGE_BYTES,
    BLOB_REQUEST_SECONDS,
    BLOB_RETRIES_MAX,
    BLOB_RETRY_SECONDS,
    BLOB_WRITE_SECONDS,
    BLOBS_LISTED_AT_ONCE,
)
from payrec.domain.blob_places import BlobPlace
from payrec.domain.blobs import StoredObject
from payrec.domain.disk import disk_room
from payrec.errors import ConfigurationError, NotFoundError, PayrecError, UnavailableError

_UNFINISHED: Final = ".part"
"""How the name of a file ends that is being written to a directory."""

_STORES: Final[dict[str, type[S3Store | GCSStore | AzureStore]]] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}

_Result = TypeVar("_Result")

_logger = structlog.get_logger("payrec.blobs")


class RemoteObjects:
    """A part of a bucket of Amazon S3 and what speaks like it, of Google Cloud Storage, or of Azure Blob Storage."""

    def __init__(self, place: BlobPlace) -> None:
        """Find the credentials of this process.

        Raises
        ------
        ConfigurationError
            What the variables say cannot be used.
        """
        given: dict[str, Any] = {
            "prefix": place.path or None,
            "client_options": {
                "allow_http": True,  # of an endpoint within the network that a variable names so; else it is https
                "connect_timeout": timedelta(seconds=BLOB_CONNECT_SECONDS),
                "timeout": timedelta(seconds=BLOB_REQUEST_SECONDS),
            },
            "retry_config": {
                "max_retries": BLOB_RETRIES_MAX,
                "retry_timeout": timedelta(seconds=BLOB_RETRY_SECONDS),
            },
        }
        if place.scheme == "s3":
            given["disable_bulk_delete"] = True  # not everything that speaks like S3 knows it
        try:
            self._store: ObjectStore = _STORES[place.scheme](place.container, **given)
        except (exceptions.BaseError, ValueError):
            # Its text may have the credentials that cannot be used.
            raise ConfigurationError("BLOB_URL cannot be used with the variables of its object store") from None

    async def put(self, name: str, stream: BinaryIO) -> None:
        """Write a file whole, or not at all; it can be read when this returns."""
        with _answered("put"):
            async with asyncio.timeout(BLOB_WRITE_SECONDS):
                first = await asyncio.to_thread(stream.read, BLOB_PART_BYTES)
                if len(first) < BLOB_PART_BYTES:
                    await obstore.put_async(self._store, name, first, use_multipart=False)
                    return
                await obstore.put_async(
                    self._store,
                    name,
                    _parts(first, stream),
                    chunk_size=BLOB_PART_BYTES,
                    max_concurrency=BLOB_PARTS_AT_ONCE,
                )

    async def chunks(self, name: str, *, size: int) -> AsyncIterator[bytes]:
        """Yield a file of ``size`` bytes, a request for each range of it."""
        for start in range(0, size, BLOB_RANGE_BYTES):
            length = min(BLOB_RANGE_BYTES, size - start)
            with _answered("get"):
                data = bytes(await obstore.get_range_async(self._store, name, start=start, length=length))
            yield _whole(data, length)

    async def listed(self, prefix: str) -> AsyncIterator[Sequence[StoredObject]]:
        """Yield what is below a prefix, which ends at a slash, page by page."""
        with _answered("list"):
            async for page in obstore.list(self._store, prefix.rstrip("/"), chunk_size=BLOBS_LISTED_AT_ONCE):
                yield [StoredObject(meta["path"], meta["last_modified"]) for meta in page]

    async def delete(self, names: Sequence[str]) -> None:
        """Delete files; one that is not there is no error."""
        with _answered("delete"):
            for name in names:
                with contextlib.suppress(*GONE):
                    await obstore.delete_async(self._store, name)


class DirectoryObjects:
    """A directory, which has to be there: one that is made here would be the pod's own, and gone with it."""

    def __init__(self, place: BlobPlace) -> None:
        self._root = Path(place.path)

    async def put(self, name: str, stream: BinaryIO) -> None:
        """Write a file whole, or not at all; it is on the disk when this returns.

        Raises
        ------
        StorageFullError
        """
        await self._done("put", lambda: self._put(self._root / name, stream))

    async def chunks(self, name: str, *, size: int) -> AsyncIterator[bytes]:
        """Yield a file of ``size`` bytes."""
        for start in range(0, size, BLOB_RANGE_BYTES):
            length = min(BLOB_RANGE_BYTES, size - start)
            yield _whole(await self._done("get", _reading(self._root / name, start, length)), length)

    async def listed(self, prefix: str) -> AsyncIterator[Sequence[StoredObject]]:
        """Yield what is below a prefix, which ends at a slash, also what was never finished."""
        found = await self._done("list", lambda: self._list(prefix))
        for start in range(0, len(found), BLOBS_LISTED_AT_ONCE):
            yield found[start : start + BLOBS_LISTED_AT_ONCE]

    async def delete(self, names: Sequence[str]) -> None:
        """Delete files; one that is not there is no error."""

        def delete() -> None:
            for name in names:
                (self._root / name).unlink(missing_ok=True)

        await self._done("delete", delete)

    async def _done(self, what: str, work: Callable[[], _Result]) -> _Result:
        """Do in a thread what waits for a disk, which may be a network's."""
        with _answered(what):
            if not await asyncio.to_thread(self._root.is_dir):
                raise NotADirectoryError
            with disk_room():
                return await asyncio.to_thread(work)

    def _put(self, path: Path, stream: BinaryIO) -> None:
        self._make(path.parent)
        part = path.with_name(path.name + _UNFINISHED)
        try:
            with part.open("xb") as file:
                while data := stream.read(BLOB_PART_BYTES):
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        _flush(path.parent)

    def _make(self, directory: Path) -> None:
        if directory != self._root and not directory.is_dir():
            self._make(directory.parent)
            directory.mkdir(mode=0o700, exist_ok=True)
            _flush(directory.parent)

    def _list(self, prefix: str) -> list[StoredObject]:
        found = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._root / prefix) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # deleted while it was looked at
                    modified_at = datetime.fromtimestamp(entry.stat(follow_symlinks=False).st_mtime, UTC)
                    found.append(StoredObject(prefix + entry.name, modified_at))
        return found


def objects_at(place: BlobPlace) -> RemoteObjects | DirectoryObjects:
    """Return what reads and writes at a place; nobody is asked yet.

    Raises
    ------
    ConfigurationError
    """
    return DirectoryObjects(place) if place.scheme == "file" else RemoteObjects(place)


async def _parts(first: bytes, stream: BinaryIO) -> AsyncIterator[bytes]:
    data = first
    while data:
        yield data
        data = await asyncio.to_thread(stream.read, BLOB_PART_BYTES)


def _reading(path: Path, start: int, length: int) -> Callable[[], bytes]:
    def read() -> bytes:
        with path.open("rb") as file:
            return os.pread(file.fileno(), length, start)

    return read


def _flush(directory: Path) -> None:
    """Put on the disk which files a directory has."""
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _whole(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise UnavailableError("a stored file is shorter than it was")
    return data


@contextmanager
def _answered(what: str) -> Iterator[None]:
    """Turn what goes wrong into what a request or a job may fail with; the log has the cause, without its text.

    Raises
    ------
    NotFoundError
        The object is not there.
    UnavailableError
        The object store does not answer, or refuses; StorageFullError where it has no room.
    """
    try:
        yield
    except PayrecError as error:
        _logger.warning("blobs.failed", what=what, error=type(error).__name__, code=error.code)
        raise
    except GONE as error:
        if what == "get" and "NoSuchBucket" not in str(error) and "ContainerNotFound" not in str(error):
            raise NotFoundError("the file is not there any more") from None
        _logger.warning("blobs.failed", what=what, error=type(error).__name__, code="not_found")
        raise UnavailableError("the object store has no such bucket") from None
    except (exceptions.BaseError, ValueError, OSError, TimeoutError) as error:
        found = refusal_of(error)
        _logger.warning("blobs.failed", what=what, error=type(error).__name__, code=found[0] if found else None)
        raise UnavailableError("files cannot be stored or read at present") from None
