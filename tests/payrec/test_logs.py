"""Logs: one JSON object a line, and never a credential, whoever writes it."""

from __future__ import annotations

import io
import json
import logging
import random
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain import keys
from payrec.logs import REDACTED, configure_logging, redact

KEY = keys.generate(lambda size: bytes(range(size))).text
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl"
URL = "postgresql://payrec:pa55@db.example:5432/payrec"


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


def test_what_is_no_credential_stays_as_it_is() -> None:
    event = {"event": "pr_short.x, see https://docs.example/a@b", "amount_minor": 12, "tenant": "acme"}

    assert redact(None, "info", dict(event)) == event


def test_libraries_do_not_repeat_what_the_gate_writes() -> None:
    def write() -> None:
        logging.getLogger("uvicorn.access").info("GET /matches?q=secret-query")
        logging.getLogger("httpx2").info("HTTP Request: POST https://idp/token")
        structlog.get_logger("payrec").debug("details")

    assert _written("json", write) == ""
