"""The resource as it is read: everything that the definition accepts, and what an older or newer one lets through."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.tenant_resources import WantedTenant, WantedUser
from payrec_operator.constants import DURATION_MAX
from payrec_operator.durations import parse_duration
from payrec_operator.errors import InvalidSpecError
from payrec_operator.resources import TenantResource, by_name, instant_of
from support.operator_world import make_key, make_spec


def make_resource(spec: Any = None, **metadata: Any) -> TenantResource:
    return TenantResource.parse(
        {"metadata": {"uid": "u", "namespace": "shop", "name": "acme", **metadata}, "spec": spec or make_spec()}
    )


def test_defaults_are_filled_in() -> None:
    spec = make_resource({"slug": "acme"}).spec()
    assert [(e.name, e.ensure, e.suspended) for e in spec.environments] == [
        ("development", "present", False),
        ("staging", "present", False),
        ("production", "present", False),
        ("test", "present", False),
    ]
    assert (spec.keys, spec.wanted_users, spec.wanted) == ([], [], WantedTenant())


def test_everything_is_read() -> None:
    spec = make_resource(
        make_spec(
            displayName="Acme GmbH",
            settings={"baseCurrency": "EUR"},
            suspended=True,
            users=[
                {"username": "ada", "subject": "s", "roles": ["admin", "viewer"], "environments": ["test"]},
                {"username": "bob", "roles": ["viewer"]},
            ],
        )
    ).spec()
    assert spec.wanted == WantedTenant(name="Acme GmbH", suspended=True, settings={"baseCurrency": "EUR"})
    assert spec.wanted_users == [
        WantedUser(username="ada", subject="s", roles=("admin", "viewer"), environments=("test",)),
        WantedUser(username="bob", roles=("viewer",), environments=("production", "test")),
    ]
    (key,) = spec.keys
    assert (key.read, key.write, key.overlap) == (True, True, timedelta(hours=24))


def test_fields_of_a_newer_definition_are_ignored() -> None:
    spec = make_spec(quota={"rows": 1}, apiKeys=[make_key(labels={"a": "b"})])
    spec["environments"][0]["region"] = "eu"
    assert [k.name for k in make_resource(spec).spec().keys] == ["ledger"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"slug": None}, "spec.slug: "),
        ({"slug": "A"}, "spec.slug: must have 2 to 30 characters"),
        ({"environments": []}, "spec.environments: "),
        ({"environments": [{"name": "test"}, {"name": "test"}]}, "spec: environments[].name must be unique"),
        ({"environments": None}, "spec.environments: "),
        ({"environments": [{"name": "test", "ensure": "gone"}]}, "spec.environments[0].ensure: "),
        ({"apiKeys": [make_key(), make_key(secretName="b")]}, "spec: apiKeys[].name must be unique"),
        ({"apiKeys": [make_key("a", secretName="s"), make_key("b", secretName="s")]}, "apiKeys[].secretName"),
        ({"apiKeys": [make_key(permissions=[])]}, "spec.apiKeys[0].permissions: "),
        ({"apiKeys": [make_key(permissions=["admin"])]}, "spec.apiKeys[0].permissions[0]: "),
        ({"apiKeys": [make_key(secretName="No_Name")]}, "spec.apiKeys[0].secretName: "),
        ({"apiKeys": [make_key(f"k{n}") for n in range(33)]}, "spec.apiKeys: "),
        (
            {"apiKeys": [make_key(rotation={"interval": "2h", "overlap": "2h"})]},
            "spec.apiKeys[0].rotation: overlap must be shorter than interval",
        ),
        ({"apiKeys": [make_key(rotation={"interval": "1.5h"})]}, "rotation.interval: must be a duration such as"),
        ({"apiKeys": [make_key(rotation={"interval": 3})]}, "spec.apiKeys[0].rotation.interval: "),
        ({"users": [{"username": "a", "roles": ["root"]}]}, "spec.users[0].roles[0]: "),
        ({"users": [{"username": "a", "roles": ["viewer"]}] * 2}, "users[].username must be unique"),
        ({"suspended": "yes"}, "spec.suspended: "),
        ({"settings": []}, "spec.settings: "),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        make_resource(make_spec() | changed).spec()
    assert sentence in str(caught.value)
    assert str(caught.value).endswith(".")


def test_many_mistakes_are_told_shortly() -> None:
    spec = make_spec(users=[{"username": str(n), "roles": []} for n in range(100)])
    with pytest.raises(InvalidSpecError, match="and 95 more"):
        make_resource(spec).spec()


def test_a_mistake_does_not_repeat_the_input() -> None:
    with pytest.raises(InvalidSpecError) as caught:
        make_resource({"slug": "s3cr3t!", "displayName": 5, "deletionPolicy": "s3cr3t"}).spec()
    assert "s3cr3t" not in str(caught.value)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(
        st.sampled_from(["slug", "environments", "apiKeys", "users", "settings", "deletionPolicy", "suspended"]),
        anything,
    ),
    anything,
)
def test_no_spec_and_no_status_breaks_the_reading(changed: dict[str, Any], status: Any) -> None:
    body = {"metadata": {"uid": "u", "namespace": "n", "name": "a"}, "spec": make_spec() | changed, "status": status}
    resource = TenantResource.parse(body)
    by_name(resource.status.get("apiKeys"))
    told = "spec"
    try:
        resource.spec()
    except InvalidSpecError as error:
        told = str(error)
    assert told.startswith("spec")


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, (False, False, False)),
        ({"paused": "false", "adopt": "false", "abandon": "false"}, (False, False, False)),
        ({"paused": "", "adopt": "", "abandon": ""}, (True, False, False)),
        ({"paused": "true", "adopt": "true", "abandon": "true"}, (True, True, True)),
        ({"paused": "False", "adopt": "True", "abandon": "1"}, (False, False, False)),
    ],
)
def test_a_misspelt_verb_does_the_safe_thing(annotations: dict[str, str], expected: tuple[bool, ...]) -> None:
    resource = make_resource(annotations={f"payrec.dev/{verb}": value for verb, value in annotations.items()})
    assert (resource.paused, resource.adopting, resource.abandoned) == expected


def test_rotation_requests_are_for_all_keys_or_for_one() -> None:
    resource = make_resource(annotations={"payrec.dev/rotate": "1", "payrec.dev/rotate.ledger": "2" * 500})
    assert resource.rotation_requests("ledger") == ("1", "2" * 200)
    assert resource.rotation_requests("other") == ("1",)


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_durations_are_read_as_go_writes_them(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == timedelta(hours=hours, minutes=minutes, seconds=seconds)
    assert parse_duration(f"{seconds}s{hours}h{hours}h") == timedelta(hours=2 * hours, seconds=seconds)


@given(st.text(max_size=20))
def test_no_text_breaks_the_reading_of_durations(text: str) -> None:
    try:
        duration = parse_duration(text)
    except ValueError:
        return
    assert timedelta(0) <= duration <= DURATION_MAX


@pytest.mark.parametrize("text", ["", "h", "1", "1d", "-1h", " 1h", "1h\n", "٣h", "9" * 15 + "h", "1h" * 9])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must "):
        parse_duration(text)


@pytest.mark.parametrize("text", [None, 3, "", "yesterday", "2026-03-01T12:00:00"])
def test_what_is_no_instant_of_a_status_counts_as_none(text: Any) -> None:
    assert instant_of(text) is None
