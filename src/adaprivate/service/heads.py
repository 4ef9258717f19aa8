"""Limits for the head of a request: its first line and its headers.

Nobody knows yet whose request it is, so the server itself must bound what a stranger can hold: bytes and a connection.
Bodies are bounded later, by the routes that read them.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0
"""Seconds within which a head must be complete, from the beginning of the connection or of the request."""
MAX_HEAD_BYTES = 64 * 1024
"""Bytes of a head, beside those that come in the same piece as its end."""


class BoundedHeads(HttpToolsProtocol):
    """HTTP as uvicorn speaks it; a connection whose head is too slow or too long is closed."""

    _timer: asyncio.TimerHandle | None = None
    _received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._timer is not None:
            self._received += len(data)
            if self._received > MAX_HEAD_BYTES:
                self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._timer is not None:  # after the head come trailers, which nobody reads
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._end()
        super().on_headers_complete()

    def _begin(self) -> None:
        self._received = 0
        self._timer = self.loop.call_later(HEAD_SECONDS, self._close_late)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_late(self) -> None:
        self._end()
        self.transport.abort()
