"""Peppers that processes of this installation have had."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all


class PepperStore:
    """``known_pepper`` of the control schema."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def hold(self) -> None:
        """Let nobody else decide which peppers are known until the transaction ends."""
        await self._connection.execute("SELECT pg_advisory_xact_lock(hashtext('known_pepper'))")

    async def known(self) -> frozenset[bytes]:
        """Return the fingerprints of all."""
        return frozenset(
            bytes(row["fingerprint"])
            for row in await fetch_all(self._connection, "SELECT fingerprint FROM known_pepper")
        )

    async def add(self, fingerprints: Iterable[bytes], *, at: datetime) -> None:
        """Remember further ones."""
        for fingerprint in fingerprints:
            await self._connection.execute(
                "INSERT INTO known_pepper (fingerprint, first_seen_at) VALUES (%s, %s)", (fingerprint, at)
            )
