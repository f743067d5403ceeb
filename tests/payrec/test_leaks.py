"""The search for credentials finds each one, in each place, in each form, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import secrets
import zlib
from collections.abc import Callable
from urllib.parse import quote

import httpx2
import psycopg
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql

from payrec.domain import keys
from payrec.embedded.postgres import EmbeddedDatabase
from support import leaks
from support.idp import rsa_key, sign
from support.leaks import SESSION, Credentials, Leaks
from support.service import Service, Tenant, make_config
from support.wire import add_key, ask

PASSWORD = "pässwörd-of-9c1e"
API_KEY = keys.generate(secrets.token_bytes).text
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789_-ü\"\\ '\t\n\x1f€"


@pytest.fixture
def registry() -> Leaks:
    """Return a registry of the test's own, which knows one password."""
    made = Leaks()
    made.credentials.add("a password", PASSWORD)
    return made


def found(registry: Leaks) -> str:
    """Return the one finding, after a look at whether it gives the password away."""
    with pytest.raises(AssertionError) as raised:
        registry.verdict()
    [_, finding] = str(raised.value).splitlines()
    assert not {form.decode() for form in leaks.forms(PASSWORD) if form.decode() in str(raised.value)}
    return finding


@given(
    st.lists(st.text(ALPHABET, min_size=12, max_size=40), min_size=1, max_size=20),
    st.binary(max_size=60),
    st.integers(0, 2**32),
)
def test_the_search_finds_what_comparing_one_by_one_finds(known: list[str], text: bytes, choice: int) -> None:
    credentials = Credentials()
    for value in known:
        credentials.add("it", value)
    wanted = {form for value in known for form in leaks.forms(value)}
    # What is looked for stands at any offset, and is often cut off.
    form = sorted(wanted)[choice % len(wanted)]
    text = text + form[: len(form) - choice % 3] + text[: choice % 9]
    compared = {
        (at, at + len(form)) for form in wanted for at in range(len(text)) if text.startswith(form, at)
    }  # fmt: skip
    assert {(begin, end) for begin, end, _ in credentials.find(text)} == compared


@pytest.mark.parametrize("before", [b"", b"a", b"ab", b"abc"])
@pytest.mark.parametrize(
    "encode",
    [
        bytes,
        base64.b64encode,
        base64.urlsafe_b64encode,
        lambda text: text.hex().encode(),
        lambda text: json.dumps(text.decode()).encode(),
        lambda text: json.dumps(json.dumps(text.decode())).encode(),
        lambda text: quote(text).encode(),
    ],
    ids=["plain", "base64", "base64url", "hex", "json", "json-twice", "url"],
)
def test_a_credential_is_found_however_it_is_encoded(
    registry: Leaks, encode: Callable[[bytes], bytes], before: bytes
) -> None:
    text = encode(before + PASSWORD.encode() + b" and more")
    assert len(registry.credentials.find(text)) == 1
    assert "[a password]" in registry.credentials.masked(text)


def test_what_was_written_before_it_was_known_to_be_secret_is_found_as_well() -> None:
    registry = Leaks()
    registry.write("log line", f'{{"event": "logged in", "with": {json.dumps(PASSWORD)}}}'.encode())
    registry.credentials.add("a password", PASSWORD)
    registry.write("log line", b'{"event": "harmless"}')
    registry.search_written()
    assert 'a password in a log line: {"event": "logged in", "with": "[a password]"}' in found(registry)


@pytest.mark.parametrize(
    "write",
    [
        lambda: structlog.get_logger("payrec.test").debug("done", note=f"with {PASSWORD}"),
        lambda: logging.getLogger("some.library").info("done with %s", PASSWORD),
    ],
    ids=["structlog", "logging"],
)
def test_a_log_line_is_found_whoever_writes_it(registry: Leaks, write: Callable[[], None]) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with pytest.raises(AssertionError, match="a password in a log line"), registry.watching():
            write()
    finally:
        root.handlers = handlers
        root.setLevel(level)


@pytest.mark.parametrize("place", ["problem", "header", "metric"])
def test_what_an_answer_or_a_metric_says_is_found(registry: Leaks, place: str) -> None:
    registry.write(place, b"payrec_build_info 1")
    registry.search_written()
    registry.verdict()
    registry.write(place, b'payrec_jobs_total{kind="' + PASSWORD.encode() + b'"} 1')
    registry.search_written()
    assert f"a password in a {place}" in found(registry)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", f"it is {PASSWORD}."),
        ("text[]", ["a", PASSWORD]),
        ("jsonb", json.dumps({"a": [{"b": PASSWORD}]})),
        ("json", json.dumps({"a": [{"b": PASSWORD}]})),
        ("bytea", b"\x00" + PASSWORD.encode() + b"\xff"),
    ],
)
def test_a_column_is_found_whatever_its_type(
    registry: Leaks, database: EmbeddedDatabase, kind: str, value: object
) -> None:
    with psycopg.connect(database.superuser_url) as connection:
        connection.execute("CREATE SCHEMA planted")
        table = sql.SQL("CREATE TABLE planted.here (id int, note text, held {})").format(sql.SQL(kind))
        connection.execute(table)
        connection.execute("INSERT INTO planted.here SELECT n, 'a\tb' FROM generate_series(1, 1000) n")
    registry.search_database(database.superuser_url)
    registry.verdict()
    with psycopg.connect(database.superuser_url) as connection:
        held = sql.SQL("UPDATE planted.here SET held = %s::{} WHERE id = 500").format(sql.SQL(kind))
        connection.execute(held, (value,))
    registry.search_database(database.superuser_url)
    assert "a password in the column planted.here.held" in found(registry)


def test_fingerprints_of_a_credential_are_no_finding(registry: Leaks, database: EmbeddedDatabase) -> None:
    registry.credentials.add("an API key", API_KEY)
    with psycopg.connect(database.superuser_url) as connection:
        connection.execute("CREATE TABLE public.kept (name text, digest bytea, hex text, sum text)")
        for value in (PASSWORD, API_KEY):
            digest = hashlib.sha256(value.encode()).digest()
            row = (keys.parse(API_KEY).public_id, digest, digest.hex(), str(zlib.crc32(value.encode())))
            connection.execute("INSERT INTO public.kept VALUES (%s, %s, %s, %s)", row)
    registry.search_database(database.superuser_url)
    registry.write("log line", API_KEY.partition(".")[0].encode())
    registry.search_written()
    registry.verdict()


def test_of_a_token_and_a_key_the_secret_part_alone_is_found() -> None:
    registry = Leaks()
    token = sign(rsa_key("first"))
    for value in (token, API_KEY):
        registry.credentials.add("it", value)
    assert token in registry.credentials
    assert API_KEY in registry.credentials
    for part in (token, token.rpartition(".")[2], API_KEY, API_KEY.partition(".")[2], API_KEY.partition(".")[2][:-6]):
        assert len(registry.credentials.find(b"so " + part.encode())) == 1, part[:6]
    for part in (token.rpartition(".")[0], API_KEY.partition(".")[0], API_KEY[-6:]):
        assert registry.credentials.find(b"so " + part.encode()) == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("content", "secret"),
    [
        ({"json": {"username": "ada", "password": PASSWORD}}, True),
        ({"json": {"admin": {"username": "ada", "password": PASSWORD}}}, True),
        ({"data": {"username": "ada", "password": PASSWORD}}, True),
        ({"json": {"username": PASSWORD, "password": PASSWORD}}, False),
        ({"json": {"username": "ada", "password": "0" * 20}}, False),
        ({"json": {"username": "ada", "password": "short-9c1e"}}, False),
        ({"content": b"no json"}, False),
    ],
)
async def test_passwords_are_collected_from_requests(content: dict[str, object], secret: bool) -> None:  # noqa: FBT001
    registry = Leaks()
    await registry.asked(httpx2.Request("POST", "http://x/auth/token", **content))  # type: ignore[arg-type]
    assert bool(registry.credentials.find(PASSWORD.encode())) == secret
    assert registry.credentials.find(b"0" * 40 + b"short-9c1e") == []


@pytest.mark.anyio
async def test_what_a_service_and_its_clients_use_is_collected(
    service: Service, acme: Tenant, globex: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    key = await add_key(acme)
    answer = await ask(acme, "GET", "/jobs", {"X-Tenant-Id": acme.id, "X-Environment": "test", "X-Api-Key": API_KEY})
    assert answer.status_code == 401
    config = make_config(
        EmbeddedDatabase(url="postgresql:///a", admin_url="postgresql:///b", superuser_url="postgresql:///c")
    )
    for value in (
        acme.token,
        globex.token,
        f"pässwörd-{acme.slug}",
        key["apiKey"],
        API_KEY,
        config.api_key_pepper.get_secret_value(),
        config.encryption_key.get_secret_value(),
        service.factory.idp_client_secret,
    ):
        assert value in SESSION.credentials
    for place, text in {
        "log line": answer.headers["x-request-id"],
        "problem": answer.json()["requestId"],
        "header": f"x-request-id: {answer.headers['x-request-id']}",
    }.items():
        assert text.encode() in SESSION._written[place]
    assert answer.headers["x-request-id"] in capsys.readouterr().err
