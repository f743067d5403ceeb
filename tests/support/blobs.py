"""Places outside the database where files are kept: a directory, and a bucket of a server that speaks S3."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from support.object_server import ACCESS_KEY, SECRET_KEY, Bucket, object_server

KINDS = ("file", "s3")
PREFIX = "pay/rec"
VARIABLES = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "eu-west-1"}


class Shelf(ABC):
    """What is at the place of a BLOB_URL, looked at from behind."""

    url: str

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of what is there, below the place."""

    @abstractmethod
    def age(self, by: timedelta) -> None:
        """Make everything older than it is."""

    @abstractmethod
    def put(self, name: str, data: bytes = b"x") -> None:
        """Put something there."""

    @abstractmethod
    def fail(self, *, fails: bool) -> None:
        """Let nothing be written or read any more, or again."""

    @abstractmethod
    def clear(self) -> None:
        """Take everything away."""


class DirectoryShelf(Shelf):
    """A directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = f"file://{root}"

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())

    def age(self, by: timedelta) -> None:
        for name in self.names():
            before = (self.root / name).stat().st_mtime - by.total_seconds()
            os.utime(self.root / name, (before, before))

    def put(self, name: str, data: bytes = b"x") -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(data)

    def fail(self, *, fails: bool) -> None:
        away = self.root.with_name(self.root.name + ".away")
        (self.root if fails else away).rename(away if fails else self.root)

    def clear(self) -> None:
        for name in self.names():
            (self.root / name).unlink()


class BucketShelf(Shelf):
    """A part of a bucket."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.url = f"s3://{bucket.name}/{PREFIX}"

    def names(self) -> list[str]:
        return sorted(name.removeprefix(f"{PREFIX}/") for name in self.bucket.objects)

    def age(self, by: timedelta) -> None:
        for name in self.bucket.modified:
            self.bucket.modified[name] -= by

    def put(self, name: str, data: bytes = b"x") -> None:
        self.bucket.put(f"{PREFIX}/{name}", data)

    def fail(self, *, fails: bool) -> None:
        self.bucket.is_down = fails

    def clear(self) -> None:
        self.bucket.objects.clear()


@asynccontextmanager
async def shelf(kind: str, directory: Path) -> AsyncIterator[Shelf]:
    """Make a place, and set the variables that this process needs for it."""
    if kind == "file":
        root = directory / "blobs"
        root.mkdir()
        yield DirectoryShelf(root)
        return
    async with object_server() as bucket:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": bucket.url}.items():
                patch.setenv(name, value)
            yield BucketShelf(bucket)
