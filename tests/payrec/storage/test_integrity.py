"""What the database refuses, as the interface says it."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from payrec.errors import DuplicateExternalIdError, StorageFullError, UnavailableError
from payrec.storage.integrity import meant_by_worker, translate, unavailable

TOLD_BY_A_WORKER = (
    'duplicate key value violates unique constraint "incoming_transaction_external_id_unique_102044"\n'
    "DETAIL:  Key (external_id)=(a) already exists.\nCONTEXT:  while executing command on 127.0.0.1:5432"
)


@pytest.mark.parametrize(
    "kind", [errors.DeadlockDetected, errors.LockNotAvailable, errors.QueryCanceled, errors.DiskFull]
)
def test_what_a_worker_says_in_words_alone_is_the_error_that_it_means(kind: type[psycopg.Error]) -> None:
    words = {
        errors.DeadlockDetected: "deadlock detected\nDETAIL:  Process 31130 waits for ShareLock on transaction 8476",
        errors.LockNotAvailable: "canceling statement due to lock timeout",
        errors.QueryCanceled: "canceling statement due to statement timeout",
        errors.DiskFull: 'could not extend file "base/16384/16410": No space left on device',
    }
    assert type(meant_by_worker(errors.InternalError_(words[kind]))) is kind


def test_a_row_that_a_worker_refuses_is_what_the_interface_says_of_it() -> None:
    meant = meant_by_worker(errors.InternalError_(TOLD_BY_A_WORKER))
    assert isinstance(meant, errors.UniqueViolation)
    assert isinstance(translate(meant), DuplicateExternalIdError)


LOST_BY_THE_COORDINATOR = (
    "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n"
    "\tbefore or while processing the request.\ninvalid socket\nCONTEXT:  while executing command on 127.0.0.1:5432"
)


@pytest.mark.parametrize(
    "words",
    [
        LOST_BY_THE_COORDINATOR,
        "could not commit transaction for shard 102021 on at least one active node",
        "failure on connection marked as essential: 127.0.0.1:7701\nCONTEXT:  COPY change, line 1",
    ],
)
def test_a_worker_that_is_lost_at_commit_is_a_database_that_does_not_answer(words: str) -> None:
    error = errors.InternalError_(words)
    assert isinstance(meant_by_worker(error), psycopg.OperationalError)
    assert type(unavailable(error)) is UnavailableError


def test_a_schema_that_is_on_the_move_is_one_that_others_change() -> None:
    words = "could not acquire the lock required to colocate distributed table acme_production.account"
    meant = unavailable(errors.InternalError_(words))
    assert str(meant) == "others were changing the same"


def test_a_worker_whose_disk_is_full_is_a_full_disk_however_it_is_told() -> None:
    words = 'could not extend file "base/16384/16410": No space left on device'
    assert type(unavailable(errors.InternalError_(words))) is StorageFullError
    assert type(unavailable(errors.DiskFull(words))) is StorageFullError


@pytest.mark.parametrize("kind", [errors.IdleInTransactionSessionTimeout, errors.TransactionTimeout])
def test_a_transaction_that_the_server_s_bounds_end_may_be_tried_again(kind: type[psycopg.Error]) -> None:
    assert type(unavailable(kind("terminating connection due to a timeout"))) is UnavailableError


def test_what_else_goes_wrong_inside_stays_what_it_is() -> None:
    error = errors.InternalError_("cache lookup failed for relation 16410")
    assert meant_by_worker(error) is error
    assert unavailable(error) is None
    assert unavailable(errors.UndefinedTable("relation does not exist")) is None
