"""Every table of both trees; importing this package fills the two metadata."""

from payrec.tables import (
    allocations,
    api_keys,
    changes,
    expected_transactions,
    idempotency,
    idp,
    imports,
    incoming_transactions,
    jobs,
    matches,
    tenants,
    tokens,
    users,
)

__all__ = [
    "allocations",
    "api_keys",
    "changes",
    "expected_transactions",
    "idempotency",
    "idp",
    "imports",
    "incoming_transactions",
    "jobs",
    "matches",
    "tenants",
    "tokens",
    "users",
]
