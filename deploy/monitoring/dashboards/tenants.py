"""Tenants and the operator: whether Tenants are as their resources ask, their keys, and the passes over them."""

from __future__ import annotations

from model import Dashboard, Panel, Query, greatest, increase, metric, quantile, rate

CONDITION = "payrec_operator_tenant_condition"
READY = 'condition="Ready"'
WHO = "exported_namespace, name"

DASHBOARD = Dashboard(
    uid="tenants",
    title="Tenants and operator",
    text="Conditions of the Tenant resources, environments, keys and rotations, and how the operator does.",
    rows=[
        (
            "Tenants",
            [
                Panel(
                    title="Tenants",
                    text="Resources that the operator has seen.",
                    kind="stat",
                    width=4,
                    queries=[Query(expr=f"count({metric(CONDITION, READY)})")],
                ),
                Panel(
                    title="Ready",
                    text="The share whose condition Ready is True.",
                    kind="stat",
                    unit="percentunit",
                    width=4,
                    thresholds=[(None, "red"), (0.99, "green")],
                    queries=[
                        Query(
                            expr=f"(count({metric(CONDITION, READY)} == 1) or vector(0))"
                            f" / count({metric(CONDITION, READY)})"
                        )
                    ],
                ),
                Panel(
                    title="Behind the release",
                    text="Tenants with tables that are older than this release.",
                    kind="stat",
                    width=4,
                    thresholds=[(None, "green"), (1, "orange")],
                    queries=[Query(expr=greatest("payrec_operator_migrations_pending"))],
                ),
                Panel(
                    title="Being deleted",
                    text="Tenants whose finalizer is still there.",
                    kind="stat",
                    width=4,
                    queries=[Query(expr=greatest("payrec_operator_finalizing"))],
                ),
                Panel(
                    title="Environments by state",
                    text="Applied ones serve requests.",
                    stacked=True,
                    queries=[Query(expr=greatest("payrec_operator_environments", by="state"), legend="{{state}}")],
                ),
                Panel(
                    title="Conditions that are not True",
                    text="0 is False, -1 Unknown. Deleting and Rotating are there only while they last.",
                    kind="table",
                    width=12,
                    renamed={"exported_namespace": "Namespace", "name": "Tenant", "condition": "Condition"},
                    queries=[
                        Query(
                            expr=greatest(CONDITION, 'condition!~"Deleting|Rotating"', by=f"{WHO}, condition") + " != 1"
                        )
                    ],
                ),
                Panel(
                    title="Left alone as asked",
                    text="Tenants that are paused or suspended because somebody wants it.",
                    kind="table",
                    width=12,
                    hidden=["Value"],
                    renamed={"exported_namespace": "Namespace", "name": "Tenant"},
                    queries=[Query(expr=greatest("payrec_operator_tenant_on_hold", by=WHO))],
                ),
            ],
        ),
        (
            "Keys",
            [
                Panel(
                    title="Keys by state",
                    text="retiring_in_use: still used although they were replaced.",
                    queries=[Query(expr=greatest("payrec_operator_api_keys", by="state"), legend="{{state}}")],
                ),
                Panel(
                    title="Rotations",
                    text="An hour, by what came of them.",
                    queries=[
                        Query(
                            expr=increase("payrec_operator_api_key_rotations_total", "1h", by="result"),
                            legend="{{result}}",
                        )
                    ],
                ),
                Panel(
                    title="Next rotations",
                    text="The ten that come first. What lies an hour back raises KeyRotationOverdue.",
                    kind="table",
                    unit="s",
                    renamed={"exported_namespace": "Namespace", "name": "Tenant", "Value": "In"},
                    queries=[
                        Query(
                            expr="bottomk(10, "
                            + greatest("payrec_operator_api_key_next_rotation_timestamp_seconds", by=WHO)
                            + " - time())"
                        )
                    ],
                ),
            ],
        ),
        (
            "Operator",
            [
                Panel(
                    title="Passes",
                    text="A second, by what caused them and how they ended.",
                    unit="ops",
                    queries=[
                        Query(
                            expr=rate("payrec_operator_reconcile_total", by="trigger, result") + " > 0",
                            legend="{{trigger}} {{result}}",
                        )
                    ],
                ),
                Panel(
                    title="Errors by reason",
                    text="Passes an hour after which something was wrong. operator/README.md says what to do.",
                    stacked=True,
                    queries=[
                        Query(
                            expr=increase("payrec_operator_reconcile_errors_total", "1h", by="reason") + " > 0",
                            legend="{{reason}}",
                        )
                    ],
                ),
                Panel(
                    title="Duration of passes",
                    text="A pass ends after 120 s at the latest.",
                    unit="s",
                    queries=[
                        Query(
                            expr=quantile(share, "payrec_operator_reconcile_duration_seconds"),
                            legend=f"p{share * 100:g}",
                        )
                        for share in (0.5, 0.99)
                    ],
                ),
                Panel(
                    title="Since the last success",
                    text="Three resync intervals raise OperatorStalled.",
                    unit="s",
                    queries=[
                        Query(
                            expr=f"time() - {greatest('payrec_operator_last_success_timestamp_seconds')}",
                            legend="last success",
                        ),
                        Query(
                            expr=f"3 * {greatest('payrec_operator_resync_interval_seconds')}", legend="three intervals"
                        ),
                    ],
                ),
                Panel(
                    title="Passes that run",
                    text="At most 20 at a time.",
                    queries=[Query(expr=greatest("payrec_operator_active_reconciles"), legend="passes")],
                ),
                Panel(
                    title="Drift corrected",
                    text="A day, by kind: what somebody else had changed and the operator has put right.",
                    queries=[
                        Query(
                            expr=increase("payrec_operator_drift_corrected_total", "1d", by="kind"), legend="{{kind}}"
                        )
                    ],
                ),
            ],
        ),
    ],
)
