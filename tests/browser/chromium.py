"""Debian's Chromium without a window, driven by its own DevTools protocol over two pipes: no port, no library."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Self

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from types import TracebackType

BINARY: Final = shutil.which("chromium")
_MOVED: Final = 100
"""The first number of the pipes' ends before the browser has them as 3 and 4."""
_FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
    "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip


class Chromium:
    """A browser that runs while the block lasts; ``page`` opens a tab."""

    def __init__(self) -> None:
        assert BINARY, "needs chromium: ./scripts/setup"
        self._profile = tempfile.TemporaryDirectory(prefix="rocelab-chromium-", ignore_cleanup_errors=True)
        reads, self._writes = os.pipe()
        self._reads, writes = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        # None of these may have one of the numbers 0 to 4, which the next overwrites in the browser.
        moved = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _MOVED) for number in (reads, writes, null)]
        for number in (reads, writes, null):
            os.close(number)
        self._pid = os.posix_spawn(
            BINARY,
            [BINARY, *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"],
            {**os.environ, "HOME": self._profile.name, "TMPDIR": self._profile.name},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, moved[0], 3), (os.POSIX_SPAWN_DUP2, moved[1], 4),
                (os.POSIX_SPAWN_DUP2, moved[2], 1), (os.POSIX_SPAWN_DUP2, moved[2], 2),
            ],
            setpgroup=0,
        )  # fmt: skip
        for number in moved:
            os.close(number)
        self._buffer = b""
        self._number = 0
        self.told: deque[dict[str, Any]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        for number in (self._reads, self._writes):
            os.close(number)
        self._profile.cleanup()

    def ask(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """The answer of a method; events that arrive meanwhile go to ``told``."""
        self._number += 1
        number = self._number
        wish: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            wish["sessionId"] = session
        os.write(self._writes, json.dumps(wish).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            said = self._next(deadline, method)
            if said.get("id") == number:
                assert "error" not in said, (method, said["error"])
                found: dict[str, Any] = said["result"]
                return found
            self.told.append(said)

    def await_told(self, method: str) -> dict[str, Any]:
        """The next event of this name, also one that came already."""
        for said in self.told:
            if said.get("method") == method:
                self.told.remove(said)
                return said
        deadline = time.monotonic() + PATIENCE
        while True:
            said = self._next(deadline, method)
            if said.get("method") == method:
                return said
            self.told.append(said)

    def _next(self, deadline: float, method: str) -> dict[str, Any]:
        """The next message. A page that asks its server again and again has events for ever: they do not count."""
        waiting = select.poll()
        waiting.register(self._reads, select.POLLIN)
        while b"\0" not in self._buffer or time.monotonic() > deadline:
            left = max(0.0, deadline - time.monotonic())
            assert left, f"Chromium does not answer {method}"
            if not waiting.poll(left * 1000):
                continue
            more = os.read(self._reads, 1 << 20)
            assert more, "Chromium has ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        return said


class Tab:
    """A tab with a page in it, as wide as is said, and all that it asked for or complained about."""

    def __init__(self, browser: Chromium, url: str, width: int = 1400, height: int = 900, **media: str) -> None:
        """``media`` are features like ``prefers_color_scheme="dark"``."""
        self._browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._target = target
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.emulate("", **media)
        browser.told.clear()
        self.ask("Page.navigate", url=url)
        browser.await_told("Page.loadEventFired")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A method of this tab."""
        return self._browser.ask(method, self._session, **parameters)

    def emulate(self, medium: str, **media: str) -> None:
        """Be another medium, as ``print``, or have other features."""
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.ask("Emulation.setEmulatedMedia", media=medium, features=features)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        said = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )  # fmt: skip
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def press(self, key: str, code: str = "") -> None:
        """A key, down and up."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, **text)

    def click(self, x: float, y: float) -> None:
        """The mouse's first button, at a place of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def complaints(self) -> list[dict[str, Any]]:
        """Errors, warnings and words on the console, so far."""
        self.run("1")
        kinds = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
        return [said["params"] for said in self._browser.told if said.get("method") in kinds]

    def requests(self) -> list[str]:
        """The addresses requested so far."""
        self.run("1")
        asked = "Network.requestWillBeSent"
        return [said["params"]["request"]["url"] for said in self._browser.told if said.get("method") == asked]

    def close(self) -> None:
        """Close it."""
        self._browser.ask("Target.closeTarget", targetId=self._target)
