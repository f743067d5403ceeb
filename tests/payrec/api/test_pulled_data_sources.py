"""Data sources that are pulled: what may be said of them, and that nobody gets at a secret by changing one."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from support.service import Service, Tenant
from support.wire import code, fields, rows

pytestmark = pytest.mark.anyio

PATH = "/data-sources"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk5Jd0W8dyFrSAJzDkRkUEzWJkWmZcVyKNkkZ6oT8Zw"
S3 = {"kind": "s3", "config": {"bucket": "b"}, "secret": {"accessKeyId": "a", "secretAccessKey": "hush"}}
SFTP = {
    "kind": "sftp",
    "config": {"host": "sftp.example.com", "username": "u", "hostKey": HOST_KEY},
    "secret": {"password": "hush"},
}
HTTP = {"kind": "http", "config": {"urls": ["https://example.com/a.csv"]}}
AZURE = {"kind": "azure", "config": {"accountName": "abc", "container": "c"}, "secret": {"sasToken": "hush"}}
KEY = '{"type": "service_account", "private_key": "hush"}'
GCS = {"kind": "gcs", "config": {"bucket": "b"}, "secret": {"serviceAccountKey": KEY}}


def having(given: dict[str, Any], **config: Any) -> dict[str, Any]:
    return {**given, "config": {**given["config"], **config}}


async def posted(tenant: Tenant, given: dict[str, Any]) -> Any:
    return await tenant.post(PATH, {"name": f"bank {uuid4()}", **given})


@pytest.mark.parametrize("given", [S3, SFTP, HTTP, AZURE, GCS], ids=lambda given: str(given["kind"]))
async def test_every_kind_can_be_made_and_never_tells_its_secret(
    service: Service, acme: Tenant, given: dict[str, Any]
) -> None:
    answer = await posted(acme, {**given, "schedule": "15 6 * * 1-5"})
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert body["nextSyncAt"] is not None
    assert given["config"].items() <= body["config"].items()
    listed = (await acme.get(PATH, params={"kind": given["kind"]})).text
    audit = str(await rows(service, acme, f"SELECT * FROM audit_record WHERE resource_id = '{body['id']}'"))  # noqa: S608
    for text in (answer.text, listed, audit):
        assert "hush" not in text
        assert '"secret"' not in text


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (having(S3, password="x"), ("/config/password", "extra_forbidden")),
        (having(S3, bucket="../x"), ("/config/bucket", "string_pattern_mismatch")),
        (having(S3, prefix="../x/"), ("/config/prefix", "path_relative")),
        (having(S3, prefix="/x/"), ("/config/prefix", "string_pattern_mismatch")),
        (having(S3, afterRead="move"), ("/config/moveTo", "move_to_required")),
        (having(S3, moveTo="x/"), ("/config/moveTo", "move_to_required")),
        (having(S3, anonymous=True), ("/config/anonymous", "secret_once")),
        (having(S3, endpoint="https://u:p@example.com"), ("/config/endpoint", "credentials_refused")),
        ({**S3, "secret": None}, ("/secret", "required")),
        ({**S3, "secret": {"accessKeyId": "a"}}, ("/secret", "secret_members")),
        ({**S3, "secret": {"accessKeyId": 1, "secretAccessKey": "x"}}, ("/secret/accessKeyId", "string_type")),
        ({**S3, "secretRef": "x"}, ("/secretRef", "secret_once")),
        ({**S3, "secret": None, "secretRef": "../acme"}, ("/secretRef", "secret_unknown")),
        ({**S3, "schedule": "0 0 30 2 *"}, ("/schedule", "schedule_never")),
        ({**S3, "schedule": "daily"}, ("/schedule", "schedule_malformed")),
        ({**GCS, "secret": {"serviceAccountKey": '{"type": "external_account"}'}}, ("/secret", "secret_malformed")),
        (having(SFTP, hostKey="any"), ("/config/hostKey", "string_pattern_mismatch")),
        (having(SFTP, host="2130706433"), ("/config/host", "host_malformed")),
        (having(SFTP, host="sftp..example.com"), ("/config/host", "host_malformed")),
        (having(SFTP, host=f"{'a' * 64}.example.com"), ("/config/host", "host_malformed")),
        (having(HTTP, afterRead="delete"), ("/config/afterRead", "extra_forbidden")),
        (having(HTTP, urls=["https://example.com/a?sig=x"]), ("/config/urls/0", "credentials_refused")),
        (having(HTTP, urls=["https://example.com/a?X-Amz-Signature=x"]), ("/config/urls/0", "credentials_refused")),
        (having(HTTP, urls=["ftp://example.com/a"]), ("/config/urls/0", "scheme_refused")),
        (having(HTTP, urls=[]), ("/config/urls", "too_short")),
    ],
)
async def test_what_is_wrong_is_said(acme: Tenant, given: dict[str, Any], told: tuple[str, str]) -> None:
    answer = await posted(acme, given)
    assert (answer.status_code, fields(answer)) == (422, {told})
    assert "hush" not in answer.text


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (having(HTTP, urls=["https://10.0.0.1/a"]), "/config/urls/0"),
        (having(HTTP, urls=["https://169.254.169.254/latest"]), "/config/urls/0"),
        (having(S3, endpoint="https://[::ffff:10.0.0.1]"), "/config/endpoint"),
        (having(AZURE, endpoint="https://192.168.1.1"), "/config/endpoint"),
        (having(SFTP, host="10.1.2.3"), "/config/host"),
    ],
)
async def test_addresses_inside_are_refused(acme: Tenant, given: dict[str, Any], pointer: str) -> None:
    answer = await posted(acme, given)
    assert (answer.status_code, code(answer), fields(answer)) == (
        422,
        "url_not_allowed",
        {(pointer, "address_refused")},
    )


@pytest.mark.parametrize(
    ("given", "config"),
    [
        (SFTP, {"host": "evil.example.com"}),
        (SFTP, {"hostKey": HOST_KEY.replace("Gk5", "Gk6")}),
        (SFTP, {"port": 2222}),
        (S3, {"endpoint": "https://evil.example.com"}),
        (AZURE, {"accountName": "evil"}),
        ({**HTTP, "secret": {"bearerToken": "hush"}}, {"urls": ["https://evil.example.com/a.csv"]}),
    ],
)
async def test_a_stored_secret_goes_to_no_other_server(
    acme: Tenant, given: dict[str, Any], config: dict[str, Any]
) -> None:
    source = (await posted(acme, given)).json()
    url = f"{PATH}/{source['id']}"
    refused = await acme.request("PATCH", url, json={"config": config})
    assert (refused.status_code, fields(refused)) == (422, {("/secret", "required")})
    assert (await acme.get(url)).json() == source
    again = await acme.request("PATCH", url, json={"config": config, "secret": given["secret"]})
    assert again.status_code == 200, again.text
    assert config.items() <= again.json()["config"].items()
    assert "hush" not in again.text


async def test_a_patch_is_checked_as_a_whole(acme: Tenant) -> None:
    source = (await posted(acme, SFTP)).json()
    url = f"{PATH}/{source['id']}"
    for wrong, told in (
        ({"secret": None}, ("/secret", "required")),
        ({"config": None}, None),
        ({"config": {"username": None}}, ("/config/username", "missing")),
        ({"config": {"patern": None}}, ("/config/patern", "extra_forbidden")),
        ({"secretRef": "x"}, ("/secretRef", "secret_once")),
        ({"schedule": "0 0 31 2 *"}, ("/schedule", "schedule_never")),
    ):
        answer = await acme.request("PATCH", url, json=wrong)
        assert answer.status_code == 422
        if told is not None:
            assert fields(answer) == {told}
    assert (await acme.get(url)).json() == source
    changed = await acme.request("PATCH", url, json={"config": {"pattern": "*.sta"}, "schedule": "0 7 * * *"})
    assert (changed.status_code, changed.json()["config"]["pattern"]) == (200, "*.sta")
    assert changed.json()["nextSyncAt"] is not None
