"""Sessions of the console: an access token, sealed for the browser that carries it. Nothing of them is stored here."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import math
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from payrec.constants.console import (
    COOKIE_BYTES_MAX,
    COOKIES_MAX,
    ID_TOKEN_LENGTH_MAX,
    SESSION_LIFETIME_MAX,
    SESSION_RENEWALS_KEPT,
    SESSION_RENEWED_BEFORE,
    SIGN_IN_LIFETIME,
    SIGN_INS_BYTES_MAX,
)
from payrec.domain.caller import Clock
from payrec.domain.principal import ENVIRONMENTS, PRODUCTION, Environment
from payrec.errors import (
    ConfigurationError,
    HeaderTooLargeError,
    IdentityProviderUnavailableError,
    InvalidCredentialsError,
)
from payrec.services.authentication import Authenticator, Credentials
from payrec.services.identity_provider import IdentityProviderClient, TokenGrant
from payrec.services.secret_box import SecretBox

_SESSION: Final = b"session"
_SIGN_IN: Final = b"sign-in"
_PLAIN_BYTES_MAX: Final = 64 * 1024
_VERIFIER_BYTES: Final = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSession:
    """Who is signed in, and for how long."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    expires_at: datetime
    """The end of the access token."""
    ends_at: datetime
    """The end of the session, which no renewal moves."""
    tenant_id: UUID
    user_id: UUID
    environments: tuple[Environment, ...]
    """Those that the user could enter when the session began, the most serious one first."""
    id_token: str | None = field(default=None, repr=False)
    """By which the provider knows its own session at the sign-out, and asks nothing. Empty where it did not fit, None
    where there is no such session, because a password was given here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A sign-in that is under way at the identity provider (RFC 6749, section 4.1; RFC 7636)."""

    state: str
    verifier: str = field(repr=False)
    next: str
    expires_at: datetime

    @property
    def challenge(self) -> str:
        """What the provider is told of the verifier."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renewal:
    """What the provider gave for a refresh token."""

    grant: TokenGrant = field(repr=False)
    asked_at: datetime

    def is_spent(self, now: datetime) -> bool:
        """Tell whether its token is about to end, so that the provider has to be asked again.

        A token that lives for less than twice the usual time before its end is used for half its life: of requests
        that come at once, one asks, however short that is.
        """
        before = min(SESSION_RENEWED_BEFORE.total_seconds(), self.grant.expires_in / 2)
        return now >= _after(self.asked_at, self.grant.expires_in) - timedelta(seconds=before)


class ConsoleSessions:
    """Begins, seals, opens and prolongs sessions. One for the process, because it remembers renewals."""

    def __init__(
        self,
        *,
        box: SecretBox,
        authenticator: Authenticator,
        identity_provider: IdentityProviderClient,
        clock: Clock,
        token_bytes: Callable[[int], bytes],
    ) -> None:
        self._box = box
        self._authenticator = authenticator
        self._identity_provider = identity_provider
        self._clock = clock
        self._token_bytes = token_bytes
        self._renewals: OrderedDict[bytes, asyncio.Task[_Renewal | None]] = OrderedDict()

    async def begin(self, grant: TokenGrant, *, request_id: str) -> ConsoleSession:
        """Return the session of somebody who has just signed in.

        Raises
        ------
        UnauthenticatedError
            The token is not good, or its user is not known.
        UserDisabledError, TenantSuspendedError, IdentityProviderUnavailableError
        """
        credentials = Credentials(authorization=f"Bearer {grant.access_token}")
        identified = await self._authenticator.identify(credentials, request_id=request_id)
        principal = identified.principal
        if principal.kind != "user" or principal.tenant_id is None or principal.id is None:
            raise InvalidCredentialsError
        now = self._clock.now()
        return ConsoleSession(
            access_token=grant.access_token,
            refresh_token=grant.refresh_token,
            expires_at=_after(now, grant.expires_in),
            ends_at=now + SESSION_LIFETIME_MAX,
            tenant_id=principal.tenant_id,
            user_id=principal.id,
            environments=tuple(e for e in _ORDER if e in identified.environments),
            id_token=_short(grant.id_token),
        )

    def seal(self, session: ConsoleSession) -> list[str]:
        """Return what the browser shall carry, in pieces of one cookie each.

        Raises
        ------
        HeaderTooLargeError
            The tokens do not fit, not even without the refresh token.
        """
        # What is missed least goes first: without an ID token the provider asks whether to sign out.
        lighter = replace(session, id_token=session.id_token and "")
        for carried in (session, lighter, replace(lighter, refresh_token=None)):
            text = self._sealed(_SESSION, _session_members(carried))
            pieces = [text[i : i + COOKIE_BYTES_MAX] for i in range(0, len(text), COOKIE_BYTES_MAX)]
            if len(pieces) <= COOKIES_MAX:
                return pieces
        raise HeaderTooLargeError(
            f"the provider's tokens take more than {COOKIES_MAX} cookies of {COOKIE_BYTES_MAX} bytes"
        )

    def open(self, pieces: list[str], *, ended: str = "", also_over: bool = False) -> ConsoleSession | None:
        """Return the session that a browser carries; None where it is over, of another key, or none of ours.

        ``ended`` is the mark of the sessions that are over in that browser, of which none goes on. ``also_over`` is for
        who ends one: what is over here by time may go on at the provider.
        """
        found = self._opened(_SESSION, "".join(pieces)) if len(pieces) <= COOKIES_MAX else None
        if found is None:
            return None
        session = ConsoleSession(
            access_token=found["a"],
            refresh_token=found["r"],
            expires_at=datetime.fromtimestamp(found["e"], UTC),
            ends_at=datetime.fromtimestamp(found["s"], UTC),
            tenant_id=UUID(found["t"]),
            user_id=UUID(found["u"]),
            environments=tuple(found["n"]),
            id_token=found.get("i"),  # a release before this one sealed none
        )
        now = self._clock.now()
        is_over = session.ends_at <= now or (session.expires_at <= now and session.refresh_token is None)
        return None if (is_over and not also_over) or _mark(session) <= _number(ended) else session

    @staticmethod
    def mark(session: ConsoleSession, *, itself: bool) -> str:
        """Return what a browser carries when all sessions before this one, and perhaps itself, are over in it."""
        return repr(_mark(session) if itself else math.nextafter(_mark(session), -math.inf))

    async def prolonged(self, session: ConsoleSession) -> ConsoleSession | None:
        """Return the session with a new token where its own is about to end, None where nothing had to be done.

        A provider that cannot be reached, or that has given out the next token to another process, does not end a
        session whose token is still good; what is over is refused like any expired token.
        """
        now = self._clock.now()
        if session.refresh_token is None or session.expires_at - SESSION_RENEWED_BEFORE > now:
            return None
        renewal = await self._renewed(session.refresh_token)
        if renewal is None:
            return None
        grant = renewal.grant
        return replace(
            session,
            access_token=grant.access_token,
            refresh_token=grant.refresh_token or session.refresh_token,
            expires_at=_after(renewal.asked_at, grant.expires_in),
            id_token=_short(grant.id_token) or session.id_token,
        )

    def begin_sign_in(self, *, next_path: str) -> SignIn:
        """Return a sign-in at the identity provider, which ends at ``next_path``."""
        return SignIn(
            state=_text(self._token_bytes(_VERIFIER_BYTES)),
            verifier=_text(self._token_bytes(_VERIFIER_BYTES)),
            next=next_path,
            expires_at=self._clock.now() + SIGN_IN_LIFETIME,
        )

    def seal_sign_in(self, sign_in: SignIn) -> str:
        """Return what the browser carries to the provider and back."""
        members = {"s": sign_in.state, "v": sign_in.verifier, "n": sign_in.next, "e": sign_in.expires_at.timestamp()}
        return self._sealed(_SIGN_IN, members)

    def open_sign_in(self, text: str) -> SignIn | None:
        """Return the sign-in that a browser comes back with; None where it took too long or is none of ours."""
        found = self._opened(_SIGN_IN, text)
        if found is None:
            return None
        expires_at = datetime.fromtimestamp(found["e"], UTC)
        made = SignIn(state=found["s"], verifier=found["v"], next=found["n"], expires_at=expires_at)
        return made if expires_at > self._clock.now() else None

    def crowded_out(self, carried: Mapping[str, str], *, by: str) -> list[str]:
        """Return the names of those of a browser's sign-ins that are over, or have no room beside one that begins."""
        opened = [(name, self.open_sign_in(text)) for name, text in carried.items()]
        begun = [(sign_in.expires_at, name) for name, sign_in in opened if sign_in is not None]
        kept, size = set(), len(by)
        for _, name in sorted(begun, reverse=True):
            size += len(carried[name])
            if size <= SIGN_INS_BYTES_MAX:
                kept.add(name)
        return [name for name in carried if name not in kept]

    async def _renewed(self, refresh_token: str) -> _Renewal | None:
        """Use a refresh token once, however many requests come with it: providers may take each only once.

        Others give out no next one (RFC 6749, section 6), so the same comes again when what it gave is about to end.
        """
        key = hashlib.sha256(refresh_token.encode()).digest()
        known = self._renewals.get(key)
        if known is not None and (spent := self._spent(known)) is not None:
            known, refresh_token = None, spent.grant.refresh_token or refresh_token
        if known is None:
            known = self._renewals[key] = asyncio.create_task(self._refresh(refresh_token))
            while len(self._renewals) > SESSION_RENEWALS_KEPT:
                self._renewals.popitem(last=False)
        try:
            return await asyncio.shield(known)
        except IdentityProviderUnavailableError:
            self._renewals.pop(key, None)  # the provider may be there again for the next request
            return None

    def _spent(self, known: asyncio.Task[_Renewal | None]) -> _Renewal | None:
        """Return what a renewal gave, where that is about to end."""
        if not known.done() or known.cancelled() or known.exception() is not None:
            return None
        renewal = known.result()
        return renewal if renewal is not None and renewal.is_spent(self._clock.now()) else None

    async def _refresh(self, refresh_token: str) -> _Renewal | None:
        asked_at = self._clock.now()
        try:
            return _Renewal(grant=await self._identity_provider.refresh_grant(refresh_token), asked_at=asked_at)
        except InvalidCredentialsError:
            return None

    def _sealed(self, owner: bytes, members: dict[str, Any]) -> str:
        # A token is base64 text, of which a quarter goes when it is packed.
        plain = zlib.compress(json.dumps(members, separators=(",", ":")).encode(), 9)
        return _text(self._box.seal(plain, owner=owner))

    def _opened(self, owner: bytes, text: str) -> dict[str, Any] | None:
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            plain = self._box.open(sealed, owner=owner)
        except (binascii.Error, ValueError, ConfigurationError):
            return None
        found: dict[str, Any] = json.loads(zlib.decompressobj().decompress(plain, _PLAIN_BYTES_MAX))
        return found


_ORDER: Final[tuple[Environment, ...]] = (PRODUCTION, *(e for e in ENVIRONMENTS if e != PRODUCTION))


def _session_members(session: ConsoleSession) -> dict[str, Any]:
    return {
        "a": session.access_token,
        "r": session.refresh_token,
        "e": session.expires_at.timestamp(),
        "s": session.ends_at.timestamp(),
        "t": str(session.tenant_id),
        "u": str(session.user_id),
        "n": session.environments,
        "i": session.id_token,
    }


def _mark(session: ConsoleSession) -> float:
    """Return what no renewal changes, and is more in each later session."""
    return session.ends_at.timestamp()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -math.inf


def _short(id_token: str | None) -> str | None:
    """Return an ID token that goes into an address, empty instead of a longer one."""
    return "" if id_token is not None and len(id_token) > ID_TOKEN_LENGTH_MAX else id_token


def _after(now: datetime, seconds: int) -> datetime:
    return datetime.fromtimestamp(min(now.timestamp() + seconds, _SECONDS_MAX), UTC)


_SECONDS_MAX: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
