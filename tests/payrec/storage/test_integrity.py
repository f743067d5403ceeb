"""What the database refuses, as the interface says it."""

from __future__ import annotations

from psycopg import errors

from payrec.errors import DuplicateExternalIdError
from payrec.storage.integrity import translate, unique_violation

TOLD_BY_A_WORKER = (
    'duplicate key value violates unique constraint "incoming_transaction_external_id_unique_102044"\n'
    "DETAIL:  Key (external_id)=(a) already exists.\nCONTEXT:  while executing command on 127.0.0.1:5432"
)


def test_what_a_worker_refuses_in_words_alone_is_the_error_that_it_means() -> None:
    meant = unique_violation(errors.InternalError_(TOLD_BY_A_WORKER))
    assert meant is not None
    assert isinstance(translate(meant), DuplicateExternalIdError)


def test_what_else_goes_wrong_inside_is_no_refusal() -> None:
    assert unique_violation(errors.InternalError_("connection to the remote node failed")) is None
