"""Examples of bodies in the OpenAPI document: a test holds each against its schema."""

from __future__ import annotations

from typing import Any, Final

_EXPECTED: Final = "0192f0c1-2d3e-7a4b-8c5d-6e7f8091a2b3"
_INCOMING: Final = "0192f0c1-2d3e-7a4b-8c5d-6e7f8091a2b4"
_MATCH: Final = "0192f0c1-2d3e-7a4b-8c5d-6e7f8091a2b5"

_ITEM: Final = {
    "externalId": "INV-2026-0101",
    "direction": "credit",
    "amount": "119.00",
    "currency": "EUR",
    "dueDate": "2026-04-02",
    "reference": "INV-2026-0101",
    "counterpartyName": "Anna Berg",
}
_LINE: Final = {
    "externalId": "BANK-77",
    "direction": "credit",
    "amountMinor": 11900,
    "currency": "EUR",
    "bookingDate": "2026-04-03",
    "counterpartyName": "Anna Berg",
    "remittance": "invoice INV-2026-0101",
}

EXAMPLES: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("POST", "/auth/api-keys"): {"name": "billing", "read": True, "write": True, "expiresAt": "2027-01-01T00:00:00Z"},
    ("POST", "/expected-transactions"): _ITEM,
    ("POST", "/expected-transactions/bulk"): {"items": [_ITEM]},
    ("POST", "/incoming-transactions"): _LINE,
    ("POST", "/incoming-transactions/bulk"): {"items": [_LINE]},
    ("POST", "/matches/match"): {"wait": 60},
    ("POST", "/matches/accept"): {"ids": [_MATCH], "reason": "looked through"},
    ("POST", "/matches"): {
        "legs": [{"expectedTransactionId": _EXPECTED, "incomingTransactionId": _INCOMING, "amountMinor": 7150}],
        "adjustments": [
            {"type": "bank_charge", "expectedTransactionId": _EXPECTED, "amountMinor": 850, "currency": "EUR"}
        ],
        "reason": "Cara pays as CD Trading",
    },
    ("POST", "/matches/{match_id}/reverse"): {"reason": "it was another order"},
    ("POST", "/period-locks"): {"through": "2026-09-30", "reason": "September is closed"},
    ("POST", "/webhooks"): {"url": "https://erp.example.com/payrec", "events": ["match.accepted", "match.reversed"]},
    ("POST", "/jobs"): {"kind": "export", "params": {"resource": "matches", "format": "csv"}},
}
"""One body for each operation that a first program uses, by method and path."""
