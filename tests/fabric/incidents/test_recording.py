"""A recording of plain links: ip(8) counted the same, tshark reads its packets, and killed it is readable."""

from __future__ import annotations

import json
import random
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from lab.backends.lifecycle import open_fabric
from lab.rdma.sysfs import until
from lab.telemetry.read.recording import Recording
from lab.telemetry.record.recorder import Recorder
from lab.telemetry.store.recording_folder import RecordKind
from tests.fabric.command import rocelab
from tests.patience import PATIENCE
from tests.recorded import killed_after

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.fabric, pytest.mark.backends]
NAME = "recorded"
TOPOLOGY = f"name: {NAME}\ngenerate: {{shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 1}}\n"
KILLS = 4


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("recorded") / "recorded.yaml"
    made.write_text(TOPOLOGY)
    return made


@pytest.fixture(scope="module")
def fabric(file: Path) -> Iterator[Fabric]:
    rocelab("up", file, "--no-rdma")
    yield open_fabric(NAME)
    rocelab("down", "--fabric", NAME)


def counted_by_ip(fabric: Fabric, node: str) -> dict[str, tuple[int, int]]:
    """Bytes received and sent by each interface."""
    said = fabric.namespace(node).run(["ip", "-s", "-j", "link", "show"]).stdout
    return {
        link["ifname"]: (link["stats64"]["rx"]["bytes"], link["stats64"]["tx"]["bytes"]) for link in json.loads(said)
    }


def ping(fabric: Fabric, count: int) -> tuple[list[str], subprocess.CompletedProcess[str]]:
    address = fabric.plan["h2"].interfaces["eth1"].address
    assert address is not None
    argv = ["ping", "-c", str(count), "-i", "0.01", "-s", "1000", "-p", "ff", str(address.ip)]
    return argv, fabric.namespace("h1").run(argv)


def test_what_interfaces_counted_is_what_ip_says(fabric: Fabric, tmp_path: Path) -> None:
    with Recorder.begin(
        tmp_path / "run", fabric, hz=50, captures=["h1--leaf1"], parameters={"count": 30}
    ) as recorder:
        recorder.phase("before")
        recorder.phase("ping")
        began = time.monotonic_ns()
        argv, done = ping(fabric, 30)
        recorder.command("h1", argv, done, began=began)
        recorder.record(RecordKind.TRUTH, kind="nothing")
        earlier = {node: counted_by_ip(fabric, node) for node in ("h1", "h2")}
        recorder.phase("after")
        later = {node: counted_by_ip(fabric, node) for node in ("h1", "h2")}
    recording = Recording.open(tmp_path / "run")
    assert not recording.incomplete
    for node in ("h1", "h2"):
        port = recording.port(f"{node}:eth1")
        found = port.rx_bytes().during("ping").last, port.tx_bytes().during("ping").last
        pairs = zip(earlier[node]["eth1"], found, later[node]["eth1"], strict=True)
        assert all(low <= value <= high for low, value, high in pairs)
        assert port.tx_bytes().during("ping").delta() >= 30 * 1042
    (command,) = recording.commands
    assert (command.node, command.exit_code, "30 received" in command.stdout) == ("h1", 0, True)
    assert recording.phase("ping").start <= command.ns < command.end_ns <= recording.phase("ping").end
    assert recording.parameters == {"count": 30}
    assert [told["kind"] for told in recording.truth()] == ["nothing"]
    (capture,) = recording.captures
    tshark = ["tshark", "-r", str(capture), "-Y", "icmp", "-T", "fields", "-e", "frame.interface_name"]
    lines = subprocess.run(tshark, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout.splitlines()
    assert len(lines) == 60
    assert set(lines) <= {"h1:eth1", "leaf1:swp3"}


def rerouted(recording: Recording) -> bool:
    """Whether leaf1 has told of a route without swp1 while that was down."""
    routes = recording.events(kind="route", node="leaf1", during="down")
    return any("swp1" not in event.data["interfaces"] for event in routes)


def test_what_the_kernel_and_the_routers_tell_is_in_it(fabric: Fabric, tmp_path: Path) -> None:
    spine = fabric.namespace("spine1")
    with Recorder.begin(tmp_path / "run", fabric) as recorder:
        _await(recorder, "Established")
        recorder.phase("down")
        spine.run(["ip", "link", "set", "swp1", "down"])
        _await(recorder, "Idle", "Active", "Connect")
        assert until(lambda: rerouted(Recording.open(recorder.folder.path)), timeout=PATIENCE)
        recorder.phase("up")
        spine.run(["ip", "link", "set", "swp1", "up"])
        _await(recorder, "Established")
    recording = Recording.open(tmp_path / "run")
    links = recording.events(kind="link", node="spine1", interface="swp1")
    assert [event.data["admin_up"] for event in links][:1] == [False]
    assert links[-1].data["up"]
    assert rerouted(recording)
    states = [event.data["state"] for event in recording.events(kind="bgp", node="spine1", interface="swp1")]
    assert states[0] == "Established"
    assert states[-1] == "Established"
    assert len(states) > 2
    kept = recording.state("before")["leaf1"]
    assert "router bgp" in kept["frr"]["bgpd"]
    assert {route["dst"] for route in kept["routes"]} >= {"10.253.0.2", "10.253.0.1"}


def _await(recorder: Recorder, *states: str) -> None:
    """Wait until the last that was recorded of the session at spine1:swp1 is one of ``states``."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert recorder.is_live()
        told = Recording.open(recorder.folder.path).events(kind="bgp", node="spine1", interface="swp1")
        if told and told[-1].data["state"] in states:
            return
        time.sleep(0.1)
    pytest.fail(f"spine1:swp1 was never {states}")


def test_one_that_is_killed_is_readable_up_to_the_last_second(fabric: Fabric, tmp_path: Path) -> None:
    moments = random.Random(4)
    for number in range(KILLS):
        folder = tmp_path / f"run{number}"
        ended = killed_after(folder, fabric, moments.uniform(0.0, 2.0))
        recording = Recording.open(folder)
        assert recording.incomplete
        assert [phase.name for phase in recording.phases] == ["only"]
        assert ended - int(recording.samples["ns"][-1]) < 10**9
        assert recording.port("h1:eth1").rx_bytes().last > 0


def test_a_fabric_that_is_taken_down_meanwhile_ends_it(file: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.yaml"
    again.write_text(file.read_text().replace(NAME, "taken"))
    rocelab("up", again, "--no-rdma")
    recorder = Recorder.begin(tmp_path / "run", open_fabric("taken"))
    rocelab("down", "--fabric", "taken")
    while recorder.is_live():
        time.sleep(0.05)
    recorder.end()
    recording = Recording.open(tmp_path / "run")
    assert (recording.incomplete, recording.why) == (False, "the fabric was taken down")
    assert [event.kind for event in recording.events(source="recorder")] == ["fabric_gone"]
