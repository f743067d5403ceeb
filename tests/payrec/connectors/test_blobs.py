"""Files outside the database: they come back as they were, nothing half is left, and what fails is said shortly."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from payrec.connectors.blobs import objects_at
from payrec.constants.blobs import BLOB_PART_BYTES, BLOB_RANGE_BYTES
from payrec.domain.blob_places import BlobPlace
from payrec.errors import ConfigurationError, NotFoundError, StorageFullError, UnavailableError
from payrec.factory.blobs import object_store
from payrec.services.blobs import ObjectStore
from support.blobs import KINDS, BucketShelf, DirectoryShelf, Shelf, shelf

pytestmark = pytest.mark.anyio


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shelf]:
    async with shelf(request.param, tmp_path) as made:
        yield made


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[DirectoryShelf]:
    async with shelf("file", tmp_path) as made:
        assert isinstance(made, DirectoryShelf)
        yield made


@pytest.fixture
async def bucket(tmp_path: Path) -> AsyncIterator[BucketShelf]:
    async with shelf("s3", tmp_path) as made:
        assert isinstance(made, BucketShelf)
        yield made


def opened(place: Shelf) -> ObjectStore:
    store = object_store(place.url)
    assert store is not None
    return store


def name() -> str:
    return f"{uuid4()}/{uuid4()}/{uuid4()}"


async def read(store: ObjectStore, path: str, size: int) -> list[bytes]:
    return [data async for data in store.chunks(path, size=size)]


async def listed(store: ObjectStore, prefix: str) -> dict[str, datetime]:
    return {found.name: found.modified_at async for page in store.listed(prefix) for found in page}


@pytest.mark.parametrize(
    "size", [0, 1, BLOB_RANGE_BYTES, BLOB_RANGE_BYTES + 1, BLOB_PART_BYTES, 2 * BLOB_PART_BYTES + 7]
)
async def test_a_file_comes_back_as_it_was_in_pieces_of_bounded_size(place: Shelf, size: int) -> None:
    store, path, data = opened(place), name(), os.urandom(size)
    await store.put(path, io.BytesIO(data))
    pieces = await read(store, path, size)
    assert b"".join(pieces) == data
    assert all(len(piece) <= BLOB_RANGE_BYTES for piece in pieces)
    assert place.names() == [path]


async def test_lists_have_what_is_below_a_prefix_and_nothing_else(place: Shelf) -> None:
    store, mine, other = opened(place), f"{uuid4()}/{uuid4()}/", f"{uuid4()}/{uuid4()}/"
    if isinstance(place, BucketShelf):
        place.bucket.page = 2
    names = {mine + str(number) for number in range(5)}
    for path in (*names, f"{other}6", f"{mine.rstrip('/')}0/7"):
        place.put(path)
    place.age(timedelta(hours=2))
    found = await listed(store, mine)
    assert set(found) == names
    ages = {round((datetime.now(UTC) - at) / timedelta(hours=1)) for at in found.values()}
    assert ages == {2}
    assert await listed(store, f"{uuid4()}/") == {}


async def test_what_is_deleted_is_gone_and_may_be_deleted_again(place: Shelf) -> None:
    store, paths = opened(place), [name(), name()]
    for path in paths:
        await store.put(path, io.BytesIO(b"x"))
    for _ in range(2):
        await store.delete([*paths[:1], name()])
        assert place.names() == paths[1:]
    with pytest.raises(NotFoundError):
        await read(store, paths[0], 1)


async def test_a_file_that_is_shorter_than_it_was_is_not_taken_for_whole(place: Shelf) -> None:
    store, path = opened(place), name()
    place.put(path, b"short")
    with pytest.raises(UnavailableError):
        await read(store, path, 6)


async def test_a_store_that_is_away_says_so_and_is_back_by_itself(place: Shelf) -> None:
    store, path = opened(place), name()
    await store.put(path, io.BytesIO(b"x"))
    place.fail(fails=True)
    with capture_logs() as logs:
        for attempt in (
            store.put(name(), io.BytesIO(b"y")),
            store.put(name(), io.BytesIO(bytes(2 * BLOB_PART_BYTES))),
            read(store, path, 1),
            listed(store, path.rpartition("/")[0] + "/"),
            store.delete([path]),
        ):
            with pytest.raises(UnavailableError) as failed:
                await attempt
            assert (failed.value.status, failed.value.code) == (503, "service_unavailable")
    assert [line["what"] for line in logs] == ["put", "put", "get", "list", "delete"]
    place.fail(fails=False)
    assert await read(store, path, 1) == [b"x"]
    assert place.names() == [path]


async def test_a_directory_that_is_not_there_is_not_made(directory: DirectoryShelf) -> None:
    store = objects_at(BlobPlace("file", "", str(directory.root / "mount")))
    with pytest.raises(UnavailableError):
        await store.put(name(), io.BytesIO(b"x"))
    assert not (directory.root / "mount").exists()
    assert directory.names() == []


async def test_a_full_disk_leaves_nothing_half(directory: DirectoryShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    store, path = opened(directory), name()

    def full(self: Path, mode: str) -> object:
        # The directory knows the file; what is written goes where there is no room.
        self.touch()
        return open("/dev/full", mode.replace("x", "w"), buffering=0)  # noqa: PTH123 - Path.open is replaced

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(StorageFullError) as failed:
            await store.put(path, io.BytesIO(b"x"))
    assert (failed.value.status, failed.value.code) == (507, "insufficient_storage")
    assert directory.names() == []
    await store.put(path, io.BytesIO(b"x"))
    assert directory.names() == [path]


async def test_what_was_never_finished_in_a_directory_is_listed_and_can_be_deleted(directory: DirectoryShelf) -> None:
    store, path = opened(directory), name()
    directory.put(f"{path}.part", b"half")
    with pytest.raises(NotFoundError):
        await read(store, path, 4)
    found = await listed(store, path.rpartition("/")[0] + "/")
    assert set(found) == {f"{path}.part"}
    await store.delete(list(found))
    assert directory.names() == []


async def test_files_in_a_directory_are_the_service_s_alone(directory: DirectoryShelf) -> None:
    await opened(directory).put(path := name(), io.BytesIO(b"x"))
    above = [directory.root / path.split("/")[0], (directory.root / path).parent]
    assert {folder.stat().st_mode & 0o077 for folder in above} == {0}


async def test_wrong_credentials_are_named_in_the_log_and_not_shown(
    bucket: BucketShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-wrong-secret")
    store = opened(bucket)
    with capture_logs() as logs, pytest.raises(UnavailableError) as failed:
        await store.put(name(), io.BytesIO(b"x"))
    [line] = logs
    assert (line["event"], line["what"], line["code"]) == ("blobs.failed", "put", "permission_denied")
    assert "very-wrong-secret" not in f"{logs}{failed.value!r}{failed.value.__cause__!r}"


async def test_a_bucket_that_is_not_there_is_no_file_that_is_gone(bucket: BucketShelf) -> None:
    bucket.url = "s3://nobodys-bucket"
    store = opened(bucket)
    for attempt in (store.put(name(), io.BytesIO(b"x")), read(store, name(), 1), listed(store, "a/")):
        with pytest.raises(UnavailableError):
            await attempt


@pytest.mark.parametrize("url", ["az://container/prefix", "gs://bucket"])
def test_variables_that_cannot_be_used_end_the_start(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", '{"private_key": "not-a-key-but-secret"')
    with pytest.raises(ConfigurationError) as failed:
        object_store(url)
    assert "secret" not in str(failed.value)
    assert failed.value.__cause__ is None


def test_who_keeps_files_elsewhere_loads_no_engine_for_it() -> None:
    program = "import sys, payrec.connectors.blobs; print(sorted({'polars', 'numpy', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
