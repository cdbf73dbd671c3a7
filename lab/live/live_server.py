"""The server of the live page: on the loopback, for browsers that have the token, and bounded.

The URL carries a token that is valid once. Its answer is the page, with a cookie for further requests. Requests by a
foreign name (DNS rebinding) or from another page (cross-site request forgery) are rejected.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from http import HTTPStatus
from http.client import HTTP_PORT
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import parse_qs, urlsplit

from lab.telemetry.loopback_server import LOOPBACK, LoopbackHandler, LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from lab.live.update_ring import UpdateRing

_WAIT: Final = 10.0
"""Seconds after which a request for updates is answered in any case."""
_FAREWELL: Final = 1.5
"""Seconds to wait for pages that are between two requests: a browser delays those of a hidden page by a second."""
_LONGEST: Final = 4096
"""Maximum size of a request's body, in bytes."""
_REFUSED: Final = "Open the URL that rocelab live prints: it is valid once.\n"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LiveServer:
    """Serves a page and the updates of a ring. UsageError if the port is in use."""

    def __init__(
        self,
        port: int,
        ring: UpdateRing,
        snapshot: Callable[[], dict[str, Any]],
        act: Callable[[str], None],
        opened: Callable[[str], None],
    ) -> None:
        """Listen on a port of the loopback; 0 chooses a free one.

        ``act`` gets ``start`` or ``stop`` of the recording, and ``opened`` the next URL when one was used.
        """
        self.ring, self.snapshot, self.act = ring, snapshot, act
        self._opened = opened
        self._page: tuple[bytes, str] = b"", ""
        self._lock = threading.Lock()
        self._asked = threading.Condition(ring.lock)
        self._between = 0
        """Number of pages that have got an answer without the end, and have not asked again."""
        self.farewell = _FAREWELL
        self._token = secrets.token_urlsafe(32)
        self._key = secrets.token_urlsafe(32)
        self._http = _LiveHttpServer(port, _Handler)
        self._http.live = self

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._http.server_port

    @property
    def url(self) -> str:
        """The URL of the page, with a token that is valid once."""
        with self._lock:
            return f"http://{LOOPBACK}:{self.port}/?token={self._token}"

    @property
    def origins(self) -> frozenset[str]:
        """The origins of the page; browsers leave out port 80."""
        port = "" if self.port == HTTP_PORT else f":{self.port}"
        return frozenset(f"http://{host}{port}" for host in (LOOPBACK, "localhost"))

    def begin(self, page: bytes, policy: str) -> Self:
        """Serve this page with its Content-Security-Policy."""
        self._page = page, policy
        self._http.begin()
        return self

    def end(self, why: str) -> None:
        """Report the end to all pages, also to those between two requests, then stop serving."""
        self.ring.end(why)
        with self._asked:
            self._asked.wait_for(lambda: not self._between, self.farewell)
        self._http.end()

    def updates(self, cursor: int, tellings: int) -> bytes:
        """Return the updates after a cursor and so many tellings, as ``UpdateRing.after`` does."""
        with self._asked:  # a reader that waits for updates releases the lock
            if cursor:
                self._between = max(0, self._between - 1)
                self._asked.notify_all()
            body = self.ring.after(cursor, tellings, self.snapshot, _WAIT)
            self._between += not self.ring.ended
        return body

    def page_for(self, token: str, cookie: str) -> tuple[bytes, Mapping[str, str]] | None:
        """Return the page and its headers; None without a valid token or cookie. A valid token is used up."""
        page, policy = self._page
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy, **_HEADERS}
        if token and self._uses_up(token):
            cookie = f"{self._cookie}={self._key}; Path=/; HttpOnly; SameSite=Strict"
            return page, {**headers, "Set-Cookie": cookie}
        return (page, headers) if self.is_known(cookie) else None

    def is_known(self, cookie: str) -> bool:
        """Whether a Cookie header has the key of this server."""
        try:
            morsel = SimpleCookie(cookie).get(self._cookie)
        except CookieError:
            return False
        return morsel is not None and hmac.compare_digest(morsel.value.encode(), self._key.encode())

    @property
    def _cookie(self) -> str:
        """The name of the cookie: browsers share cookies between the ports of a host."""
        return f"rocelab-live-{self.port}"

    def _uses_up(self, token: str) -> bool:
        with self._lock:
            if not hmac.compare_digest(token.encode(), self._token.encode()):
                return False
            self._token = secrets.token_urlsafe(32)
        self._opened(self.url)
        return True


class _LiveHttpServer(LoopbackServer):
    """The HTTP server, with what it serves."""

    live: LiveServer


class _Handler(LoopbackHandler):
    """Answers one request of a page."""

    server: _LiveHttpServer

    def do_GET(self) -> None:  # noqa: N802 - name of http.server
        """Answer with the page, or with updates."""
        live = self.server.live
        if not self._is_ours():
            return
        try:
            asked = urlsplit(self.path)
            query = parse_qs(asked.query, max_num_fields=8)
        except ValueError:
            self.say(HTTPStatus.BAD_REQUEST, "the page is at /\n")
            return
        cookie = self.headers.get("Cookie", "")
        if asked.path == "/":
            found = live.page_for(query.get("token", [""])[0], cookie)
            if found is None:
                self.say(HTTPStatus.FORBIDDEN, _REFUSED)
            else:
                self.send(HTTPStatus.OK, *found)
        elif not live.is_known(cookie):
            self.say(HTTPStatus.FORBIDDEN, _REFUSED)
        elif asked.path == "/updates":
            known = [query.get(name, ["0"])[0] for name in ("after", "tellings")]
            if not all(each.isascii() and each.isdigit() and len(each) < 16 for each in known):
                self.say(HTTPStatus.BAD_REQUEST, "after and tellings are numbers, of the last answer\n")
                return
            cursor, tellings = map(int, known)
            self.send(HTTPStatus.OK, live.updates(cursor, tellings), {"Content-Type": "application/json", **_HEADERS})
        else:
            self.say(HTTPStatus.NOT_FOUND, "the page is at /\n")

    def do_POST(self) -> None:  # noqa: N802 - name of http.server
        """Start or stop the recording."""
        live = self.server.live
        if not self._is_ours():
            return
        if not live.is_known(self.headers.get("Cookie", "")) or self.headers.get("Origin") not in live.origins:
            self.say(HTTPStatus.FORBIDDEN, _REFUSED)
            return
        wanted = self._body()
        if self.path != "/record" or not isinstance(wanted, dict) or wanted.get("do") not in ("start", "stop"):
            self.say(HTTPStatus.BAD_REQUEST, 'post {"do": "start"} or {"do": "stop"} to /record\n')
            return
        live.act(wanted["do"])
        self.say(HTTPStatus.ACCEPTED, "\n")

    def _is_ours(self) -> bool:
        """Whether the request is addressed to this server and comes from its page; otherwise answer it."""
        live = self.server.live
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if f"http://{host}" not in live.origins:
            self.say(HTTPStatus.FORBIDDEN, f"only for {LOOPBACK}\n")
        elif origin is not None and origin not in live.origins:
            self.say(HTTPStatus.FORBIDDEN, "not for other pages\n")
        else:
            return True
        return False

    def _body(self) -> object:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= _LONGEST):
            return None
        try:
            found: object = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return None
        return found
