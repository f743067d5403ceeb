"""The API server takes the definition of the Tenant resource, and refuses with a sentence what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from support.charts import ROOT, documents
from support.control_plane import Api, ApiError, Make, path_of

KEY = {"name": "ledger", "environment": "production", "secretName": "acme-ledger", "permissions": ["read"]}
PRODUCTION = [{"name": "production"}]


def _key(**changes: Any) -> dict[str, Any]:
    return {**KEY, **changes}


def test_what_is_not_said_has_defaults(make: Make) -> None:
    spec = make()["spec"]
    assert [e["name"] for e in spec["environments"]] == ["development", "staging", "production", "test"]
    assert all(e == {"name": e["name"], "ensure": "present", "suspended": False} for e in spec["environments"])
    assert spec["deletionPolicy"] == "Retain"
    assert spec["suspended"] is False
    assert not {"settings", "apiKeys", "users"} & spec.keys(), "what is not named stays with the API"


def test_everything_that_can_be_said_is_kept(make: Make) -> None:
    spec: dict[str, Any] = {
        "displayName": "Acme GmbH",
        "environments": [
            {"name": "production", "ensure": "present", "suspended": False},
            {"name": "test", "ensure": "absent", "suspended": True},
        ],
        "settings": {
            "baseCurrency": "EUR",
            "timezone": "Europe/Berlin",
            "locale": "de-DE",
            "businessCalendar": None,
            "matching": {
                "autoRun": True,
                "autoAccept": False,
                "autoAcceptMinConfidence": "high",
                "dateWindowDaysBefore": 10,
                "dateWindowDaysAfter": 3650,
                "amountToleranceMinor": 10**12,
                "amountTolerancePercent": 0.5,
                "feeToleranceMinor": 0,
                "fxTolerancePercent": 100,
                "groupSizeMax": 1000,
                "requireReference": True,
                "rules": [],
            },
            "ingestion": {"duplicatePolicy": "reject"},
            "retention": {"rawLinesDays": 1, "auditDays": 36500},
        },
        "users": [{"username": "ada@acme.example", "subject": "1", "roles": ["admin"], "environments": ["production"]}],
        "apiKeys": [_key(permissions=["read", "write"], rotation={"interval": "720h", "overlap": "1h30m"})],
        "suspended": True,
        "deletionPolicy": "Delete",
    }
    made = make(**spec)
    assert made["spec"] == {"slug": "acme", **spec}


@pytest.mark.parametrize("interval", ["1h", "60m", "3600s", "720h", "30m30m", "999999h"])
def test_intervals_from_an_hour_on_are_taken(make: Make, interval: str) -> None:
    make(apiKeys=[_key(rotation={"interval": interval})])


ENVIRONMENT = "every apiKeys[].environment must name an entry of environments that is to be present"
OVERLAP = "overlap must be shorter than interval"

REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "slug is a reserved word": ({"slug": "postgres"}, "slug is reserved"),
    "slug is like a system's": ({"slug": "pg-acme"}, "slug is reserved"),
    "slug has capitals": ({"slug": "Acme"}, "spec.slug"),
    "slug begins with a digit": ({"slug": "1acme"}, "spec.slug"),
    "slug ends with a hyphen": ({"slug": "acme-"}, "spec.slug"),
    "slug has two hyphens": ({"slug": "ac--me"}, "spec.slug"),
    "slug is too short": ({"slug": "a"}, "spec.slug"),
    "slug is too long": ({"slug": "a" * 31}, "spec.slug"),
    "name is empty": ({"displayName": ""}, "spec.displayName"),
    "name is too long": ({"displayName": "a" * 201}, "spec.displayName"),
    "no environment": ({"environments": []}, "spec.environments"),
    "unknown environment": ({"environments": [{"name": "qa"}]}, "spec.environments[0].name"),
    "environment twice": ({"environments": [*PRODUCTION, *PRODUCTION]}, "Duplicate value"),
    "absent without Delete": (
        {"environments": [{"name": "test", "ensure": "absent"}]},
        "environments[].ensure: absent drops data and needs deletionPolicy: Delete",
    ),
    "unknown ensure": ({"environments": [{"name": "test", "ensure": "gone"}]}, "spec.environments[0].ensure"),
    "key of no environment": ({"environments": [{"name": "test"}], "apiKeys": [KEY]}, ENVIRONMENT),
    "key of an absent environment": (
        {
            "environments": [{"name": "production", "ensure": "absent"}],
            "apiKeys": [KEY],
            "deletionPolicy": "Delete",
        },
        ENVIRONMENT,
    ),
    "one Secret for two keys": (
        {"apiKeys": [KEY, _key(name="other")]},
        "apiKeys[].secretName must be unique within the tenant",
    ),
    "key twice": ({"apiKeys": [KEY, _key(secretName="other")]}, "Duplicate value"),
    "too many keys": (
        {"apiKeys": [_key(name=f"k{n}", secretName=f"s{n}") for n in range(33)]},
        "spec.apiKeys",
    ),
    "key without permission": ({"apiKeys": [_key(permissions=[])]}, "permissions"),
    "permission twice": ({"apiKeys": [_key(permissions=["read", "read"])]}, "Duplicate value"),
    "unknown permission": ({"apiKeys": [_key(permissions=["admin"])]}, "permissions[0]"),
    "key's name has capitals": ({"apiKeys": [_key(name="Ledger")]}, "spec.apiKeys[0].name"),
    "Secret's name is none": ({"apiKeys": [_key(secretName="a.b")]}, "spec.apiKeys[0].secretName"),
    "key without a Secret": ({"apiKeys": [{k: v for k, v in KEY.items() if k != "secretName"}]}, "secretName"),
    "rotation too often": ({"apiKeys": [_key(rotation={"interval": "59m"})]}, "interval must be at least 1h"),
    "overlap as long as the interval": ({"apiKeys": [_key(rotation={"interval": "2h", "overlap": "2h"})]}, OVERLAP),
    "overlap longer": ({"apiKeys": [_key(rotation={"interval": "2h", "overlap": "121m"})]}, OVERLAP),
    "rotation without interval": ({"apiKeys": [_key(rotation={"overlap": "1h"})]}, "interval"),
    "interval is no duration": ({"apiKeys": [_key(rotation={"interval": "often"})]}, "rotation.interval"),
    "interval in days": ({"apiKeys": [_key(rotation={"interval": "30d"})]}, "rotation.interval"),
    "user twice": ({"users": [{"username": "ada", "roles": ["admin"]}] * 2}, "Duplicate value"),
    "user without role": ({"users": [{"username": "ada", "roles": []}]}, "spec.users[0].roles"),
    "unknown role": ({"users": [{"username": "ada", "roles": ["platform-admin"]}]}, "roles[0]"),
    "username with a space": ({"users": [{"username": "a b", "roles": ["admin"]}]}, "spec.users[0].username"),
    "password": (
        {"users": [{"username": "ada", "roles": ["admin"], "password": "x"}]},
        'unknown field "spec.users[0].password"',
    ),
    "unknown policy": ({"deletionPolicy": "Orphan"}, "spec.deletionPolicy"),
    "unknown field": ({"plan": "gold"}, 'unknown field "spec.plan"'),
    "unknown setting": ({"settings": {"colour": "red"}}, 'unknown field "spec.settings.colour"'),
    "currency is none": ({"settings": {"baseCurrency": "euro"}}, "spec.settings.baseCurrency"),
    "negative window": ({"settings": {"matching": {"dateWindowDaysBefore": -1}}}, "dateWindowDaysBefore"),
    "too large a group": ({"settings": {"matching": {"groupSizeMax": 1001}}}, "groupSizeMax"),
    "a rule": ({"settings": {"matching": {"rules": [{}]}}}, "spec.settings.matching.rules"),
    "kept for ever": ({"settings": {"retention": {"auditDays": 36501}}}, "auditDays"),
    "unknown duplicate policy": ({"settings": {"ingestion": {"duplicatePolicy": "drop"}}}, "duplicatePolicy"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_is_refused_with_a_sentence(make: Make, case: str) -> None:
    spec, sentence = REFUSALS[case]
    with pytest.raises(ApiError) as refused:
        make(**spec)
    assert refused.value.status in {400, 422}
    assert sentence in refused.value.message


def test_the_slug_cannot_be_changed(api: Api, namespace: str, make: Make) -> None:
    make()
    with pytest.raises(ApiError) as refused:
        api.merge(f"/apis/payrec.dev/v1/namespaces/{namespace}/tenants/acme", {"spec": {"slug": "globex"}})
    assert "slug is immutable; create a new Tenant instead" in refused.value.message


def test_a_name_longer_than_a_label_is_refused(make: Make) -> None:
    with pytest.raises(ApiError) as refused:
        make("a" * 64, slug="acme")
    assert "metadata.name" in refused.value.message


def test_the_status_is_written_apart_and_no_generation_comes_of_it(api: Api, namespace: str, make: Make) -> None:
    path = f"/apis/payrec.dev/v1/namespaces/{namespace}/tenants/acme"
    assert make()["metadata"]["generation"] == 1
    changed = api.merge(f"{path}/status", {"status": {"environmentsReady": "1/4"}, "spec": {"suspended": True}})
    assert changed["metadata"]["generation"] == 1
    assert changed["status"] == {"environmentsReady": "1/4"}
    assert changed["spec"]["suspended"] is False

    again = api.merge(path, {"spec": {"suspended": True}, "status": {"environmentsReady": "4/4"}})
    assert again["metadata"]["generation"] == 2
    assert again["status"] == {"environmentsReady": "1/4"}


def test_a_status_with_an_unknown_state_is_refused(api: Api, namespace: str, make: Make) -> None:
    make()
    body = {"status": {"environments": [{"name": "test", "state": "Broken"}]}}
    with pytest.raises(ApiError) as refused:
        api.merge(f"/apis/payrec.dev/v1/namespaces/{namespace}/tenants/acme/status", body)
    assert "status.environments[0].state" in refused.value.message


def test_it_is_listed_with_its_columns_and_its_short_name(api: Api, namespace: str, make: Make) -> None:
    make()
    path = f"/apis/payrec.dev/v1/namespaces/{namespace}/tenants/acme"
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Reconciled",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    api.merge(f"{path}/status", {"status": {"environmentsReady": "4/4", "conditions": [condition]}})
    [resource] = [r for r in api.request("GET", "/apis/payrec.dev/v1")["resources"] if r["name"] == "tenants"]
    assert resource["shortNames"] == ["tnt"]
    assert resource["categories"] == ["payrec"]
    table = api.request(
        "GET",
        f"/apis/payrec.dev/v1/namespaces/{namespace}/tenants",
        accept="application/json;as=Table;g=meta.k8s.io;v=v1",
    )
    columns = [c["name"] for c in table["columnDefinitions"] if c["priority"] == 0]
    assert columns == ["Name", "Ready", "Reason", "Slug", "Environments", "Age"]
    assert table["rows"][0]["cells"][:5] == ["acme", "True", "Reconciled", "acme", "4/4"]


@pytest.mark.parametrize("name", ["tenant-minimal", "tenant-full"])
def test_the_examples_are_taken(api: Api, namespace: str, name: str) -> None:
    [tenant] = documents((ROOT / "deploy" / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    tenant["metadata"]["namespace"] = namespace
    made = api.create(path_of(tenant), tenant)
    assert {k: v for k, v in made["spec"].items() if k in tenant["spec"]}.keys() == tenant["spec"].keys()
