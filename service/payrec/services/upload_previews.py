"""A look at a file before it is uploaded: read as an upload reads it, and nothing of it is kept."""

from __future__ import annotations

import asyncio
import io
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.domain.disk import disk_room
from payrec.errors import RateLimitedError, UnavailableError
from payrec.formats.base import ReadOptions
from payrec.models.imports import UploadOptions
from payrec.services.data_sources import DataSourceService
from payrec.services.imports import UploadedFile
from payrec.services.parse_output import JsonDocument, Shown
from payrec.services.parse_report import ParseReport
from payrec.services.read_options import read_options
from payrec.services.work import Work
from payrec.shares import TenantShares
from payrec.storage.accounts import AccountStore

SHOWN: Final = Shown(
    entries_per_statement=100, statements=1_000, problems_per_code=100, problems=1_000, bytes=8 * 1024 * 1024
)
"""What an answer has of a file: beyond it, entries, statements and problems are counted and not shown."""

PREVIEWS_AT_ONCE: Final = 2
"""Files that one process reads for previews at the same time; each takes a processor while it is read."""

PREVIEWS_WAITING_MAX: Final = 16
"""Previews that are read or wait for their turn, their files on disk. A tenant has half of either."""


class UploadPreviewService:
    """Reads files in threads; one for the process, because it counts those that are read at the same time."""

    def __init__(self, *, work: Work, sources: DataSourceService) -> None:
        self._work = work
        self._sources = sources
        self._turn = asyncio.Semaphore(PREVIEWS_AT_ONCE)
        self._shares = TenantShares(PREVIEWS_AT_ONCE // 2)
        self._waiting: Counter[UUID] = Counter()

    async def preview(self, caller: Caller, file: UploadedFile, options: UploadOptions) -> bytes:
        """Return an ``UploadPreview`` as JSON.

        Raises
        ------
        UnreadableFileError, ValidationFailedError, PayloadTooLargeError
        NotFoundError, ConflictError
            As ``DataSourceService.applied``.
        RateLimitedError
            Too many files of the tenant wait already.
        UnavailableError
            Too many files of all wait already.
        """
        given = read_options(await self._sources.applied(caller, options))
        tenant_id = caller.tenant.tenant_id
        if self._waiting[tenant_id] >= PREVIEWS_WAITING_MAX // 2:
            raise RateLimitedError("too many previews of this tenant are wanted at once", retry_after_seconds=5)
        if self._waiting.total() >= PREVIEWS_WAITING_MAX:
            raise UnavailableError("too many previews are wanted at once", retry_after_seconds=5)
        self._waiting[tenant_id] += 1
        try:
            async with self._shares.of(tenant_id), self._turn:
                # As an upload does: an account that files of earlier releases have made keeps its name.
                async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
                    accounts = await AccountStore(connection).named_by_files()
                with disk_room():
                    return await self._read_in_thread(file, replace(given, accounts=accounts))
        finally:
            self._waiting -= Counter([tenant_id])

    async def _read_in_thread(self, file: UploadedFile, options: ReadOptions) -> bytes:
        cancelled = threading.Event()
        reading = asyncio.create_task(asyncio.to_thread(self._read, file, options, cancelled.is_set))
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            # Whoever closes the file must know that nobody reads it any more.
            cancelled.set()
            await asyncio.wait([reading])
            raise

    def _read(self, file: UploadedFile, options: ReadOptions, is_cancelled: Callable[[], bool]) -> bytes:
        report = ParseReport(
            file.stream,
            name=file.name,
            size=file.size,
            sha256=file.sha256.hex(),
            options=options,
            monotonic=self._work.clock.monotonic,
        )
        out = io.BytesIO()
        with JsonDocument(out.write, shown=SHOWN) as document:
            report.tell(document, is_cancelled=is_cancelled)
        if report.error is not None:
            raise report.error
        return out.getvalue()
