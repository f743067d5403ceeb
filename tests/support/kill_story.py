"""What happens to a tenant so that a worker has to do something about it: one thing for each of its commits."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from payrec.domain.business_days import is_weekday
from payrec.services import erasures
from support.ages import aged
from support.attempts import DUE, LAPSE, queue
from support.file_servers import SftpServer
from support.matching_world import World
from support.places import look
from support.receivers import Receiver
from support.sources import PATH, statement
from support.wire import add_key

LARGE_ROWS: Final = 30_000
RECORD: Final = {"currency": "EUR", "direction": "credit", "bookingDate": "2026-03-01"}
KWD: Final = {"currency": "KWD", "count": 1, "amount": "7.000"}
DUE_TASKS: Final = {
    "audit_seal": "seal_audit_logs",
    "outboxes": "look_at_outboxes",
    "lost_wake_ups": "tell_of_waiting",
    "key_expiry": "announce_expiring_keys",
    "schedule": "start_due_syncs",
    "overdue": "announce_overdue",
    "missing_statement": "announce_missing_statements",
    "retention": "drop_expired",
    "remnant": "collect_objects",
    "expiry": "drop_expired",
}


@dataclass(slots=True)
class Story:
    """Makes happen what a worker has to do something about, and knows what must have come of it."""

    world: World
    sftp: SftpServer
    receiver: Receiver
    superuser: str
    number: int = 0
    made: Counter[str] = field(default_factory=Counter)
    jobs: dict[str, str] = field(default_factory=dict)
    """What each job must have ended as."""
    past: set[str] = field(default_factory=set)
    """Jobs that had ended before."""

    async def happen(self, kind: str) -> None:
        """Make it happen once more."""
        self.number += 1
        self.made[kind] += 1
        await getattr(self, kind)()
        if kind in DUE_TASKS:
            task = DUE_TASKS[kind]
            # The clock may just have begun it, in a worker that died before it did it.
            query = (
                "INSERT INTO jobs.procrastinate_jobs (queue_name, task_name, args, queueing_lock)"
                " VALUES ('payrec', %s, '{\"timestamp\": 0}', %s) ON CONFLICT DO NOTHING"
            )
            superuser = make_conninfo(self.superuser, options="-csearch_path=jobs")
            await look(superuser, query, task, task)

    async def upload(self, rows: int = 1) -> None:
        """Upload a file that a worker reads."""
        records = [{**RECORD, "amount": f"{self.number}.{n % 100:02}", "remittance": f"{n}"} for n in range(rows)]
        answer = await self.world.tenant.post("/incoming-transactions/upload", records)
        assert answer.status_code == 202, answer.text
        self.jobs[answer.json()["jobId"]] = "succeeded"
        self.made["rows"] += rows

    async def expected_upload(self) -> None:
        """Upload a file of expected transactions that a worker reads."""
        records = [
            {"externalId": f"{self.number}-{n}", "direction": "debit", "amount": "777", "currency": "JPY"}
            for n in range(3)
        ]
        answer = await self.world.tenant.post("/expected-transactions/upload", records)
        assert answer.status_code == 202, answer.text
        self.jobs[answer.json()["jobId"]] = "succeeded"
        self.made["items"] += len(records)

    async def snapshot(self) -> None:
        """Upload what another system has open, of which one item is to be created here."""
        record = {"externalId": f"{self.number}", "direction": "debit", "amount": "7.000", "openAmount": "7.000"}
        said = {"takenAt": datetime.now(UTC).isoformat(), "controlTotals": json.dumps([KWD]), "apply": "true"}
        file = ("open.json", json.dumps([{**record, "currency": "KWD"}]).encode())
        answer = await self.world.tenant.post("/expected-transactions/snapshots", files={"file": file}, data=said)
        assert answer.status_code == 202, answer.text
        self.jobs[answer.json()["jobId"]] = "succeeded"

    async def decisions(self) -> None:
        """Upload a decision about a pair that was made elsewhere."""
        name = f"decided-{self.number}"
        await self.world.expect(f"{self.number}.55", externalId=name, dueDate=None)
        await self.world.receive(f"{self.number}.55", externalId=name)
        self.made["rows"] += 1
        record = {"expectedExternalId": name, "incomingExternalId": name, "amountMinor": self.number * 100 + 55}
        said = [{**record, "decidedAt": "2026-03-12T08:00:00Z", "decidedBy": "ada", "reviewed": True}]
        answer = await self.world.tenant.post("/matches/import", said)
        assert answer.status_code == 202, answer.text
        self.jobs[answer.json()["jobId"]] = "succeeded"

    async def bad_upload(self) -> None:
        """Upload a file that nobody can read."""
        file = ("bank.txt", f"Dear Sir,\nplease find our invoice {self.number}.\n".encode())
        answer = await self.world.tenant.post("/incoming-transactions/upload", files={"file": file})
        assert answer.status_code == 202, answer.text
        self.jobs[answer.json()["jobId"]] = "failed"

    async def long_queue(self) -> None:
        """Upload a file that takes a while, and one that waits for it."""
        await self.upload(LARGE_ROWS)
        self.number += 1
        await self.upload()

    async def match(self) -> None:
        """Run matching over a pair that nobody has matched."""
        await self.world.expect(f"{self.number}.77", reference=f"INV-2026-{self.number:03}", dueDate=None)
        await self.world.receive(f"{self.number}.77", remittance=f"INV-2026-{self.number:03}")
        self.made["rows"] += 1
        self.made["proposals"] += 1
        await self._job("match")

    async def dry_run(self) -> None:
        """Have it told what a run would do."""
        await self._job("match", dryRun=True)

    async def erasure(self) -> None:
        """Have somebody erased of whom nothing is known, by a job as where there is much to look through."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(erasures, "ERASURE_BYTES_AT_ONCE", -1)
            body = {"counterpartyName": f"Nobody {self.number}", "reason": "asked for"}
            answer = await self.world.tenant.post("/privacy/erasures", body)
        assert answer.status_code == 202, answer.text
        self.jobs[answer.json()["jobId"]] = "succeeded"

    async def backtest(self) -> None:
        """Have yesterday decided once more."""
        await self.world.sql(aged("history_span", "3 days", "begun_at") + " RETURNING begun_at")
        day = str((datetime.now(UTC) - timedelta(days=1)).date())
        await self._job("backtest", **{"from": day, "to": day})

    async def export(self) -> None:
        """Have a list made into a file."""
        await self._job("export", resource="incoming-transactions", format="parquet")

    async def sync(self) -> None:
        """Put a file on the server, and have it pulled."""
        self.sftp.put(f"{self.number}.csv", statement(10_000 + self.number))
        self.made["rows"] += 1
        self.made["files"] += 1
        await self.pull()

    async def bad_sync(self) -> None:
        """The same with a file that nobody can read."""
        self.sftp.put(f"{self.number}.csv", f"Dear Sir,\nplease find our invoice {self.number}.\n".encode())
        await self.pull()

    async def audit_seal(self) -> None:
        """Leave what is there to be sealed."""

    async def outboxes(self) -> None:
        """Leave what is there to be looked at."""

    async def lost_wake_ups(self) -> None:
        """Leave something of which no worker is told."""
        await self.world.sql(
            "INSERT INTO outbox (change_id, ordinal, type, resource_ids)"
            " VALUES (gen_random_uuid(), 1, 'match.rejected', ARRAY[gen_random_uuid()])"
        )

    async def settings(self) -> None:
        """Change what the tenant has set, of which every environment is told."""
        days = {"retention": {"rawLinesDays": 400 + self.number}}
        patched = await self.world.tenant.request("PATCH", f"/tenants/{self.world.tenant.id}/settings", json=days)
        assert patched.status_code == 200, patched.text

    async def redelivery(self) -> None:
        """Ask for whatever never arrived."""
        [hook] = await self.world.sql("SELECT id FROM webhook WHERE url NOT LIKE '%%/gone'")
        await self._job("redeliver", webhookId=str(hook["id"]), **{"from": "2026-01-01T00:00:00Z"})

    async def schedule(self) -> None:
        """Let the time of a data source come."""
        await self.world.sql("UPDATE data_source SET next_sync_at = now() - interval '1 minute'")

    async def refusal(self) -> None:
        """Ask for a sync of a source that is gone."""
        context = self.world.service.factory.context
        job_id = await queue(context, self.world.scope, "sync", dataSourceId=str(uuid4()))
        self.jobs[str(job_id)] = "failed"

    async def crash(self) -> None:
        """Ask for what no worker understands."""
        self.jobs[str(await queue(self.world.service.factory.context, self.world.scope, "export"))] = "failed"

    async def cancellation(self) -> None:
        """Ask for something whose cancellation comes while it runs."""
        job_id = await queue(self.world.service.factory.context, self.world.scope, "export")
        await self.world.sql("UPDATE job SET cancel_requested_at = now() WHERE id = %s", job_id)
        self.jobs[str(job_id)] = "cancelled"

    async def key_expiry(self) -> None:
        """Make a key that expires soon."""
        made = await add_key(self.world.tenant)
        async with self.world.service.factory.context.database.control() as connection:
            query = "UPDATE api_key SET expires_at = now() + interval '3 days' WHERE id = %s"
            await connection.execute(query, (made["id"],))

    async def overdue(self) -> None:
        """Expect something that was due long ago."""
        await self.world.expect(f"{self.number}.33", dueDate="2020-01-02")

    async def missing_statement(self) -> None:
        """Have an account whose statement of the last business day has not come."""
        day = datetime.now(UTC).date() - timedelta(days=1)
        while not is_weekday(day):
            day -= timedelta(days=1)
        body = {"identifier": f"till {self.number}", "currency": "EUR"}
        made = await self.world.tenant.post("/accounts", {**body, "statementEvery": "day", "statementDueAfterHours": 0})
        assert made.status_code == 201, made.text
        await self.world.sql("UPDATE account SET statements_from = %s WHERE id = %s", day, made.json()["id"])

    async def posting(self) -> None:
        """Say what a line is, and take it back: two postings for the books."""
        line = await self.world.receive(f"{self.number}.55")
        self.made["rows"] += 1
        for verb, body in (("classify", {"category": "fee"}), ("restore", None)):
            answer = await self.world.tenant.post(f"/incoming-transactions/{line}/{verb}", body)
            assert answer.status_code == 200, answer.text

    async def retention(self) -> None:
        """Let the time of a file be over."""
        job = (
            "INSERT INTO job (id, created_at, updated_at, kind, status, actor, request_id, params)"
            " VALUES (%s, now(), now(), 'export', 'succeeded', 'user:test', 'test', '{}')"
        )
        export = (
            "INSERT INTO export (id, job_id, rows, bytes, created_at, expires_at, resource, format, sha256)"
            " VALUES (%s, %s, 0, 0, now() - interval '2 days', now() - interval '1 day', 'matches', 'csv', '')"
        )
        job_id = uuid4()
        await self.world.sql(job, job_id)
        await self.world.sql(export, uuid4(), job_id)
        self.past.add(str(job_id))

    async def expiry(self) -> None:
        """Let the time of every export be over."""
        await self.world.sql("UPDATE export SET expires_at = now()")

    async def remnant(self) -> None:
        """Let an environment have been dropped long ago."""
        query = (
            "INSERT INTO control.blob_remnant (environment_id, tenant_id, dropped_at)"
            " VALUES (%s, %s, now() - interval '1 day')"
        )
        await look(self.superuser, query, uuid4(), uuid4())

    async def webhook_gone(self) -> None:
        """Let an endpoint be due that is not there any more."""
        query = "INSERT INTO control.webhook_queue (webhook_id, environment_id, due_at) VALUES (%s, %s, now())"
        await look(self.superuser, query, uuid4(), self.world.scope.environment_id)

    async def webhook_disabled(self) -> None:
        """Let an endpoint say that it wants nothing more."""
        made = await self.world.tenant.post("/webhooks", {"url": self.receiver.url + "/gone", "events": ["*"]})
        assert made.status_code == 201, made.text
        await self.upload()

    async def _job(self, kind: str, **params: Any) -> None:
        answer = await self.world.tenant.post("/jobs", {"kind": kind, "params": params})
        if kind == "match" and answer.status_code == 409:
            # The run of a dead worker is still to be done, and does this as well: if it is told to do it.
            waiting = "UPDATE job SET params = %s WHERE kind = 'match' AND status IN ('queued', 'running') RETURNING id"
            assert await self.world.sql(waiting, json.dumps({"dryRun": False, **params}))
            return
        assert answer.status_code == 202, answer.text
        self.jobs[answer.json()["id"]] = "succeeded"

    async def pull(self) -> None:
        """Have the data source looked at."""
        [source] = await self.world.sql("SELECT id FROM data_source")
        answer = await self.world.tenant.post(f"{PATH}/{source['id']}/sync")
        assert answer.status_code in {202, 409}, answer.text

    async def recover(self) -> None:
        """Let every lease of the dead be over: what takes half a minute else is due now. No worker may live."""
        await self.world.sql(LAPSE)
        # Deaths count as attempts; here they are too many for one job, and shall not end it.
        keep = "UPDATE job SET attempts = least(attempts, 1) WHERE status IN ('queued', 'running') AND params <> '{}'"
        await self.world.sql(keep)
        await self.world.sql("UPDATE data_source_object SET attempts = 0")
        await self.world.sql("UPDATE webhook SET lease_until = now()")
        await look(self.superuser, "UPDATE control.webhook_queue SET due_at = now()")
        await self.hurry()

    async def hurry(self) -> None:
        """Let what waits for its next attempt have it now."""
        await self.world.sql(DUE)
        await self.world.sql("UPDATE webhook_delivery SET next_attempt_at = now() WHERE status = 'pending'")
        kinds = "ARRAY['match', 'import', 'export', 'sync', 'redeliver', 'learn', 'erasure']"
        wake = f"SELECT control.enqueue(%s, kind, interval '0') FROM unnest({kinds}) AS kind"  # noqa: S608 - our own
        await look(self.superuser, wake, self.world.scope.environment_id)
