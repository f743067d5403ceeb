"""How the operator hangs on kopf: what is registered, which changes count, and what the watch of Secrets knows."""

from __future__ import annotations

import asyncio
import base64
import itertools
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, Final, cast

import kopf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kopf._cogs.structs.diffs import diff  # what kopf itself compares with has no public name

from payrec.domain.tenant_resources import ResourceOwner
from payrec_operator import handlers, startup
from payrec_operator.api_server import METADATA_ONLY, ApiServer
from payrec_operator.constants import FINALIZER
from payrec_operator.errors import SecretForbiddenError, SecretsUnavailableError
from payrec_operator.handlers import (
    STUCK_SECONDS,
    end_passes,
    hear_of_tenant,
    is_asked,
    look_again,
    reach_database,
)
from payrec_operator.outcome import Outcome, Status
from payrec_operator.reasons import Reason
from payrec_operator.secrets import KubernetesSecrets, SecretCache, controlled_by, key_secret, versions_of
from payrec_operator.startup import configure

_IMPORT = """
import socket, sys, os

def refuse(*_, **__):
    raise AssertionError("something happens at import")

socket.socket.connect = refuse
os.environ.clear()
import payrec_operator.main
import kopf

registry = kopf.get_default_registry()
names = [f"{type(h).__name__} {h.id} {getattr(h, 'reason', '')}" for part in (
    registry._changing, registry._watching, registry._indexing, registry._spawning, registry._activities
) for h in part.get_all_handlers()]
print("\\n".join(names))
print("heavy:", sorted({"polars", "numba", "numpy", "duckdb"} & sys.modules.keys()))
"""


def test_importing_registers_the_handlers_and_does_nothing_else() -> None:
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "heavy: []" in done.stdout
    assert done.stdout.count("tenant ") >= 4, done.stdout
    for name in ("passes", "database", "hear_of_secret", "hear_of_tenant", "open_operator", "close_operator"):
        assert name in done.stdout, name


def test_kopf_is_set_as_it_has_to_be() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    assert settings.persistence.finalizer == FINALIZER == "payrec.dev/operator"
    assert (settings.watching.server_timeout, settings.watching.client_timeout) == (300, 330)
    assert settings.watching.inactivity_timeout == 70
    assert settings.networking.request_timeout == 30
    assert settings.queueing.worker_limit is None
    assert settings.posting.loggers is False
    assert settings.scanning.disabled is True
    assert settings.peering.standalone is True


def test_our_annotations_are_seen_by_kopf_and_its_own_are_not() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    body = kopf.Body(
        {
            "metadata": {
                "name": "acme",
                "annotations": {"payrec.dev/rotate": "1", "kopf.payrec.dev/touch-dummy": "1", "example.com/a": "1"},
            },
            "spec": {"slug": "acme"},
        }
    )
    essence: Any = settings.persistence.diffbase_storage.build(body=body)
    essence = settings.persistence.progress_storage.clear(essence=essence)
    assert set(essence["metadata"]["annotations"]) == {"payrec.dev/rotate"}
    patch = kopf.Patch()
    settings.persistence.diffbase_storage.store(body=body, patch=patch, essence=essence)
    assert list(patch["metadata"]["annotations"]) == ["kopf.payrec.dev/last-handled-configuration"]


@pytest.mark.anyio
async def test_a_database_that_hangs_is_said_to_and_fails_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(startup, "check_ready", hang)
    monkeypatch.setattr(startup, "PROBE_SECONDS_MAX", 0.05)
    given: dict[str, Any] = dict.fromkeys(("config", "settings", "runner", "cache", "statuses", "stack"))
    operator = startup.Operator(factory=SimpleNamespace(context=SimpleNamespace(database=None)), **given)  # type: ignore[arg-type]
    memo = kopf.Memo(operator=operator)
    assert await reach_database(memo) == "the database does not answer in time"


@pytest.mark.anyio
async def test_passes_that_no_longer_end_fail_the_probe() -> None:
    runner = SimpleNamespace(stuck_seconds=0.0)
    memo = kopf.Memo(operator=SimpleNamespace(runner=runner))
    assert await end_passes(memo) == "ok"
    runner.stuck_seconds = STUCK_SECONDS + 1
    with pytest.raises(kopf.PermanentError):
        await end_passes(memo)


class _Refusing:
    """An API server that takes nothing down, and from which a Tenant that is being deleted goes in the end."""

    def __init__(self, body: dict[str, Any], *, nudges: int = 0) -> None:
        self.body = body
        self.nudges = nudges
        self.written = 0

    async def hold(self, body: Any) -> Any:
        return body

    async def write(self, *_: Any) -> None:
        self.written += 1
        raise SecretsUnavailableError

    async def read(self, *_: str) -> dict[str, Any] | None:
        return self.body if self.nudges else None

    async def nudge(self, body: dict[str, Any]) -> None:
        assert body is self.body
        self.nudges -= 1
        raise SecretsUnavailableError


def _memo(statuses: _Refusing) -> tuple[kopf.Memo, list[str]]:
    calls: list[str] = []

    async def run(*_: Any) -> Outcome:
        return Outcome(status=Status(fields={}, conditions=[]), result="reconciled", reason=Reason.RECONCILED)

    runner = SimpleNamespace(
        run=run,
        write_status=print,
        note=lambda *_: calls.append("note"),
        forget=lambda uid: calls.append(f"forget {uid}"),
    )
    operator = SimpleNamespace(
        runner=runner,
        statuses=statuses,
        cache=SecretCache(),
        settings=SimpleNamespace(resync_interval=300),
        factory=SimpleNamespace(context=SimpleNamespace(clock=SimpleNamespace(now=lambda: None))),
    )
    return kopf.Memo(operator=operator, due={}, leaving={}), calls


@pytest.mark.anyio
async def test_a_timer_goes_on_where_its_status_cannot_be_written() -> None:
    body = {"metadata": {"namespace": "shop", "name": "acme", "uid": "u1"}}
    statuses = _Refusing(body)
    memo, calls = _memo(statuses)
    await look_again(kopf.Body(body), memo)  # type: ignore[arg-type]  # kopf's typing of raw bodies
    assert (statuses.written, calls) == (1, ["note"])


@pytest.mark.anyio
async def test_a_deletion_is_looked_at_again_until_the_tenant_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "NUDGE_SECONDS", 0.0)
    metadata = {"namespace": "shop", "name": "acme", "uid": "u1", "deletionTimestamp": "now", "finalizers": [FINALIZER]}
    memo, calls = _memo(_Refusing({"metadata": metadata}, nudges=2))
    await hear_of_tenant("MODIFIED", kopf.Body({"metadata": metadata}), memo)  # type: ignore[arg-type,typeddict-item]
    async with asyncio.timeout(5):
        await memo.leaving["u1"]
    assert calls == ["note", "note", "forget u1"]
    assert memo.leaving == {}


def _diff(*changes: tuple[str, tuple[str, ...], Any, Any]) -> kopf.Diff:
    return changes  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (("change", ("spec", "suspended"), False, True), True),
        (("add", ("spec",), None, {}), True),
        (("add", (), None, {"spec": {}}), True),
        (("add", ("metadata", "annotations", "payrec.dev/rotate"), None, "1"), True),
        (("remove", ("metadata", "annotations", "payrec.dev/paused"), "true", None), True),
        (("add", ("metadata", "annotations"), None, {"payrec.dev/rotate": "1"}), True),
        (("remove", ("metadata", "annotations"), {"payrec.dev/paused": "true"}, None), True),
        (("add", ("metadata", "annotations"), None, {"argocd.argoproj.io/tracking-id": "1"}), False),
        (("change", ("metadata", "annotations", "example.com/payrec.dev/rotate"), "1", "2"), False),
        (("add", ("metadata", "labels", "team"), None, "a"), False),
        (("add", ("metadata",), None, {"labels": {"payrec.dev/a": "1"}}), False),
    ],
)
def test_a_change_counts_where_it_is_of_the_spec_or_of_our_annotations(change: Any, counts: bool) -> None:  # noqa: FBT001
    assert is_asked(_diff(change)) is counts
    foreign = ("change", ("metadata", "labels", "x"), "a", "b")
    assert is_asked(_diff(foreign, change)) is counts


@pytest.mark.parametrize("verb", ["rotate", "rotate.ledger", "paused", "adopt", "abandon"])
@pytest.mark.parametrize(
    "others", [{}, {"example.com/a": "1"}, {"kubectl.kubernetes.io/last-applied-configuration": ""}]
)
@pytest.mark.parametrize("labels", [{}, {"team": "a"}])
def test_an_annotation_of_ours_is_told_whatever_else_the_resource_has(
    verb: str, others: dict[str, str], labels: dict[str, str]
) -> None:
    settings = kopf.OperatorSettings()
    configure(settings)

    def essence(**annotations: str) -> Any:
        metadata = {"name": "acme", "labels": labels, "annotations": others | annotations}
        body = kopf.Body({"metadata": metadata, "spec": {"slug": "acme"}})
        return settings.persistence.diffbase_storage.build(body=body)

    without, first, second = (
        essence(**given) for given in ({}, {f"payrec.dev/{verb}": "1"}, {f"payrec.dev/{verb}": "2"})
    )
    for before, after in itertools.permutations((without, first, second), 2):
        assert is_asked(diff(before, after))
    assert not is_asked(diff(without, essence(**{"example.com/b": "1"})))


OWNER = ResourceOwner(uid="u1", namespace="shop", name="acme")
OF_SHOP: Final = "/api/v1/namespaces/shop/secrets"


def _secret(name: str, uid: str | None = "u1", version: str = "1", **data: str) -> dict[str, Any]:
    reference = {"apiVersion": "payrec.dev/v1", "kind": "Tenant", "name": "acme", "uid": uid, "controller": True}
    metadata: dict[str, Any] = {"namespace": "shop", "name": name, "uid": f"of-{name}", "resourceVersion": version}
    if uid is not None:
        metadata["ownerReferences"] = [reference]
    return {"metadata": metadata, "data": data}


def test_the_cache_knows_the_secrets_of_each_tenant_that_were_asked_for() -> None:
    cache = SecretCache()
    cache.put(_secret("a"))
    assert cache.of("u1") is None, "there may be others, of which the list has not told yet"
    cache.replace("u1", [_secret("a")])
    cache.replace("u2", [])
    cache.put(_secret("b", "u2"))
    cache.put(_secret("c", None))
    assert [s.name for s in cache.of("u1") or ()] == ["a"]
    assert [s.name for s in cache.of("u2") or ()] == ["b"]
    cache.put(_secret("a", "u2", "2"))
    assert cache.of("u1") == []
    assert [s.name for s in cache.of("u2") or ()] == ["b", "a"]
    cache.forget(_secret("b", "u2"))
    assert [s.name for s in cache.of("u2") or ()] == ["a"]
    cache.forget_tenant("u2")
    assert cache.of("u2") is None


_SECRETS = st.dictionaries(
    st.sampled_from("abcd"), st.tuples(st.sampled_from(["u1", "u2", None]), st.sampled_from("12"))
)


@given(heard=_SECRETS, there=_SECRETS)
def test_who_has_other_secrets_than_was_heard_is_asked_for_and_nobody_else(
    heard: dict[str, tuple[str | None, str]], there: dict[str, tuple[str | None, str]]
) -> None:
    cache = SecretCache()
    for asked in ("u1", "u2"):
        cache.replace(asked, [])
    for name, (uid, version) in heard.items():
        cache.put(_secret(name, uid, version))

    cache.compare(versions_of(_secret(name, uid, version) for name, (uid, version) in there.items()))
    for asked in ("u1", "u2"):
        before, now = (
            {name: version for name, (uid, version) in known.items() if uid == asked} for known in (heard, there)
        )
        known = cache.of(asked)
        assert (known is None) is (before != now)
        if known is not None:
            assert {s.name: s.resource_version for s in known} == now


class _Lists:
    """An API server that lists Secrets, a few at once, where the account may see them."""

    def __init__(self, *, everywhere: bool) -> None:
        self.secrets = [_secret(name) for name in "abc"]
        self.everywhere = everywhere
        self.answers = True
        self.asked: list[str] = []

    async def ask(
        self, _what: str, _method: str, path: str, *, query: dict[str, str], accept: str = "application/json"
    ) -> dict[str, Any]:
        assert (accept == METADATA_ONLY) is ("limit" in query)
        self.asked.append(path + query.get("continue", ""))
        if not self.answers:
            raise SecretsUnavailableError
        if path == "/api/v1/secrets" and not self.everywhere:
            raise SecretForbiddenError
        first = int(query.get("continue") or 0)
        items, rest = self.secrets[first : first + 2], self.secrets[first + 2 :]
        if "payrec.dev" in query["labelSelector"]:
            return {"items": self.secrets, "metadata": {}}
        return {"items": items or None, "metadata": {"continue": str(first + 2)} if rest else {}}


@pytest.mark.anyio
@pytest.mark.parametrize(("everywhere", "path"), [(True, "/api/v1/secrets"), (False, OF_SHOP)])
async def test_what_the_watch_does_not_tell_is_seen_before_long(path: str, *, everywhere: bool) -> None:
    now = 100.0
    api = _Lists(everywhere=everywhere)
    secrets = KubernetesSecrets(cast("ApiServer", api), SecretCache(), monotonic=lambda: now, sure_seconds=60)

    async def names() -> list[str]:
        api.asked.clear()
        return [s.name for s in await secrets.owned(OWNER)]

    assert await names() == ["a", "b", "c"]
    assert api.asked == [OF_SHOP]
    assert (await names(), api.asked) == (["a", "b", "c"], [])
    now += 61
    assert await names() == ["a", "b", "c"]
    assert api.asked[-2:] == [path, f"{path}2"], "all was as it was heard"
    assert (await names(), api.asked) == (["a", "b", "c"], [])
    del api.secrets[1]
    now += 30
    assert await names() == ["a", "b", "c"], "nobody has looked yet"
    now += 31
    api.answers = False
    assert await names() == ["a", "b", "c"], "and an API server that does not answer says nothing of them"
    assert api.asked == [path]
    now += 61
    api.answers = True
    assert await names() == ["a", "c"]
    assert api.asked == [path, OF_SHOP]
    api.secrets.clear()
    now += 61
    assert await names() == []


def test_our_own_writes_are_told_from_others() -> None:
    cache = SecretCache()
    cache.wrote(_secret("a", version="7"))
    assert cache.is_ours(_secret("a", version="7"), gone=False)
    assert not cache.is_ours(_secret("a", version="8"), gone=False)
    assert not cache.is_ours(_secret("a", version="9"), gone=True), "somebody else deleted it"
    cache.deleted(_secret("a", version="9"))
    assert cache.is_ours(_secret("a", version="10"), gone=True)
    assert not cache.is_ours(_secret("a", version="11"), gone=True)


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.binary(max_size=20), max_size=5))
def test_whatever_a_secret_holds_can_be_read(data: dict[str, bytes]) -> None:
    body = _secret("a")
    body["data"] = {name: base64.b64encode(value).decode() for name, value in data.items()}
    found = key_secret(body, uid="u1")
    assert found.owned
    assert found.data.keys() == data.keys()


@pytest.mark.parametrize(
    "references",
    [
        None,
        [],
        [{"kind": "Tenant", "apiVersion": "payrec.dev/v1", "uid": "u1", "name": "a"}],
        [{"kind": "Tenant", "apiVersion": "payrec.dev/v1", "uid": "u1", "name": "a", "controller": False}],
        [{"kind": "Tenant", "apiVersion": "example.com/v1", "uid": "u1", "name": "a", "controller": True}],
        [{"kind": "Pod", "apiVersion": "v1", "uid": "u1", "name": "a", "controller": True}],
    ],
)
def test_a_secret_is_the_tenants_only_where_the_tenant_controls_it(references: Any) -> None:
    assert controlled_by({"ownerReferences": references}) is None
