"""A host with two NICs: the one that is broken is named, and its healthy sibling is not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.causes.cause_table import CAUSES
from lab.diagnose.extract import collect
from lab.diagnose.facts import Ran, StartedTransfer, WindowFacts
from lab.diagnose.symptoms import address_symptoms, classes, host_symptoms, loss_symptoms, probes
from lab.model.load import load_topology
from lab.model.qos.port import Trust
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose.made_facts import ADDRESSES, configured, facts
from tests.unit.diagnose.made_nics import Merged, named_nics, partner
from tests.unit.diagnose.made_windows import CASES
from tests.unit.telemetry.made import RDMA, Made

if TYPE_CHECKING:
    from pathlib import Path

RAILS = load_topology(
    "name: rails\nqos: pfc-ecn\ngenerate: {shape: rail-optimised, rails: 2, hosts_per_unit: 2, units: 1, spines: 1}\n"
)

_OF_A_HOST = re.compile(r"(?:^|--)(h\d+)(?::|--|$)")
OF_ALL_NICS = {"straggler-host", "static-route"}
"""Causes that are the host's own, whatever NICs it has: it computes slowly, or a route of its rejects packets."""
AT_HOSTS = [
    (cause, place, there) for cause, place, there, _ in CASES if _OF_A_HOST.search(place) and cause not in OF_ALL_NICS
]
SWAPPED = pytest.mark.parametrize("swapped", [False, True], ids=["eth1", "eth2"])
"""Which NIC is the broken one."""
GIDS = "/sys/class/infiniband/{}/ports/1/gids/1:0000:0000:0000:0000:0000:ffff:{}"


def merged(there: WindowFacts, host: str, *, swapped: bool) -> tuple[Merged, WindowFacts]:
    """A window in which ``host`` is a NIC of a host with two, the other of which is healthy."""
    other = partner(there, host)
    made = Merged(other, host) if swapped else Merged(host, other)
    return made, made.facts(there)


@SWAPPED
@pytest.mark.parametrize(("cause", "place", "there"), AT_HOSTS)
def test_only_the_broken_nic_of_a_host_is_named(cause: str, place: str, there: WindowFacts, swapped: bool) -> None:
    shown = _OF_A_HOST.search(place)
    assert shown
    made, window = merged(there, shown[1], swapped=swapped)
    found = next(each for each in diagnose(window).causes if each.cause == cause)
    alone = next(each for each in diagnose(there).causes if each.cause == cause)
    assert set(found.places) == {made.place(each) for each in alone.places}
    assert named_nics(found.places, made.host) == {f"{made.host}:{'eth2' if swapped else 'eth1'}"}


def test_every_cause_that_names_a_host_is_among_them() -> None:
    """Of the others none names a host, or in ``CASES`` there is no window in which it does."""
    of_switches = {cause for cause, place, *_ in CASES if not _OF_A_HOST.search(place)}
    assert {cause for cause, *_ in AT_HOSTS} | OF_ALL_NICS | of_switches == {cause.name for cause in CAUSES}
    assert len({cause for cause, *_ in AT_HOSTS}) > 15


@SWAPPED
@pytest.mark.parametrize("changes", [{"dscp_to_priority": (0,) * 64}, {"trust": Trust.PCP}], ids=["map", "trust"])
def test_a_dscp_map_is_of_one_nic(swapped: bool, changes: dict[str, Any]) -> None:
    """A port that trusts the PCP puts all untagged packets into one class, whatever its map of DSCPs."""
    there = facts({}, qos=configured("h1:eth1", **changes), current=True)
    made, window = merged(there, "h1", swapped=swapped)
    assert [sign.place for sign in classes.map_differs(window)] == [made.place("h1:eth1")]


@SWAPPED
def test_packets_in_another_class_are_of_one_nic(swapped: bool) -> None:
    there = facts(
        {"h1:eth1": {"tx_packets": 500}, "leaf1:swp3/0": {"rx_packets": 500}},
        qos=configured("h1:eth1", dscp_to_priority=(0,) * 64), current=True,
    )  # fmt: skip
    made, window = merged(there, "h1", swapped=swapped)
    assert [sign.place for sign in classes.mapped_otherwise(window)] == [made.place("h1:eth1")]


@SWAPPED
def test_devices_of_one_host_are_counted_apart(swapped: bool) -> None:
    """The last device of a host does not stand for the others: either of the two may be the one that misses some."""
    there = facts({}, devices={"h1": {"out_of_seq_request": 9}, "h8": {"out_of_seq_request": 0}})
    made, window = merged(there, "h1", swapped=swapped)
    (sign,) = loss_symptoms.sent_again(window)
    assert [each.of for each in sign.evidence] == [made.place("h1:eth1")]


@SWAPPED
def test_an_mtu_is_of_one_nic(swapped: bool) -> None:
    pings = tuple(
        Ran(1.0, "h2", ("ping", "-M", "do", "-s", size, ADDRESSES["h1"]), code, "")
        for size, code in (("56", 0), ("8952", 1))
    )
    mtus = {"h1:eth1": 1500, "leaf1:swp3": 9000, "h2:eth1": 9000, "leaf1:swp4": 9000}
    made, window = merged(facts({}, mtus=mtus, ran=pings), "h1", swapped=swapped)
    assert made.place("h1:eth1") in probes.only_small_pings_pass(window)
    assert named_nics(probes.only_small_pings_pass(window), made.host) == {made.place("h1:eth1")}
    assert [sign.place for sign in host_symptoms.a_host_has_a_smaller_mtu(window)] == [
        made.place("h1:eth1--leaf1:swp3")
    ]


@pytest.mark.parametrize(("options", "nics"), [((), ["h1:eth1", "h1:eth2"]), (("-I", ADDRESSES["h5"]), ["h1:eth2"])])
def test_a_ping_that_is_not_answered_left_by_one_nic(options: tuple[str, ...], nics: list[str]) -> None:
    """Where neither the command nor a route says by which one, it may have been any."""
    ping = Ran(1.0, "h1", ("ping", *options, "-c", "1", ADDRESSES["h8"]), 1, "")
    window = Merged("h1", "h5").facts(facts({}, ran=(ping,)))
    assert [sign.place for sign in address_symptoms.a_ping_is_not_answered(window)] == nics


@SWAPPED
def test_a_table_of_gids_is_of_one_nic(swapped: bool) -> None:
    """What the other NIC's table has at that index says nothing."""
    made = Merged("h8", "h1") if swapped else Merged("h1", "h8")
    nic, other = made.place("h1:eth1"), made.place("h8:eth1")
    printed = "\n".join(
        (
            GIDS.format(f"incast.{nic.replace(':', '.')}", "0a00:0063"),
            GIDS.format(f"incast.{other.replace(':', '.')}", "0a00:0001"),
        )
    )
    there = facts(
        {}, ran=(Ran(1.0, made.host, ("grep",), 0, printed),),
        devices={"h5": {"sent_pkts": 16}, "h1": {"rcvd_pkts": 0}, "h8": {"rcvd_pkts": 0}},
    )  # fmt: skip
    window = replace(
        made.facts(there), addresses={nic: "10.0.0.1", other: "10.0.0.1"},
        transfers=tuple(StartedTransfer("h5:eth1", each, 1, 1) for each in (nic, other)),
    )  # fmt: skip
    assert [sign.place for sign in loss_symptoms.an_address_has_moved(window)] == [nic]


def test_a_recording_keeps_the_nics_of_a_host_apart(tmp_path: Path) -> None:
    """A pair of hosts is of their first NICs, as ``rdma bw`` chooses them."""
    nics = [f"{host}:{interface}" for host in ("h1", "h2") for interface in ("eth1", "eth2")]
    made = Made(tmp_path / "run", RAILS, hosts=nics)
    files.write_json(
        made.folder.state("before"), {"h1": {"routes": [_own("eth1", "10.0.0.1"), _own("eth2", "10.0.0.3")]}}
    )
    made.phase("observe")
    for pairs in (["h1:h2"], ["h1:eth2:h2:eth2"]):
        files.append_line(made.folder.notes, {"ns": made.ns, "kind": "note", "text": "traffic", "pairs": pairs})
    for number, nic in enumerate(nics, 1):
        made.devices[number - 1, RDMA.index("rcvd_pkts")] += number
        made.counters(nic)["priority"]["tx_bytes"][3] += 20_000
        made.counters(nic)["priority"]["tx_packets"][3] += 5
    for number, gone in enumerate((True, False), 1):
        made.event(
            made.ns - number, source="kernel", kind="route", node="h1", interface="", prefix="10.0.0.2/31",
            protocol="kernel", gone=not gone, interfaces=["eth2"],
        )  # fmt: skip
    made.phase("")
    recording = Recording.open(made.finished())
    found = collect(recording, recording.phase("observe"))
    assert {nic: counts["rcvd_pkts"] for nic, counts in found.devices.items()} == dict(
        zip(nics, (1, 2, 3, 4), strict=True)
    )
    assert found.addresses == {"h1:eth1": "10.0.0.1", "h1:eth2": "10.0.0.3"}
    assert list(found.readdressed) == ["h1:eth2"]
    assert [(each.src, each.dst) for each in found.transfers] == [("h1:eth1", "h2:eth1"), ("h1:eth2", "h2:eth2")]


def _own(interface: str, address: str) -> dict[str, str]:
    """The route of a NIC's own link, as ip(8) has it."""
    return {"dst": f"{address}/31", "dev": interface, "protocol": "kernel", "scope": "link", "prefsrc": address}
