"""What the server itself refuses, before there is a request: a head without end, and what is no HTTP.

The parser collects a head whole before the gate sees any of it, so its size is counted here, as it comes in.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response
from uuid_utils.compat import uuid7
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from payrec.constants import API_VERSION, HEADER_BYTES_MAX
from payrec.errors import BadRequestError, HeaderTooLargeError, PayrecError
from payrec.gate.streams import GUARDS
from payrec.problems import problem_response

HEAD_BYTES_MAX: Final = 8 * HEADER_BYTES_MAX
"""Bytes that may come in before a head is complete: the request line, the headers, and what is read in one piece."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """The server's protocol with a bound on the head, and with problems for what it refuses itself.

    While the server's state is ``draining``, an answer is its connection's last.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Take what came in; end the connection when its head is too long."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse(HeaderTooLargeError(f"the headers may have at most {HEADER_BYTES_MAX} bytes"))

    def on_headers_complete(self) -> None:
        """Begin the request; what follows is its body, which the gate counts."""
        super().on_headers_complete()
        self._head_bytes = -_NEVER
        if self.cycle is not None and getattr(self.server_state, "draining", False):
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """End the request; a head may follow on the same connection."""
        super().on_message_complete()
        self._head_bytes = 0

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed; ``msg`` is the server's own text."""
        del msg
        self._refuse(BadRequestError("the request is not HTTP/1.1"))

    def _refuse(self, error: PayrecError) -> None:
        request_id = str(uuid7())
        answer: Response = problem_response(error, request_id=request_id)
        lines = [f"HTTP/1.1 {error.status} {error.title}".encode()]
        headers = [
            *answer.raw_headers,
            (b"x-request-id", request_id.encode()),
            (b"api-version", API_VERSION),
            (b"connection", b"close"),
            *GUARDS,
        ]
        lines += [name + b": " + value for name, value in headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()


_NEVER: Final = 1 << 62
"""More bytes than a body has: within a body, the head's bound does not count."""
