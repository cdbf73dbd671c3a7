"""``rocelab capture --on-event`` on a live fabric: storms, drops and NAKs that really happen, and none that do not.

    h1 --20M-- leaf1 --20M-- h2

Judged by tshark, which reads the file that was kept.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from lab.kernel.process.process import find_tool, run
from lab.wire.trigger import STORM
from tests.fabric.command import rocelab, running

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.long, pytest.mark.timeout(300)]
NAME: Final = "on-event"
TOPOLOGY: Final = f"""
name: {NAME}
defaults: {{rate: 20Mbit, mtu: 4200}}
qos: pfc-ecn
nodes: {{leaf1: {{role: leaf}}, h1: {{role: host}}, h2: {{role: host}}}}
links: [{{ends: [h1, leaf1]}}, {{ends: [h2, leaf1]}}]
"""
WRITE: Final = ("rdma", "bw", "h1", "h2", "--duration", "1", "--fabric", NAME)
_SEQUENCE_ERROR: Final = "96"
"""The syndrome of a NAK with code 0 (IBA vol. 1 tables 43 and 46)."""
_PFC: Final = "macc.opcode == 0x0101"


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file = tmp_path_factory.mktemp(NAME) / f"{NAME}.yaml"
    file.write_text(TOPOLOGY)
    rocelab("up", file)
    yield
    rocelab("down", "--fabric", NAME)


@contextmanager
def waiting(file: Path, kind: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A capture of both links that waits for one kind of event, and has begun."""
    with running("capture", "leaf1", "-o", file, "--on-event", kind, *words, "--fabric", NAME) as capturing:
        assert capturing.stderr is not None
        assert "at 2 links" in capturing.stderr.readline()
        yield capturing


@contextmanager
def broken(kind: str, place: str, *words: str) -> Iterator[None]:
    rocelab("fault", "inject", kind, place, *words, "--fabric", NAME)
    yield
    rocelab("fault", "heal", "--all", "--fabric", NAME)


def told(capturing: subprocess.Popen[str]) -> str:
    """What it said last, when it has ended by itself."""
    _, said = capturing.communicate(timeout=120)
    assert capturing.returncode == 0, said
    return said


def seen(file: Path, wanted: str, *fields: str) -> list[list[str]]:
    """These fields of the packets that tshark finds."""
    asked = [word for field in fields for word in ("-e", field)]
    done = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-Y", wanted, "-T", "fields", *asked])
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_traffic_in_which_nothing_happens_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "none.pcapng"
    with waiting(file, "drop,nak,storm") as capturing:
        rocelab(*WRITE)
        assert capturing.poll() is None
        capturing.send_signal(signal.SIGINT)
        assert "nothing happened" in told(capturing)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["drop", "nak"])
def test_a_lost_packet_keeps_the_gap_and_the_nak_that_tells_of_it(tmp_path: Path, kind: str) -> None:
    """A packet that came from h1 and did not go on to h2 is the one that h2's NAK asks for."""
    file = tmp_path / "lost.pcapng"
    loss = broken("link-loss", "h1--leaf1", "one-in=64", "priority=3")
    with loss, waiting(file, kind, "--after", "500ms") as capturing:
        rocelab(*WRITE)
        assert f"kept in {file}" in told(capturing)
    frames = seen(file, "infiniband", "infiniband.bth.psn", "infiniband.aeth.syndrome", "frame.interface_name")
    first = next(place for place, frame in enumerate(frames) if frame[1] == _SEQUENCE_ERROR)
    before = [(psn, link) for psn, syndrome, link in frames[:first] if not syndrome]
    lost = frames[first][0]
    assert (lost, "leaf1:swp1") in before
    assert (lost, "leaf1:swp2") not in before


def test_a_pause_storm_keeps_the_pauses_that_made_it(tmp_path: Path) -> None:
    file = tmp_path / "storm.pcapng"
    with waiting(file, "storm", "--after", "0ms") as capturing, broken("pause-storm", "h2"):
        said = told(capturing)
    assert f"kept in {file}" in said
    pauses = seen(file, _PFC, "frame.time_epoch", "frame.interface_name")
    assert {place for _, place in pauses} == {"leaf1:swp2"}
    assert float(pauses[-1][0]) - float(pauses[0][0]) >= STORM / 1e9


def test_pauses_that_end_are_no_storm(tmp_path: Path) -> None:
    """Each is of 100 quanta, 2.56 ms at 20 Mb/s, and comes when the one before it is over."""
    file = tmp_path / "none.pcapng"
    with waiting(file, "storm") as capturing:
        rocelab(
            "craft", "pfc", "--classes", "3=100", "--count", "100", "--pace", "100", "--send", "h2:eth1",
            "--fabric", NAME,
        )  # fmt: skip
        assert capturing.poll() is None
        capturing.send_signal(signal.SIGINT)
        assert "nothing happened" in told(capturing)
    assert not file.exists()
