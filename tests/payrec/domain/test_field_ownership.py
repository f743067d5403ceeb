"""What a resource names is its own, and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.field_ownership import SETTINGS, owned_fields, refused_fields, touched_fields
from payrec.domain.settings import merged
from payrec.domain.tenant_resources import WantedTenant

NAMES = st.sampled_from(["a", "b", "c/d", "e~f"])
DOCUMENTS = st.recursive(
    st.dictionaries(NAMES, st.one_of(st.integers(), st.none(), st.just([1])), max_size=3),
    lambda inner: st.dictionaries(NAMES, st.one_of(st.integers(), inner), max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("wanted", "owned"),
    [
        (WantedTenant(), ["/status"]),
        (WantedTenant(name="A"), ["/name", "/status"]),
        (WantedTenant(settings={"locale": None, "matching": {"rules": [], "autoRun": True}, "ingestion": {}}),
         ["/status", "/settings/locale", "/settings/matching/autoRun", "/settings/matching/rules"]),
    ],
)  # fmt: skip
def test_a_resource_owns_what_it_names(wanted: WantedTenant, owned: list[str]) -> None:
    assert owned_fields(wanted) == owned


@pytest.mark.parametrize(
    ("patch", "refused"),
    [
        ({"locale": "de"}, []),
        ({"matching": {"autoAccept": True}}, []),
        ({"matching": {"autoRun": True, "autoAccept": True}}, ["/settings/matching/autoRun"]),
        ({"matching": None}, ["/settings/matching"]),
        ({"matching": {"autoRunning": 1}}, []),
        ({"timezone": {"deep": 1}}, ["/settings/timezone/deep"]),
        ({"timezone": {}}, ["/settings/timezone"]),
        ({"matching": {}}, []),
        ({}, []),
    ],
)
def test_what_holds_it_or_is_within_is_refused_too(patch: dict[str, Any], refused: list[str]) -> None:
    owned = ["/status", "/settings/matching/autoRun", "/settings/timezone"]
    assert refused_fields(owned, touched_fields(patch, SETTINGS)) == refused


def test_pointers_are_written_as_rfc_6901_has_them() -> None:
    patch = {"a~b": 1, "c/d": {"~1": None, "e": {}}}
    assert touched_fields(patch) == ["/a~0b", "/c~1d/~01", "/c~1d/e/"]
    assert refused_fields(["/a"], ["/a/", "/b"]) == ["/a"]
    assert refused_fields(["/aX"], ["/aX"]) == ["/aX"]


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_that_is_not_refused_changes_nothing_that_is_owned(
    named: dict[str, Any], patch: dict[str, Any]
) -> None:
    owned = owned_fields(WantedTenant(settings=named))
    before = merged({}, named)
    if not refused_fields(owned, touched_fields(patch, SETTINGS)):
        assert _pruned(merged(merged(before, patch), named)) == _pruned(merged(before, patch))


def _pruned(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out objects with nothing in them: all their members are defaults, and so they are when it is not there."""
    inner = {name: _pruned(value) if isinstance(value, dict) else value for name, value in document.items()}
    return {name: value for name, value in inner.items() if value != {}}
