"""Ingestion: files and records that come, what is refused of them, and the sources that are pulled."""

from __future__ import annotations

from model import Dashboard, Panel, Query, greatest, increase, quantile, rate

RECORDS = "payrec_import_records_total"
REJECTED = 'outcome="rejected"'
UPLOADS = 'route=~".*/upload(/.*)?"'

DASHBOARD = Dashboard(
    uid="ingestion",
    title="Ingestion",
    text="Uploads and pulled data sources: records by outcome, durations, and what fails.",
    rows=[
        (
            "Records",
            [
                Panel(
                    title="By outcome",
                    text="Records of files an hour: stored, known already, or rejected.",
                    width=12,
                    stacked=True,
                    queries=[Query(expr=increase(RECORDS, "1h", by="outcome"), legend="{{outcome}}")],
                ),
                Panel(
                    title="Rejected in 24 h",
                    text="The share of records that could not be read. GET /imports/{id}/errors says why.",
                    kind="stat",
                    unit="percentunit",
                    width=6,
                    thresholds=[(None, "green"), (0.01, "orange"), (0.1, "red")],
                    queries=[
                        Query(
                            expr=f"{increase(RECORDS, '1d', REJECTED)} / {increase(RECORDS, '1d')}",
                        )
                    ],
                ),
                Panel(
                    title="Stored in 24 h",
                    text="Records that became transactions.",
                    kind="stat",
                    width=6,
                    queries=[Query(expr=increase(RECORDS, "1d", 'outcome="accepted"'))],
                ),
            ],
        ),
        (
            "Uploads",
            [
                Panel(
                    title="By status",
                    text="Answers to uploads and previews. 422 is a file that cannot be read, or that asks a question.",
                    unit="reqps",
                    stacked=True,
                    queries=[Query(expr=rate("payrec_http_requests_total", UPLOADS, by="status"), legend="{{status}}")],
                ),
                Panel(
                    title="Duration",
                    text="From the first byte to the answer; a large file is answered before it is read.",
                    unit="s",
                    queries=[
                        Query(
                            expr=quantile(share, "payrec_http_request_duration_seconds", UPLOADS),
                            legend=f"p{share * 100:g}",
                        )
                        for share in (0.5, 0.95)
                    ],
                ),
                Panel(
                    title="Files read by workers",
                    text="Attempts an hour, by how they ended.",
                    stacked=True,
                    queries=[
                        Query(
                            expr=increase("payrec_jobs_total", "1h", 'kind="import"', by="status"),
                            legend="{{status}}",
                        )
                    ],
                ),
            ],
        ),
        (
            "Data sources",
            [
                Panel(
                    title="By state",
                    text="Pulled sources of all tenants. The tenant's GET /data-sources says what is wrong.",
                    stacked=True,
                    queries=[Query(expr=greatest("payrec_data_sources", by="state"), legend="{{state}}")],
                ),
                Panel(
                    title="Remote files",
                    text="An hour: imported, failed, or left for the next time.",
                    stacked=True,
                    queries=[
                        Query(expr=increase("payrec_sync_objects_total", "1h", by="outcome"), legend="{{outcome}}")
                    ],
                ),
                Panel(
                    title="Syncs",
                    text="Attempts an hour, by how they ended.",
                    stacked=True,
                    queries=[
                        Query(expr=increase("payrec_jobs_total", "1h", 'kind="sync"', by="status"), legend="{{status}}")
                    ],
                ),
                Panel(
                    title="Duration of syncs",
                    text="A sync reads at most 1,000 files, and begins none after five minutes; the next one goes on.",
                    unit="s",
                    queries=[
                        Query(
                            expr=quantile(share, "payrec_job_duration_seconds", 'kind="sync"'),
                            legend=f"p{share * 100:g}",
                        )
                        for share in (0.5, 0.95)
                    ],
                ),
                Panel(
                    title="Accounts without statement",
                    text="Their statement is due by the tenant's business days: account.statement_missing.",
                    queries=[Query(expr=greatest("payrec_accounts_without_statement"), legend="accounts")],
                ),
            ],
        ),
    ],
)
