"""The HTTP server for scrapers: /metrics on the host's loopback, bounded in clients and time.

Scrapes run one after the other, in the thread that calls ``MetricsServer.run``. Clients that ask while a scrape is
about to begin share its result.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Self

from lab.errors import UsageError
from lab.telemetry.metrics.metrics_format import MetricsFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LOOPBACK: Final = "127.0.0.1"
PATH: Final = "/metrics"
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
"""Hosts by which a scraper may address the server: a web page that resolves its own name to loopback is rejected."""


class _Unavailable(Exception):
    """The fabric's metrics cannot be read any more."""


@dataclass
class _Asked:
    """Clients that wait for the next scrape, by format."""

    waiting: dict[MetricsFormat, Future[bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    wanted: queue.SimpleQueue[MetricsFormat | None] = field(default_factory=queue.SimpleQueue)
    ended: bool = False

    def ask(self, form: MetricsFormat) -> Future[bytes]:
        """Return the result of the next scrape in this format to begin."""
        with self.lock:
            if self.ended:
                raise _Unavailable
            if form not in self.waiting:
                self.waiting[form] = Future()
                self.wanted.put(form)
            return self.waiting[form]

    def take(self, form: MetricsFormat) -> Future[bytes]:
        """Begin a scrape: clients that ask from now on wait for the next one."""
        with self.lock:
            return self.waiting.pop(form)

    def end(self) -> None:
        """Refuse all clients, also those that wait."""
        with self.lock:
            self.ended = True
            for result in self.waiting.values():
                result.set_exception(_Unavailable())
            self.waiting.clear()


class MetricsServer:
    """Serves the metrics that ``scrape`` returns. UsageError if the port is in use."""

    def __init__(self, port: int) -> None:
        """Listen on a port of the loopback; 0 chooses a free one."""
        self._asked = _Asked()
        try:
            self._http = _BoundedServer((LOOPBACK, port), self._asked)
        except OSError as error:
            raise UsageError(
                f"port {port} of {LOOPBACK} cannot be used: {error.strerror}", "choose another --port, or 0 for any"
            ) from error
        self._thread = threading.Thread(target=self._http.serve_forever, args=(_POLL,), daemon=True)

    @property
    def url(self) -> str:
        """The URL to scrape."""
        return f"http://{LOOPBACK}:{self._http.server_port}{PATH}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.end()
        self._http.shutdown()
        self._http.close_all()

    def stop(self) -> None:
        """Make ``run`` return; may be called in a signal handler."""
        self._asked.wanted.put(None)

    def run(self, scrape: Callable[[MetricsFormat], bytes], idle: Callable[[], None]) -> None:
        """Serve until ``stop``. ``idle`` is called about once a second without scrapes; its errors end the server."""
        while True:
            try:
                form = self._asked.wanted.get(timeout=1.0)
            except queue.Empty:
                idle()
                continue
            if form is None:
                return
            result = self._asked.take(form)
            try:
                result.set_result(scrape(form))
            except BaseException:
                result.set_exception(_Unavailable())
                raise


class _BoundedServer(ThreadingHTTPServer):
    """Accepts at most ``MOST_CLIENTS`` connections at a time, and closes each after ``LIFETIME``."""

    request_queue_size = 128
    block_on_close = False

    def __init__(self, address: tuple[str, int], asked: _Asked) -> None:
        self.asked = asked
        self._clients: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        self._emptied = threading.Condition(self._lock)
        super().__init__(address, _Handler)

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


class _Handler(BaseHTTPRequestHandler):
    """Answers one request, then closes the connection."""

    server: _BoundedServer
    timeout = PATIENCE
    server_version = "rocelab"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a scrape."""
        if self.headers.get("Host", "").rpartition(":")[0] not in _HERE and self.headers.get("Host") not in _HERE:
            self._say(HTTPStatus.FORBIDDEN, f"only for {LOOPBACK}\n")
        elif self.path.partition("?")[0] != PATH:
            self._say(HTTPStatus.NOT_FOUND, f"metrics are at {PATH}\n")
        else:
            self._scrape()

    def _scrape(self) -> None:
        form = MetricsFormat.accepted(self.headers.get("Accept", ""))
        try:
            body = self.server.asked.ask(form).result(LIFETIME)
        except (_Unavailable, FutureTimeout):
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, "the fabric does not answer\n")
        else:
            self._send(HTTPStatus.OK, body, {"Content-Type": form.content_type})

    def _say(self, status: HTTPStatus, text: str) -> None:
        self._send(status, text.encode(), {"Content-Type": "text/plain; charset=utf-8"})

    def _send(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body)), "X-Content-Type-Options": "nosniff"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - signature of http.server
        """Log nothing."""
