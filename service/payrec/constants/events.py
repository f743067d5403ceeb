"""Every limit and interval of events and webhooks, each with its unit; ``payrec.constants`` has all others."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

EVENT_RETENTION: Final = timedelta(days=30)
"""How long events stay in the feed, and deliveries in their log; longer than an endpoint can fail and stay active."""

EVENTS_DROPPED_AT_ONCE: Final = 10_000
"""Events that one transaction deletes when their time is over."""

EVENTS_SEALED_AT_ONCE: Final = 1_000
"""Events that get their places in one transaction, unless one row of the outbox stands for more."""

SEALINGS_PER_TURN: Final = 20
"""Such transactions in a row; then other environments have their turn."""

UNSEALED_CHANGES_READ: Final = 5_000
"""Changes with unsealed events that are read at a time."""

UNSEEN_CHANGE_AGE_MAX: Final = timedelta(days=1)
"""For how long a change is waited for of which the coordinator of a Citus cluster has told and which its worker has not
committed: then the daily look at every outbox has come."""

EVENT_POLL_SECONDS_MIN: Final = 0.05
"""Least time between two looks of a worker for events and due endpoints, while there are any."""

EVENT_POLL_SECONDS_MAX: Final = 0.6
"""The same at most, after a while without any; with the sealing itself it has to stay below a second."""

EVENT_FAILURE_PAUSE_SECONDS: Final = 30.0
"""How long a worker leaves an environment or an endpoint alone in which something failed on our side."""

WEBHOOKS_MAX: Final = 50
"""Endpoints of one tenant environment."""

WEBHOOK_URL_LENGTH_MAX: Final = 2_048
"""Characters of an endpoint's address."""

WEBHOOK_PORT_FREE_MIN: Final = 1_024
"""Ports from here on may be named besides 443 (and 80): no endpoint is told to speak to somebody's SSH or SMTP."""

WEBHOOK_SECRET_BYTES: Final = 32
"""Random bytes of an endpoint's secret; Standard Webhooks asks for 24 to 64."""

WEBHOOK_SECRET_OVERLAP: Final = timedelta(hours=24)
"""How long the secrets before a rotation sign as well."""

WEBHOOK_SECRETS_BEFORE_MAX: Final = 4
"""Secrets of before that sign as well, where one rotation follows another."""

WEBHOOK_REDELIVERIES_MAX: Final = 10_000
"""Deliveries that one request has made again."""

WEBHOOK_REDELIVERIES_JOB_MAX: Final = 100_000
"""Deliveries that one job has made again."""

WEBHOOK_REDELIVERED_PLACES: Final = 10_000
"""Places of the feed that such a job looks at in one transaction."""

WEBHOOK_REDELIVERED_IDS_MAX: Final = 100
"""Events that such a request can name one by one."""

WEBHOOK_ATTEMPT_SECONDS: Final = 15.0
"""Seconds for one whole attempt, from the look-up of the name to the head of the answer."""

WEBHOOK_CONNECT_SECONDS: Final = 5.0
"""Seconds of them for the connection, TLS included."""

WEBHOOK_BODY_SECONDS: Final = 1.0
"""Seconds for what is read of an answer's body, whose head has decided the matter."""

WEBHOOK_RESPONSE_BYTES_MAX: Final = 4 * 1024
"""Bytes that are read of an answer's body."""

WEBHOOK_EXCERPT_LENGTH_MAX: Final = 500
"""Characters of it that the log of deliveries keeps."""

WEBHOOK_RETRY_AFTER_MAX: Final = timedelta(hours=24)
"""Longest wait that a receiver can ask for."""

WEBHOOK_DISABLED_AFTER: Final = timedelta(days=5)
"""Time without any success after which a failing endpoint is disabled."""

WEBHOOK_PAUSED_AFTER_FAILURES: Final = 10
"""Failures in a row after which no further event is tried for a while; those that failed keep to their schedule."""

WEBHOOK_PAUSE_MIN: Final = timedelta(seconds=5)
"""The first such while; it doubles with each further failure."""

WEBHOOK_PAUSE_MAX: Final = timedelta(minutes=5)
"""The longest one."""

WEBHOOK_ATTEMPTS_AT_ONCE: Final = 32
"""Attempts under way at one endpoint at most; a failure halves what it may have, a success gives one back."""

WEBHOOK_ATTEMPTS_AT_ONCE_ALL: Final = 512
"""The same for all endpoints of a worker together."""

WEBHOOK_ATTEMPTS_AT_ONCE_TENANT: Final = 256
"""Of these, the ones of one tenant: whoever has many slow receivers leaves others half of them."""

WEBHOOK_ENDPOINTS_AT_ONCE: Final = 200
"""Endpoints that a worker delivers to at the same time."""

WEBHOOK_ENDPOINTS_AT_ONCE_TENANT: Final = 100
"""Of these, the ones of one tenant."""

WEBHOOK_TURN_SECONDS: Final = 10.0
"""How long a worker keeps an endpoint for sure; then it begins no further attempt there while another one waits."""

WEBHOOK_WAITING_SEEN: Final = 20
"""Endpoints without a place that a look sees, so that as many others give theirs."""

WEBHOOK_TESTS_AT_ONCE_TENANT: Final = 4
"""Test messages of one tenant that a process sends at the same time: each waits for a receiver, who may hang, and takes
a client of its own."""

WEBHOOK_TEST_WAIT_SECONDS: Final = 1.0
"""How long another one waits for one of them to end, before it is refused."""

WEBHOOK_EVENTS_READ: Final = 1_000
"""Events of one endpoint that are read at a time."""

WEBHOOK_EVENTS_HELD_MAX: Final = 4_000
"""Events of one endpoint that a worker has in memory, sent or not, before their outcomes are stored."""

WEBHOOK_OUTCOMES_STORED: Final = 500
"""Outcomes that wait to be stored before they are, however busy the endpoint is."""

WEBHOOK_STORE_SECONDS: Final = 0.25
"""The longest time that they wait."""

WEBHOOK_LINGER_SECONDS: Final = 1.0
"""How long a worker keeps an endpoint that has nothing to be done, in case there soon is."""

WEBHOOK_LOOK_SECONDS: Final = 0.2
"""Between two looks for more of a worker that keeps an endpoint, when it is not told of any."""

WEBHOOK_LEASE: Final = timedelta(seconds=30)
"""How long an endpoint belongs to a worker that has stopped renewing its lease."""

WEBHOOK_LEASE_RENEWED_SECONDS: Final = 5.0
"""Between two renewals."""

WEBHOOK_LEASE_TRUSTED_SECONDS: Final = 12.0
"""Age of a lease at which no further attempt begins: with one whole attempt it is over before the lease is."""

WEBHOOK_LOOKUP_THREADS: Final = 16
"""Names of receivers that are looked up at the same time; in threads of their own, because resolvers may hang."""

WEBHOOK_LOOKUPS_OF_TENANT: Final = WEBHOOK_LOOKUP_THREADS // 4
"""Of these, those of one tenant: most take milliseconds, and those that hang ten seconds or more."""
