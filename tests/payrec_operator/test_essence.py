"""What kopf keeps of a Tenant: that it is small, and shows a change of spec and of our annotations."""

from __future__ import annotations

from typing import Any, Final

import kopf
import pytest
from kopf._cogs.structs.diffs import diff  # what kopf itself compares with has no public name

from payrec_operator.handlers import is_asked
from payrec_operator.startup import configure

LARGE: Final = "\N{LATIN SMALL LETTER A WITH DIAERESIS}" * 120_000


@pytest.mark.parametrize(
    "large",
    [
        {"spec": {"displayName": LARGE}},
        {"metadata": {"annotations": {"example.com/a": LARGE}}},
        {"metadata": {"annotations": {"payrec.dev/rotate": LARGE}}},
    ],
)
def test_what_kopf_keeps_of_a_resource_is_small_and_shows_what_has_changed(large: dict[str, Any]) -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    storage = settings.persistence.diffbase_storage

    def kept(body: dict[str, Any]) -> Any:
        patch = kopf.Patch()
        storage.store(body=kopf.Body(body), patch=patch, essence=storage.build(body=kopf.Body(body)))
        annotations = patch["metadata"]["annotations"]
        assert sum(map(len, annotations.values())) < 1000
        return storage.fetch(body=kopf.Body({"metadata": {"annotations": annotations}}))

    body = {"metadata": {"name": "acme"}, "spec": {"slug": "acme"}} | large
    assert not diff(kept(body), storage.build(body=kopf.Body(body)))
    changed = {**body, "spec": {**body.get("spec", {}), "suspended": True}}
    assert is_asked(diff(kept(body), storage.build(body=kopf.Body(changed))))


def test_what_releases_before_have_kept_of_a_resource_is_no_change() -> None:
    body = {
        "metadata": {"name": "acme", "annotations": {"payrec.dev/rotate": "1", "a/b": "1"}},
        "spec": {"slug": "acme"},
    }
    before = kopf.AnnotationsDiffBaseStorage(prefix="kopf.payrec.dev", v1=False)
    patch = kopf.Patch()
    before.store(body=kopf.Body(body), patch=patch, essence=before.build(body=kopf.Body(body)))
    settings = kopf.OperatorSettings()
    configure(settings)
    storage = settings.persistence.diffbase_storage
    found: Any = storage.fetch(body=kopf.Body({"metadata": patch["metadata"]}))
    assert not diff(found, storage.build(body=kopf.Body(body)))
