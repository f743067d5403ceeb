"""Settings: a merge patch over the defaults, whole or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.service import Service, Tenant
from support.wire import add_key, add_user, ask, code, fields

pytestmark = pytest.mark.anyio

DEFAULTS = {
    "baseCurrency": "EUR",
    "timezone": "UTC",
    "locale": "en",
    "businessCalendar": None,
    "matching": {
        "autoRun": False,
        "autoAccept": False,
        "autoAcceptMinConfidence": "exact",
        "dateWindowDaysBefore": 30,
        "dateWindowDaysAfter": 60,
        "amountToleranceMinor": 0,
        "amountTolerancePercent": 0,
        "feeToleranceMinor": 0,
        "fxTolerancePercent": 1,
        "groupSizeMax": 50,
        "requireReference": False,
        "rules": [],
    },
    "ingestion": {"duplicatePolicy": "flag"},
    "approval": {
        "secondPersonAboveMinor": None,
        "currency": None,
        "keysMayAccept": True,
        "keysMayChangeRules": True,
        "limits": [],
    },
    "posting": {
        "accounts": [],
        "receivableCode": None,
        "payableCode": None,
        "suspenseCode": "suspense",
        "adjustments": [],
        "categories": [],
    },
    "retention": {"rawLinesDays": 400, "auditDays": 3650},
}


@pytest.fixture
async def tenant(service: Service, request: pytest.FixtureRequest) -> Tenant:
    number = abs(hash(request.node.name)) % 10**8
    return await service.tenant(f"settings-{number}", environments=["production", "test"])


def path(tenant: Tenant) -> str:
    return f"/tenants/{tenant.id}/settings"


async def patch(tenant: Tenant, body: Any, **headers: str) -> Any:
    return await tenant.request("PATCH", path(tenant), json=body, headers=headers)


async def test_the_defaults_are_in_force_at_first(tenant: Tenant) -> None:
    assert (await tenant.get(path(tenant))).json() == DEFAULTS


async def test_a_patch_merges_and_null_goes_back_to_the_default(tenant: Tenant) -> None:
    first = await patch(tenant, {"locale": "de", "matching": {"autoRun": True, "groupSizeMax": 7}})
    expected: dict[str, Any] = {
        **DEFAULTS, "locale": "de", "matching": {**DEFAULTS["matching"], "autoRun": True, "groupSizeMax": 7}  # type: ignore[dict-item]
    }  # fmt: skip
    assert first.json() == expected
    second = await patch(tenant, {"matching": {"autoRun": None}})
    expected["matching"]["autoRun"] = False
    assert second.json() == (await tenant.get(path(tenant))).json() == expected
    assert (await patch(tenant, {"matching": None, "locale": None})).json() == DEFAULTS
    assert (await patch(tenant, {})).json() == DEFAULTS


async def test_both_media_types_of_a_patch_are_taken(tenant: Tenant) -> None:
    for media_type in (
        "application/json",
        "application/merge-patch+json",
        "application/merge-patch+json; charset=utf-8",
    ):
        headers = {"Content-Type": media_type}
        answer = await tenant.request("PATCH", path(tenant), headers=headers, content=b'{"timezone":"Europe/Berlin"}')
        assert (answer.status_code, answer.json()["timezone"]) == (200, "Europe/Berlin")


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"locale": 1}, {("/locale", "string_type")}),
        ({"timezone": "Europe/Nowhere"}, {("/timezone", "unknown_timezone")}),
        ({"businessCalendar": "ZZ"}, {("/businessCalendar", "unknown_country")}),
        ({"timezone": "../../etc/passwd"}, {("/timezone", "unknown_timezone")}),
        ({"baseCurrency": "XXQ"}, {("/baseCurrency", "unknown_currency")}),
        ({"matching": 5}, {("/matching", "model_type")}),
        ({"matching": {"autoRun": "yes"}}, {("/matching/autoRun", "bool_type")}),
        ({"matching": {"autoAcceptMinConfidence": "low"}}, {("/matching/autoAcceptMinConfidence", "literal_error")}),
        ({"matching": {"amountTolerancePercent": 101}}, {("/matching/amountTolerancePercent", "less_than_equal")}),
        ({"matching": {"fxTolerancePercent": 1e400}}, set()),
        ({"matching": {"dateWindowDaysBefore": 1.5}}, {("/matching/dateWindowDaysBefore", "int_type")}),
        ({"matching": {"autoAcept": True}}, {("/matching/autoAcept", "extra_forbidden")}),
        ({"ingestion": {"duplicatePolicy": "drop"}}, {("/ingestion/duplicatePolicy", "literal_error")}),
        ({"a": {"b": {"c": {}}}}, {("/a", "extra_forbidden")}),
        ({"autoRun": None}, {("/autoRun", "extra_forbidden")}),
        ({"matching": {"autoAcept": None}}, {("/matching/autoAcept", "extra_forbidden")}),
        ({"locale": "de", "matching": {"groupSizeMax": 0}}, {("/matching/groupSizeMax", "greater_than_equal")}),
    ],
)
async def test_what_cannot_be_is_named_and_nothing_is_changed(
    acme: Tenant, body: dict[str, Any], wrong: set[tuple[str, str]]
) -> None:
    before = await acme.get(path(acme))
    if wrong:
        assert fields(await patch(acme, body)) == wrong
    else:
        text = b'{"matching": {"fxTolerancePercent": 1e400}}'
        headers = {"Content-Type": "application/json"}
        assert code(await acme.request("PATCH", path(acme), headers=headers, content=text)) == "malformed_body"
    after = await acme.get(path(acme))
    assert (after.json(), after.headers["etag"]) == (before.json(), before.headers["etag"])


async def test_if_match_is_honoured(tenant: Tenant) -> None:
    etag = (await tenant.get(path(tenant))).headers["etag"]
    for wrong in ('"999"', "1", '"1', "x", '"', 'W/"999"', "", f'"{"9" * 400}"'):
        answer = await patch(tenant, {"locale": "de"}, **{"If-Match": wrong})
        assert (answer.status_code, code(answer)) == (412, "version_mismatch"), wrong
    for right in ("{}", '"0", {}', "*"):
        answer = await patch(tenant, {"locale": "de"}, **{"If-Match": right.format(etag)})
        assert answer.status_code == 200
        etag = answer.headers["etag"]
        assert (await tenant.get(path(tenant))).headers["etag"] == etag


async def test_of_patches_at_once_with_one_version_one_wins(tenant: Tenant) -> None:
    etag = (await tenant.get(path(tenant))).headers["etag"]
    answers = await asyncio.gather(*(patch(tenant, {"locale": "de"}, **{"If-Match": etag}) for _ in range(8)))
    assert sorted(a.status_code for a in answers) == [200] + [412] * 7


async def test_patches_at_once_without_a_version_are_all_kept(tenant: Tenant) -> None:
    names = ["dateWindowDaysBefore", "dateWindowDaysAfter", "groupSizeMax", "feeToleranceMinor", "amountToleranceMinor"]
    await asyncio.gather(*(patch(tenant, {"matching": {name: 9}}) for name in names))
    assert {n: (await tenant.get(path(tenant))).json()["matching"][n] for n in names} == dict.fromkeys(names, 9)


async def test_settings_are_the_tenants_whatever_the_environment(tenant: Tenant) -> None:
    await tenant.request("PATCH", path(tenant), "test", json={"locale": "nl"})
    assert (await tenant.get(path(tenant))).json()["locale"] == "nl"


async def test_who_may_change_them(service: Service, tenant: Tenant) -> None:
    for roles, allowed in ((("viewer",), False), (("operator",), False), (("approver",), False), (("admin",), True)):
        _, user = await add_user(service, tenant, *roles)
        answer = await patch(user, {"locale": "de"})
        assert (answer.status_code == 200) is allowed
        assert allowed or code(answer) == "insufficient_permission"
        assert (await user.get(path(tenant))).status_code == 200
    key = await add_key(tenant, read=False)
    headers = {"X-Tenant-Id": tenant.id, "X-Environment": "production", "X-Api-Key": key["apiKey"]}
    assert (await ask(tenant, "PATCH", path(tenant), headers, json={"locale": "de"})).status_code == 200


async def test_the_settings_of_another_tenant_are_not_found(acme: Tenant, globex: Tenant) -> None:
    answer = await acme.request("PATCH", path(globex), json={"locale": "de"})
    assert code(answer) == "not_found"
    assert (await globex.get(path(globex))).json()["locale"] == "en"
