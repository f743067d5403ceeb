"""BLOB_URL: what names a place, and what is refused without being repeated."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.constants.blobs import BLOB_URL_LENGTH_MAX
from payrec.domain.blob_places import STORES, BlobPlace

SEGMENT = st.text(string.ascii_letters + string.digits + "_=-", min_size=1, max_size=12)


def test_the_database_is_no_place_outside() -> None:
    assert BlobPlace.of("postgres") is None


@given(st.sampled_from(sorted(STORES)), st.lists(SEGMENT, max_size=4), st.booleans())
def test_a_bucket_and_its_prefix_are_taken_apart(scheme: str, segments: list[str], slash: bool) -> None:  # noqa: FBT001
    path = "/".join(segments)
    url = f"{scheme}://a-bucket.of-ours" + (f"/{path}" if path else "") + ("/" if slash else "")
    assert BlobPlace.of(url) == BlobPlace(scheme, "a-bucket.of-ours", path)


@pytest.mark.parametrize("url", ["file:///var/blobs", "file:/var/blobs", "file:///var/blobs/"])
def test_a_directory_is_named_by_its_absolute_path(url: str) -> None:
    assert BlobPlace.of(url) == BlobPlace("file", "", "/var/blobs")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "postgresql://db/payrec",
        "s3://",
        "s3:bucket",
        "s3://UPPER",
        "s3://bucket:9000/prefix",
        "s3://key:secret@bucket/prefix",
        "s3://bucket/prefix?region=secret",
        "s3://bucket/prefix#secret",
        "s3://bucket/../other",
        "s3://bucket/a//b",
        "s3://bucket/a%2Fb",
        "s3://bucket/ä",
        "https://account.blob.core.windows.net/secret",
        "file://host/var/blobs",
        "file:var/blobs",
        "file:///var/../etc",
        "file:///var/%2e%2e/etc",
        "s3://bucket/" + "a" * BLOB_URL_LENGTH_MAX,
        "s3://[secret",
    ],
)
def test_what_names_no_place_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match=r"must|has a prefix") as refused:
        BlobPlace.of(url)
    assert "secret" not in str(refused.value)


@given(st.text(max_size=60))
def test_any_text_is_a_place_or_refused(text: str) -> None:
    for url in (text, f"s3://{text}", f"s3://bucket/{text}", f"file://{text}"):
        try:
            place = BlobPlace.of(url)
        except ValueError:
            continue
        if place is not None:
            assert ".." not in place.path.split("/")
            assert place.container or place.path.startswith("/")
