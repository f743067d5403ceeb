"""If-Match is compared strongly (RFC 9110, 8.8.3.2 and 13.1.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.errors import VersionMismatchError
from payrec.services.validation import check_version
from support.service import Tenant
from support.wire import code

pytestmark = pytest.mark.anyio

TAG = st.builds(
    lambda weak, text: f'{weak}"{text}"', st.sampled_from(["", "W/"]), st.from_regex(r"[3a,\\]{0,3}", fullmatch=True)
)
SEPARATOR = st.sampled_from([",", ", ", " ,\t", ",,"])


def matches(if_match: str | None, version: int = 3) -> bool:
    try:
        check_version(if_match, version)
    except VersionMismatchError:
        return False
    return True


@given(st.lists(TAG, min_size=1, max_size=5), SEPARATOR)
def test_a_list_matches_if_one_of_its_tags_is_the_version_and_strong(tags: list[str], separator: str) -> None:
    assert matches(separator.join(tags)) == ('"3"' in tags)


@pytest.mark.parametrize(
    "text", [None, "*", " *\t", '"3"', '"2","3"', '"2" , "3"', 'W/"3", "3"', ',, "3" ,', '"a,b", "3"']
)
def test_what_matches(text: str | None) -> None:
    assert matches(text)


@pytest.mark.parametrize(
    "text",
    ["", " ", ",", 'W/"3"', 'W/"2", W/"3"', 'w/"3"', "3", '"3', '3"', '"03"', '"+3"', '" 3"', '"٣"', "'3'", '"33"',
     '"a,"3",b"', '"3" x', '*, "3"', '"3" *', '"W/3"', 'W/ "3"', f'"{"9" * 900}"'],
)  # fmt: skip
def test_what_does_not(text: str) -> None:
    assert not matches(text)


async def test_it_is_so_over_http(acme: Tenant, globex: Tenant) -> None:
    path = f"/tenants/{acme.id}/settings"
    etag = (await acme.get(path)).headers["etag"]
    for wrong in ("W/{}", 'W/{}, "0"', '"0"', "W/{}, W/{}"):
        headers = {"If-Match": wrong.replace("{}", etag)}
        answer = await acme.request("PATCH", path, json={"locale": "de"}, headers=headers)
        assert (answer.status_code, code(answer)) == (412, "version_mismatch"), wrong
    assert (await acme.get(path)).headers["etag"] == etag
    for right in ("{}", '"0", {}', "W/{}, {}", "*"):
        headers = {"If-Match": right.replace("{}", etag)}
        answer = await acme.request("PATCH", path, json={"locale": "de"}, headers=headers)
        assert answer.status_code == 200, right
        etag = answer.headers["etag"]
    for headers in ({"If-Match": "*"}, {"If-Match": etag}):
        answer = await globex.request("PATCH", path, json={"locale": "de"}, headers=headers)
        assert (answer.status_code, code(answer)) == (404, "not_found")
