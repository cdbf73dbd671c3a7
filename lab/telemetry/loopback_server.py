"""An HTTP server on the loopback, bounded in clients and time, for pages and scrapers of this host.

A handler derives from ``LoopbackHandler`` and answers one request; then the connection is closed. A web page that
resolves its own name to the loopback (DNS rebinding) is recognised by its Host header.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http import HTTPStatus

LOOPBACK: Final = "127.0.0.1"
MOST_CLIENTS: Final = 64
"""Connections at a time; further ones are refused with 503."""
PATIENCE: Final = 5.0
"""Seconds that a client may take for its request, and for each part of the answer that it reads."""
LIFETIME: Final = 30.0
"""Seconds after which a connection is closed in any case."""
_POLL: Final = 0.25
_FAREWELL: Final = 1.0
"""Seconds in which clients may read their last answer when the server ends."""
_BUSY: Final = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\n\r\ntoo many clients\n"
)
_HERE: Final = frozenset({LOOPBACK, "localhost"})
"""Hosts by which a client may address the server."""


class LoopbackServer(ThreadingHTTPServer):
    """Accepts at most ``MOST_CLIENTS`` connections at a time, and closes each after ``LIFETIME``."""

    request_queue_size = 128
    block_on_close = False

    def __init__(self, port: int, handler: type[LoopbackHandler]) -> None:
        """Listen on a port of the loopback; 0 chooses a free one. UsageError if it cannot be used."""
        self._clients: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        self._emptied = threading.Condition(self._lock)
        try:
            super().__init__((LOOPBACK, port), handler)
        except OSError as error:
            raise UsageError(
                f"port {port} of {LOOPBACK} cannot be used: {error.strerror}", "choose another --port, or 0 for any"
            ) from error
        self._thread = threading.Thread(target=self.serve_forever, args=(_POLL,), daemon=True)

    def begin(self) -> None:
        """Serve, in a thread of its own."""
        self._thread.start()

    def end(self) -> None:
        """Stop serving: clients may read their last answer for a second, then all connections are closed."""
        self.shutdown()
        self.close_all()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in its own thread, or refuse it."""
        with self._lock:
            free = len(self._clients) < MOST_CLIENTS
            if free:
                self._clients[request] = time.monotonic()
        if free:
            super().process_request(request, client_address)
        else:
            request.settimeout(0)
            with contextlib.suppress(OSError):
                request.send(_BUSY)
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._clients.pop(request, None)
            self._emptied.notify_all()
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Interrupt connections that are too old: their handlers see the end of the stream."""
        limit = time.monotonic() - LIFETIME
        with self._lock:
            for client, began in self._clients.items():
                if began < limit:
                    _interrupt(client)

    def close_all(self) -> None:
        """Stop listening, and interrupt all connections that do not end by themselves in ``_FAREWELL``."""
        self.server_close()
        with self._lock:
            self._emptied.wait_for(lambda: not self._clients, _FAREWELL)
            for client in self._clients:
                _interrupt(client)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up."""


def _interrupt(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


class LoopbackHandler(BaseHTTPRequestHandler):
    """Answers one request, then closes the connection; logs nothing."""

    timeout = PATIENCE
    server_version = "rocelab"
    sys_version = ""

    def is_addressed(self) -> bool:
        """Whether the client addressed the server by a name of the loopback."""
        host = self.headers.get("Host", "")
        return host in _HERE or host.rpartition(":")[0] in _HERE

    def say(self, status: HTTPStatus, text: str) -> None:
        """Send a plain text."""
        self.send(status, text.encode(), {"Content-Type": "text/plain; charset=utf-8"})

    def send(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> None:
        """Send an answer with its length and these headers."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body)), "X-Content-Type-Options": "nosniff"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - signature of http.server
        """Log nothing."""
