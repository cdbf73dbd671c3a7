"""``rocelab live`` of a native fabric: what a real browser shows of it, and the recording that it saves."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from lab.backends.fabric_state import find_fabric
from lab.cli.kit.scenario_verdict import told_of
from lab.report.page import write_page
from lab.report.run_facts import gather
from lab.scenario import library
from lab.telemetry.read.recording import Recording
from tests.browser.chromium import BINARY, Chromium, Tab
from tests.browser.test_player import until
from tests.fabric.command import argv, rocelab, rocelab_json
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("fabric")]
NAME = "seen"
TEXT = "document.getElementById('{}').textContent"


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[None]:
    file = tmp_path / "seen.yaml"
    file.write_text(f"name: {NAME}\ngenerate: {{shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}}\n")
    rocelab("up", file, "--no-rdma")
    yield
    rocelab("down", "--all")


@contextlib.contextmanager
def showing(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and its URL."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv("live", "--json", *options), stdout=pipe, stderr=pipe, text=True, cwd=folder) as it:
        try:
            assert it.stdout is not None
            said = it.stdout.readline()
            assert said.startswith("{"), it.communicate(timeout=PATIENCE)
            yield it, json.loads(said)["url"]
        finally:
            it.send_signal(signal.SIGINT)
            try:
                it.wait(PATIENCE)
            finally:
                it.kill()


def test_a_browser_follows_the_fabric_and_records_it(tmp_path: Path) -> None:
    """Sessions come up in the page, traffic and a link that goes down too; the recording makes a report."""
    if BINARY is None:
        pytest.skip("needs chromium")
    (address,) = (node["addresses"]["lo"] for node in [{"addresses": {"lo": "127.0.0.1"}}])
    with showing(tmp_path) as (live, url), Chromium() as browser:
        tab = Tab(browser, url)
        until(tab, f"{TEXT.format('now-sessions')}.includes('BGP: 8 of 8 up')")
        until(tab, "!document.getElementById('record').disabled")
        tab.run("document.getElementById('record').click()")
        until(tab, f"{TEXT.format('record-state')}.startsWith('recording {NAME}-')")
        name = tab.run(TEXT.format("record-state")).removeprefix("recording ")
        rocelab("exec", "h1", "--", "ping", "-c", "20", "-i", "0.01", "-q", address)
        until(tab, f"{TEXT.format('commands')}.includes('rocelab exec h1 -- ping')")
        rocelab("fault", "inject", "link-down", "leaf1:swp1")
        until(tab, f"{TEXT.format('steps')}.includes('BGP session: Established to')")
        tab.run("document.getElementById('record').click()")
        until(tab, f"{TEXT.format('record-state')} === 'saved: rocelab report {name}'")
        assert tab.complaints() == []
        rocelab("down")
        until(tab, f"{TEXT.format('state')} === 'ended'")
        assert tab.run(TEXT.format("trouble")).startswith("The fabric was taken down")
        _, said = live.communicate(timeout=PATIENCE)
        assert said.splitlines()[0].startswith(f"error: fabric {NAME} was taken down"), said
        assert live.returncode == 1
    recording = Recording.open(tmp_path / "recordings" / name)
    assert not recording.incomplete
    assert any("ping" in command.argv for command in recording.commands)
    assert "link-down" in write_page(recording, gather(recording, told_of(recording.folder.path, library.OWN)))


def test_it_records_from_the_start_and_saves_on_ctrl_c(tmp_path: Path) -> None:
    with showing(tmp_path, "--record", "--hz", "20") as (live, _):
        started = rocelab_json("record", "ls", "-o", tmp_path / "recordings")
        live.send_signal(signal.SIGINT)
        live.communicate(timeout=PATIENCE)
        assert live.returncode == 0
    (folder,) = (tmp_path / "recordings").iterdir()
    assert re.fullmatch(rf"{NAME}-[\dTZ-]+", folder.name)
    assert not Recording.open(folder).incomplete
    assert [each["state"] for each in started] in ([], ["recording"])


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """A view is no recording, and its folder is gone afterwards, also after a kill and ``down``."""
    state = find_fabric(NAME)
    with showing(tmp_path):
        assert rocelab_json("record", "ls") == []
        assert [path.suffix for path in sorted(state.recorders.iterdir())] == ["", ".view"]
    assert list(state.recorders.iterdir()) == []
