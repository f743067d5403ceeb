"""What holds for any text that somebody sends where a value is expected: money, headers, cursors, queries, tokens.

Each check takes the bytes of one case. What is refused is refused with the error that its caller expects; what is
taken says the same when it is written and read again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from fuzz.cases import UNSTORABLE, words
from payrec.constants import AMOUNT_MINOR_MAX, JSON_DEPTH_MAX
from payrec.domain import keys
from payrec.domain.addresses import Destinations, UrlRefusedError
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.fx_rates import FxRateError, parse_derived_rate, parse_rate
from payrec.domain.money import MoneyError, format_minor, parse_decimal
from payrec.domain.schedules import ScheduleError, next_after
from payrec.domain.scope import TenantScope
from payrec.domain.search import read_decimal, sought
from payrec.domain.webhooks import retry_after_of
from payrec.errors import (
    BadRequestError,
    ExpiredCredentialsError,
    InvalidCredentialsError,
    InvalidCursorError,
    VersionMismatchError,
)
from payrec.formats.base import RecordError
from payrec.formats.text import amount_to_minor
from payrec.gate.streams import declared_length
from payrec.gate.strict_json import parse_json
from payrec.handlers.downloads import _quality, attachment
from payrec.models.common import ListQuery
from payrec.services.claims import Claims, read_claims
from payrec.services.csv_text import CSV_MEDIA_TYPE, csv_rows
from payrec.services.paging import Pager
from payrec.services.strict_json import strict_json
from payrec.services.validation import check_version
from payrec.services.verification import ALGORITHMS, SymmetricVerifier, read_header
from payrec.storage.listing import PageRequest, SortKey

NOW: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)
SECRET: Final = "a-secret-of-the-fuzzer-with-32-bytes"
ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "payrec"

_SCOPE: Final = TenantScope(
    tenant_id=UUID(int=1),
    environment_id=UUID(int=2),
    environment="production",
    slug="acme",
    schema_name="acme_production",
    role_name="acme",
)
_OTHER: Final = TenantScope(
    tenant_id=UUID(int=3),
    environment_id=UUID(int=4),
    environment="production",
    slug="globex",
    schema_name="globex_production",
    role_name="globex",
)


def check_money(data: bytes) -> None:
    """Read an amount in every way that there is; the case is a currency and a text."""
    currency, text = words(data)
    with suppress(MoneyError):
        minor = parse_decimal(text, currency)
        assert 0 <= minor <= AMOUNT_MINOR_MAX
        written = format_minor(minor, currency)
        assert parse_decimal(written, currency) == minor
        assert amount_to_minor(text, MINOR_UNITS[currency]) == minor
        assert format_minor(-minor, currency) == (f"-{written}" if minor else written)
    with suppress(RecordError):
        assert 0 <= amount_to_minor(text, MINOR_UNITS.get(currency, 2)) <= AMOUNT_MINOR_MAX
    for decimal in (".", ","):
        found = sought(text, decimal=decimal)
        if found.amount is not None:
            assert all(0 <= minor <= AMOUNT_MINOR_MAX for minor in found.amount.minors().values())
        typed = read_decimal(text, decimal=decimal)
        if typed is not None:
            assert read_decimal(typed, decimal=".") is not None
    for read in (parse_rate, parse_derived_rate):
        with suppress(FxRateError):
            rate = read(text)
            assert read(str(rate)) == rate


def check_json(data: bytes) -> None:
    """Read a body; what is taken is what any reader of JSON takes it for, and is finite."""
    try:
        value = parse_json(data)
    except BadRequestError:
        pass
    else:
        assert _depth(value) <= JSON_DEPTH_MAX
        assert parse_json(json.dumps(value, allow_nan=False).encode()) == value
    try:
        document = strict_json(data)
    except ValueError:
        return
    assert strict_json(json.dumps(document, allow_nan=False).encode()) == document


def _depth(value: Any) -> int:
    inner: list[Any] = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return (1 if isinstance(value, dict | list) else 0) + max(map(_depth, inner), default=0)


def check_token(data: bytes) -> None:
    """Verify a token: one that was made elsewhere, or a header and claims (after a line break) that we sign."""
    header, newline, payload = data.partition(b"\n")
    token = data.decode("latin-1")
    if newline:
        token = signed(header, payload)
    verifier = SymmetricVerifier(secret=SECRET, issuer=ISSUER, audience=AUDIENCE, clock=lambda: NOW)
    try:
        claims = verifier.verify(token)
    except (InvalidCredentialsError, ExpiredCredentialsError):
        pass
    else:
        assert newline, "a token that we did not sign was taken"
        _check_claims(claims, payload)
    with suppress(InvalidCredentialsError):
        read_header(token, ALGORITHMS)
    with suppress(InvalidCredentialsError, ExpiredCredentialsError):
        read_claims(payload, issuer=ISSUER, audience=AUDIENCE, now=NOW, of_provider=True)


def signed(header: bytes, payload: bytes) -> str:
    """Return a token with a good signature (HS256, RFC 7515, section 7.1)."""
    parts = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, payload))
    signature = base64.urlsafe_b64encode(hmac.digest(SECRET.encode(), parts, "sha256")).rstrip(b"=")
    return (parts + b"." + signature).decode()


def _check_claims(claims: Claims, payload: bytes) -> None:
    said = json.loads(payload)
    assert said["iss"] == ISSUER
    assert AUDIENCE in (*(said["aud"] if isinstance(said.get("aud"), list) else [said.get("aud")]), said.get("azp"))
    assert claims.expires_at > NOW
    assert UUID(said["tenant_id"]) == claims.tenant_id
    for name in (claims.subject, claims.username):
        assert name is None or not UNSTORABLE.search(name)


def check_cursor(data: bytes) -> None:
    """Read somebody's cursor, and make one of a row with any text in it: good for its list, and for no other."""
    text = data.decode("latin-1")
    pager = Pager(key=b"the key of the fuzzer's cursors")
    path = "/expected-transactions"
    _refused(pager, path, text, _SCOPE)
    sorts = {"-createdAt": SortKey(expression="id", descending=True, name="value")}
    listing = pager.listing(path, ListQuery(), sorts, _SCOPE)
    assert isinstance(listing.request, PageRequest)
    cursor = listing._cursor({"id": UUID(int=7), "value": text})
    if len(cursor) > 2048:
        return
    again = pager.listing(path, ListQuery(cursor=cursor), sorts, _SCOPE).request.after
    assert again == {"id": str(UUID(int=7)), "value": text}
    _refused(pager, "/incoming-transactions", cursor, _SCOPE)
    _refused(pager, path, cursor, _OTHER)
    at = hashlib.sha256(data).digest()[0] % (len(cursor) - 2)
    _refused(pager, path, cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :], _SCOPE)


def _refused(pager: Pager, path: str, cursor: str, scope: TenantScope) -> None:
    try:
        pager.check(path, ListQuery.model_construct(cursor=cursor), scope)
    except InvalidCursorError:
        return
    raise AssertionError("a cursor of something else was taken")


def check_header(data: bytes) -> None:
    """Read one value; the case is the name of what it is, and the value."""
    name, value = words(data)
    check = HEADERS.get(name)
    if check is not None:
        check(value)


def _if_match(value: str) -> None:
    with suppress(VersionMismatchError):
        check_version(value, 7)
        assert '"7"' in value or value.strip() == "*"


def _api_key(value: str) -> None:
    with suppress(ValueError):
        key = keys.parse(value)
        assert key.text == value
        assert keys.verified(key, keys.digest(key, b"p" * 16), b"p" * 16) is not None
        assert keys.verified(key, b"\0" * 32, b"p" * 16) is None


def _accept(value: str) -> None:
    for media_type in (CSV_MEDIA_TYPE, "application/json"):
        assert 0.0 <= _quality(value, media_type) <= 1.0


def _retry_after(value: str) -> None:
    wanted = retry_after_of(value, now=NOW)
    assert wanted is None or wanted >= timedelta()


def _length(value: str) -> None:
    assert declared_length({"content-length": value}) >= 0


def _file_name(value: str) -> None:
    header = attachment(value.encode("utf-8", "replace").decode())
    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2


def _url(value: str) -> None:
    with suppress(UrlRefusedError):
        Destinations().check_url(value)
        assert value.lower().startswith("https://")
        assert value.isascii()


def _cron(value: str) -> None:
    with suppress(ScheduleError):
        due = next_after(value, NOW, "Europe/Berlin")
        assert due > NOW


def _cell(value: str) -> None:
    assert not csv_rows([[value]]).lstrip('"').startswith(("=", "+", "-", "@", "\t"))


HEADERS: Final[dict[str, Callable[[str], None]]] = {
    "if-match": _if_match,
    "x-api-key": _api_key,
    "accept": _accept,
    "retry-after": _retry_after,
    "content-length": _length,
    "file-name": _file_name,
    "url": _url,
    "cron": _cron,
    "cell": _cell,
}
