"""The server of the live page: nothing without the token, nothing for other pages, and bounded."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from lab.errors import UsageError
from lab.kernel.process.process import allow_descriptors
from lab.live import live_server
from lab.live.live_server import LiveServer
from lab.live.update_ring import UpdateRing
from lab.telemetry import loopback_server
from lab.telemetry.loopback_server import LOOPBACK
from tests.patience import PATIENCE, until
from tests.unit.live.served import Live, serving, updates
from tests.unit.scenario.test_judge import TOPOLOGY, storm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with serving(TOPOLOGY) as running:
        running.take(storm(tmp_path))
        yield running


def test_the_token_is_valid_once_and_the_cookie_from_then_on(live: Live) -> None:
    url = live.server.url
    path = live.token
    page = live.request("GET", path)
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    cookie = page.headers["Set-Cookie"]
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert live.request("GET", path).status == 403
    assert live.request("GET", "/", {"Cookie": cookie.partition(";")[0]}).body == page.body
    assert live.opened == [live.server.url]
    assert live.server.url != url


def test_without_the_token_there_is_nothing(live: Live) -> None:
    own = f"rocelab-live-{live.server.port}"
    for cookie in ("", "rocelab-live=x", f"{own}=", f"{own}=wrong", "\xff;;=="):
        for path in ("/", "/?token=", "/?token=wrong", "/updates?after=0", "/run", "/?token=%ff%00", "//["):
            answer = live.request("GET", path, {"Cookie": cookie} if cookie else {})
            assert answer.status in {400, 403}, (path, cookie)
            assert answer.body.count("\n") == 1
            assert TOPOLOGY.name not in answer.body
            assert "Set-Cookie" not in answer.headers
    assert live.opened == []


def test_a_foreign_host_is_rejected_before_its_token_is_used(live: Live) -> None:
    """DNS rebinding: the browser believes that the server is attacker.example."""
    page, port = live.log_in(), live.server.port
    opened = list(live.opened)
    for host in ("attacker.example", f"attacker.example:{port}", LOOPBACK, f"{LOOPBACK}:1", f"[::1]:{port}", ""):
        headers = {**page, "Host": host}
        assert live.request("GET", "/updates?after=0", headers).status == 403, host
        assert live.request("GET", live.token, headers).status == 403, host
    assert live.opened == opened


def test_another_page_is_rejected(live: Live) -> None:
    page = live.log_in()
    for origin in (
        "http://attacker.example",
        "null",
        f"https://{LOOPBACK}:{live.server.port}",
        f"http://{LOOPBACK}:1",
    ):
        headers = {**page, "Origin": origin}
        assert live.request("GET", "/updates?after=0", headers).status == 403, origin
        assert live.request("POST", "/record", headers, '{"do": "start"}').status == 403, origin
    assert live.acts == []


def test_browsers_leave_out_port_80(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    page = {"Cookie": live.log_in()["Cookie"], "Host": LOOPBACK, "Origin": f"http://{LOOPBACK}"}
    assert live.request("POST", "/record", page, '{"do": "start"}').status == 403
    monkeypatch.setattr(live_server, "HTTP_PORT", live.server.port)
    assert live.request("POST", "/record", page, '{"do": "start"}').status == 202


def test_localhost_is_the_loopback_too(live: Live) -> None:
    own = f"localhost:{live.server.port}"
    headers = {**live.log_in(), "Host": own, "Origin": f"http://{own}"}
    assert live.request("GET", "/updates?after=0", headers).status == 200


def test_the_policy_allows_the_pages_own_script_and_its_server(live: Live) -> None:
    page = live.request("GET", live.token)
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "http" not in policy.replace("http-equiv", "")
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["X-Content-Type-Options"] == "nosniff"


def test_updates_follow_a_cursor(live: Live) -> None:
    page = live.log_in()
    first = json.loads(live.request("GET", "/updates?after=0", page).body)
    assert first["updates"][0]["reset"] is True
    live.ring.publish({"t": 5})
    assert updates(live.request("GET", f"/updates?after={first['next']}", page).body) == [{"t": 5}]


def test_a_cursor_that_is_no_number_is_rejected(live: Live) -> None:
    page = live.log_in()
    for after in ("-1", "x", "1" * 100, "²", "1.5"):
        assert live.request("GET", f"/updates?after={quote(after)}", page).status == 400, after


def test_a_page_starts_and_stops_the_recording(live: Live) -> None:
    page = live.log_in()
    assert live.request("POST", "/record", page, '{"do": "start"}').status == 202
    assert live.request("POST", "/record", page, '{"do": "stop"}').status == 202
    assert live.acts == ["start", "stop"]


def test_anything_else_does_nothing(live: Live) -> None:
    page = live.log_in()
    for body in ("", "start", "[]", '{"do": "rm"}', "[" * 4000, "x" * 5000, '{"do": ["start"]}', "\xff"):
        assert live.request("POST", "/record", page, body).status == 400, body
    assert live.request("POST", "/", page, '{"do": "start"}').status == 400
    without = {"Cookie": page["Cookie"]}
    assert live.request("POST", "/record", without, '{"do": "start"}').status == 403
    assert live.acts == []


def test_a_port_in_use_is_one_clear_line(live: Live) -> None:
    ring = UpdateRing()
    with pytest.raises(UsageError, match=f"port {live.server.port} of 127.0.0.1 cannot be used") as taken:
        LiveServer(live.server.port, ring, dict, lambda _: None, lambda _: None)
    assert "--port" in taken.value.remedy


def test_a_thousand_clients_are_bounded(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that say nothing hold a place until they time out; all others are refused, and the page goes on."""
    allow_descriptors(2200)
    page = live.log_in()
    monkeypatch.setattr(loopback_server.LoopbackHandler, "timeout", 10 * PATIENCE)
    with ExitStack() as opened:
        where = (LOOPBACK, live.server.port)
        clients = [opened.enter_context(socket.create_connection(where, PATIENCE)) for _ in range(1000)]
        others = clients[loopback_server.MOST_CLIENTS :]
        assert {client.recv(64)[:12] for client in others} == {b"HTTP/1.0 503"}
        assert threading.active_count() < loopback_server.MOST_CLIENTS + 50
    until(lambda: live.request("GET", "/updates?after=0", page).status == 200)


def test_a_client_that_reads_nothing_keeps_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for more than the socket holds and never reads: its connection is closed, and others are served."""
    page = live.log_in()
    cursor = json.loads(live.request("GET", "/updates?after=0", page).body)["next"]
    for number in range(4):
        live.ring.publish({"t": number, "much": "x" * 1_900_000})
    monkeypatch.setattr(loopback_server, "LIFETIME", 1.0)
    with socket.create_connection((LOOPBACK, live.server.port), PATIENCE) as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        to = f"Host: {LOOPBACK}:{live.server.port}\r\nCookie: {page['Cookie']}"
        silent.sendall(f"GET /updates?after={cursor} HTTP/1.0\r\n{to}\r\n\r\n".encode())
        until(lambda: bool(live.server._http._clients))
        until(lambda: not live.server._http._clients)
    assert live.request("GET", "/updates?after=0", page).status == 200


def test_a_page_between_two_requests_is_told_of_the_end(live: Live) -> None:
    """A page asks again 0.1 s after each answer."""
    page = live.log_in()
    cursor = json.loads(live.request("GET", "/updates?after=0", page).body)["next"]
    live.server.farewell = PATIENCE
    ending = threading.Thread(target=lambda: live.server.end("The fabric was taken down"))
    ending.start()
    until(lambda: live.ring.ended)
    answer = live.request("GET", f"/updates?after={cursor}", page)
    ending.join(PATIENCE)
    assert json.loads(answer.body)["ended"] == "The fabric was taken down"
    assert not ending.is_alive()


def test_pages_that_wait_are_told_of_the_end(live: Live) -> None:
    page = live.log_in()
    cursor = json.loads(live.request("GET", "/updates?after=0", page).body)["next"]
    answers: list[str] = []
    waiting = threading.Thread(
        target=lambda: answers.append(live.request("GET", f"/updates?after={cursor}", page).body)
    )
    waiting.start()
    until(lambda: bool(live.server._http._clients))
    live.server.end("The fabric was taken down")
    waiting.join(PATIENCE)
    assert json.loads(answers[0])["ended"] == "The fabric was taken down"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((LOOPBACK, live.server.port), 1.0)
