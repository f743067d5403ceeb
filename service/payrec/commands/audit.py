"""``payrec audit verify``: whether the audit log of an environment is what was sealed."""

from __future__ import annotations

import argparse
import json
from typing import Any

from payrec.commands.administration import administer
from payrec.commands.terminal import say, table
from payrec.errors import ConfigurationError, NotFoundError, PayrecError
from payrec.factory import Factory
from payrec.services.audit_verification import AuditVerification, Break

_SAID = {
    "record_changed": "a record is not what was sealed",
    "record_missing": "a sealed record is gone, and the retention has not deleted it",
    "record_unknown": "a record is in no seal and does not wait for one",
    "record_redacted": "more records have lost their content than erasures have told of",
    "seal_missing": "a seal is gone",
    "seal_unlinked": "a seal does not follow the one before it",
    "seal_changed": "a seal, or what it says of its records, is not what it was",
    "root_differs": "a root is not the one that was kept",
}


def run(arguments: argparse.Namespace) -> int:
    """Verify one environment."""
    return administer(_verify, arguments)


async def _verify(factory: Factory, arguments: argparse.Namespace) -> None:
    place = f"{arguments.tenant}/{arguments.environment}"
    try:
        scope = await factory.create_tenant_service().scope(arguments.tenant, arguments.environment)
    except NotFoundError as error:
        raise ConfigurationError(str(error.detail)) from None
    kept = dict(arguments.root or [])
    found = await factory.upkeep.create_audit_verification_service().verify(scope, kept)
    if arguments.json:
        say(json.dumps(document(found), indent=2))
    else:
        say(_told(found, place))
    if not found.holds:
        raise PayrecError(f"the audit log of {place} is not what was sealed: {found.break_count} breaks")


def document(found: AuditVerification) -> dict[str, Any]:
    """Return a verification for programs."""
    redacted = found.redacted
    return {
        "verified": found.holds,
        "seals": found.seals,
        "records": found.records,
        "redacted": {
            "count": redacted.count,
            "oldest": redacted.oldest.isoformat() if redacted.oldest else None,
            "newest": redacted.newest.isoformat() if redacted.newest else None,
            "erasedCount": found.erased_count,
            "erased": [f"{change_id}/{ordinal}" for change_id, ordinal in found.erased],
        },
        "notSealedYet": found.waiting,
        "lastRoot": found.last_root,
        "breakCount": found.break_count,
        "breaks": [_break(one) for one in found.breaks],
    }


def _break(one: Break) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "seal": one.seal,
        "changeId": str(one.change_id) if one.change_id else None,
        "ordinal": one.ordinal,
    }


def _told(found: AuditVerification, place: str) -> str:
    """Return a verification for people."""
    redacted = found.redacted
    span = ""
    if redacted.oldest is not None and redacted.newest is not None:
        span = f", of {redacted.oldest:%Y-%m-%d} to {redacted.newest:%Y-%m-%d}"
    lines = [
        f"audit log of {place}: {'as it was sealed' if found.holds else 'NOT as it was sealed'}",
        f"{found.records} records are as they were, in {found.seals} seals",
        f"{redacted.count} are redacted{span}: their commitments hold",
        f"{found.waiting} are not sealed yet",
    ]
    if found.erased:
        more = "" if found.erased_count == len(found.erased) else ", …"
        names = ", ".join(f"{change_id}/{ordinal}" for change_id, ordinal in found.erased)
        lines.append(f"{found.erased_count} of them by erasures: {names}{more}")
    if found.last_root is not None:
        lines.append(f"keep this elsewhere: {found.seals}:{found.last_root}")
    if found.breaks:
        rows = [
            (
                "" if one.seal is None else str(one.seal),
                "" if one.change_id is None else f"{one.change_id}/{one.ordinal}",
                _SAID[one.kind],
            )
            for one in found.breaks
        ]
        lines += ["", table(("seal", "record", "what"), rows)]
        if found.break_count > len(found.breaks):
            lines.append(f"and {found.break_count - len(found.breaks)} more")
    return "\n".join(lines)
