from __future__ import annotations

import asyncio
import unicodedata

import pytest

from payrec.constants import PASSWORD_HASHES_AT_ONCE, PASSWORD_HASHES_WAITING_MAX
from payrec.embedded.passwords import PasswordHasher
from payrec.errors import UnavailableError

PASSWORD = "pässwörd"


def test_passwords() -> None:
    async def main() -> None:
        hasher = PasswordHasher()
        encoded = await hasher.hash(PASSWORD)

        assert encoded.startswith("$scrypt$ln=14,r=8,p=1$")
        assert PASSWORD not in encoded
        assert await hasher.verify(PASSWORD, encoded)
        assert await PasswordHasher().verify(unicodedata.normalize("NFD", PASSWORD), encoded)
        assert not await hasher.verify("passwörd", encoded)
        assert not await hasher.verify(PASSWORD, None)
        assert await hasher.hash(PASSWORD) != encoded
        for impossible in ("", "x" * 1025, "\ud800"):
            assert not await hasher.verify(impossible, encoded)
            with pytest.raises(ValueError, match="characters"):
                await hasher.hash(impossible)
        for foreign in ("", "plain", "$scrypt$ln=20,r=8,p=1$a$b", encoded[:-1], encoded + "$x", encoded + "%"):
            with pytest.raises(ValueError, match="not a hash"):
                await hasher.verify(PASSWORD, foreign)

    asyncio.run(main())


def test_two_hashes_are_made_at_once_and_a_long_queue_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0

    async def to_thread(*_: object) -> bytes:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return b"h" * 32

    async def main() -> None:
        hasher = PasswordHasher()
        waiting = PASSWORD_HASHES_WAITING_MAX
        found = await asyncio.gather(*(hasher.hash("x") for _ in range(waiting + 10)), return_exceptions=True)
        assert sum(isinstance(one, UnavailableError) for one in found) == 10
        assert await hasher.hash("x")

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    asyncio.run(main())
    assert most == PASSWORD_HASHES_AT_ONCE
