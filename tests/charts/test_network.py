"""Who reaches whom: network policies, and the two ways in from outside."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from support.charts import CHART, MINIMAL, one, rendered

POLICIES = "networkPolicy.enabled=true"
FULL = "blob.url=s3://bucket/prefix,tenantProvisioner=kubernetes"


def _policies(*settings: str, trial: bool = False) -> dict[str, dict[str, Any]]:
    chosen = [POLICIES, *settings, *(["trial.enabled=true"] if trial else [])]
    objects = rendered("--set", ",".join(chosen), values=None if trial else MINIMAL)
    found = {o["metadata"]["name"].removeprefix("payrec-"): o for o in objects if o["kind"] == "NetworkPolicy"}
    for policy in found.values():
        kubernetes_validate.validate(policy, "1.36", strict=True)
    return {name: policy["spec"] for name, policy in found.items()}


def _ports(rule: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(port["port"] for port in rule["ports"])


def _out(policy: dict[str, Any]) -> set[tuple[Any, ...]]:
    return {_ports(rule) for rule in policy["egress"]}


def test_there_are_none_unless_asked_for() -> None:
    assert not [o for o in rendered() if o["kind"] == "NetworkPolicy"]


def test_every_pod_of_the_release_has_one_that_closes_both_ways() -> None:
    objects = rendered("--set", f"{POLICIES},trial.enabled=true", values=None)
    labels = []
    for made in objects:
        if made["kind"] == "Pod":
            labels.append(made["metadata"]["labels"])
        elif "template" in made.get("spec", {}):
            labels.append(made["spec"]["template"]["metadata"]["labels"])
    assert len(labels) >= 6
    policies = [o["spec"] for o in objects if o["kind"] == "NetworkPolicy"]
    for own in labels:
        [policy] = [p for p in policies if p["podSelector"]["matchLabels"].items() <= own.items()]
        assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_what_goes_out_is_what_each_needs() -> None:
    dns, database, https, api_server = (53, 53), (5432,), (443,), (443, 6443)
    found = {name: _out(policy) for name, policy in _policies(FULL).items()}
    assert found == {
        "api": {dns, database, https, api_server, (443, 22)},
        "worker": {dns, database, https, (443, 22)},
        "operator": {dns, database, api_server},
        "migrate": {dns, database},
        "uninstall": {dns, api_server},
        "test": {dns, ("http",), api_server},
    }
    plain = {name: _out(policy) for name, policy in _policies().items()}
    assert plain["api"] == {dns, database, https, (443, 22)}, (
        "the identity provider; no API server without its provisioner"
    )
    assert plain["worker"] == {dns, database, (443, 22)}


def test_the_api_reaches_receivers_as_the_worker_does() -> None:
    # `POST /webhooks/:id/test` is sent by the process that is asked, and told of as what deliveries will meet.
    told = (
        "networkPolicy.identityProvider.to[0].ipBlock.cidr=10.1.0.0/16,networkPolicy.outside.to[0].ipBlock.cidr=10.2.0.0/16,"
        "networkPolicy.outside.ports={8443}"
    )
    found = _policies(told)
    for name in ("api", "worker"):
        [rule] = [rule for rule in found[name]["egress"] if _ports(rule) == (8443,)]
        assert rule["to"] == [{"ipBlock": {"cidr": "10.2.0.0/16"}}]


def test_what_comes_in_is_the_api_and_scrapes() -> None:
    found = _policies(trial=True)
    taken = {name: [_ports(rule) for rule in policy.get("ingress", ())] for name, policy in found.items()}
    assert taken == {
        "api": [("http",), ("internal",)],
        "worker": [("internal",)],
        "operator": [("internal",)],
        "migrate": [],
        "uninstall": [],
        "test": [],
        "postgres": [("postgres",)],
    }
    assert not found["postgres"].get("egress")
    [rule] = found["postgres"]["ingress"]
    [peer] = rule["from"]
    [expression] = peer["podSelector"]["matchExpressions"]
    assert expression["values"] == ["api", "worker", "operator", "migrate"]


def test_in_a_trial_the_database_is_its_pod_and_the_provider_is_the_api_itself() -> None:
    found = _policies(trial=True)
    for name in ("api", "worker", "operator", "migrate"):
        [rule] = [rule for rule in found[name]["egress"] if _ports(rule) == (5432,)]
        assert rule["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "postgres"
    assert (443,) not in _out(found["api"])


def test_peers_and_ports_are_those_that_are_given() -> None:
    given = {
        "ingress.from": ("api", "ingress", ("http",)),
        "metrics.from": ("worker", "ingress", ("internal",)),
        "dns.to": ("migrate", "egress", (53, 53)),
        "database.to": ("operator", "egress", (6432,)),
        "identityProvider.to": ("api", "egress", (8443,)),
        "blob.to": ("worker", "egress", (9000,)),
        "apiServer.to": ("uninstall", "egress", (6443,)),
        "outside.to": ("worker", "egress", (2222,)),
    }
    ports = "database.ports={6432},identityProvider.ports={8443},blob.ports={9000},apiServer.ports={6443}"
    settings = [f"networkPolicy.{part}" for part in (*ports.split(","), "outside.ports={2222}")]
    for number, name in enumerate(given):
        settings.append(f"networkPolicy.{name}[0].ipBlock.cidr=192.0.2.{number}/32")
    found = _policies(FULL, *settings)
    for number, (policy, direction, wanted) in enumerate(given.values()):
        [rule] = [rule for rule in found[policy][direction] if _ports(rule) == wanted]
        peers = rule["from" if direction == "ingress" else "to"]
        assert peers[0] == {"ipBlock": {"cidr": f"192.0.2.{number}/32"}}
    [taken] = [rule for rule in found["api"]["ingress"] if _ports(rule) == ("http",)]
    assert taken["from"][1]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "test"


@pytest.mark.parametrize("settings", ["ingress.enabled=true", "httpRoute.enabled=true,httpRoute.parentRefs[0].name=gw"])
def test_the_way_in_leads_to_the_api_and_never_to_the_internal_port(settings: str) -> None:
    objects = rendered("--set", settings)
    service = one(objects, "Service", "payrec-api")
    [port] = service["spec"]["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("http", 80, "http")
    [entry] = [o for o in objects if o["kind"] in {"Ingress", "HTTPRoute"}]
    assert "internal" not in str(entry)
    assert "9090" not in str(entry)


@pytest.mark.parametrize("url", ["https://10.1.2.3", "https://[fd00::1]:8443"])
def test_whoever_asks_by_an_address_is_led_in_by_every_name(url: str) -> None:
    # Neither an Ingress nor a route takes an address for a name.
    more = "ingress.enabled=true,httpRoute.enabled=true,httpRoute.parentRefs[0].name=gw"
    objects = rendered("--set", more, "--set", f"api.publicUrl={url}")
    [rule] = one(objects, "Ingress")["spec"]["rules"]
    assert rule.keys() == {"http"}
    assert "hostnames" not in one(objects, "HTTPRoute")["spec"]


def test_a_public_name_is_written_small() -> None:
    objects = rendered("--set", "ingress.enabled=true,api.publicUrl=https://Payrec.Example.com")
    assert one(objects, "Ingress")["spec"]["rules"][0]["host"] == "payrec.example.com"


def test_an_ingress_is_for_the_public_name_unless_others_are_given() -> None:
    made = one(rendered("--set", "ingress.enabled=true"), "Ingress")
    kubernetes_validate.validate(made, "1.36", strict=True)
    [rule] = made["spec"]["rules"]
    assert rule["host"] == "payrec.example.com"
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "payrec-api", "port": {"name": "http"}}
    assert "ingressClassName" not in made["spec"]
    assert "tls" not in made["spec"]

    settings = (
        "ingress.enabled=true,ingress.className=nginx,ingress.hosts={a.example.com,b.example.com},"
        "ingress.tls[0].secretName=payrec-tls,ingress.tls[0].hosts={a.example.com},"
        r"ingress.annotations.nginx\.ingress\.kubernetes\.io/proxy-body-size=256m"
    )
    made = one(rendered("--set", settings), "Ingress")
    kubernetes_validate.validate(made, "1.36", strict=True)
    assert [rule["host"] for rule in made["spec"]["rules"]] == ["a.example.com", "b.example.com"]
    assert made["spec"]["tls"] == [{"secretName": "payrec-tls", "hosts": ["a.example.com"]}]
    assert made["metadata"]["annotations"] == {"nginx.ingress.kubernetes.io/proxy-body-size": "256m"}


def test_a_port_in_the_public_url_is_no_part_of_the_name() -> None:
    made = one(rendered("--set", "ingress.enabled=true,api.publicUrl=https://books.example.com:8443"), "Ingress")
    assert made["spec"]["rules"][0]["host"] == "books.example.com"


def test_a_route_is_for_the_gateways_that_are_given() -> None:
    settings = "httpRoute.enabled=true,httpRoute.parentRefs[0].name=public,httpRoute.parentRefs[0].namespace=gateways"
    made = one(rendered("--set", settings), "HTTPRoute")
    assert made["apiVersion"] == "gateway.networking.k8s.io/v1"
    assert made["spec"]["parentRefs"] == [{"name": "public", "namespace": "gateways"}]
    assert made["spec"]["hostnames"] == ["payrec.example.com"]
    [rule] = made["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": "payrec-api", "port": 80}]
    named = one(rendered("--set", f"{settings},httpRoute.hostnames={{a.example.com}}"), "HTTPRoute")
    assert named["spec"]["hostnames"] == ["a.example.com"]


def test_there_is_no_way_in_by_default() -> None:
    for values in sorted((CHART / "ci").glob("*-values.yaml")):
        if "ingress" not in values.read_text(encoding="utf-8") and "httpRoute" not in values.read_text(
            encoding="utf-8"
        ):
            assert not [o for o in rendered(values=values) if o["kind"] in {"Ingress", "HTTPRoute"}]
