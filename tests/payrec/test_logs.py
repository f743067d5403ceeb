"""Logs: one JSON object a line, and never a credential, whoever writes it."""

from __future__ import annotations

import base64
import io
import json
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import LOG_DEPTH_MAX, LOG_ITEMS_MAX
from payrec.domain import keys
from payrec.logs import LEFT_OUT, REDACTED, configure_logging, redact

KEY = keys.generate(lambda size: bytes(range(size))).text
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl"
URL = "postgresql://payrec:pa55@db.example:5432/payrec"


BASE62 = keys.ALPHABET
BASE64 = BASE62 + "+/"
BASE64URL = BASE62 + "-_"
PEM = "-----BEGIN {0}PRIVATE KEY-----\n{1}\n-----END {0}PRIVATE KEY-----\n"


def _drawn(alphabet: str, size: int, most: int | None = None) -> st.SearchStrategy[str]:
    return st.text(alphabet=alphabet, min_size=size, max_size=most or size)


passwords = st.builds("Zq{}".format, _drawn(BASE62 + "!$%()*+-./:;<>?@[]^_{|}~äß", 6, 20))
phrases = st.builds("Zq{}".format, _drawn(BASE62 + " \"'\\!,&", 6, 20)).map(str.strip)
basic = st.builds(lambda name, word: base64.b64encode(f"{name}:{word}".encode()).decode(), passwords, passwords)
tokens = st.builds(
    lambda issuer, payload, signature: (
        base64.urlsafe_b64encode(json.dumps({"alg": "RS256", "iss": issuer}).encode()).rstrip(b"=").decode()
        + f".{payload}.{signature}"
    ),
    passwords,
    _drawn(BASE64URL, 8, 60),
    _drawn(BASE64URL, 8, 60),
)
api_keys = st.integers(0, 2**64).map(lambda seed: keys.generate(random.Random(seed).randbytes).text)  # noqa: S311
webhook_secrets = _drawn(BASE64, 32)
pems = st.tuples(st.sampled_from(["", "RSA ", "EC ", "ENCRYPTED "]), _drawn(BASE64, 64))

Written = tuple[str, str]
"""A text, and what must not be left of it."""

credentials: st.SearchStrategy[Written] = st.one_of(
    api_keys.map(lambda key: (key, key.partition(".")[2])),
    tokens.map(lambda token: (token, token.rpartition(".")[2])),
    webhook_secrets.map(lambda secret: (f"whsec_{secret}", secret)),
    pems.map(lambda pem: (PEM.format(*pem), pem[1])),
    pems.map(lambda pem: (PEM.format(*pem)[: 40 + len(pem[0])], pem[1][:8])),
    passwords.map(lambda word: (f"postgresql://payrec:{quote(word, safe='')}@db/payrec", quote(word, safe=""))),
    passwords.map(lambda word: (f"https://{quote(word, safe='')}@github.example/x", quote(word, safe=""))),
    st.tuples(st.sampled_from(["Basic", "basic", "BASIC"]), basic).map(lambda pair: (" ".join(pair), pair[1])),
    st.tuples(
        st.sampled_from(["Authorization", "authorization", "Proxy-Authorization", "X-Api-Key", "Cookie", "Set-Cookie"]),
        st.sampled_from(["", "Bearer ", "Basic ", "Digest ", "Custom "]),
        passwords,
    ).map(lambda h: (f"{h[0]}: {h[1]}{h[2]}", h[2])),
    st.tuples(
        st.sampled_from(["password", "Password", "client_secret", "refresh_token", "passphrase", "API_KEY_PEPPER"]),
        st.sampled_from(["=", ": ", " = "]),
        passwords,
    ).map(lambda f: ("".join(f), f[2])),
    st.tuples(st.sampled_from(["password", "client_secret", "access_token", "apiKey"]), phrases).map(
        lambda f: (f"grant_type=password&{f[0]}={quote(f[1], safe='')}&scope=x", quote(f[1], safe=""))
    ),
    st.tuples(st.sampled_from(["password", "clientSecret", "secret", "apiKey", "x-api-key"]), phrases).map(
        lambda f: (json.dumps({"user": "ada", f[0]: f[1], "n": 1}), json.dumps(f[1])[1:-1])
    ),
    st.tuples(st.sampled_from(["password", "authorization"]), phrases).map(
        lambda f: (json.dumps({"body": json.dumps({f[0]: f[1], "n": 1})}), json.dumps(json.dumps(f[1])[1:-1])[1:-1])
    ),
    st.tuples(st.sampled_from(["password", "authorization"]), phrases).map(
        lambda f: (repr(dict([f])), repr(f[1])[1:-1])
    ),
    passwords.map(lambda word: (repr([(b"authorization", f"Bearer {word}".encode())]), repr(word.encode())[2:-1])),
)


@dataclass(frozen=True)
class Shown:
    """An object of somebody else's, which shows what it has."""

    text: str


def _in_text(text: str) -> dict[str, Any]:
    return {"event": text}


places: st.SearchStrategy[Callable[[str], dict[str, Any]]] = st.sampled_from(
    [
        _in_text,
        lambda text: {"event": "e", "field": text},
        lambda text: {"event": "e", "field": {"inner": ["x", {"deep": (1, text)}]}},
        lambda text: {"event": "e", "field": {text: 1}},
        lambda text: {"event": "e", "field": {text}},
        lambda text: {"event": "e", "field": ValueError(text)},
        lambda text: {"event": "e", "field": Shown(text)},
        lambda text: {"event": "e", "field": text.encode()},
        lambda text: {"event": "e", "field": [[b"x", text.encode()]]},
        lambda text: {"event": "e", "headers": {b"x": [text]}},
    ]
)
around = st.text(alphabet=" ,;()[]{}\n", max_size=12)


def _fail(text: str) -> None:
    raise ValueError(text)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    structlog.reset_defaults()
    root.handlers, level = before
    root.setLevel(level)


def _written(form: Literal["json", "console"], write: Any, *, level: str = "info") -> str:
    stream = io.StringIO()
    configure_logging(level=level, form=form, stream=stream)
    write()
    return stream.getvalue()


def test_a_line_is_a_json_object_with_the_context_of_the_request() -> None:
    def write() -> None:
        with structlog.contextvars.bound_contextvars(request_id="r-1", tenant="acme"):
            structlog.get_logger("payrec.test").info("something.happened", count=3)

    line = json.loads(_written("json", write))

    assert (line["event"], line["count"], line["request_id"], line["tenant"], line["level"]) == (
        "something.happened",
        3,
        "r-1",
        "acme",
        "info",
    )
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("secret", [KEY, TOKEN, "pa55"])
def test_a_credential_is_redacted_in_texts_fields_and_tracebacks(form: Literal["json", "console"], secret: str) -> None:
    def write() -> None:
        logger = structlog.get_logger("payrec.test")
        logger.info(f"got {KEY} and {TOKEN} from {URL}")
        logger.info("fields", header=f"Bearer {TOKEN}", url=URL, key=KEY)
        logging.getLogger("some.library").warning("connecting to %s with %s, %s", URL, KEY, TOKEN)
        try:
            _fail(f"cannot use {URL}, {KEY} or {TOKEN}")
        except ValueError:
            logger.exception("failed")
            logging.getLogger("some.library").exception("failed as well")

    written = _written(form, write)

    assert "failed as well" in written
    assert REDACTED in written
    assert secret not in written


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_shows_no_local_variables(form: Literal["json", "console"]) -> None:
    def write() -> None:
        authorization = "local-marker-91c4"
        try:
            _fail(str(len(authorization)))
        except ValueError:
            structlog.get_logger("payrec.test").exception("failed")

    assert "local-marker-91c4" not in _written(form, write).replace('authorization = "local-marker-91c4"', "")


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "client_secret",
        "accessToken",
        "Authorization",
        "api_key",
        "apikey",
        "api_key_pepper",
        "encryption_key",
    ],
)
def test_a_field_is_redacted_by_its_name_whatever_it_holds(name: str) -> None:
    assert redact(None, "info", {name: "plain words"}) == {name: REDACTED}


@given(st.text(alphabet="0123456789ABCDEFabcdef", min_size=1, max_size=16), st.integers(min_value=0, max_value=2**64))
@settings(max_examples=50, deadline=None)
def test_every_key_is_redacted_wherever_it_stands(around: str, seed: int) -> None:
    key = keys.generate(random.Random(seed).randbytes).text  # noqa: S311 - a key of a test
    event = redact(None, "info", {"event": f"{around} {key}, {around}"})

    assert key not in event["event"]
    assert event["event"].startswith(around)


@given(written=credentials, place=places, before=around, after=around)
@settings(max_examples=600, deadline=None)
def test_nothing_is_left_of_a_credential_wherever_it_is(
    written: Written, place: Callable[[str], dict[str, Any]], before: str, after: str
) -> None:
    text, secret = written
    rendered = structlog.processors.JSONRenderer()(
        None, "info", redact(None, "info", place(f"{before} {text} {after}"))
    )

    for form in (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], repr(secret.encode())[2:-1]):
        assert form not in rendered
    assert REDACTED in rendered


@given(written=credentials, form=st.sampled_from(["json", "console"]))
@settings(max_examples=150, deadline=None)
def test_nothing_is_left_of_a_credential_in_a_traceback(written: Written, form: Literal["json", "console"]) -> None:
    text, secret = written

    def write() -> None:
        try:
            try:
                _fail(f"the cause: {text}")
            except ValueError as error:
                raise RuntimeError(f"what came of it: {text}") from error
        except RuntimeError:
            structlog.get_logger("payrec.test").exception("failed")
            logging.getLogger("some.library").exception("failed with %s", text)

    output = _written(form, write)

    for shown in (secret, json.dumps(secret)[1:-1]):
        assert shown not in output
    assert REDACTED in output


@pytest.mark.parametrize(
    "headers",
    [
        {"headers": {"Authorization": "opaque", "Accept": "text/plain"}},
        {"headers": [(b"authorization", b"opaque"), (b"accept", b"text/plain")]},
        {"headers": [["X-Api-Key", "opaque"], ["accept", "text/plain"]]},
        {"request": {"headers": {b"cookie": [b"opaque"]}, "accept": "text/plain"}},
        {"credentials": {"kind": "opaque"}, "accept": "text/plain"},
    ],
)
def test_a_member_is_redacted_by_its_name_at_any_depth(headers: dict[str, Any]) -> None:
    shown = json.dumps(redact(None, "info", dict(headers)))

    assert "opaque" not in shown
    assert "text/plain" in shown


def test_what_is_too_deep_or_too_much_is_left_out() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    shown = json.dumps(redact(None, "info", {"field": endless}), ensure_ascii=False)
    assert shown.count("again") == LOG_DEPTH_MAX
    assert LEFT_OUT in shown
    numbers: Any = list(range(10_000))
    assert redact(None, "info", {"field": numbers})["field"] == [*range(LOG_ITEMS_MAX), LEFT_OUT]
    named = redact(None, "info", {"field": dict.fromkeys(map(str, numbers), 1)})["field"]
    assert len(named) == LOG_ITEMS_MAX + 1
    assert named[LEFT_OUT] == LEFT_OUT


def test_what_is_logged_is_not_changed_where_it_comes_from() -> None:
    given = {"password": "opaque", "list": [KEY]}
    redact(None, "info", {"field": given})

    assert given == {"password": "opaque", "list": [KEY]}


@pytest.mark.parametrize(
    "part", ["eyJ", "://", "pr_", 'password="', "password ", 'authorization\\\\"', "-----BEGIN PRIVATE KEY-----"]
)
def test_no_text_takes_long(part: str) -> None:
    """A quadratic pattern would need minutes for these."""
    configure_logging(level="info", form="json", stream=io.StringIO())
    redact(None, "info", {"event": part * (300_000 // len(part))})


@pytest.mark.parametrize(
    "text",
    [
        "pr_short.x, see https://docs.example/a@b",
        "api_key:AbCdEfGhIjKlMnOp",
        "Basic authentication is not offered, Bearer tokens are",
        'Bearer realm="payrec"',
        "the password is too short",
        "a key of keys, tokenize, monkey = 3",
        "mail to ada@acme.example",
        "2026-11-20T12:00:00Z",
    ],
)
def test_what_is_no_credential_stays_as_it_is(text: str) -> None:
    event = {"event": text, "field": {"inner": [text, text, text]}, "amount_minor": 12, "nothing": None, "true": True}

    assert redact(None, "info", dict(event)) == event


def test_libraries_do_not_repeat_what_the_gate_writes() -> None:
    def write() -> None:
        logging.getLogger("uvicorn.access").info("GET /matches?q=secret-query")
        logging.getLogger("httpx2").info("HTTP Request: POST https://idp/token")
        structlog.get_logger("payrec").debug("details")

    assert _written("json", write) == ""
