"""How long a session of the console lasts, how it is prolonged at the provider, and in which cookies it is carried."""

from __future__ import annotations

import asyncio
import secrets
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from payrec.constants.console import COOKIE_BYTES_MAX, COOKIES_MAX, SESSION_LIFETIME_MAX
from payrec.errors import HeaderTooLargeError, IdentityProviderUnavailableError, InvalidCredentialsError
from payrec.services.console_sessions import ConsoleSession, ConsoleSessions
from payrec.services.identity_provider import TokenGrant
from payrec.services.secret_box import SecretBox
from support.idp import NOW, TENANT, USER, Clock

pytestmark = pytest.mark.anyio


class _Provider:
    """Gives out tokens for refresh tokens, each of them once."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Any = TokenGrant(access_token="new", expires_in=300, refresh_token="next")

    async def refresh_grant(self, refresh_token: str) -> TokenGrant:
        self.asked.append(refresh_token)
        if isinstance(self.answer, Exception):
            raise self.answer
        assert isinstance(self.answer, TokenGrant)
        return self.answer


def _sessions(clock: Clock, provider: Any) -> ConsoleSessions:
    box = SecretBox(key=b"k" * 32, token_bytes=lambda count: b"n" * count)
    made = SimpleNamespace(now=clock)
    return ConsoleSessions(
        box=box,
        authenticator=None,  # type: ignore[arg-type]  # nobody signs in here
        identity_provider=provider,
        clock=made,
        token_bytes=lambda count: b"t" * count,
    )


def _session(**changes: Any) -> ConsoleSession:
    made: dict[str, Any] = {
        "access_token": "a.b.c",
        "refresh_token": "once",
        "expires_at": NOW + timedelta(seconds=300),
        "ends_at": NOW + SESSION_LIFETIME_MAX,
        "tenant_id": UUID(TENANT),
        "user_id": UUID(USER),
        "environments": ("production",),
    }
    return ConsoleSession(**made | changes)


async def test_a_session_is_prolonged_shortly_before_its_token_ends_and_once_for_all_that_ask() -> None:
    clock, provider = Clock(), _Provider()
    sessions = _sessions(clock, provider)
    assert await sessions.prolonged(_session()) is None
    clock.move(seconds=241)
    found = await asyncio.gather(*(sessions.prolonged(_session()) for _ in range(8)))
    assert provider.asked == ["once"]
    assert {(s.access_token, s.refresh_token) for s in found if s is not None} == {("new", "next")}
    assert found[0] is not None
    assert found[0].ends_at == _session().ends_at
    assert await sessions.prolonged(_session(refresh_token=None)) is None


@pytest.mark.parametrize("error", [InvalidCredentialsError(), IdentityProviderUnavailableError()])
async def test_a_provider_that_prolongs_nothing_ends_no_session_that_is_still_good(error: Exception) -> None:
    clock, provider = Clock(), _Provider()
    sessions = _sessions(clock, provider)
    provider.answer = error
    clock.move(seconds=250)
    assert await sessions.prolonged(_session()) is None
    provider.answer = TokenGrant(access_token="new", expires_in=300)
    later = await sessions.prolonged(_session())
    assert (later is not None) == isinstance(error, IdentityProviderUnavailableError)


@pytest.mark.parametrize("following", [None, "once"])
async def test_a_provider_that_gives_no_next_refresh_token_is_asked_with_the_same_one_again(
    following: str | None,
) -> None:
    clock, provider = Clock(), _Provider()
    sessions = _sessions(clock, provider)
    session = _session()
    for turn in range(1, 4):
        clock.move(seconds=250)
        provider.answer = TokenGrant(access_token=f"new {turn}", expires_in=300, refresh_token=following)
        found = await asyncio.gather(*(sessions.prolonged(session) for _ in range(3)))
        assert {s.access_token for s in found if s is not None} == {f"new {turn}"}
        assert provider.asked == ["once"] * turn
        assert found[0] is not None
        session = found[0]


def test_a_session_that_was_ended_is_over_with_all_before_it_and_whatever_prolongs_it() -> None:
    sessions = _sessions(Clock(), _Provider())
    earlier, later = (_session(ends_at=NOW + timedelta(hours=hours)) for hours in (1, 3))
    ended = _session(ends_at=NOW + timedelta(hours=2), access_token="new", expires_at=NOW + timedelta(hours=1))
    for itself, wanted in ((True, [None, None, later]), (False, [None, ended, later])):
        mark = sessions.mark(_session(ends_at=NOW + timedelta(hours=2)), itself=itself)
        found = [sessions.open(sessions.seal(session), ended=mark) for session in (earlier, ended, later)]
        assert found == wanted
    for foreign in ("", "x", "nan", "1,5"):
        assert sessions.open(sessions.seal(ended), ended=foreign) == ended


async def test_what_a_renewal_gave_is_told_with_its_own_end_and_its_next_token_is_used_after_that() -> None:
    clock, provider = Clock(), _Provider()
    sessions = _sessions(clock, provider)
    clock.move(seconds=250)
    first = await sessions.prolonged(_session())
    clock.move(seconds=100)
    # The answer with the new cookie was lost on its way.
    again = await sessions.prolonged(_session())
    assert (provider.asked, again) == (["once"], first)
    clock.move(seconds=150)
    await sessions.prolonged(_session())
    assert provider.asked == ["once", "next"]


async def test_of_short_tokens_requests_that_come_at_once_use_one() -> None:
    clock, provider = Clock(), _Provider()
    provider.answer = TokenGrant(access_token="new", expires_in=40, refresh_token="next")
    sessions = _sessions(clock, provider)
    clock.move(seconds=250)
    for _ in range(3):
        await sessions.prolonged(_session())
    assert provider.asked == ["once"]


async def test_a_session_ends_with_its_token_or_at_its_own_end() -> None:
    clock = Clock()
    sessions = _sessions(clock, _Provider())
    short, long = sessions.seal(_session(refresh_token=None)), sessions.seal(_session())
    assert sessions.open(short) == _session(refresh_token=None)
    clock.move(seconds=300)
    assert sessions.open(short) is None
    assert sessions.open(long) is not None
    clock.move(hours=12)
    assert sessions.open(long) is None


async def test_tokens_are_split_over_cookies_and_too_large_ones_are_refused() -> None:
    sessions = _sessions(Clock(), _Provider())
    pieces = sessions.seal(_session(access_token=secrets.token_urlsafe(5_000)))
    assert 1 < len(pieces) <= COOKIES_MAX
    assert all(len(piece) <= COOKIE_BYTES_MAX for piece in pieces)
    opened = sessions.open(pieces)
    assert opened is not None
    without = sessions.seal(_session(access_token="a.b.c", refresh_token=secrets.token_urlsafe(20_000)))
    reopened = sessions.open(without)
    assert reopened is not None
    assert reopened.refresh_token is None
    with pytest.raises(HeaderTooLargeError):
        sessions.seal(_session(access_token=secrets.token_urlsafe(12_000)))
    crowd = {"access_token": secrets.token_urlsafe(6_000), "id_token": secrets.token_urlsafe(3_000)}
    crowded = sessions.open(sessions.seal(_session(**crowd)))
    assert crowded is not None
    assert (crowded.refresh_token, crowded.id_token) == ("once", ""), "it goes before the refresh token"
