"""What is done before a release goes, against an API server in memory that changes its mind at any moment."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec_operator import uninstall as program
from payrec_operator.api_server import ApiServer, NotThereError
from payrec_operator.constants import FINALIZER
from payrec_operator.errors import OperatorError, SecretConflictError, SecretForbiddenError, SecretsUnavailableError
from payrec_operator.uninstall import ROUNDS_MAX, Uninstallation, UnreleasedError

DEPLOYMENT = "/apis/apps/v1/namespaces/system/deployments/payrec-operator"
PODS = "/api/v1/namespaces/system/pods"
TENANTS = "/apis/payrec.dev/v1"


class Cluster:
    """An API server with an operator's Deployment, its pods, and Tenants."""

    def __init__(self, *tenants: dict[str, Any], pods: int = 1, page: int = 2) -> None:
        self.tenants = {(t["metadata"]["namespace"], t["metadata"]["name"]): copy.deepcopy(t) for t in tenants}
        self.deployment: dict[str, Any] | None = {
            "metadata": {"generation": 1},
            "status": {"observedGeneration": 1, "replicas": pods},
        }
        self.pods = [f"payrec-operator-{number}" for number in range(pods)]
        self.asked: list[tuple[str, str]] = []
        self.is_defined = True
        self.forbidden: set[str] = set()
        self.before_write: Callable[[tuple[str, str]], None] = lambda _key: None
        self._page = page

    async def ask(
        self,
        what: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> dict[str, Any]:
        assert what
        assert accept == "application/json", "whole objects"
        self.asked.append((method, path))
        if path == PODS:
            assert query == {"labelSelector": "component=operator"}
            return {"items": [{"metadata": {"name": name}, "status": {"phase": "Running"}} for name in self.pods]}
        if path.startswith(DEPLOYMENT):
            return self._deployment(method, path, body)
        if not self.is_defined:
            raise NotThereError(what)
        assert path.startswith(TENANTS)
        parts = path.removeprefix(TENANTS).strip("/").split("/")
        namespace = parts[1] if parts[0] == "namespaces" else None
        if (namespace or "") in self.forbidden:
            raise SecretForbiddenError(what)
        if method == "GET":
            return self._listed(namespace, query or {})
        assert (method, content_type) == ("PATCH", "application/json-patch+json")
        return self._patched((parts[1], parts[3]), body)

    async def find(self, what: str, path: str) -> dict[str, Any] | None:
        try:
            return await self.ask(what, "GET", path)
        except NotThereError:
            return None

    def _deployment(self, method: str, path: str, body: Any) -> dict[str, Any]:
        if self.deployment is None:
            raise NotThereError(path)
        if method == "PATCH":
            assert path == f"{DEPLOYMENT}/scale"
            assert body == {"spec": {"replicas": 0}}
            self.deployment["metadata"]["generation"] += 1
        return copy.deepcopy(self.deployment)

    def _listed(self, namespace: str | None, query: Mapping[str, str]) -> dict[str, Any]:
        found = [t for key, t in sorted(self.tenants.items()) if namespace in {None, key[0]}]
        start = int(query.get("continue", "0"))
        more = {"continue": str(start + self._page)} if len(found) > start + self._page else {}
        return {"metadata": more, "items": copy.deepcopy(found[start : start + self._page])}

    def _patched(self, key: tuple[str, str], body: Any) -> dict[str, Any]:
        self.before_write(key)
        tenant = self.tenants.get(key)
        if tenant is None:
            raise NotThereError(str(key))
        [test, remove] = body
        at = int(test["path"].removeprefix("/metadata/finalizers/"))
        finalizers = tenant["metadata"].get("finalizers", [])
        if at >= len(finalizers) or finalizers[at] != test["value"]:
            raise SecretConflictError(str(key))
        assert remove == {"op": "remove", "path": test["path"]}
        finalizers.pop(at)
        if not finalizers and "deletionTimestamp" in tenant["metadata"]:
            del self.tenants[key]
        return tenant

    def step(self) -> None:
        """Let the controllers do one thing: see the Deployment, then end a pod."""
        if self.deployment is not None and (
            self.deployment["status"]["observedGeneration"] < self.deployment["metadata"]["generation"]
        ):
            self.deployment["status"] = {"observedGeneration": self.deployment["metadata"]["generation"]}
        elif self.pods:
            self.pods.pop()


def _tenant(name: str, *finalizers: str, namespace: str = "team-a", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "finalizers": list(finalizers), **metadata}}


def _run(cluster: Cluster, *namespaces: str) -> list[str]:
    said: list[str] = []

    async def sleep(_seconds: float) -> None:
        cluster.step()

    work = Uninstallation(
        cast("ApiServer", cluster),
        namespace="system",
        deployment="payrec-operator",
        selector="component=operator",
        namespaces=namespaces,
        say=said.append,
        sleep=sleep,
    )
    asyncio.run(work.run())
    return said


def test_the_operator_has_ended_before_a_tenant_is_touched() -> None:
    cluster = Cluster(_tenant("acme", FINALIZER), pods=2)
    patched: list[int] = []
    cluster.before_write = lambda _key: patched.append(len(cluster.pods))
    assert _run(cluster) == [
        "waiting for the operator's Deployment",
        "waiting for the pod payrec-operator-0",
        "the operator has ended",
        "1 Tenants released in all namespaces",
    ]
    assert patched == [0]


def test_what_others_hold_on_by_stays_and_nothing_is_deleted() -> None:
    cluster = Cluster(
        _tenant("acme", "others.example/one", FINALIZER, "others.example/two"),
        _tenant("globex", "others.example/one"),
        _tenant("plain"),
    )
    _run(cluster)
    assert {name: t["metadata"]["finalizers"] for (_, name), t in cluster.tenants.items()} == {
        "acme": ["others.example/one", "others.example/two"],
        "globex": ["others.example/one"],
        "plain": [],
    }
    assert {method for method, _ in cluster.asked} == {"GET", "PATCH"}


def test_a_tenant_whose_deletion_is_under_way_goes() -> None:
    cluster = Cluster(_tenant("acme", FINALIZER, deletionTimestamp="2026-11-01T00:00:00Z"))
    _run(cluster)
    assert cluster.tenants == {}


def test_named_namespaces_are_looked_at_and_no_other() -> None:
    cluster = Cluster(_tenant("here", FINALIZER), _tenant("elsewhere", FINALIZER, namespace="team-b"))
    assert _run(cluster, "team-a")[-1] == "1 Tenants released in team-a"
    assert cluster.tenants["team-b", "elsewhere"]["metadata"]["finalizers"] == [FINALIZER]
    assert ("GET", f"{TENANTS}/tenants") not in cluster.asked


def test_without_an_operator_or_a_definition_there_is_nothing_to_do() -> None:
    cluster = Cluster(pods=0)
    cluster.deployment = None
    cluster.is_defined = False
    assert _run(cluster) == [
        "there is no operator",
        "the operator has ended",
        "the Tenant resource is not defined any more",
    ]


def test_a_namespace_that_is_gone_holds_up_nobody_but_a_missing_right_on_all_does() -> None:
    cluster = Cluster(_tenant("acme", FINALIZER, namespace="team-b"))
    cluster.forbidden = {"team-a"}
    said = _run(cluster, "team-a", "team-b")
    assert said[-2].startswith("no rights in the namespace team-a")
    assert said[-1] == "1 Tenants released in team-b"
    cluster.forbidden = {""}
    with pytest.raises(SecretForbiddenError):
        _run(cluster)


def test_who_puts_the_finalizer_back_again_and_again_is_told_of() -> None:
    cluster = Cluster(_tenant("acme", FINALIZER))
    listed = cluster._listed

    def put_back(namespace: str | None, query: Mapping[str, str]) -> dict[str, Any]:
        cluster.tenants["team-a", "acme"]["metadata"]["finalizers"] = [FINALIZER]
        return listed(namespace, query)

    cluster._listed = put_back  # type: ignore[method-assign]
    with pytest.raises(UnreleasedError):
        _run(cluster)
    assert sum(method == "PATCH" for method, path in cluster.asked if path.startswith(TENANTS)) == ROUNDS_MAX


@given(
    tenants=st.lists(
        st.tuples(
            st.sampled_from(["team-a", "team-b"]),
            st.lists(st.sampled_from([FINALIZER, "others.example/x", "kopf.example/y"]), unique=True, max_size=3),
            st.booleans(),
        ),
        max_size=7,
    ),
    disturbances=st.lists(st.sampled_from(["none", "reordered", "gone", "added"]), max_size=6),
    pods=st.integers(0, 3),
    page=st.integers(1, 3),
)
def test_whatever_others_do_meanwhile_no_finalizer_of_ours_is_left_and_each_other_one_is(
    tenants: list[tuple[str, list[str], bool]], disturbances: list[str], pods: int, page: int
) -> None:
    cluster = Cluster(
        *(
            _tenant(f"t{number}", *finalizers, namespace=namespace, **({"deletionTimestamp": "now"} if deleted else {}))
            for number, (namespace, finalizers, deleted) in enumerate(tenants)
        ),
        pods=pods,
        page=page,
    )
    left = iter(disturbances[: ROUNDS_MAX - 2])
    gone: set[tuple[str, str]] = set()

    def disturb(key: tuple[str, str]) -> None:
        what = next(left, "none")
        finalizers = cluster.tenants[key]["metadata"]["finalizers"]
        if what == "reordered":
            finalizers.reverse()
        elif what == "gone":
            del cluster.tenants[key]
            gone.add(key)
        elif what == "added":
            finalizers.insert(0, "others.example/late")

    cluster.before_write = disturb
    _run(cluster)
    for number, (namespace, finalizers, deleted) in enumerate(tenants):
        key = (namespace, f"t{number}")
        others = {name for name in finalizers if name != FINALIZER}
        found = cluster.tenants.get(key)
        if found is None:
            assert key in gone or (deleted and not others)
        else:
            assert FINALIZER not in found["metadata"]["finalizers"]
            assert others <= set(found["metadata"]["finalizers"])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (TimeoutError(), "not done within 180 s"),
        (SecretsUnavailableError("list Tenants: the API server answers 500"), "the API server answers 500"),
        (UnreleasedError("somebody puts the finalizer of Tenants back"), "somebody puts"),
    ],
)
def test_what_fails_is_one_line_that_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, sentence: str
) -> None:
    async def failing(_arguments: object) -> None:
        raise error

    monkeypatch.setattr(program, "uninstall", failing)
    assert program.main(["--namespace=n", "--deployment=d", "--selector=s"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert sentence in line
    assert "helm uninstall --no-hooks" in line
    assert isinstance(error, OperatorError | TimeoutError)


def test_it_ends_in_time_when_the_operator_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()

    class Connection:
        async def __aenter__(self) -> Cluster:
            return cluster

        async def __aexit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(program, "api_server", Connection)
    arguments = ["--namespace=system", "--deployment=payrec-operator", "--selector=component=operator"]
    assert program.main([*arguments, "--seconds=0.1"]) == 1
    assert "not done within" in capsys.readouterr().err
    assert not [path for _, path in cluster.asked if path.startswith(TENANTS)]
