"""``rocelab live`` of a real fabric in a real browser: what the page shows is what the fabric does."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from lab.backends.fabric_state import FabricState
from lab.telemetry.read.measures import TX_RATE
from lab.telemetry.read.recording import Recording
from tests.browser import conftest
from tests.browser.chromium import Tab
from tests.browser.test_player import click, now, until
from tests.fabric import resident, snapshot
from tests.fabric.command import ROOT, argv, rocelab
from tests.patience import PATIENCE
from tests.patience import until as await_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.browser.chromium import Chromium

pytestmark = pytest.mark.fabric
NAME: Final = "watched"
ENDS: Final = 4
"""Ends of its two BGP sessions."""
TOPOLOGY: Final = f"name: {NAME}\ngenerate: {{shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}}\n"
UPLINK: Final = ["leaf1:swp1", "spine1:swp1"]
TEXT: Final = "document.getElementById('{}').textContent"
SESSIONS: Final = TEXT.format("now-sessions")
ALL_UP: Final = f"BGP: {ENDS} of {ENDS} up, BFD: {ENDS} of {ENDS} up"
DOWN: Final = "[...document.querySelectorAll('.port.down')].map((it) => it.dataset.port).sort()"
browser = conftest.browser


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file = tmp_path_factory.mktemp(NAME) / "watched.yaml"
    file.write_text(TOPOLOGY)
    rocelab("up", file, "--no-rdma")
    await_state(lambda: ends_up() == (ENDS, ENDS))
    yield
    rocelab("down", "--all")


def ends_up() -> tuple[int, int]:
    """Ends of BGP and of BFD sessions that are up, as ``rocelab status`` reports them."""
    nodes = json.loads(resident.ended("status", "--json", timeout=PATIENCE).stdout)["nodes"]
    bgp = sum(session["state"] == "Established" for node in nodes for session in node["sessions"])
    return bgp, sum(state == "up" for node in nodes for state in node["bfd"].values())


def await_ends(bgp: int) -> None:
    """Wait until so many ends of BGP sessions are up: on a busy machine, BFD may end a session for a while."""
    await_state(lambda: ends_up()[0] == bgp)


class Live:
    """``rocelab live`` as a process. Its output goes into a file: to read that never waits."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._said = folder / "said"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                argv("live", NAME, *options), stdout=said, stderr=said, cwd=folder, env=environment,
                start_new_session=True,
            )  # fmt: skip
        try:
            await_state(lambda: "http://" in self.said or self.process.poll() is not None)
            assert self.process.poll() is None, self.said
        except AssertionError:
            self.process.kill()
            raise

    @property
    def said(self) -> str:
        """Its standard output and error until now."""
        return self._said.read_text()

    @property
    def url(self) -> str:
        """The URL that it printed last."""
        return str(re.findall(r"http://[^;\s]+", self.said)[-1])

    def interrupt(self) -> int:
        """Press Ctrl-C, which reaches all processes of a terminal; return the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[Live]:
    live = Live(folder, *options)
    try:
        yield live
    finally:
        if live.process.poll() is None:
            live.interrupt()


@contextlib.contextmanager
def opened(browser: Chromium, live: Live, width: int = 1400, **media: str) -> Iterator[Tab]:
    """The page in a tab, once all daemons have reported their sessions; it must complain about nothing.

    A page whose server has ended complains about that, if it was not told.
    """
    tab = Tab(browser, live.url, width, 900, **media)
    until(tab, f"/^BGP: . of {ENDS} up, BFD: . of {ENDS} up/.test({SESSIONS})")
    yield tab
    if live.process.poll() is None:
        assert tab.complaints() == []
    tab.close()


def rewind(tab: Tab, second: float) -> None:
    """Move the time line at once: while the mouse is on its way, a page that follows the fabric changes the scale."""
    tab.run(
        "(() => { const it = document.getElementById('scrub');"
        f" it.value = {second}; it.dispatchEvent(new Event('input')); }})()"
    )


def await_end(tab: Tab, why: str) -> None:
    """Wait until the page shows why the server has ended.

    A server waits 1.5 s for pages that are between two requests. On a busy machine, a page may ask later, and loses
    the server. ``test_live_server.py`` proves that each page that asks is told.
    """
    until(tab, "!document.getElementById('trouble').hidden")
    assert tab.run(TEXT.format("trouble")).startswith((why, "The server does not answer"))


def test_a_link_goes_down_and_up_in_an_open_page_which_can_be_rewound(browser: Chromium, tmp_path: Path) -> None:
    with serving(tmp_path) as live, opened(browser, live) as tab:
        until(tab, "Number(document.getElementById('scrub').max) > 1.5")
        until(tab, f"{SESSIONS} === '{ALL_UP}'")
        await_state(lambda: ends_up() == (ENDS, ENDS))
        tab.run("window.opened = 'once'")
        before = now(tab)
        rocelab("fault", "inject", "link-down", "leaf1--spine1")
        until(tab, f"{SESSIONS}.startsWith('BGP: {ENDS - 2} of {ENDS} up')")
        await_ends(ENDS - 2)
        until(tab, f"{DOWN}.length === 2")
        assert tab.run(DOWN) == UPLINK
        until(tab, f"{TEXT.format('commands')}.includes('fault inject link-down leaf1--spine1')")
        said = tab.run(TEXT.format("steps"))
        assert all(f"{port} is down" in said for port in UPLINK)
        rewind(tab, before)
        assert tab.run(SESSIONS).startswith(f"BGP: {ENDS} of {ENDS} up")
        assert tab.run(DOWN) == []
        tab.press("End")
        assert tab.run(DOWN) == UPLINK
        rocelab("fault", "heal", "--all")
        until(tab, f"{SESSIONS} === '{ALL_UP}'")
        until(tab, f"{DOWN}.length === 0")
        assert tab.run("window.opened") == "once"


def test_the_sessions_of_a_killed_daemon_are_down(browser: Chromium, tmp_path: Path) -> None:
    """It cannot report that. The page is opened before, and again when a link without sessions is down, too."""
    with serving(tmp_path) as live:
        with opened(browser, live) as tab:
            rocelab("fault", "inject", "daemon-killed", "leaf2", "daemon=bgpd")
            until(tab, f"{SESSIONS}.includes('leaf2:swp1BGPdown') && {SESSIONS}.includes('spine1:swp2BGPdown')")
            await_ends(ENDS - 2)
            assert "daemon lost daemon bgpd" in tab.run(TEXT.format("steps"))
        rocelab("fault", "inject", "link-down", "h1--leaf1")
        with opened(browser, live, 390, prefers_color_scheme="dark") as phone:
            until(phone, f"{DOWN}.length === 2")
            assert phone.run(DOWN) == ["h1:eth1", "leaf1:swp2"]
            assert phone.run("document.documentElement.scrollWidth") <= 390
            rocelab("fault", "heal", "--all")
            until(phone, f"{DOWN}.length === 0")
            until(phone, f"{SESSIONS} === '{ALL_UP}'")


def test_a_recording_that_the_page_saves_can_be_replayed(browser: Chromium, tmp_path: Path) -> None:
    with serving(tmp_path) as live, opened(browser, live) as tab:
        until(tab, "!document.getElementById('record').disabled")
        click(tab, "#record")
        until(tab, f"{TEXT.format('record-state')}.startsWith('recording ')")
        rocelab("exec", "h1", "--", "ping", "-q", "-c", "20", "-i", "0.01", "-s", "1000", "h2")
        click(tab, "#record")
        until(tab, f"{TEXT.format('record-state')}.startsWith('saved: ')")
        name = tab.run(TEXT.format("record-state")).split()[-1]
    folder = tmp_path / "recordings" / name
    recording = Recording.open(folder)
    assert not recording.incomplete
    sent = recording.port("h1:eth1").series(TX_RATE, None)
    assert sent.last - sent.first >= 20 * 1000
    shown = rocelab("replay", folder, "--once").stdout
    assert shown.startswith(f"ports of {name}")


def test_without_the_token_nothing_is_shown(browser: Chromium, tmp_path: Path) -> None:
    with serving(tmp_path) as live:
        tab = Tab(browser, f"{live.url.partition('?')[0]}?token=wrong")
        assert tab.run("document.body.textContent") == "Open the URL that rocelab live prints: it is valid once.\n"
        assert NAME not in tab.run("document.documentElement.outerHTML")
        tab.close()


def test_ctrl_c_ends_it_and_leaves_nothing(browser: Chromium, tmp_path: Path) -> None:
    before = snapshot.take()
    live = Live(tmp_path)
    with opened(browser, live) as tab:
        assert tab.complaints() == []
        assert live.interrupt() == 0
        await_end(tab, "rocelab live was stopped. What was seen")
    assert [line for line in live.said.splitlines() if "http://" not in line] == []
    assert before.differences(snapshot.take()) == []
    assert list(FabricState(NAME).recorders.glob("*view*")) == []


def test_a_fabric_that_goes_down_ends_it_with_one_line(browser: Chromium, tmp_path: Path) -> None:
    """Last: the fabric is gone."""
    with serving(tmp_path) as live, opened(browser, live) as tab:
        assert tab.complaints() == []
        rocelab("down", "--fabric", NAME)
        await_end(tab, "The fabric was taken down, or its samples ended.")
        assert live.process.wait(PATIENCE) == 1
    said = [line for line in live.said.splitlines() if "http://" not in line]
    assert said == [f"error: fabric {NAME} was taken down: rocelab ls lists running fabrics"]
