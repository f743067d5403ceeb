from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.principal import (
    ANONYMOUS,
    ENVIRONMENTS,
    KEY_WRITE_PERMISSIONS,
    ROLES,
    Permission,
    Principal,
    effective_permissions,
    key_permissions,
    permissions_named,
    permissions_of,
)

ID = UUID(int=7)
TENANT = UUID(int=1)

role_names = st.lists(st.sampled_from([*ROLES, "offline_access", ""]), max_size=4)
permission_names = st.lists(st.sampled_from([*(p.value for p in Permission), "root"]), max_size=5)


def test_the_table_of_roles() -> None:
    table = {role: {permission.value for permission in permissions} for role, permissions in ROLES.items()}

    viewer = {"read"}
    operator = viewer | {"write"}
    approver = operator | {"matches:accept", "periods:manage"}
    admin = approver | {"settings:manage", "webhooks:manage", "api-keys:manage", "privacy:erase"}
    assert table == {
        "viewer": viewer,
        "operator": operator,
        "approver": approver,
        "admin": admin,
        "platform-admin": {"tenants:manage"},
    }


def test_only_a_platform_administrator_manages_tenants() -> None:
    assert [role for role, permissions in ROLES.items() if Permission.TENANTS_MANAGE in permissions] == [
        "platform-admin"
    ]
    assert permissions_of(["platform-admin", "viewer"]) == {Permission.TENANTS_MANAGE, Permission.READ}


def test_unknown_roles_and_permissions_allow_nothing() -> None:
    assert permissions_of(["offline_access", "Admin", ""]) == frozenset()
    assert permissions_named(["READ", "root"]) == frozenset()


@settings(max_examples=100)
@given(roles=st.none() | role_names, permissions=st.none() | permission_names, stored=role_names)
def test_a_token_never_adds_to_what_is_stored(
    roles: list[str] | None, permissions: list[str] | None, stored: list[str]
) -> None:
    effective = effective_permissions(roles, permissions, stored)

    assert effective <= permissions_of(stored)
    if roles is None and permissions is None:
        assert effective == permissions_of(stored)
    else:
        assert effective <= permissions_of(roles or ()) | permissions_named(permissions or ())


def test_roles_and_permissions_of_a_token_add_up() -> None:
    assert effective_permissions(["viewer"], ["write"], ["admin"]) == {Permission.READ, Permission.WRITE}
    assert effective_permissions(None, ["read"], ["admin"]) == {Permission.READ}
    assert effective_permissions(["admin"], None, ["viewer"]) == {Permission.READ}


def test_empty_claims_are_not_absent_ones() -> None:
    assert effective_permissions([], None, ["admin"]) == frozenset()
    assert effective_permissions(None, [], ["admin"]) == frozenset()
    assert effective_permissions(None, None, ["viewer"]) == {Permission.READ}


def test_the_flags_of_a_key() -> None:
    assert key_permissions(read=True, write=False) == {Permission.READ}
    assert key_permissions(read=False, write=True) == KEY_WRITE_PERMISSIONS
    assert key_permissions(read=False, write=False) == frozenset()
    assert not key_permissions(read=True, write=True) & {Permission.API_KEYS_MANAGE, Permission.TENANTS_MANAGE}
    assert key_permissions(read=True, write=True) >= {Permission.MATCHES_ACCEPT, Permission.PRIVACY_ERASE}


def test_how_actors_are_written() -> None:
    user = Principal(kind="user", id=ID, tenant_id=TENANT, name="ada")
    key = Principal(
        kind="api_key", id=ID, public_id="Ab1", tenant_id=TENANT, environments=frozenset({"test"}), name="ledger"
    )

    assert user.actor == f"user:{ID}"
    assert key.actor == "api_key:Ab1"
    assert ANONYMOUS.actor == "anonymous"


def test_what_a_principal_opens() -> None:
    bound = Principal(kind="user", id=ID, tenant_id=TENANT, environments=frozenset({"test"}))

    assert [environment for environment in ENVIRONMENTS if bound.opens(environment)] == ["test"]
    assert all(ANONYMOUS.opens(environment) for environment in ENVIRONMENTS)
    assert not bound.may(Permission.READ)


@pytest.mark.parametrize(
    "broken",
    [
        {"kind": "user", "tenant_id": TENANT},
        {"kind": "user", "id": ID},
        {"kind": "api_key", "id": ID, "tenant_id": TENANT, "environments": frozenset({"test"})},
        {"kind": "api_key", "id": ID, "tenant_id": TENANT, "public_id": "Ab1"},
        {"kind": "api_key", "tenant_id": TENANT, "public_id": "Ab1", "environments": frozenset({"test"})},
        {"kind": "api_key", "id": ID, "public_id": "Ab1", "environments": frozenset({"test"})},
        {
            "kind": "api_key",
            "id": ID,
            "tenant_id": TENANT,
            "public_id": "Ab1",
            "environments": frozenset({"test", "staging"}),
        },
        {"kind": "system"},
    ],
)
def test_a_principal_that_cannot_be_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^a( system)? principal |^a key has "):
        Principal(**broken)


def test_who_makes_a_key_can_do_whatever_it_does() -> None:
    def key(made_by: str | None) -> Principal:
        return Principal(
            kind="api_key",
            id=ID,
            public_id="abc",
            tenant_id=TENANT,
            environments=frozenset({"production"}),
            made_by=made_by,
        )

    user = Principal(kind="user", id=ID, tenant_id=TENANT)
    assert user.hands == {f"user:{ID}"}
    assert key(user.actor).hands == {"api_key:abc", user.actor}
    # Nobody else is a person: two keys of one resource are two.
    assert key("operator").hands == key("api_key:def").hands == key(None).hands == {"api_key:abc"}
