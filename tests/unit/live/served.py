"""A live page of a made recording: its log reaches the feed in pieces, as a sampler writes it."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.live.live_feed import LiveFeed
from lab.live.live_page import live_page
from lab.live.live_server import LiveServer
from lab.live.update_ring import UpdateRing
from lab.telemetry.loopback_server import LOOPBACK
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.topology import Topology
    from tests.unit.telemetry.made import Made


@dataclass
class Live:
    """The feed, the ring and the server, without a fabric."""

    topology: Topology
    ring: UpdateRing = field(default_factory=UpdateRing)
    acts: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    acted: threading.Event = field(default_factory=threading.Event)
    read: int = 0

    def __post_init__(self) -> None:
        self.feed = LiveFeed(self.ring)
        self.server = LiveServer(0, self.ring, self.feed.snapshot, self._act, self.opened.append)

    def _act(self, what: str) -> None:
        self.acts.append(what)
        self.acted.set()

    def take(self, made: Made) -> None:
        """Feed what the recording's log has got since the last call."""
        made.log.flush()
        data = made.folder.log.read_bytes()
        self.feed.feed(data[self.read :])
        self.read = len(data)

    def request(self, method: str, path: str, headers: dict[str, str] | None = None, body: str = "") -> Answer:
        """Send a request; without ``Host``, that of the server is sent."""
        connection = http.client.HTTPConnection(LOOPBACK, self.server.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body or None, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()

    @property
    def token(self) -> str:
        """The path with the current token."""
        return self.server.url.partition(str(self.server.port))[2]

    def log_in(self) -> dict[str, str]:
        """Use the token, and return the headers of a page's requests."""
        cookie = self.request("GET", self.token).headers["Set-Cookie"].partition(";")[0]
        return {"Cookie": cookie, "Origin": f"http://{LOOPBACK}:{self.server.port}"}


@dataclass(frozen=True)
class Answer:
    """Status, headers and body of an answer."""

    status: int
    headers: dict[str, str]
    body: str


@contextmanager
def serving(topology: Topology) -> Iterator[Live]:
    """A server that runs in this block."""
    live = Live(topology)
    live.server.begin(*live_page(topology, topology.name, 20.0, "virtual"))
    try:
        yield live
    finally:
        live.server.farewell = 0.0  # no page is left that could ask again
        live.server.end("the test is over")


def updates(body: str) -> list[dict[str, Any]]:
    """The updates in an answer."""
    found: list[dict[str, Any]] = json.loads(body)["updates"]
    return found
