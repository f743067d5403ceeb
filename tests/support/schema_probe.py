"""Requests made from an OpenAPI document, sent by a process of its own.

Hypothesis moves the interpreter's recursion limit while it works, which the service in the tests' process must not
notice. Reads ``{baseUrl, headers, ids, operations, examples}`` as JSON from standard input and writes, for each
operation, how many requests were sent, how many of them succeeded, and what was wrong.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def probe(schema: Any, task: dict[str, Any], method: str, path: str, session: requests.Session) -> dict[str, Any]:
    """Send valid and invalid requests to one operation; where its path has an id, half of them name one that exists."""
    operation = schema[path][method]
    strategies = [
        operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE),
        operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE),
    ]
    if "{" in path:
        collection, _, rest = path.partition("/{")
        known = {rest.partition("}")[0]: task["ids"][collection]}
        strategies += [operation.as_strategy(path_parameters=known)] * 2
    found: dict[str, Any] = {"sent": 0, "succeeded": 0, "failures": {}}

    @seed(1)
    @settings(
        max_examples=task["examples"],
        deadline=None,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(strategies))
    def send(case: schemathesis.Case) -> None:
        found["sent"] += 1
        answer = case.call(base_url=task["baseUrl"], session=session, headers=task["headers"])
        found["succeeded"] += answer.status_code < 300
        if answer.content == b"Invalid HTTP request received.":
            # A request line beyond what the server reads; no application has seen it.
            return
        try:
            case.validate_response(answer, checks=CHECKS)
        except FailureGroup as group:
            for failure in group.exceptions:
                detail = f"{answer.status_code} {failure}: {case.as_curl_command()} -> {answer.text}"
                found["failures"].setdefault(f"{type(failure).__name__} {answer.status_code}", detail[:2000])

    send()
    return found


def main() -> None:
    """Probe what standard input names."""
    task = json.load(sys.stdin)
    schema = schemathesis.openapi.from_dict(task["document"])
    with requests.Session() as session:
        json.dump({f"{m} {p}": probe(schema, task, m, p, session) for m, p in task["operations"]}, sys.stdout)


if __name__ == "__main__":
    main()
