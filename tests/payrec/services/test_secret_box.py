"""Secrets at rest: they open for their owner, under their key, unchanged; and for nobody else."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.errors import ConfigurationError
from payrec.services.secret_box import SecretBox
from payrec.services.webhook_secrets import WebhookSecrets

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
NOW = datetime(2026, 11, 22, tzinfo=UTC)


def box(key: bytes = KEY) -> SecretBox:
    return SecretBox(key=key, token_bytes=secrets.token_bytes)


@given(st.binary(max_size=64), st.binary(min_size=1, max_size=16), st.data())
def test_a_secret_opens_as_it_was_sealed_and_not_otherwise(plain: bytes, owner: bytes, data: st.DataObject) -> None:
    sealed = box().seal(plain, owner=owner)
    assert box().open(sealed, owner=owner) == plain
    assert len(plain) < 8 or plain not in sealed
    place = data.draw(st.integers(0, len(sealed) - 1))
    changed = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
    for opener, text, whose in (
        (box(OTHER_KEY), sealed, owner),
        (box(), sealed, owner + b"x"),
        (box(), changed, owner),
        (box(), sealed[:place], owner),
    ):
        with pytest.raises(ConfigurationError):
            opener.open(text, owner=whose)


def test_the_secret_before_a_rotation_signs_for_a_while_unless_it_cannot_be_opened() -> None:
    webhook_id = uuid4()
    ours = WebhookSecrets(box=box(), token_bytes=secrets.token_bytes)
    (_, first), (_, second) = ours.make(webhook_id), ours.make(webhook_id)
    row = {
        "id": webhook_id,
        "secret_sealed": second,
        "previous_secret_sealed": first,
        "previous_secret_until": NOW + timedelta(hours=24),
    }
    assert len(set(ours.keys_of(row, now=NOW))) == 2
    assert len(ours.keys_of(row, now=NOW + timedelta(hours=24))) == 1
    # After a change of ENCRYPTION_KEY a rotation is enough.
    theirs = WebhookSecrets(box=box(OTHER_KEY), token_bytes=secrets.token_bytes)
    with pytest.raises(ConfigurationError):
        theirs.keys_of(row, now=NOW)
    assert len(theirs.keys_of({**row, "secret_sealed": theirs.make(webhook_id)[1]}, now=NOW)) == 1


def test_a_second_rotation_takes_no_secret_away_that_still_signs() -> None:
    webhook_id = uuid4()
    ours = WebhookSecrets(box=box(), token_bytes=secrets.token_bytes)
    row = {
        "id": webhook_id,
        "secret_sealed": ours.make(webhook_id)[1],
        "previous_secret_sealed": None,
        "previous_secret_until": None,
    }
    made = ours.keys_of(row, now=NOW)

    def rotate(at: datetime) -> None:
        before = ours.before(row, now=at)
        row.update(
            secret_sealed=ours.make(webhook_id)[1],
            previous_secret_sealed=before,
            previous_secret_until=at + timedelta(hours=24),
        )
        made.insert(0, ours.keys_of(row, now=at)[0])

    for hours in range(1, 7):
        rotate(NOW + timedelta(hours=hours))
        assert ours.keys_of(row, now=NOW + timedelta(hours=hours)) == made[:5]
    assert ours.keys_of(row, now=NOW + timedelta(hours=30)) == made[:1]
    # What signs no more does not sign again.
    rotate(NOW + timedelta(hours=31))
    assert ours.keys_of(row, now=NOW + timedelta(hours=31)) == made[:2]
    # After a change of ENCRYPTION_KEY nothing of before can sign.
    theirs = WebhookSecrets(box=box(OTHER_KEY), token_bytes=secrets.token_bytes)
    assert theirs.before(row, now=NOW) == row["secret_sealed"]
