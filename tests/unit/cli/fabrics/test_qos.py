"""``rocelab qos`` on a fabric that seems to run."""

import json
import signal
import threading
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.backends import live_qos as backend
from lab.backends.lifecycle import open_fabric
from lab.cli.app import app
from lab.cli.fabrics import status
from lab.cli.kit.output import stdout
from lab.cli.tables.qos_table import ranges
from lab.dataplane import qp_pairs
from lab.dataplane.port_layout import EventKind
from lab.errors import LabError, UsageError
from tests.unit.dataplane.made_maps import log_event
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import Running, run


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setattr(stdout, "width", 250)
    return run(fabric("{fabric: pfc-ecn, profiles: {slow: {nic: {drain: 20Mbit}}}}"), tmp_path, monkeypatch)


def qos(*words: str) -> str:
    result = CliRunner().invoke(app, ["qos", *words])
    if isinstance(result.exception, LabError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]


def test_show_has_a_line_for_each_port(running: Running) -> None:
    shown = rows(qos("show", "leaf1", "h1"))
    assert [row[0] for row in shown] == [f"leaf1:swp{number}" for number in (1, 2, 3, 4)] + ["h1:eth1"]
    assert shown[0][1:5] == ["100 Mb/s", "3", "pauses, obeys", "from 40 KB to 160 KB: up to 10%"]
    assert {row[-1] for row in shown} == {"as here"}
    assert running.requests == []


@pytest.mark.parametrize("preset", ["pfc-ecn", "sonic"])
@pytest.mark.parametrize("width", [80, 100, 140, 160])
def test_no_name_of_a_port_is_broken_on_a_narrow_terminal(
    preset: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdout, "width", width)
    made = run(fabric(preset), tmp_path, monkeypatch)
    for field in ("kmin", "kmax", "limit"):
        made.maps.config["queue"][field][made.id("leaf1:swp3")] = 1
    text = qos("show", "leaf1", "h1")
    assert [row[0] for row in rows(text)] == [f"leaf1:swp{number}" for number in (1, 2, 3, 4)] + ["h1:eth1"]
    assert max(map(len, text.splitlines()[:-1])) <= width
    assert "No room for " in text.splitlines()[-1]
    assert "watchdog" in text.splitlines()[-1]
    assert [row[-1] for row in rows(text) if row[-1] != "as here"] == ["differs: queue[0].kmin and 23 more"]


def test_show_compares_with_the_kernel(running: Running) -> None:
    running.maps.config["queue"]["kmin"][running.id("leaf1:swp3"), 3] = 1
    assert rows(qos("show", "leaf1"))[2][-1] == "differs: queue[3].kmin"
    data = json.loads(qos("show", "leaf1:swp3", "--json"))
    port = data["nodes"]["leaf1"]["ports"]["swp3"]
    assert port["kernel_differs"] == ["queue[3].kmin"]
    assert port["queues"][3]["ecn"] == {"enabled": True, "kmin": 40_000, "kmax": 160_000, "pmax": 0.1}


def test_show_tells_of_a_port_that_was_taken_off(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "root_qdiscs", lambda _: {"eth1": ("noqueue", "0:")})
    assert rows(qos("show", "h1", "h2"))[0][-1] == "differs: root qdisc noqueue"
    monkeypatch.setattr(backend, "root_qdiscs", lambda _: {})
    data = json.loads(qos("show", "h1", "--json"))
    assert data["nodes"]["h1"]["ports"]["eth1"]["kernel_differs"] == ["root qdisc gone"]
    assert running.requests == []


@pytest.mark.usefixtures("running")
def test_show_of_one_port_has_all_of_it() -> None:
    text = qos("show", "h1:eth1")
    for part in ("priorities", "queues", "priority groups", "65535 quanta, 335.5 ms", "as fast as they come"):
        assert part in text
    assert ["3", "26", "3", "3", "3", "lossless"] in rows(text)
    assert ["3", "DWRR 50", "400 KB", "off"] in rows(text)  # no NIC marks what it sends itself
    switch = qos("show", "leaf1:swp1")
    assert ["3", "DWRR 50", "400 KB", "from 40 KB to 160 KB: up to 10%"] in rows(switch)
    assert "takes packets in" not in switch


@pytest.mark.parametrize("word", ["none", "unlimited"])
def test_a_host_takes_all_in_again(running: Running, word: str) -> None:
    qos("set", "h1", "nic.drain=50Mbit")
    assert "at 50 Mb/s" in qos("show", "h1:eth1")
    qos("set", "h1", f"nic.drain={word}")
    assert "as fast as they come" in qos("show", "h1:eth1")
    assert running.requests


def test_ranges() -> None:
    assert ranges(iter([0, 1, 2, 5, 7, 8])) == "0-2,5,7-8"
    assert ranges(iter([])) == ""


def test_set_takes_several_ports_and_settings(running: Running) -> None:
    said = qos("set", "leaf1:swp1,leaf1:swp2", "spine", "ecn.3.kmin=20KB", "pfc.quanta=1000")
    assert said.strip() == "changed spine1, spine2, leaf1"
    ends = ("leaf1:swp1", "leaf1:swp2", "spine2:swp2", "leaf1:swp3")
    kmins = [int(running.maps.config["queue"]["kmin"][running.id(end), 3]) for end in ends]
    assert kmins == [20_000, 20_000, 20_000, 40_000]
    assert rows(qos("show", "leaf1"))[0][4] == "from 20 KB to 160 KB: up to 10%"


def test_set_everywhere_and_again(running: Running) -> None:
    qos("set", "--all", "pfc.rx=false")
    assert not running.maps.config["pfc_rx"].any()
    assert qos("set", "--all", "pfc.rx=false").strip() == "nothing changed: it is so already"
    qos("set", "--all", "--profile", "pfc-ecn")
    assert running.maps.config["pfc_rx"].any()


def test_set_applies_profiles_and_warns(running: Running) -> None:
    qos("set", "host", "--profile", "slow")
    assert running.maps.config["rate"][running.numbering.nodes["h1"].drain("eth1")] == 20_000_000
    said = qos("set", "h1", "buffer.groups.3.headroom=1KB")
    assert "warning: h1:eth1: buffer.groups.3.headroom: headroom 1 KB is less than" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to set"),
        (["leaf1"], "nothing to set"),
        (["ecn.3.kmin=1KB"], "no port is named"),
        (["leaf1", "--all", "ecn.3.kmin=1KB"], "both ports and --all are given"),
        (["leaf1:swp9", "ecn.3.kmin=1KB"], "no interface 'swp9' on leaf1"),
        (["leaf1", "--profile", "fast"], "there is no profile 'fast'"),
        (["leaf1", "ecn.8.kmin=1KB"], "qos: ecn.8.kmin: there is no '8'"),
        (["leaf1", "ecn.3.kmin=1MB"], "qos: ecn.3.kmin: kmin 1 MB is above kmax 160 KB"),
        (["leaf1", "scheduler.3=0"], "qos: scheduler.3"),
        (["leaf1", "rate=1"], "qos: rate: 1 is out of range"),
    ],
)
def test_what_cannot_be_set_is_one_line_and_changes_nothing(running: Running, words: list[str], message: str) -> None:
    before = running.maps.config.copy()
    with pytest.raises(UsageError) as refused:
        qos("set", *words)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
    assert (running.maps.config == before).all()


def test_events_are_told_in_order(running: Running) -> None:
    records = [
        (3_000_000_000, 65535, running.id("h1:eth1"), EventKind.PAUSED, 3),
        (2_999_000_000, 90_000, running.id("leaf1:swp3"), EventKind.XOFF_SENT, 3),
        (3_100_000_000, 0, running.id("h1:eth1"), EventKind.RESUMED, 3),
    ]
    for record in records:
        log_event(running.maps, *record)
    told = rows(qos("events"))
    assert [row[1:] for row in told] == [
        ["0.000000", "leaf1:swp3", "h1:eth1", "XOFF sent", "group 3", "90 KB"],
        ["0.001000", "h1:eth1", "leaf1:swp3", "paused", "priority 3", "65535 quanta"],
        ["0.101000", "h1:eth1", "leaf1:swp3", "resumed", "priority 3", ""],
    ]
    clocks = [datetime.strptime(row[0], "%H:%M:%S.%f") for row in told]
    assert [(later - clocks[0]).total_seconds() % 86400 for later in clocks] == pytest.approx(
        [0, 0.001, 0.101], abs=1e-3
    )
    (last,) = json.loads(qos("events", "h1", "--limit", "1", "--json"))
    assert (last["kind"], last["node"], last["boot_seconds"]) == ("resumed", "h1", 3.1)


def test_follow_tells_each_event_once_until_it_is_interrupted(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps, leaf, host = running.maps, running.id("leaf1:swp3"), running.id("h1:eth1")

    def log(*record: int) -> None:
        log_event(maps, *record)

    class Looks:
        """Stands in for the wait between two looks: something happens in each, and the third is the last."""

        count = 0

        def set(self) -> None:
            self.count = 3

        def wait(self, _: float) -> bool:
            self.count += 1
            if self.count == 1:
                maps.counters["priority"]["paused_from"][host, 3] = 2_000_000_000
                maps.counters["priority"]["paused_until"][host, 3] = 2_335_539_200  # ran out, and not told of yet
            elif self.count == 2:
                log(2_335_539_200, 0, host, EventKind.EXPIRED, 3)  # told of with the next frame
                log(3_000_000_000, 9, host, EventKind.PAUSED, 3)
            else:
                signal.raise_signal(signal.SIGINT)
            return self.count > 2

    monkeypatch.setattr(threading, "Event", Looks)
    log(2_000_000_000, 90_000, leaf, EventKind.XOFF_SENT, 3)
    lines = [line.split("  ")[1:] for line in qos("events", "--follow").splitlines()]
    assert lines == [
        ["0.000000", "leaf1:swp3", "h1:eth1", "XOFF sent", "group 3", "90 KB"],
        ["0.335539", "h1:eth1", "leaf1:swp3", "pause expired", "priority 3"],
        ["1.000000", "h1:eth1", "leaf1:swp3", "paused", "priority 3", "9 quanta"],
    ]
    (only,) = qos("events", "leaf1", "--follow", "--json").splitlines()
    assert json.loads(only)["kind"] == "xoff_sent"


@pytest.mark.parametrize("command", [["show"], ["set", "h1", "ecn.3.kmin=1KB"], ["events"]])
def test_a_fabric_without_lossless_ports_says_what_to_do(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(fabric("null"), tmp_path, monkeypatch)
    with pytest.raises(UsageError, match="fabric t has no lossless ports: write `qos: lab`"):
        qos(*command)


def test_status_shows_the_rate_that_a_link_has_now(running: Running) -> None:
    qos("set", "h1", "rate=20Mbit")
    fabric = open_fabric(running.topology.name)
    rates = {str(link.a): status._rate(fabric, link) for link in fabric.topology.links}
    assert {end: rate for end, rate in rates.items() if "h" in end} == {
        "h1:eth1": 20_000_000,
        **dict.fromkeys(("h2:eth1", "h3:eth1", "h4:eth1"), 100_000_000),
    }


def test_a_host_with_congestion_control_shows_its_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdout, "width", 300)
    run(fabric("connectx"), tmp_path, monkeypatch)
    summary = {row[0]: row for row in rows(qos("show", "leaf1", "h1"))}
    assert "dcqcn, s = 250" in summary["h1:eth1"]
    assert "dcqcn, s = 250" not in summary["leaf1:swp1"]
    text = qos("show", "h1")
    assert "congestion control: s = 25 Gb/s / 100 Mb/s = 250" in text
    assert ["congestion control", "dcqcn, sends and obeys CNPs; minimum time between CNPs per qp"] in rows(text)
    assert ["rpg_time_reset", "300 us", "75 ms", ""] in rows(text)
    floored = ["rpg_min_rate", "1 Mb/s", "126.4 kb/s", "one packet in a quarter of the QP timeout"]
    assert floored in rows(text)
    port = json.loads(qos("show", "h1", "--json"))["nodes"]["h1"]["ports"]["eth1"]
    assert (port["cc"]["real_rate"], port["cc"]["lab_rate"]) == (25 * 10**9, 10**8)
    assert (port["cc"]["published"]["rpg_ai_rate"], port["cc"]["registers"]["rpg_ai_rate"]) == (5_000_000, 20_000)


def test_a_host_without_congestion_control_says_so(running: Running) -> None:
    assert ["congestion control", "off"] in rows(qos("show", "h1"))
    assert running.requests == []


def test_registers_are_set_while_the_fabric_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(fabric("connectx"), tmp_path, monkeypatch)
    monkeypatch.setattr(qp_pairs, "are_learned", lambda _fabric: True)
    qos("set", "h1", "nic.cc.rpg_ai_rate=10Mbit", "nic.cc.np=false")
    cc = open_fabric(None).qos["h1"].ports["eth1"].cc
    assert cc is not None
    assert (cc.registers.rpg_ai_rate, cc.rp, cc.np) == (40_000, True, False)
    with pytest.raises(LabError, match="rpg_time_reset is 300 us, unscaled"):
        qos("set", "h1", "nic.cc.real_rate=link")
    with pytest.raises(LabError, match="300 has no unit; write it like 300us"):
        qos("set", "h1", "nic.cc.rpg_time_reset=300")
