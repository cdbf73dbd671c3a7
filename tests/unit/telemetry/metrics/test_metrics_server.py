"""The HTTP server for scrapers: bounded in clients and time, whatever they do."""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from lab.errors import OperationFailed, UsageError
from lab.kernel.process.process import allow_descriptors
from lab.telemetry import loopback_server
from lab.telemetry.loopback_server import LOOPBACK
from lab.telemetry.metrics import metrics_server
from lab.telemetry.metrics.metrics_server import MetricsServer
from tests.patience import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from lab.telemetry.metrics.metrics_format import MetricsFormat

OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


class Served:
    """A server that runs, and what became of it."""

    def __init__(self, scrape: Callable[[MetricsFormat], bytes]) -> None:
        self.scrapes = 0
        self.failure: Exception | None = None
        self.server = MetricsServer(0)
        self.port = int(self.server.url.split(":")[2].split("/")[0])
        self._scrape = scrape
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with self.server:
                self.server.run(self._counted, lambda: None)
        except OperationFailed as error:
            self.failure = error

    def _counted(self, form: MetricsFormat) -> bytes:
        self.scrapes += 1
        return self._scrape(form)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.server.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def get(self, path: str = "/metrics", accept: str = "", host: str = "") -> tuple[int, str, str]:
        """Status, media type and body of an answer."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=PATIENCE)
        headers = {"Host": host} if host else {}
        connection.request("GET", path, headers={**headers, "Accept": accept} if accept else headers)
        answer = connection.getresponse()
        try:
            return answer.status, answer.getheader("Content-Type", ""), answer.read().decode()
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection((LOOPBACK, self.port), timeout=PATIENCE)


@contextmanager
def served(scrape: Callable[[MetricsFormat], bytes] = lambda form: f"as {form}\n".encode()) -> Iterator[Served]:
    running = Served(scrape)
    running.begin()
    try:
        yield running
    finally:
        running.end()


def test_a_scraper_gets_the_format_that_it_asks_for() -> None:
    with served() as running:
        assert running.get() == (200, "text/plain; version=0.0.4; charset=utf-8", "as text\n")
        assert running.get(accept=OPEN_METRICS) == (
            200, "application/openmetrics-text; version=1.0.0; charset=utf-8", "as openmetrics\n",
        )  # fmt: skip
        assert running.get("/metrics?x=1")[0] == 200


def test_anything_else_is_refused() -> None:
    with served() as running:
        assert running.get("/")[0] == 404
        assert running.get(host=f"localhost:{running.port}")[0] == 200
        assert running.get(host="attacker.example")[0] == 403
        assert running.get(host=f"attacker.example:{running.port}")[0] == 403
        assert running.scrapes == 1


def test_it_listens_on_loopback_only_and_says_when_the_port_is_taken() -> None:
    with served() as running:
        assert running.server.url == f"http://127.0.0.1:{running.port}/metrics"
        with pytest.raises(UsageError, match=f"port {running.port} of 127.0.0.1 cannot be used") as taken:
            MetricsServer(running.port)
        assert "--port" in taken.value.remedy


def test_scrapers_that_ask_at_once_share_a_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the first ask while its scrape runs."""
    begun, go_on, asked = threading.Event(), threading.Event(), threading.Semaphore(0)
    ask = metrics_server._Asked.ask

    def noted(self: metrics_server._Asked, form: MetricsFormat) -> Future[bytes]:
        result = ask(self, form)
        asked.release()
        return result

    monkeypatch.setattr(metrics_server._Asked, "ask", noted)

    def slow(form: MetricsFormat) -> bytes:
        begun.set()
        assert go_on.wait(PATIENCE)
        return form.value.encode()

    with served(slow) as running:
        answers: list[int] = []
        scrapers = [threading.Thread(target=lambda: answers.append(running.get()[0])) for _ in range(20)]
        scrapers[0].start()
        assert begun.wait(PATIENCE)
        for scraper in scrapers[1:]:
            scraper.start()
        assert all(asked.acquire(timeout=PATIENCE) for _ in scrapers)
        go_on.set()
        for scraper in scrapers:
            scraper.join(PATIENCE)
        assert answers == [200] * 20
        assert running.scrapes == 2


def test_a_thousand_clients_that_say_nothing_do_not_keep_it_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds a bounded number of them, refuses the others at once, and closes those that are too old."""
    allow_descriptors(2200)
    monkeypatch.setattr(metrics_server._Handler, "timeout", 10 * PATIENCE)
    monkeypatch.setattr(loopback_server, "LIFETIME", 10 * PATIENCE)
    with served() as running, ExitStack() as opened:
        clients = [opened.enter_context(running.connect()) for _ in range(1000)]
        held, others = clients[: loopback_server.MOST_CLIENTS], clients[loopback_server.MOST_CLIENTS :]
        assert {client.recv(64)[:12] for client in others} == {b"HTTP/1.0 503"}
        assert threading.active_count() < loopback_server.MOST_CLIENTS + 50
        monkeypatch.setattr(loopback_server, "LIFETIME", 0.0)
        assert {client.recv(64) for client in held} == {b""}
        monkeypatch.undo()
        until(lambda: running.get()[0] == 200)  # the last of them has been closed
        assert running.scrapes == 1


def test_a_client_that_sends_a_byte_now_and_then_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_server, "LIFETIME", 1.0)
    with served() as running, running.connect() as slow:
        slow.settimeout(0.05)
        for _ in range(int(PATIENCE / 0.05)):
            try:
                slow.sendall(b"G")
                if slow.recv(64) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("it is still connected")


def test_when_the_fabric_is_gone_those_who_wait_are_told_and_it_ends() -> None:
    def gone(form: MetricsFormat) -> bytes:
        raise OperationFailed(f"fabric x was taken down before it was read as {form}")

    with served(gone) as running:
        status, _, text = running.get()
        assert (status, text) == (503, "the fabric does not answer\n")
        running._thread.join(PATIENCE)
        assert str(running.failure).startswith("fabric x was taken down")
        with pytest.raises(OSError, match="refused"):
            running.connect()
