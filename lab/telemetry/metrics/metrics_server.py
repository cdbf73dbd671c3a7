"""The HTTP server for scrapers: /metrics on the host's loopback, bounded in clients and time.

Scrapes run one after the other, in the thread that calls ``MetricsServer.run``. Clients that ask while a scrape is
about to begin share its result.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self

from lab.telemetry.loopback_server import LIFETIME, LOOPBACK, LoopbackHandler, LoopbackServer
from lab.telemetry.metrics.metrics_format import MetricsFormat

if TYPE_CHECKING:
    from collections.abc import Callable

PATH: Final = "/metrics"


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
        self._http = _MetricsHttpServer(port, _Handler)
        self._http.asked = self._asked

    @property
    def url(self) -> str:
        """The URL to scrape."""
        return f"http://{LOOPBACK}:{self._http.server_port}{PATH}"

    def __enter__(self) -> Self:
        self._http.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.end()
        self._http.end()

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


class _MetricsHttpServer(LoopbackServer):
    """The server, with the clients that wait for a scrape."""

    asked: _Asked


class _Handler(LoopbackHandler):
    """Answers one scrape, then closes the connection."""

    server: _MetricsHttpServer

    def do_GET(self) -> None:  # noqa: N802 - name of http.server
        """Answer a scrape."""
        if not self.is_addressed():
            self.say(HTTPStatus.FORBIDDEN, f"only for {LOOPBACK}\n")
        elif self.path.partition("?")[0] != PATH:
            self.say(HTTPStatus.NOT_FOUND, f"metrics are at {PATH}\n")
        else:
            self._scrape()

    def _scrape(self) -> None:
        form = MetricsFormat.accepted(self.headers.get("Accept", ""))
        try:
            body = self.server.asked.ask(form).result(LIFETIME)
        except (_Unavailable, FutureTimeout):
            self.say(HTTPStatus.SERVICE_UNAVAILABLE, "the fabric does not answer\n")
        else:
            self.send(HTTPStatus.OK, body, {"Content-Type": form.content_type})
