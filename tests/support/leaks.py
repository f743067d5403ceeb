"""Credentials that the tests really use, and whether any of them stands where none may: the search after the suite.

Credentials are collected while requests are sent and answered; what is written meanwhile (log lines, problems, headers
of answers, metrics) is kept until a database is dropped, and then searched together with every column of it. A finding
names the place and the kind of credential, and never shows the credential.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TextIO, cast
from urllib.parse import parse_qs, quote

import httpx2
import numpy as np
import psycopg
from psycopg import sql
from pydantic import SecretStr

from payrec.config import Config
from payrec.logs import configure_logging

LENGTH_MIN = 12
"""Characters of a credential that is looked for: shorter ones stand anywhere by accident."""

DISTINCT_MIN = 6
"""Different characters of a collected password: what generators of bad input send as one is often a row of zeros."""

BLOCK_BYTES = 4 * 1024 * 1024
"""Rows of a table are searched in blocks of this size."""

FINDINGS_MAX = 20
"""Findings that the verdict lists."""

_WORD = 8
_TABLE_BITS = 20
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: multiplied with it, words fall evenly into the table (Fibonacci hashing)."""

_JWT = re.compile(r"eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.([0-9A-Za-z_-]+)")
_API_KEY = re.compile(r"pr_[0-9A-Za-z]{16}\.([0-9A-Za-z]{43})[0-9A-Za-z]{6}")
_SECRET_MEMBERS = frozenset({"password", "accessToken", "access_token", "apiKey", "secret"})
_WITH_SECRETS = ("/auth/", "/tenants", "/idp/", "/webhooks")
_TABLES = """
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        AND pg_relation_size(c.oid) > 0
    ORDER BY n.nspname, c.relname
"""


def forms(value: str) -> set[bytes]:
    """Return what a credential looks like in UTF-8, in JSON once and twice, in a URL, in base64, and as hex digits.

    The last is how PostgreSQL writes bytea. Where base64 begins within a text, a credential has one of three forms.
    """
    plain = value.encode()
    escaped = json.dumps(value)[1:-1].encode()
    found = {plain, escaped, escaped.replace(b"\\", b"\\\\"), quote(value, safe="").encode(), plain.hex().encode()}
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + plain)
        # Digits that hold bits of the neighbours as well are left out.
        whole = encoded[-(-before * 8 // 6) : (before + len(plain)) * 8 // 6]
        found |= {whole, whole.translate(bytes.maketrans(b"+/", b"-_"))}
    return {form for form in found if len(form) >= LENGTH_MIN}


class Credentials:
    """Credentials by kind, and the search for all of them at once in any text."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._kinds: dict[bytes, str] = {}
        self._by_end: dict[bytes, list[bytes]] = {}
        self._ends = np.zeros(1 << _TABLE_BITS, np.bool_)

    def __contains__(self, value: str) -> bool:
        return _telling(value) in self._known

    def add(self, kind: str, value: str) -> None:
        """Look for this from now on; of tokens and API keys only the part that must be secret is looked for."""
        value = _telling(value)
        if len(value) < LENGTH_MIN or value in self._known:
            return
        self._known.add(value)
        for form in forms(value) - self._kinds.keys():
            self._kinds[form] = kind
            end = form[-_WORD:]
            self._by_end.setdefault(end, []).append(form)
            self._ends[self._places(np.frombuffer(end, "<u8"))] = True

    def find(self, text: bytes) -> list[tuple[int, int, str]]:
        """Return begin, end and kind of every credential in the text.

        Every eight bytes are looked up in a table of how credentials end, a few milliseconds for a megabyte whatever
        their number; only where that says yes, they are compared.
        """
        found = []
        for start in range(min(_WORD, len(text) - _WORD + 1)):
            words = np.frombuffer(text, "<u8", count=(len(text) - start) // _WORD, offset=start)
            for number in np.flatnonzero(self._ends[self._places(words)]).tolist():
                end = start + (number + 1) * _WORD
                for form in self._by_end.get(text[end - _WORD : end], ()):
                    begin = end - len(form)
                    if begin >= 0 and text.startswith(form, begin):
                        found.append((begin, end, self._kinds[form]))
        return sorted(found)

    def masked(self, text: bytes) -> str:
        """Return the text with the kind of a credential in place of each."""
        parts, done = [], 0
        for begin, end, kind in self.find(text):
            if end > done:
                parts += [text[done : max(begin, done)], f"[{kind}]".encode()]
                done = end
        return b"".join([*parts, text[done:]]).decode(errors="replace")

    @staticmethod
    def _places(words: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
        return (words * _SPREAD) >> np.uint64(64 - _TABLE_BITS)


class Leaks:
    """What was used, what was written, and what was found in it."""

    def __init__(self) -> None:
        self.credentials = Credentials()
        self.findings: list[str] = []
        self._written: dict[str, bytearray] = {}
        self._stream = _Copy(self)
        self._handler: logging.Handler | None = None
        self._is_watching = False

    @property
    def is_watching(self) -> bool:
        """Whether anything is collected; a benchmark has none of it."""
        return self._is_watching

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Collect until the context ends, and then fail if anything was found."""
        self._is_watching = True
        self.listen()
        try:
            yield
        finally:
            self._is_watching = False
        self.search_written()
        self.verdict()

    def verdict(self) -> None:
        """Fail if anything was found."""
        more = len(self.findings) - FINDINGS_MAX
        listed = [*self.findings[:FINDINGS_MAX], *([f"and {more} more"] if more > 0 else [])]
        assert not listed, "credentials were written where none may stand:\n" + "\n".join(listed)

    def listen(self) -> None:
        """Log as the service does, every level of it, into the collection; again after a test had its own way."""
        if not self._is_watching:
            return
        root = logging.getLogger()
        others = [handler for handler in root.handlers if handler is not self._handler]
        configure_logging(level="debug", form="json", stream=cast("TextIO", self._stream))
        [self._handler] = root.handlers
        root.handlers = [*others, self._handler]

    def learn(self, config: Config) -> None:
        """Add the secrets of the settings."""
        for name in type(config).model_fields:
            value = getattr(config, name)
            if isinstance(value, SecretStr):
                secret = value.get_secret_value()
                # One character again and again stands by accident in files that are packed by columns.
                assert len(set(secret)) >= DISTINCT_MIN, f"{name} of a test is no secret that can be looked for"
                self.credentials.add(name.upper(), secret)

    async def asked(self, request: httpx2.Request) -> None:
        """Add the credentials of a request."""
        for name in ("authorization", "x-api-key"):
            for value in request.headers.get_list(name):
                scheme, _, rest = value.partition(" ")
                self._collect(name, rest or scheme)
        if request.method != "POST" or not request.url.path.startswith(_WITH_SECRETS):
            return
        try:
            content = request.content
        except httpx2.RequestNotRead:
            return
        if "form" in request.headers.get("content-type", ""):
            document: Any = {k: v[0] for k, v in parse_qs(content.decode("latin-1")).items()}
        else:
            document = _json(content)
        text = json.dumps(document)
        for name, value in _secret_members(document):
            # What the request also says as something else, such as a name, is no secret.
            if text.count(json.dumps(value)[1:-1]) == 1:
                self._collect(name, value)

    async def answered(self, response: httpx2.Response) -> None:
        """Add the credentials of an answer, and keep what of it must have none."""
        self.write("header", b"\n".join(b"%s: %s" % pair for pair in response.headers.raw))
        if response.headers.get("content-type", "").startswith("application/problem+json"):
            self.write("problem", await response.aread())
        elif response.request.url.path.startswith(_WITH_SECRETS):
            for name, value in _secret_members(_json(await response.aread())):
                self._collect(name, value)

    def write(self, place: str, text: bytes) -> None:
        """Keep lines that were written in this kind of place."""
        self._written.setdefault(place, bytearray()).extend(text + b"\n")

    def search_written(self) -> None:
        """Search what was written since the last time, and forget it."""
        for place, lines in self._written.items():
            text = bytes(lines)
            for begin, end, kind in self.credentials.find(text):
                line = text[text.rfind(b"\n", 0, begin) + 1 : text.find(b"\n", end)]
                self._found(f"{kind} in a {place}: {self.credentials.masked(line)[:300]}")
        self._written.clear()

    def search_database(self, url: str) -> None:
        """Search every column of every table; ``url`` is a superuser's."""
        with psycopg.connect(url, options="-c statement_timeout=60s", autocommit=True) as connection:
            for schema, table in connection.execute(_TABLES).fetchall():
                query = sql.SQL("SELECT * FROM ONLY {}").format(sql.Identifier(schema, table))
                columns = connection.execute(query + sql.SQL(" LIMIT 0")).description or ()
                names = [column.name for column in columns]
                for rows in _blocks(connection, query):
                    for begin, _, kind in self.credentials.find(rows):
                        before = rows[rows.rfind(b"\n", 0, begin) + 1 : begin]
                        self._found(f"{kind} in the column {schema}.{table}.{names[before.count(b'	')]}")

    def _collect(self, kind: str, value: str) -> None:
        if len(set(_telling(value))) >= DISTINCT_MIN:
            self.credentials.add(kind, value)

    def _found(self, text: str) -> None:
        # Without the parameters of the test, of which one may be the credential.
        test = os.environ.get("PYTEST_CURRENT_TEST", "the last test").partition("[")[0]
        text = f"{text} (found after {test})"
        if text not in self.findings:
            self.findings.append(text)


class _Copy(io.TextIOBase):
    """Standard error, of which a copy is kept."""

    isatty: ClassVar[Any] = staticmethod(lambda: False)

    def __init__(self, leaks: Leaks) -> None:
        self._leaks = leaks

    def write(self, text: str) -> int:
        self._leaks.write("log line", text.rstrip("\n").encode(errors="replace"))
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _blocks(connection: psycopg.Connection[Any], query: sql.Composed) -> Iterator[bytes]:
    """Return the rows in PostgreSQL's text format: a line for each, a tab between columns."""
    rows, size = [], 0
    with connection.cursor().copy(sql.SQL("COPY ({}) TO STDOUT").format(query)) as copy:
        for data in copy:
            rows.append(bytes(data))
            size += len(data)
            if size > BLOCK_BYTES:
                yield b"".join(rows)
                rows, size = [], 0
    yield b"".join(rows)


def _telling(value: str) -> str:
    """Return the part of a credential that makes it one: the signature of a token, the secret of an API key."""
    found = _JWT.fullmatch(value) or _API_KEY.fullmatch(value)
    return value if found is None else found[1]


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _secret_members(document: Any) -> Iterator[tuple[str, str]]:
    """Return the members that hold a credential by their name, also those of inner objects."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name in _SECRET_MEMBERS and isinstance(value, str):
                yield name, value
            else:
                yield from _secret_members(value)


SESSION = Leaks()
"""What this test process collects."""
