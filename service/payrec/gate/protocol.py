"""What the server itself refuses: a head without end, what is no HTTP, and what hardly comes in, or is taken, at all.

The parser collects a head whole before the gate sees any of it, so its size is counted here, as it comes in. Nobody who
sends slowly keeps a connection, and what is held for it, for as long as he likes.
"""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import Any, Final, Literal

from starlette.responses import Response
from uuid_utils.compat import uuid7
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from payrec.constants import API_VERSION, HEADER_BYTES_MAX
from payrec.errors import BadRequestError, HeaderTooLargeError, PayrecError, RequestTimeoutError
from payrec.gate.streams import GUARDS
from payrec.problems import problem_response

HEAD_BYTES_MAX: Final = 8 * HEADER_BYTES_MAX
"""Bytes that may come in before a head is complete: the request line, the headers, and what is read in one piece."""

HEAD_SECONDS_MAX: Final = 20.0
"""Seconds from the first byte of a head to its last."""

BODY_LOOK_SECONDS: Final = 20.0
"""Between two looks at how much of a body has come."""

BODY_BYTES_BETWEEN_MIN: Final = 20 * 1024
"""Bytes of a body that come between two looks, unless it is over, or was not read because of us: 1 KiB a second."""


ANSWER_LOOK_SECONDS: Final = 120.0
"""Between two looks at how much of an answer its client has taken. The kernel holds up to some MiB and takes more in
large pieces: somebody may read, and nothing is seen of it here for a while."""

ANSWER_BYTES_BETWEEN_MIN: Final = 20 * 1024
"""Bytes of it that are taken between two looks, or nobody reads it."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """The server's protocol with bounds on what comes in, in size and time, and with problems for what it refuses.

    A connection on which nothing was ever sent ends as one that was kept. While the server's state is ``draining``, an
    answer is its connection's last.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes = 0
        self._coming: Literal["head", "body"] | None = None
        """Which part of a request is not there whole."""
        self._looked_for: Literal["head", "body"] | None = None
        self._look: TimerHandle | None = None
        self._bytes_since = 0
        self._answer_look: TimerHandle | None = None
        self._answer_left = 0
        """Bytes of an answer that were not taken at the last look."""
        self._was_paused = False
        """We have not read for a while since the last look."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override] # as uvicorn's own
        """Wait for the first request as for any other."""
        super().connection_made(transport)
        self._look = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        self._look_later(None)
        self._look_at_no_answer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to take what it was answered."""
        super().pause_writing()
        self._look_at_answer_later()

    def resume_writing(self) -> None:
        """Go on with the answer: the client has taken all of it but a little."""
        self._look_at_no_answer()
        super().resume_writing()

    def _look_at_no_answer(self) -> None:
        if self._answer_look is not None:
            self._answer_look.cancel()
        self._answer_look = None

    def _look_at_answer_later(self) -> None:
        self._look_at_no_answer()
        self._answer_left = self.transport.get_write_buffer_size()
        self._answer_look = self.loop.call_later(ANSWER_LOOK_SECONDS, self._look_at_answer)

    def _look_at_answer(self) -> None:
        """End the connection of who does not read; what was to be sent is held as long as it is there."""
        if self._answer_left - self.transport.get_write_buffer_size() < ANSWER_BYTES_BETWEEN_MIN:
            self.transport.abort()
            return
        self._look_at_answer_later()

    def data_received(self, data: bytes) -> None:
        """Take what came in; end the connection when its head is too long."""
        self._head_bytes += len(data)
        self._bytes_since += len(data)
        super().data_received(data)
        if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse(HeaderTooLargeError(f"the headers may have at most {HEADER_BYTES_MAX} bytes"))
        self._was_paused |= self.flow.read_paused
        # A request that comes in one piece, as nearly all do, needs no look.
        if self._coming != self._looked_for or (self._coming is None) != (self._look is None):
            self._look_later(self._coming)
            self._bytes_since = len(data)

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._coming, self._looked_for = "head", None

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header without the white space behind it, which the parser leaves there (RFC 9112, 5)."""
        super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """Begin the request; what follows is its body, which the gate counts."""
        super().on_headers_complete()
        self._head_bytes = -_NEVER
        self._coming = "body"
        if self.cycle is not None and getattr(self.server_state, "draining", False):
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """End the request; a head may follow on the same connection."""
        super().on_message_complete()
        self._head_bytes = 0
        self._coming = None

    def _look_later(self, part: Literal["head", "body"] | None) -> None:
        """Look again at whether a part has come, instead of at what was looked for."""
        if self._look is not None:
            self._look.cancel()
        self._look, self._looked_for = None, part
        self._bytes_since, self._was_paused = 0, self.flow is not None and self.flow.read_paused
        if part is not None and not self.transport.is_closing():
            self._look = self.loop.call_later(
                HEAD_SECONDS_MAX if part == "head" else BODY_LOOK_SECONDS, self._look_at_it
            )

    def _look_at_it(self) -> None:
        """End the connection where what was to come has not, and it is none of our doing."""
        is_head = self._looked_for == "head"
        is_slow = self._bytes_since < BODY_BYTES_BETWEEN_MIN
        if is_head:
            # Behind a request that is not answered yet it is no hurry.
            is_slow = self.cycle is None or self.cycle.response_complete
        if self._was_paused or not is_slow:
            self._look_later(self._looked_for)
            return
        self._look = None
        if not is_head:
            # Whoever reads the body is told that nothing more of it comes.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        self._refuse(RequestTimeoutError(f"the {self._looked_for} of the request came too slowly"))

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
