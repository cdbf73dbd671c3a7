"""A fabric in the VM, used from the host: an agent answers a challenge over MCP, and a browser follows the fabric."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.kernel.process.user_folders import STATE_HOME
from tests.browser import conftest
from tests.browser.chromium import Tab
from tests.browser.test_player import until
from tests.fabric.mcp_client import Session, play
from tests.patience import PATIENCE
from tests.patience import until as await_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.chromium import Chromium

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600)]
ROOT: Final = Path(__file__).parents[3]
STORM: Final = "pfc-storm"
TEXT: Final = "document.getElementById('{}').textContent"
browser = conftest.browser


def argv(*words: str) -> list[str]:
    """A command of this checkout, about a fabric in the VM."""
    return [sys.executable, "-P", "-m", "lab", *words]


def rocelab(*words: str) -> str:
    """The output of a command; it must end with 0."""
    done = subprocess.run(argv(*words), capture_output=True, text=True, cwd=ROOT, timeout=1800, check=False)
    assert done.returncode == 0, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def vm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A VM of the test's own in virtual time, and the states of its commands."""
    folder = tmp_path_factory.mktemp("vm")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ROCELAB_VM_STATE", str(folder / "state"))
        environment.setenv(STATE_HOME, str(folder / "scores"))
        environment.setenv("PYTHONPATH", str(ROOT))
        environment.delenv("ROCELAB_VM_NAME", raising=False)
        environment.delenv("ROCELAB_VM")  # commands find a fabric in the VM by themselves, as a user's do
        rocelab("vm", "up", "--time", "virtual")
        yield
        rocelab("vm", "down")


@pytest.fixture(autouse=True)
def _down() -> Iterator[None]:
    yield
    rocelab("--vm", "down", "--all")


def test_an_agent_answers_a_challenge_with_rdma() -> None:
    """``diagnose`` and the counters name the storm; faults and answers of other tools do not."""
    rocelab("--vm", "scenario", "break", STORM)

    async def work(session: Session) -> None:
        assert await session.answer("faults") == {"items": []}
        assert "has a challenge" in await session.error("fault_inject", kind="link-cut", place="leaf1--spine1")
        answer = await session.answer("diagnose", seconds=3)
        first = answer["causes"][0]
        assert first["cause"] == STORM
        place = first["places"][0].partition(":")[0]
        ports = (await session.answer("counters"))["nodes"]["leaf2"]["interfaces"]
        assert max(port.get("rx_prio3_pause", 0) for port in ports.values()) > 0
        wrong = await session.answer("challenge_check", cause="gray-loss", place=place)
        assert wrong["verdict"] != "right"
        right = await session.answer("challenge_check", cause=STORM, place=place)
        assert right["verdict"] == "right"

    play(work, "-m", "lab", "mcp", "--allow", "inject")
    rocelab("scenario", "fix")
    (score,) = json.loads(rocelab("scenario", "score", "--nika"))
    assert score["solved"] is True
    assert score["ground_truth"] == score["submission"]


@contextmanager
def live(folder: Path) -> Iterator[str]:
    """The URL of ``rocelab live`` while it serves the fabric in the VM."""
    said = folder / "said"
    with said.open("wb") as out:
        server = subprocess.Popen(argv("live"), stdout=out, stderr=out, cwd=folder, env=dict(os.environ))
    try:
        await_state(lambda: "http://" in said.read_text() or server.poll() is not None)
        assert server.poll() is None, said.read_text()
        yield re.findall(r"http://[^;\s]+", said.read_text())[-1]
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(PATIENCE)


def test_a_page_shows_pauses_of_an_incast(browser: Chromium, tmp_path: Path) -> None:
    rocelab("--vm", "up", "topologies/incast.yaml")
    with live(tmp_path) as url:
        tab = Tab(browser, url, 1400, 900)
        until(tab, f"/ up, BFD: /.test({TEXT.format('now-sessions')})")
        writers = argv("rdma", "bw", "h1", "h7", "--pair", "h2:h7", "--pair", "h3:h7", "--duration", "5")
        with subprocess.Popen(writers, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT) as writing:
            until(tab, f"{TEXT.format('now-pauses')}.includes('leaf2:swp')")
            until(tab, f"{TEXT.format('now-qps')}.includes('ib_write_bw')")
            said: Any = writing.communicate(timeout=1800)[1]
        assert writing.returncode == 0, said
        assert tab.complaints() == []
        tab.close()
