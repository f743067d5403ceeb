"""``payrec verify-match``: what one match rests on, and whether each thing still computes to the same."""

from __future__ import annotations

import argparse
import json
from typing import Any

from payrec.commands.administration import administer
from payrec.commands.terminal import RIGHT, say, table
from payrec.errors import ConfigurationError, NotFoundError, PayrecError
from payrec.factory import Factory
from payrec.services.match_verification import Verification


def run(arguments: argparse.Namespace) -> int:
    """Verify one match."""
    return administer(_verify, arguments)


async def _verify(factory: Factory, arguments: argparse.Namespace) -> None:
    place = f"{arguments.tenant}/{arguments.environment}"
    try:
        scope = await factory.create_tenant_service().scope(arguments.tenant, arguments.environment)
        found = await factory.create_match_verification_service().verify(scope, str(arguments.id))
    except NotFoundError as error:
        # What does not exist cannot fail to hold: the command line is wrong.
        raise ConfigurationError(f"there is no match {arguments.id} in {place}: {error.detail}") from None
    if arguments.json:
        say(json.dumps(document(found), indent=2, ensure_ascii=False))
    else:
        say(_told(found, place))
    if not found.holds:
        broken = ", ".join(check.name for check in found.checks if not check.holds)
        raise PayrecError(f"match {found.id} does not hold: {broken}")


def document(found: Verification) -> dict[str, Any]:
    """Return a verification for programs; weights are log-odds, as those of the interface."""
    return {
        "id": str(found.id),
        "verified": found.holds,
        "status": found.status,
        "kind": found.kind,
        "amount": found.amount,
        "currency": found.currency,
        "createdBy": found.created_by,
        "explanation": found.explanation,
        "prior": found.prior_milli / 1000,
        "score": found.score_milli / 1000,
        "weights": [{"feature": w.feature, "level": w.level, "weight": w.milli / 1000} for w in found.weights],
        "checks": [{"name": check.name, "holds": check.holds, "detail": check.detail} for check in found.checks],
        "changed": [
            {"side": c.side, "id": str(c.id), "revision": c.revision, "revisionNow": c.revision_now}
            for c in found.changed
        ],
    }


def _told(found: Verification, place: str) -> str:
    """Return a verification for people."""
    lines = [
        f"match {found.id} of {place}",
        f"{found.status}, {found.kind}, {found.amount} {found.currency}, made by {found.created_by}",
    ]
    if found.explanation is not None:
        lines.append(found.explanation)
    if found.weights:
        rows = [("prior", "", _points(found.prior_milli))]
        rows += [(w.feature, w.level, _points(w.milli)) for w in found.weights]
        rows.append(("score", "as stored", _points(found.score_milli)))
        lines += ["", table(("feature", "level", "weight"), rows, widths=[0, 0, RIGHT])]
    checks = [(check.name, "yes" if check.holds else "NO", check.detail) for check in found.checks]
    lines += ["", table(("check", "holds", "what"), checks, wrapped=True)]
    lines += [
        f"{c.side} {c.id} has changed since: the match was made for revision {c.revision}, it is at {c.revision_now}"
        for c in found.changed
    ]
    return "\n".join(lines)


def _points(milli: int) -> str:
    return f"{milli / 1000:+.1f}"
