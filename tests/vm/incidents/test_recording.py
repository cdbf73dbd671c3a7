"""A recording of an incast: its sums are those of tc, rdma and ``rocelab counters``; what it costs, how late it is.

The judges are tc(8), rdma(8) and perftest, in virtual time.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from lab.backends.lifecycle import open_fabric
from lab.kernel.process import process
from lab.scenario.stage import Stage
from lab.scenario.traffic.finite_transfers import fetch, transfer
from lab.telemetry.read.recording import Recording
from lab.telemetry.record.recorder import Recorder
from lab.telemetry.sample.queue_pairs import SCHEMA
from lab.telemetry.store.log_store import LogStore
from tests import backend
from tests.fabric.command import TOPOLOGIES, argv, rocelab, rocelab_json
from tests.recorded import killed_after
from tests.vm.one_switch import OVERHEAD, waited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.backends.backend import Fabric
    from lab.telemetry.store.recording_folder import Folder

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.long, pytest.mark.timeout(900)]
NAME = "incast"
INCAST = ("rdma", "bw", "h1", "h4", "--pair", "h2:h4", "--pair", "h3:h4", "--duration", "3s", "--json")
SENDERS = ("leaf1:swp3", "leaf1:swp4", "leaf1:swp5")
SINK = "leaf1:swp6"
HZ = 20


@pytest.fixture(scope="module")
def fabric() -> Iterator[Fabric]:
    rocelab("up", TOPOLOGIES / "incast.yaml")
    yield open_fabric(NAME)
    rocelab("down", "--fabric", NAME)


def incast() -> tuple[float, subprocess.CompletedProcess[str]]:
    """Goodput of three writers together, bit/s, and the command that was run."""
    done = process.run(argv(*INCAST), timeout=600)
    return sum(pair["goodput_bps"] for pair in json.loads(done.stdout)["pairs"]), done


@pytest.fixture(scope="module")
def alone(fabric: Fabric) -> float:  # noqa: ARG001 - it runs there
    """Goodput without a recorder."""
    return incast()[0]


def all_gone(folder: Folder) -> bool:
    """Whether the log of a recording that still runs has a last row for every QP."""
    rows = LogStore(folder.log).row_tables[SCHEMA.table].dicts()
    return {row["state"] for row in {(row["node"], row["qpn"]): row for row in rows}.values()} == {"gone"}


@pytest.fixture(scope="module")
def recorded(fabric: Fabric, alone: float, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, float]:  # noqa: ARG001
    """An incast between two quiet phases, and its goodput."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    with Recorder.begin(folder, fabric, hz=HZ) as recorder:
        recorder.phase("quiet")
        recorder.phase("incast")
        goodput, done = incast()
        recorder.command("", argv(*INCAST), done, began=0)
        recorder.phase("after")
        waited(lambda: all_gone(recorder.folder), "the QPs to be seen as gone")
    return Recording.open(folder), goodput


def test_it_costs_less_than_a_twentieth_of_the_goodput(alone: float, recorded: tuple[Recording, float]) -> None:
    assert recorded[1] > 0.95 * alone


def test_no_sample_is_missed_and_none_is_later_than_half_an_interval(recorded: tuple[Recording, float]) -> None:
    recording, _ = recorded
    late = (recording.samples["ns"] - recording.samples["due"]) / 1e9
    assert recording.skipped == 0
    assert late.min() >= 0
    assert late.max() < 0.5 / HZ
    assert late.mean() < 0.002
    assert len(recording.samples["ns"]) == pytest.approx(recording.seconds * HZ, rel=0.05)


def root_qdisc(fabric: Fabric, end: str) -> Any:
    node, _, interface = end.partition(":")
    said = fabric.namespace(node).run(["tc", "-j", "-s", "qdisc", "show", "dev", interface]).stdout
    return next(qdisc for qdisc in json.loads(said) if qdisc.get("root"))


def test_sums_are_those_of_tc_and_rdma_and_the_counters_command(
    fabric: Fabric, recorded: tuple[Recording, float]
) -> None:
    recording, _ = recorded
    told = rocelab_json("counters", "--all")["nodes"]
    for end in (*SENDERS, SINK, "h4:eth1"):
        node, _, interface = end.partition(":")
        port, counters = recording.port(end), told[node]["interfaces"][interface]
        for name in ("rx_prio3_packets", "tx_prio3_pause", "rx_prio3_pause", "queue3_ecn_marked", "queue3_bytes"):
            assert port.counter(name).last == counters[name], (end, name)
        sent = sum(port.counter(f"queue{queue}_packets").last for queue in range(8))
        assert sent + port.counter("tx_pfc").last <= root_qdisc(fabric, end)["packets"]
    said = subprocess.run(["rdma", "-j", "statistic", "show", "link"], capture_output=True, text=True, check=True)
    by_device = {link["ifname"]: link for link in json.loads(said.stdout)}
    for host in ("h1", "h4"):
        device = recording.rdma(host)
        for name in ("sent_pkts", "rcvd_pkts", "rcvd_bytes", "out_of_seq_request"):
            assert device.counter(name).last == by_device[f"{NAME}.{host}.eth1"][name], (host, name)


def test_phases_and_events_agree_with_counters(recorded: tuple[Recording, float]) -> None:
    recording, _ = recorded
    for end in SENDERS:
        node, _, interface = end.partition(":")
        port = recording.port(end)
        xoffs = recording.events(kind="xoff_sent", node=node, interface=interface, during="incast")
        assert len(xoffs) == port.tx_pause(3).during("incast").delta() > 50
        assert port.tx_pause(3).during("quiet").delta() == port.tx_pause(3).during("after").delta() == 0
        peer = recording.topology.links_of(node)
        host = next(link.other(link.end_at(node)) for link in peer if link.end_at(node).interface == interface)
        assert recording.port(str(host)).rx_pause(3).during("incast").delta() == len(xoffs)
        assert recording.port(str(host)).paused(3).during("incast").delta() > 1_000_000
    sink = recording.port(SINK)
    received = recording.rdma("h4").counter("rcvd_bytes").during("incast").delta()
    assert sink.tx_bytes(3).during("incast").delta() == pytest.approx(received, rel=0.05)
    assert sink.marked(3).during("incast").delta() > 1000
    assert sink.depth(3).during("incast").max > 160_000 > sink.depth(3).during("quiet").max
    assert recording.host["time"] == "virtual"


def test_the_sessions_of_both_protocols_are_told(recorded: tuple[Recording, float]) -> None:
    recording, _ = recorded
    assert {event.data["state"] for event in recording.events(kind="bgp")} == {"Established"}
    assert {event.data["state"] for event in recording.events(kind="bfd")} == {"up"}
    assert recording.events(kind="daemon_lost") == []


def test_queue_pairs_that_appear_and_go_are_rows_with_their_own_times(recorded: tuple[Recording, float]) -> None:
    """Three writers and their sink: every QP names the one at the other end, and all were seen only in the middle."""
    recording, _ = recorded
    incast, table = recording.phase("incast"), recording.table("queue_pairs")
    assert {node for node, _, _ in table.keys} == {"h1", "h2", "h3", "h4"}
    far = {"h4": {"h1", "h2", "h3"}, "h1": {"h4"}, "h2": {"h4"}, "h3": {"h4"}}
    for (node, _, qpn), series in table:
        states = series.column("state").tolist()
        assert incast.start < series.ns[0] <= incast.end + 10**9
        assert (states[-1], series.column("before")[0]) == ("gone", "")
        assert series.column("before").tolist()[1:] == states[:-1]
        assert set(series.column("type")) == {"RC"}
        if "RTS" in states:
            remote = int(series.column("remote")[states.index("RTS")])
            peers = [key for key in table.keys if key[0] in far[str(node)] and key[2] == remote]
            assert any(qpn in table.series(peer).column("remote").tolist() for peer in peers)
    assert len(recording.events(source="rdma", kind="qp")) == len(table.rows) >= 12


def test_one_that_is_killed_is_readable_up_to_the_last_second(fabric: Fabric, tmp_path: Path) -> None:
    ended = killed_after(tmp_path / "run", fabric, 1.3)
    recording = Recording.open(tmp_path / "run")
    assert recording.incomplete
    assert ended - int(recording.samples["ns"][-1]) < 10**9
    assert recording.port(SINK).tx_bytes(3).last > 0


MESSAGE = 65536
PACKET = 4096 + 14 + 20 + 8 + 12 + 4 + OVERHEAD
"""On the wire: payload, Ethernet, IPv4, UDP, BTH, ICRC, and what the kernel does not count."""
LINK = 100_000_000


def on_the_wire(octets: int) -> float:
    """Seconds that octets take on a link."""
    return octets * 8 / LINK


@pytest.fixture(scope="module")
def moved(fabric: Fabric, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """One pair, then three into one link, then messages one after the other."""
    folder = tmp_path_factory.mktemp("moved") / "run"
    with Recorder.begin(folder, fabric, state=False) as recorder:
        stage = Stage(fabric, recorder, 1, lambda _: None)
        with stage.phase("alone"):
            transfer(stage, "h1:h4", messages=100)
        with stage.phase("incast"):
            transfer(stage, "h1:h4", "h2:h4", "h3:h4", messages=100)
        with stage.phase("one-by-one"):
            fetch(stage, "h1:h4", messages=40)
    return Recording.open(folder)


def test_a_transfer_takes_what_its_packets_take_on_the_link(moved: Recording) -> None:
    (alone,) = moved.transfers("alone")
    theory = on_the_wire(100 * (16 * PACKET + 16))  # RETH, 16 octets, on the first packet of each message
    assert (alone.pair, alone.verb, alone.messages, alone.bytes) == ("h1:h4", "write", 100, 100 * MESSAGE)
    assert theory < alone.seconds < 1.01 * theory
    assert alone.ns > moved.phase("alone").start
    assert alone.end_ns < moved.phase("alone").end + 20_000_000


def test_an_incast_takes_as_long_as_the_link_that_all_share(moved: Recording) -> None:
    three = moved.transfers("incast")
    assert sorted(each.pair for each in three) == ["h1:h4", "h2:h4", "h3:h4"]
    lasted = (max(each.end_ns for each in three) - min(each.ns for each in three)) / 1e9
    theory = 3 * on_the_wire(100 * (16 * PACKET + 16))
    assert theory - 0.02 < lasted < 1.02 * theory  # a beginning is seen up to 20 ms late
    assert [each.end_ns for each in three] == sorted(each.end_ns for each in three)


def test_each_message_takes_its_request_and_its_packets(moved: Recording) -> None:
    (read,) = moved.transfers("one-by-one")
    assert (read.verb, read.messages, len(read.times)) == ("read", 40, 40)
    request, response = PACKET - 4096 + 16, 16 * PACKET + 8  # AETH, 4 octets, on the first and the last
    theory = on_the_wire(2 * request + response)
    assert read.message_median == pytest.approx(theory, rel=0.01)
    if not backend.has_others():  # who take CPU from a read or two
        assert read.seconds / 40 == pytest.approx(theory, rel=0.03)  # with those that waited for the sampler's
    assert min(read.times) > on_the_wire(15 * PACKET)  # the last packet waits for those before it, and for no more
    assert read.seconds == pytest.approx(sum(read.times))
    told = rocelab_json("record", "show", moved.folder.path)["transfers"]
    assert [each["pair"] for each in told] == [each.pair for each in moved.transfers()]
    assert told[-1]["message_median"] == read.message_median
    assert "took" in rocelab("record", "show", moved.folder.path).stdout
