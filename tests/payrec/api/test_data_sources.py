"""Data sources: what uploads need not say again, how their files go, and that they are one environment's alone."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from payrec.constants import DATA_SOURCES_MAX
from support.events import TOLD
from support.service import Service, Tenant
from support.wire import add_key, add_user, ask, code, fields, problem, rows

pytestmark = pytest.mark.anyio

PATH = "/data-sources"
UPLOAD = "/incoming-transactions/upload"
RAW = "application/octet-stream"
DOUBTFUL = b"Date;Text;Amount\n03/04/2026;rent;-1.50\n05/06/2026;invoice;2.50\n"
"""Says neither its currency nor whether the day comes first."""
ANSWERED = {"currency": "GBP", "dateOrder": "dmy"}
TOO_LONG = ("/profile", "too_long")
UNREADABLE = b"Dear Sir,\nplease find our invoice.\n"


async def created(tenant: Tenant, environment: str = "production", **given: Any) -> dict[str, Any]:
    document = {"name": f"bank {uuid4()}", "kind": "upload", **given}
    answer = await tenant.post(PATH, document, environment)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"{PATH}/{answer.json()['id']}"
    assert answer.headers["etag"] == '"1"'
    return dict(answer.json())


async def upload(tenant: Tenant, content: bytes, **options: str) -> Any:
    return await tenant.post(UPLOAD, headers={"Content-Type": RAW}, content=content, params=options)


async def patch(tenant: Tenant, source: dict[str, Any], document: Any, **headers: str) -> Any:
    return await tenant.request("PATCH", f"{PATH}/{source['id']}", json=document, headers=headers)


async def events(service: Service, tenant: Tenant, source: dict[str, Any]) -> list[str]:
    query = f"SELECT type FROM {TOLD} WHERE resource_id = '{source['id']}' ORDER BY place"  # noqa: S608
    return [row["type"] for row in await rows(service, tenant, query)]


# The resource -----------------------------------------------------------------------------------------------------


async def test_a_data_source_is_made_shown_listed_changed_and_deleted(service: Service, acme: Tenant) -> None:
    source = await created(acme, name="Hausbank", account="DE89370400440532013000", profile=ANSWERED)
    assert {k: source[k] for k in ("name", "kind", "format", "profile", "account", "enabled", "status")} == {
        "name": "Hausbank",
        "kind": "upload",
        "format": "auto",
        "profile": ANSWERED,
        "account": "DE89370400440532013000",
        "enabled": True,
        "status": "ok",
    }
    nothing = {"schedule": None, "config": {}, "secretRef": None, "lastSyncAt": None, "lastError": None}
    assert {k: source[k] for k in nothing} == nothing
    got = await acme.get(f"{PATH}/{source['id']}")
    assert (got.json(), got.headers["etag"]) == (source, '"1"')
    assert source in (await acme.get(PATH)).json()["data"]

    changed = await patch(acme, source, {"name": "Hausbank neu", "account": None, "enabled": False})
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    assert {k: changed.json()[k] for k in ("name", "account", "enabled", "status", "profile")} == {
        "name": "Hausbank neu",
        "account": None,
        "enabled": False,
        "status": "disabled",
        "profile": ANSWERED,
    }
    listed = (await acme.get(PATH, params={"status": "disabled", "kind": "upload"})).json()["data"]
    assert source["id"] in {row["id"] for row in listed}
    assert source["id"] not in {row["id"] for row in (await acme.get(PATH, params={"status": "ok"})).json()["data"]}

    assert (await acme.request("DELETE", f"{PATH}/{source['id']}")).status_code == 204
    for answer in (await acme.get(f"{PATH}/{source['id']}"), await patch(acme, source, {"name": "x"})):
        assert (answer.status_code, code(answer)) == (404, "not_found")
    assert code(await acme.request("DELETE", f"{PATH}/{source['id']}")) == "not_found"
    query = f"SELECT action FROM audit_record WHERE resource_id = '{source['id']}' ORDER BY change_id"  # noqa: S608
    told = [row["action"] for row in await rows(service, acme, query)]
    assert told == ["data_source.created", "data_source.updated", "data_source.deleted"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"kind": "s3"}, ("/config/bucket", "missing")),
        ({"kind": "fax"}, ("/kind", "literal_error")),
        ({"name": ""}, ("/name", "string_too_short")),
        ({"name": None}, ("/name", "string_type")),
        ({"format": "pdf"}, ("/format", "literal_error")),
        ({"enabled": "yes"}, ("/enabled", "bool_type")),
        ({"secret": {"key": "x"}}, ("/secret", "not_for_uploads")),
        ({"secretRef": "bank"}, ("/secretRef", "not_for_uploads")),
        ({"schedule": "0 6 * * *"}, ("/schedule", "not_for_uploads")),
        ({"config": {"bucket": "x"}}, ("/config", "not_for_uploads")),
        ({"profile": {"decimal": ";"}}, ("/profile/decimal", "invalid")),
        ({"profile": {"columns": {"amounts": 1}}}, ("/profile/columns/amounts", "unknown_field")),
        (
            {"profile": {"skipWhen": [{"column": 0, "matches": "(a+)+", "rule": "x"}]}},
            ("/profile/skipWhen/0/matches", "invalid"),
        ),
        ({"profile": {"account": "a\x00"}}, ("/profile", "text_control_characters")),
        ({"profile": {"direction": {"column": 0, "credit": ["z" * 900] * 50, "debit": ["z" * 900] * 50}}}, TOO_LONG),
    ],
)
async def test_what_is_wrong_is_said(acme: Tenant, wrong: dict[str, Any], told: tuple[str, str]) -> None:
    answer = await acme.post(PATH, {"name": f"wrong {uuid4()}", "kind": "upload", **wrong})
    assert (answer.status_code, fields(answer)) == (422, {told})


async def test_a_patch_is_merged_and_wrong_ones_change_nothing(acme: Tenant) -> None:
    source = await created(acme, profile={"decimal": ",", "columns": {"amount": 2, "bookingDate": 0}}, format="csv")
    merged = (await patch(acme, source, {"profile": {"decimal": None, "columns": {"amount": 3}}})).json()
    assert merged["profile"] == {"columns": {"amount": 3, "bookingDate": 0}}
    for wrong, told in (
        ({"profile": {"columns": {"amount": -1}}}, ("/profile/columns/amount", "invalid")),
        ({"name": None}, ("/name", "required")),
        ({"kind": "upload"}, ("/kind", "extra_forbidden")),
        ({"profile": {"decimals": None}}, ("/profile/decimals", "unknown_field")),
        ({"profile": {"columns": {"amounts": None}}}, ("/profile/columns/amounts", "unknown_field")),
    ):
        assert fields(await patch(acme, source, wrong)) == {told}
    back = (await patch(acme, source, {"profile": None, "format": None, "enabled": None})).json()
    assert (back["profile"], back["format"], back["enabled"], back["version"]) == ({}, "auto", True, 3)


async def test_a_name_is_there_once(acme: Tenant) -> None:
    first, second = await created(acme, name="once"), await created(acme)
    again = await acme.post(PATH, {"name": "once", "kind": "upload"})
    renamed = await patch(acme, second, {"name": "once"})
    for answer in (again, renamed):
        assert (answer.status_code, code(answer)) == (409, "invalid_state")
    assert (await patch(acme, first, {"name": "once"})).status_code == 200
    assert (await acme.request("DELETE", f"{PATH}/{first['id']}")).status_code == 204
    await created(acme, name="once")


async def test_if_match_and_idempotency(acme: Tenant) -> None:
    source = await created(acme)
    url = f"{PATH}/{source['id']}"
    stale = {"If-Match": '"7"'}
    for answer in (
        await patch(acme, source, {"account": "1"}, **stale),
        await acme.request("DELETE", url, headers=stale),
    ):
        assert (answer.status_code, code(answer)) == (412, "version_mismatch")
    assert (await patch(acme, source, {"account": "1"}, **{"If-Match": '"1"'})).status_code == 200
    # Lines of a list are one list.
    lines = [*acme.headers("production").items(), ("If-Match", '"7"'), ("If-Match", '"2"')]
    for given, status in ((lines, 200), (lines[:-1], 412), (lines, 412)):
        answer = await acme.http.request("PATCH", acme.base_url + url, json={"account": "2"}, headers=given)
        assert answer.status_code == status

    document, key = {"name": f"again {uuid4()}", "kind": "upload"}, {"Idempotency-Key": str(uuid4())}
    first, again = [await acme.request("POST", PATH, json=document, headers=key) for _ in range(2)]
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    other = await acme.request("POST", PATH, json={**document, "account": "1"}, headers=key)
    assert (other.status_code, code(other)) == (422, "idempotency_key_reused")


async def test_there_is_a_limit(service: Service) -> None:
    tenant = await service.tenant("manysources", environments=["production"])
    source = await created(tenant)
    copies = f"""
        INSERT INTO data_source (id, change_id, created_at, updated_at, enabled, kind, name, format)
        SELECT gen_random_uuid(), change_id, created_at, updated_at, enabled, kind, 'copy ' || n, format
        FROM data_source, generate_series(2, {DATA_SOURCES_MAX}) n WHERE id = '{source["id"]}'
    """  # noqa: S608
    await rows(service, tenant, copies)
    full = await tenant.post(PATH, {"name": "one more", "kind": "upload"})
    assert (full.status_code, code(full)) == (409, "invalid_state")
    await tenant.request("DELETE", f"{PATH}/{source['id']}")
    await created(tenant, name="one more")


async def test_who_may_do_what(service: Service, acme: Tenant) -> None:
    source = await created(acme)
    url = f"{PATH}/{source['id']}"
    _, approver = await add_user(service, acme, "approver")
    reading = await add_key(acme, write=False)
    writing = await add_key(acme, read=False)
    assert (await approver.get(url)).status_code == 200
    assert code(await approver.post(PATH, {"name": "x", "kind": "upload"})) == "insufficient_permission"
    assert code(await approver.request("PATCH", url, json={"name": "x"})) == "insufficient_permission"
    assert code(await approver.request("DELETE", url)) == "insufficient_permission"
    place = {"X-Tenant-Id": acme.id, "X-Environment": "production"}
    reader, writer = ({**place, "X-Api-Key": key["apiKey"]} for key in (reading, writing))
    assert (await ask(acme, "GET", url, reader)).status_code == 200
    assert code(await ask(acme, "PATCH", url, reader, json={"account": "1"})) == "insufficient_permission"
    assert (await ask(acme, "PATCH", url, writer, json={"account": "1"})).status_code == 200


async def test_a_data_source_is_one_tenant_environment_s_alone(acme: Tenant, globex: Tenant) -> None:
    source = await created(acme, name=f"mine {uuid4()}", profile=ANSWERED)
    url = f"{PATH}/{source['id']}"
    for tenant, environment in ((globex, "production"), (acme, "test")):
        assert source["id"] not in str((await tenant.get(PATH, environment)).json())
        for method, body in (("GET", None), ("PATCH", {"name": "stolen"}), ("DELETE", None)):
            answer = await tenant.request(method, url, environment, json=body)
            assert (answer.status_code, code(answer)) == (404, "not_found"), method
        headers = {"Content-Type": RAW}
        options = {"dataSourceId": source["id"]}
        sent = await tenant.post(UPLOAD, environment=environment, headers=headers, content=DOUBTFUL, params=options)
        assert (sent.status_code, code(sent)) == (404, "not_found")
        assert (await created(tenant, environment, name=source["name"]))["id"] != source["id"]
    assert (await acme.get(url)).json() == source


# Its uploads ------------------------------------------------------------------------------------------------------


async def test_an_upload_takes_what_it_does_not_say_from_its_source(service: Service) -> None:
    tenant = await service.tenant("fromsource", environments=["production"])
    source = await created(tenant, profile=ANSWERED, account="GB33BUKB20201555555555", format="csv")
    answer = await upload(tenant, DOUBTFUL, dataSourceId=source["id"])
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert (body["dataSourceId"], body["counts"]["accepted"], body["format"]) == (source["id"], 2, "csv")
    found = (await tenant.get("/incoming-transactions", params={"dataSourceId": source["id"]})).json()["data"]
    assert {(r["bookingDate"], r["currency"], r["account"], r["dataSourceId"]) for r in found} == {
        ("2026-04-03", "GBP", "GB33BUKB20201555555555", source["id"]),
        ("2026-06-05", "GBP", "GB33BUKB20201555555555", source["id"]),
    }
    other = await created(tenant)
    for path in ("/incoming-transactions", "/imports"):
        assert len((await tenant.get(path, params={"dataSourceId": source["id"]})).json()["data"]) == (
            2 if path != "/imports" else 1
        )
        assert (await tenant.get(path, params={"dataSourceId": other["id"]})).json()["data"] == []
        assert fields(await tenant.get(path, params={"dataSourceId": "x"})) == {("dataSourceId", "uuid_parsing")}
    assert (await tenant.get(f"/incoming-transactions/{found[0]['id']}")).json()["dataSourceId"] == source["id"]


async def test_a_form_names_its_source_and_what_the_upload_says_wins(service: Service) -> None:
    tenant = await service.tenant("formsource", environments=["production"])
    source = await created(tenant, profile={**ANSWERED, "decimal": "."}, account="1111")
    said = {"dataSourceId": source["id"], "account": "2222", "currency": "EUR", "profile": '{"dateOrder": "mdy"}'}
    answer = await tenant.post(UPLOAD, data=said, files={"file": ("list.csv", DOUBTFUL)})
    assert answer.status_code == 201, answer.text
    [first, _] = (await tenant.get("/incoming-transactions", params={"sort": "bookingDate"})).json()["data"]
    assert (first["bookingDate"], first["account"]) == ("2026-03-04", "2222")
    wrong = await tenant.post(UPLOAD, data={"dataSourceId": "x"}, files={"file": ("list.csv", DOUBTFUL)})
    assert fields(wrong) == {("/dataSourceId", "uuid_parsing")}
    said["profile"] = '{"dateOrders": null}'
    misnamed = await tenant.post(UPLOAD, data=said, files={"file": ("list.csv", DOUBTFUL)})
    assert fields(misnamed) == {("/profile/dateOrders", "unknown_field")}


async def test_a_profile_that_changes_changes_nothing_that_came_before(service: Service) -> None:
    tenant = await service.tenant("profilechange", environments=["production"])
    source = await created(tenant, profile=ANSWERED)
    first = (await upload(tenant, DOUBTFUL, dataSourceId=source["id"])).json()
    again = await upload(tenant, DOUBTFUL, dataSourceId=source["id"])
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    before = (await tenant.get("/incoming-transactions")).json()["data"]
    assert (await patch(tenant, source, {"profile": {"dateOrder": "mdy"}})).status_code == 200
    assert (await tenant.get("/incoming-transactions")).json()["data"] == before
    assert (await tenant.get(f"/imports/{first['id']}")).json() == first
    second = await upload(tenant, DOUBTFUL, dataSourceId=source["id"])
    assert (second.status_code, second.json()["counts"]["accepted"]) == (201, 2)
    assert second.json()["id"] != first["id"]
    # The same bytes as another source's are another import as well, of the same entries.
    twin = await created(tenant, profile=ANSWERED)
    third = (await upload(tenant, DOUBTFUL, dataSourceId=twin["id"])).json()
    assert (third["dataSourceId"], third["counts"]["duplicates"]) == (twin["id"], 2)


async def test_a_disabled_source_takes_nothing_and_a_deleted_one_leaves_what_it_brought(service: Service) -> None:
    tenant = await service.tenant("disabledsource", environments=["production"])
    source = await created(tenant, profile=ANSWERED)
    await patch(tenant, source, {"enabled": False})
    refused = await upload(tenant, DOUBTFUL, dataSourceId=source["id"])
    assert (refused.status_code, code(refused)) == (409, "invalid_state")
    assert (await tenant.get("/imports")).json()["data"] == []

    async def keyed(content: bytes) -> Any:
        headers = {"Content-Type": RAW, "Idempotency-Key": "k"}
        return await tenant.post(UPLOAD, headers=headers, content=content, params={"dataSourceId": source["id"]})

    first, again = [await keyed(DOUBTFUL) for _ in range(2)]
    assert (first.status_code, again.status_code, again.json()) == (409, 409, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert code(await keyed(DOUBTFUL + b" ")) == "idempotency_key_reused"
    await patch(tenant, source, {"enabled": True})
    body = (await upload(tenant, DOUBTFUL, dataSourceId=source["id"])).json()
    assert (await tenant.request("DELETE", f"{PATH}/{source['id']}")).status_code == 204
    assert (await tenant.get(f"/imports/{body['id']}")).json() == body
    found = (await tenant.get("/incoming-transactions", params={"dataSourceId": source["id"]})).json()["data"]
    assert len(found) == 2
    gone = await upload(tenant, DOUBTFUL, dataSourceId=source["id"])
    assert (gone.status_code, code(gone)) == (404, "not_found")


async def test_its_status_follows_its_files_and_is_told_when_it_changes(service: Service, globex: Tenant) -> None:
    tenant = await service.tenant("sourcestatus", environments=["production"])
    source = await created(tenant, profile=ANSWERED)
    other = await created(tenant)

    async def shown() -> dict[str, Any]:
        return dict((await tenant.get(f"{PATH}/{source['id']}")).json())

    for number in (1, 2):
        refused = await upload(tenant, UNREADABLE * number, dataSourceId=source["id"])
        assert code(refused) == "unreadable_file"
        now = await shown()
        [failed, *_] = (await tenant.get("/imports", params={"status": "failed"})).json()["data"]
        assert (now["status"], now["version"], failed["dataSourceId"]) == ("failing", 1, source["id"])
        assert now["lastError"] == {
            "importId": failed["id"],
            "code": "unreadable_file",
            "reason": problem(refused)["reason"],
            "detail": problem(refused)["detail"],
        }
        assert await events(service, tenant, source) == ["data_source.failed"]
    assert (await tenant.get(PATH, params={"status": "failing"})).json()["data"] == [now]
    for _ in range(2):
        assert (await upload(tenant, DOUBTFUL, dataSourceId=source["id"])).status_code in {200, 201}
        after = await shown()
        assert (after["status"], after["lastError"]) == ("ok", None)
        assert after["lastSyncAt"] > now["lastSyncAt"]
    assert await events(service, tenant, source) == ["data_source.failed", "data_source.recovered"]
    untouched = (await tenant.get(f"{PATH}/{other['id']}")).json()
    assert (untouched["status"], untouched["lastSyncAt"]) == ("ok", None)
    assert source["id"] not in str((await globex.get(PATH)).json())


async def test_a_preview_is_read_as_its_source_says_and_leaves_no_trace(acme: Tenant) -> None:
    source = await created(acme, profile=ANSWERED)
    path = f"{UPLOAD}/preview"
    headers = {"Content-Type": RAW}
    seen = await acme.post(path, headers=headers, content=DOUBTFUL, params={"dataSourceId": source["id"]})
    assert (seen.status_code, seen.json()["counts"]["accepted"]) == (200, 2)
    bad = await acme.post(path, headers=headers, content=UNREADABLE, params={"dataSourceId": source["id"]})
    assert code(bad) == "unreadable_file"
    gone = await acme.post(path, headers=headers, content=DOUBTFUL, params={"dataSourceId": str(uuid4())})
    assert (gone.status_code, code(gone)) == (404, "not_found")
    assert (await acme.get(f"{PATH}/{source['id']}")).json() == source
