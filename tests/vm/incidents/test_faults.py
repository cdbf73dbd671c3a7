"""Faults that need RDMA, the emulated port or cgroups: what each does, and that its healing leaves no difference.

    h1 --20M-- leaf1 --20M-- h2

Judges: the ports' configuration octet for octet, ip, tc, nft and the GID table, the kernel's account of CPU time, and
the port's own counters of what arrived.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lab.dataplane import port_maps
from lab.faults import fault_engine
from lab.faults.fault_engine import fault_of
from lab.faults.kinds.packet_faults import Impaired
from lab.kernel.process import process
from lab.rdma import rxe, sysfs
from lab.wire.craft.packet_spec import PacketSpec
from tests.fabric import snapshot
from tests.patience import until
from tests.vm.faulty import built, inject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(300)]
NAME: Final = "faulty-port"
TOPOLOGY: Final = f"""
name: {NAME}
defaults: {{rate: 20Mbit, mtu: 4200}}
qos: pfc-ecn
nodes: {{leaf1: {{role: leaf}}, h1: {{role: host}}, h2: {{role: host}}}}
links: [{{ends: [h1, leaf1]}}, {{ends: [h2, leaf1]}}]
"""
_SHOWN: Final = f"""
ip -o link | sed 's/ promiscuity.*//'
ip -o addr | sed 's/valid_lft.*//'; ip route show table all; tc qdisc; nft list ruleset
{snapshot.TC_FILTERS}; true
"""


@pytest.fixture(scope="module")
def fabric() -> Iterator[Fabric]:
    with built(TOPOLOGY) as fabric:
        yield fabric


@pytest.fixture(autouse=True)
def healed(fabric: Fabric) -> Iterator[None]:
    yield
    fault_engine.heal(fabric)


def state(fabric: Fabric) -> list[str]:
    """All that the faults below could have changed."""
    shown = [fabric.namespace(name).run(["sh", "-c", _SHOWN]).stdout for name in ("h1", "h2", "leaf1")]
    assert all("port_rx" in each for each in shown)
    ports = port_maps.open_maps(NAME).ports
    asked = [ports["config"], ports["cable"], ports["state"]["disturbed"]]
    group = fabric.namespace("h1").group
    assert group is not None
    handed = [(above / "cgroup.subtree_control").read_text() for above in group.resolve().parents[:2]]
    return [*shown, *(each.tobytes().hex() for each in asked), *handed, *map(str, sysfs.gids(device("h1")))]


def device(host: str) -> str:
    return rxe.device_name(NAME, host, "eth1")


def counted(fabric: Fabric, node: str, interface: str) -> dict[str, int]:
    counters = port_maps.open_maps(NAME).counters[fabric.numbering.nodes[node].port(interface)]
    names = ("rx_pause", "rx_pause_ignored")
    return {name: int(counters["priority"][name][3]) for name in names} | {
        "not_ect": int(counters["queue"]["not_ect"].sum()),
        "rx": int(counters["priority"]["rx_packets"].sum()),
        "rx_global": int(counters["rx_global_pause"]),
        "rx_invalid": int(counters["rx_pfc_invalid"]),
        "rx_lossless": int(counters["priority"]["rx_packets"][3]),
    }


@pytest.mark.parametrize(
    "text",
    [
        "link-rate h1--leaf1 rate=5Mbit", "port-config leaf1 'set=ecn.3.kmin=2KB pfc.tx=false'",
        "slow-receiver h1 rate=2Mbit", "pauses-ignored h1", "not-ect h1", "dscp-rewritten h1 dscp=0",
        "cpu-starved h1", "gid-moved h1", "udp-filtered leaf1", "link-loss h1--leaf1 one-in=256 priority=3",
        "link-reorder h1 probability=5% priority=3", "cable-swapped leaf1:swp1,leaf1:swp2",
        *(
            pytest.param(text, marks=pytest.mark.long)
            for text in (
                "link-delay h1--leaf1 delay=2ms", "link-jitter h1 jitter=1ms",
                "link-corrupt h1 probability=1% behind-fcs=true", "link-duplicate h1 probability=10%",
            )
        ),
    ],
)  # fmt: skip
def test_healing_leaves_no_difference(fabric: Fabric, text: str) -> None:
    before = state(fabric)
    entry = inject(fabric, text)
    assert state(fabric) != before
    assert fault_engine.heal(fabric, [entry.number]) == [entry]
    until(lambda: len(sysfs.gids(device("h1"))) == sum(line.startswith("Gid(") for line in before))
    assert state(fabric) == before


def burst(count: int, **fields: object) -> None:
    """RoCEv2 packets from h1 to h2, as rxe has them but of no queue pair."""
    from lab.cli.packets.inject import Sender  # noqa: PLC0415 - the sending half of craft is what completes addresses

    sender = Sender("h1:eth1", NAME, None)
    written = {"kind": "send", "dst": sender.address("h2"), "payload-size": 256, "qp": 0xFFFFF0, "count": count}
    sender.send(sender.complete([PacketSpec.model_validate({**written, **fields})]))


def test_one_in_so_many_is_lost_and_no_counter_of_a_device_tells(fabric: Fabric) -> None:
    entry = inject(fabric, "link-loss h1 one-in=16")
    before = counted(fabric, "leaf1", "swp1")["rx_lossless"]
    burst(160)
    until(lambda: counted(fabric, "leaf1", "swp1")["rx_lossless"] - before == 150)
    fault = fault_of(fabric, entry)
    assert isinstance(fault, Impaired)
    (truth,) = fault.truth().values()
    assert (truth.matched, truth.lost) == (160, 10)


def test_a_priority_alone_is_hit(fabric: Fabric) -> None:
    inject(fabric, "link-loss h1 probability=100% priority=3")
    before = counted(fabric, "leaf1", "swp1")
    burst(20)
    burst(30, dscp=0)
    until(lambda: counted(fabric, "leaf1", "swp1")["rx"] - before["rx"] >= 30)
    assert counted(fabric, "leaf1", "swp1")["rx_lossless"] == before["rx_lossless"]


def test_packets_in_the_wrong_class_are_not_lossless(fabric: Fabric) -> None:
    inject(fabric, "dscp-rewritten h1 dscp=0")
    before = counted(fabric, "leaf1", "swp1")
    burst(25)
    until(lambda: counted(fabric, "leaf1", "swp1")["rx"] - before["rx"] >= 25)
    assert counted(fabric, "leaf1", "swp1")["rx_lossless"] == before["rx_lossless"]


def test_a_storm_pauses_its_leaf_for_as_long_as_it_lasts(fabric: Fabric) -> None:
    before = counted(fabric, "leaf1", "swp2")["rx_pause"]
    entry = inject(fabric, "pause-storm h2 every=10ms")
    time.sleep(1)
    during = counted(fabric, "leaf1", "swp2")["rx_pause"] - before
    assert 98 <= during <= 103  # one at once and one every 10 ms, read a little later than they are counted
    fault_engine.heal(fabric, [entry.number])
    after = counted(fabric, "leaf1", "swp2")["rx_pause"]
    time.sleep(0.1)
    assert counted(fabric, "leaf1", "swp2")["rx_pause"] == after


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("global-pause h2 every=5ms", "rx_global"),
        ("malformed-pfc h2 every=5ms", "rx_invalid"),
        ("malformed-pfc h2 every=5ms what=opcode", "rx_invalid"),
    ],
)
def test_frames_that_are_no_pfc_are_counted_as_what_they_are(fabric: Fabric, text: str, name: str) -> None:
    before = counted(fabric, "leaf1", "swp2")
    inject(fabric, text)
    until(lambda: counted(fabric, "leaf1", "swp2")[name] - before[name] >= 5)
    assert counted(fabric, "leaf1", "swp2")["rx_pause"] == before["rx_pause"]


def test_a_gid_has_another_index_and_then_its_own_again(fabric: Fabric) -> None:
    address = fabric.plan["h1"].interfaces["eth1"].address
    assert address is not None
    index = sysfs.gid_index(device("h1"), address.ip)
    entry = inject(fabric, "gid-moved h1")
    until(lambda: any(gid.address == address.ip and gid.index != index for gid in sysfs.gids(device("h1"))))
    fault_engine.heal(fabric, [entry.number])
    until(lambda: any(gid.address == address.ip and gid.index == index for gid in sysfs.gids(device("h1"))))


def test_a_filter_drops_rocev2_counts_it_and_lets_ping_pass(fabric: Fabric) -> None:
    inject(fabric, "udp-filtered leaf1")
    before = counted(fabric, "h2", "eth1")["rx_lossless"]
    burst(7)
    target = fabric.plan["h2"].interfaces["eth1"].address
    assert target is not None
    assert fabric.namespace("h1").run(["ping", "-c", "2", str(target.ip)], check=False).returncode == 0
    assert "udp dport 4791 counter packets 7" in fabric.namespace("leaf1").run(["nft", "list", "ruleset"]).stdout
    assert counted(fabric, "h2", "eth1")["rx_lossless"] == before


def test_a_starved_program_gets_its_share_of_the_cpu(fabric: Fabric) -> None:
    inject(fabric, "cpu-starved h1 share=10%")
    group = fabric.namespace("h1").group
    assert group is not None

    def used() -> float:
        lines = dict(line.split() for line in Path(group, "cpu.stat").read_text().splitlines())
        return int(lines["usage_usec"]) / 1e6

    busy = fabric.namespace("h1").start(["sh", "-c", "while :; do :; done"])
    try:
        until(lambda: used() > 0.05)
        began, before = time.monotonic(), used()
        time.sleep(2)
        share = (used() - before) / (time.monotonic() - began)
    finally:
        process.stop(busy)
    assert share == pytest.approx(0.1, abs=0.01)  # a period of 100 ms more or less, of 2 s, is a twentieth


def test_a_program_stands_still_and_goes_on(fabric: Fabric) -> None:
    sleeper = fabric.namespace("h1").start(["sleep", "600"])
    try:
        entry = inject(fabric, "process-stopped h1 name=sleep")
        until(lambda: "State:\tT" in Path(f"/proc/{sleeper.pid}/status").read_text())
        fault_engine.heal(fabric, [entry.number])
        until(lambda: "State:\tS" in Path(f"/proc/{sleeper.pid}/status").read_text())
        assert inject(fabric, "process-killed h1 name=sleep").whole
        until(lambda: sleeper.poll() == -9)
        assert fault_engine.running(fabric) == ()
    finally:
        process.stop(sleeper)
