"""The rules of deliveries: signatures that the standard's library takes, the schedule, when an endpoint is given up."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from payrec.constants.events import (
    WEBHOOK_DISABLED_AFTER,
    WEBHOOK_EXCERPT_LENGTH_MAX,
    WEBHOOK_PAUSE_MAX,
    WEBHOOK_PAUSED_AFTER_FAILURES,
    WEBHOOK_RETRY_AFTER_MAX,
)
from payrec.domain.webhooks import (
    DELAYS,
    JITTER,
    Answer,
    Health,
    delay_after,
    excerpt_of,
    new_secret,
    retry_after_of,
    secret_bytes,
    signatures,
)

NOW = datetime(2026, 11, 22, 7, 0, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)
FAILED, TAKEN = Answer(status=500), Answer(status=204)


@given(st.binary(min_size=24, max_size=64), st.binary(min_size=24, max_size=64), st.text())
def test_the_standard_s_library_takes_either_signature_and_no_other_body(old: bytes, new: bytes, text: str) -> None:
    body, now = text.encode(errors="replace"), int(time.time())
    headers = {
        "webhook-id": "id",
        "webhook-timestamp": str(now),
        "webhook-signature": signatures([new, old], message_id="id", timestamp=now, body=body),
    }
    for secret in (new_secret(old), new_secret(new)):
        Webhook(secret).verify(body, headers, json_parse=False)
        for changed in ({"webhook-id": "other"}, {"webhook-timestamp": str(now - 1)}):
            with pytest.raises(WebhookVerificationError):
                Webhook(secret).verify(body, headers | changed, json_parse=False)
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body + b" ", headers, json_parse=False)
    assert secret_bytes(new_secret(old)) == old


def test_retries_last_about_three_days() -> None:
    least = sum((delay_after(n, None, chance=0.0) or timedelta() for n in range(1, 10)), timedelta())
    assert timedelta(days=3) < least < least * (1 + JITTER) < timedelta(days=4)
    assert delay_after(len(DELAYS) + 1, timedelta(seconds=1), chance=0.5) is None


@given(st.integers(1, 9), st.timedeltas(timedelta(), timedelta(days=400)) | st.none(), st.floats(0, 1))
def test_a_receiver_may_ask_for_more_time_not_for_less(attempts: int, asked: timedelta | None, chance: float) -> None:
    delay = delay_after(attempts, asked, chance=chance)
    assert delay is not None
    assert delay >= DELAYS[attempts - 1]
    assert delay <= max(DELAYS[attempts - 1] * (1 + JITTER), WEBHOOK_RETRY_AFTER_MAX)
    if asked is not None:
        assert delay >= min(asked, WEBHOOK_RETRY_AFTER_MAX)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("99999999999999999999", 10**8),
        ("Sun, 22 Nov 2026 07:02:00 GMT", 120),
        ("Sun, 22 Nov 2026 06:00:00 GMT", 0),
        ("Sun, 22 Nov 2026 09:02:00 +0200", 120),
        ("Sun, 22 Nov 2026 07:02:00 -0000", 120),
        ("999999999", 10**8),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("²", None),
        ("Sun, 99 Nov 2026 07:02:00 GMT", None),
        ("Sun, 22 Nov 99999999999999999999 07:02:00 GMT", None),
    ],
)
def test_retry_after(value: str | None, seconds: int | None) -> None:
    found = retry_after_of(value, now=NOW)
    assert (None if found is None else found.total_seconds()) == seconds


@given(st.text(max_size=60))
def test_no_retry_after_breaks_anything(value: str) -> None:
    found = retry_after_of(value, now=NOW)
    assert found is None or found >= timedelta()


# Mostly failures: so many in a row as lead to a pause, and to the end.
SUCCEEDS = st.sampled_from([*[False] * 15, True])


@given(st.lists(st.tuples(SUCCEEDS, st.timedeltas(timedelta(), timedelta(days=1))), min_size=1, max_size=30))
def test_the_health_of_an_endpoint_is_that_since_its_last_success(answers: list[tuple[bool, timedelta]]) -> None:
    health, now, failures, since = Health(), NOW, 0, None
    for is_success, later in answers:
        now += later
        health = health.after(TAKEN if is_success else FAILED, now=now)
        failures = 0 if is_success else failures + 1
        since = None if is_success else since or now
        assert (health.failures, health.failing_since) == (failures, since)
        assert (health.paused_until is not None) == (failures >= WEBHOOK_PAUSED_AFTER_FAILURES)
        assert health.paused_until is None or now < health.paused_until <= now + WEBHOOK_PAUSE_MAX
        assert health.is_given_up(now=now) == (since is not None and now - since >= WEBHOOK_DISABLED_AFTER)


def test_pauses_double_up_to_the_longest() -> None:
    health, pauses = Health(), []
    for _ in range(WEBHOOK_PAUSED_AFTER_FAILURES + 100):
        health = health.after(FAILED, now=NOW)
        pauses.append(None if health.paused_until is None else (health.paused_until - NOW).total_seconds())
    first = WEBHOOK_PAUSED_AFTER_FAILURES - 1
    assert pauses[:first] == [None] * first
    assert pauses[first : first + 7] == [5, 10, 20, 40, 80, 160, 300]
    assert set(pauses[first + 7 :]) == {300}


def test_a_pause_ends_at_its_instant_and_none_is_longer_than_the_longest() -> None:
    health = Health(failures=20, failing_since=NOW, paused_until=NOW + WEBHOOK_PAUSE_MAX)
    assert health.is_paused(now=NOW)
    assert health.is_paused(now=NOW + WEBHOOK_PAUSE_MAX - INSTANT)
    assert not health.is_paused(now=NOW + WEBHOOK_PAUSE_MAX)
    # The clock was set back.
    assert not health.is_paused(now=NOW - INSTANT)


def test_an_endpoint_is_given_up_when_it_has_failed_for_days() -> None:
    health = Health(failures=1, failing_since=NOW)
    assert health.is_given_up(now=NOW + WEBHOOK_DISABLED_AFTER)
    assert not health.is_given_up(now=NOW + WEBHOOK_DISABLED_AFTER - INSTANT)


@pytest.mark.parametrize("secret", ["whsec_A", "whsec_AA!A", "whsec_AAAA\n"])
def test_what_is_no_secret_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match=r"^not a secret$"):
        secret_bytes(secret)


@given(st.integers(100, 599))
def test_only_2xx_is_success_and_only_410_is_gone(status: int) -> None:
    answer = Answer(status=status)
    assert answer.is_success == (200 <= status <= 299)
    assert answer.is_gone == (status == 410)
    assert (answer.outcome == "succeeded") == answer.is_success


def test_an_excerpt_has_a_mark_where_something_cannot_be_shown() -> None:
    assert excerpt_of(b" a\x00b\xff ") == "a\ufffdb\ufffd"
    assert excerpt_of(b" \n") is None


@given(st.binary(max_size=5000))
def test_an_excerpt_can_be_stored_and_shown(body: bytes) -> None:
    excerpt = excerpt_of(body)
    if excerpt is not None:
        assert 0 < len(excerpt) <= WEBHOOK_EXCERPT_LENGTH_MAX
        assert "\x00" not in excerpt
        excerpt.encode()
