"""Requests to the API server: whose they are, how a token is replaced, and what is told of refusals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import kopf
import pytest
import yaml
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.errors import ConfigurationError
from payrec_operator.api_server import TOKEN_SECONDS, NotThereError, api_server, credentials
from payrec_operator.errors import (
    NamespaceTerminatingError,
    OperatorError,
    SecretConflictError,
    SecretForbiddenError,
    SecretsUnavailableError,
)
from support.ports import free_port

pytestmark = pytest.mark.anyio

HIDDEN = "not-to-be-told"


class _Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def _write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")


def _configure(path: Path, *, server: str, token: str) -> None:
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    _write(path, yaml.safe_dump(content))


def _remove(path: Path) -> None:
    path.unlink()


class Answering:
    """An API server that answers as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status, self.answer = 200, {"kind": "Tenant"}
        self.asked: list[tuple[str, str, str | None, Any]] = []
        self.url = ""

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        body = json.loads(await request.text() or "null")
        self.asked.append((request.method, request.path_qs, request.headers.get("Authorization"), body))
        return web.json_response(self.answer, status=self.status)


@pytest.fixture
async def answering() -> AsyncIterator[Answering]:
    answering, port = Answering(), free_port()
    runner = web.ServerRunner(web.Server(answering))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    answering.url = f"http://127.0.0.1:{port}/"
    yield answering
    await runner.cleanup()


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


async def test_a_token_that_is_replaced_in_its_file_is_used_soon(answering: Answering, configuration: Path) -> None:
    time = _Time()
    _configure(configuration, server=answering.url, token="first")
    async with api_server(monotonic=time) as api:
        assert await api.ask("look", "GET", "/apis/x", query={"limit": "5"}) == {"kind": "Tenant"}
        _configure(configuration, server=answering.url, token="second")
        await api.ask("make", "POST", "/apis/x", {"a": 1})
        time.now += TOKEN_SECONDS + 1
        await api.ask("look", "GET", "/apis/x")
        _remove(configuration)
        time.now += TOKEN_SECONDS + 1
        await api.ask("look", "GET", "/apis/x")
    assert answering.asked == [
        ("GET", "/apis/x?limit=5", "Bearer first", None),
        ("POST", "/apis/x", "Bearer first", {"a": 1}),
        ("GET", "/apis/x", "Bearer second", None),
        ("GET", "/apis/x", "Bearer second", None),
    ]


@pytest.mark.parametrize(
    ("status", "more", "kind"),
    [
        (403, {}, SecretForbiddenError),
        (403, {"details": {"causes": [{"reason": "NamespaceTerminating"}]}}, NamespaceTerminatingError),
        (404, {}, NotThereError),
        (404, {"details": {"kind": "namespaces"}}, NamespaceTerminatingError),
        (409, {}, SecretConflictError),
        (422, {}, SecretForbiddenError),
        (401, {}, SecretsUnavailableError),
        (429, {}, SecretsUnavailableError),
        (500, {"details": "x"}, SecretsUnavailableError),
    ],
)
async def test_a_refusal_is_told_without_its_text(
    answering: Answering, configuration: Path, status: int, more: dict[str, Any], kind: type[OperatorError]
) -> None:
    _configure(configuration, server=answering.url, token="t")
    answering.status, answering.answer = status, {"message": HIDDEN, **more}
    async with api_server() as api:
        with pytest.raises(OperatorError) as refused:
            await api.ask("create Secret a", "POST", "/x", {})
    assert type(refused.value) is kind
    assert str(refused.value).startswith("create Secret a: ")
    assert HIDDEN not in str(refused.value)


@pytest.mark.parametrize(
    ("method", "status", "text", "causes", "told"),
    [
        ("POST", 403, "exceeded quota: team-a, requested: secrets=1", (), "the quota team-a refuses it"),
        ("POST", 422, "ValidatingAdmissionPolicy 'need-owner' with binding 'b' denied request: no", (), "need-owner"),
        ("PUT", 400, 'admission webhook "validate.kyverno.svc-fail" denied the request: no', (), "validate.kyverno."),
        (
            "PUT",
            422,
            "data: Forbidden: field is immutable when `immutable` is set",
            [{"reason": "FieldValueForbidden", "message": "Forbidden: field is immutable", "field": "data"}],
            "it is immutable; delete it, and another is made",
        ),
    ],
)
async def test_what_refuses_a_secret_for_good_is_named(
    answering: Answering,
    configuration: Path,
    method: str,
    status: int,
    text: str,
    causes: Sequence[Mapping[str, str]],
    told: str,
) -> None:
    _configure(configuration, server=answering.url, token="t")
    answering.status = status
    answer: dict[str, Any] = {"message": f"{text} {HIDDEN}", "details": {"causes": list(causes)}}
    answering.answer = answer
    async with api_server() as api:
        with pytest.raises(SecretForbiddenError) as refused:
            await api.ask("write Secret a", method, "/x", {})
    assert told in str(refused.value)
    assert HIDDEN not in str(refused.value)


async def test_a_patch_whose_test_fails_is_a_conflict(answering: Answering, configuration: Path) -> None:
    _configure(configuration, server=answering.url, token="t")
    answering.status, answering.answer = 422, {"message": HIDDEN}
    async with api_server() as api:
        with pytest.raises(SecretConflictError):
            await api.ask("let Tenant a go", "PATCH", "/x", [])


async def test_an_api_server_that_is_away_is_unavailable(configuration: Path) -> None:
    _configure(configuration, server=f"http://127.0.0.1:{free_port()}", token="t")
    async with api_server() as api:
        with pytest.raises(SecretsUnavailableError, match="cannot be reached"):
            await api.find("look", "/x")


def test_without_any_credentials_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="neither a service account nor KUBECONFIG"):
        credentials()


def _told(read: Callable[[], kopf.ConnectionInfo]) -> str:
    try:
        found = read()
    except ConfigurationError as refused:
        return refused.detail
    assert isinstance(found.server, str)
    return ""


async def test_a_certificate_that_is_not_there_is_refused(configuration: Path) -> None:
    content = yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority": "/nonexistent"}}],
            "users": [{"name": "u", "user": {"token": HIDDEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )
    _write(configuration, content)
    with pytest.raises(ConfigurationError, match="certificate"):
        async with api_server():
            pass


PARTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(HIDDEN),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["clusters", "users", "contexts", "current-context", "name", "context", "cluster", "user", "server"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60)
@given(st.one_of(PARTS.map(yaml.safe_dump), st.text(max_size=40)))
def test_whatever_the_configuration_holds_it_is_read_or_refused_in_a_line(
    tmp_path_factory: pytest.TempPathFactory, content: str
) -> None:
    path = tmp_path_factory.mktemp("kube") / "config"
    path.write_text(content, encoding="utf-8", errors="replace")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("KUBECONFIG", str(path))
        told = _told(credentials)
    assert HIDDEN not in told
    assert "\n" not in told
