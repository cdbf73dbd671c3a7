"""BGP and BFD from what FRR's daemons answer, also from those that are silent, hang up or come back."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lab.telemetry.metrics.routing_metrics import (
    RoutingMetrics,
    bfd_samples,
    bgp_samples,
    duplicate_samples,
    segment_samples,
    vni_samples,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PEER = {"remoteAs": 65002, "state": "Established", "peerUptimeMsec": 1500, "msgRcvd": 7, "msgSent": 9}
SUMMARY = {
    "ipv4Unicast": {"as": 65001, "vrfName": "default", "peers": {"swp1": {**PEER, "desc": "leaf1:swp1"}}},
    "l2VpnEvpn": {
        "as": 65001, "peers": {"swp1": {**PEER, "state": "Idle (Admin)"}, "swp2": {**PEER, "state": "Active"}},
    },
}  # fmt: skip


def test_peers_of_bgp_by_address_family() -> None:
    found = {(family.name, labels): value for family, labels, value in bgp_samples("spine1", SUMMARY)}
    unicast = ("spine1", "default", "ipv4", "unicast", "65001", "swp1", "65002", "leaf1:swp1")
    assert {name: value for (name, labels), value in found.items() if labels == unicast} == {
        "frr_bgp_peer_state": 1, "frr_bgp_peer_uptime_seconds": 1.5,
        "frr_bgp_peer_message_received_total": 7, "frr_bgp_peer_message_sent_total": 9,
    }  # fmt: skip
    states = {labels[2:6:3]: value for (name, labels), value in found.items() if name == "frr_bgp_peer_state"}
    assert states == {("ipv4", "swp1"): 1, ("l2vpn", "swp1"): 2, ("l2vpn", "swp2"): 0}


def test_peers_of_bfd() -> None:
    peers = [
        {"peer": "fe80::1", "local": "fe80::2", "interface": "swp1", "status": "up", "uptime": 12},
        {"peer": "10.0.0.1", "status": "down", "downtime": 3},
    ]
    found = [(family.name, labels, value) for family, labels, value in bfd_samples("leaf1", peers)]
    assert found == [
        ("frr_bfd_peer_state", ("leaf1", "fe80::2", "fe80::1", "swp1"), 1),
        ("frr_bfd_peer_uptime", ("leaf1", "fe80::2", "fe80::1", "swp1"), 12),
        ("frr_bfd_peer_state", ("leaf1", "", "10.0.0.1", ""), 0),
        ("frr_bfd_peer_uptime", ("leaf1", "", "10.0.0.1", ""), 0),
    ]


def test_vnis_that_flood() -> None:
    """FRR has no number of VTEPs for an L3VNI, which floods to nobody."""
    l2 = {"vni": 10010, "type": "L2", "vxlanIf": "vni10010", "numMacs": 4, "numRemoteVteps": 2, "tenantVrf": "red"}
    l3 = {
        "vni": 50010,
        "type": "L3",
        "vxlanIf": "vni50010",
        "numMacs": 1,
        "numRemoteVteps": "n/a",
        "tenantVrf": "red",
    }
    found = [
        (family.name, labels, value) for family, labels, value in vni_samples("leaf1", {"10010": l2, "50010": l3})
    ]
    assert found == [("frr_bgp_l2vpn_evpn_remote_vteps", ("leaf1", "10010", "L2", "vni10010", "red"), 2)]


def test_duplicate_addresses_and_segments_of_bonds() -> None:
    """zebra also has the segments of other leaves, which have no port here."""
    duplicates = {"10010": {"numMacs": 2, "macs": {}}}
    found = [(family.name, labels, value) for family, labels, value in duplicate_samples("leaf1", duplicates)]
    assert found == [("rocelab_evpn_duplicate_macs", ("leaf1", "10010"), 2)]
    segments = [
        {"esi": "1", "accessPort": "bond1", "vteps": [{"vtep": "10.252.0.2"}, {"vtep": "10.252.0.3"}]},
        {"esi": "2", "accessPort": "bond2"}, {"esi": "3", "vteps": [{"vtep": "10.252.0.2"}]},
    ]  # fmt: skip
    found = [(family.name, labels, value) for family, labels, value in segment_samples("leaf1", segments)]
    assert found == [
        ("rocelab_evpn_segment_vteps", ("leaf1", "bond1"), 2), ("rocelab_evpn_segment_vteps", ("leaf1", "bond2"), 0),
    ]  # fmt: skip


@contextmanager
def daemon(path: Path, *answers: str | None, by_command: dict[str, str] | None = None) -> Iterator[None]:
    """A daemon that gives one answer to each command; None hangs up, and after the last one it is silent.

    With ``by_command`` it has an answer for each command, on any number of connections.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        serving = threading.Thread(target=_serve, args=(listener, list(answers), by_command), daemon=True)
        serving.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            serving.join()
    path.unlink()


def _serve(listener: socket.socket, answers: list[str | None], by_command: dict[str, str] | None) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        if by_command is not None:
            threading.Thread(target=_converse, args=(connection, answers, by_command), daemon=True).start()
        else:
            _converse(connection, answers, {})


def _converse(connection: socket.socket, answers: list[str | None], by_command: dict[str, str]) -> None:
    with connection:
        while data := connection.recv(1 << 16):
            for command in data.rstrip(b"\0").split(b"\0"):
                if command == b"enable":
                    connection.sendall(b"\0\0\0\0")
                elif command.decode() in by_command:
                    connection.sendall(by_command[command.decode()].encode() + b"\0\0\0\0")
                elif answers:
                    if (said := answers.pop(0)) is None:
                        return
                    connection.sendall(said.encode() + b"\0\0\0\0")


def test_zebra_without_evpn_answers_nothing_and_is_up(tmp_path: Path) -> None:
    router: Any = SimpleNamespace(directory=tmp_path)
    with daemon(tmp_path / "zebra.vty", "", None):
        metrics = RoutingMetrics({"leaf1": router})
        for up in (1, 0):
            (samples,) = metrics.look(30)
            assert (samples.family.name, samples.labels) == ("frr_collector_up", [("leaf1", "zebra")])
            assert list(samples.values) == [up]
        metrics.close()


def test_an_overlay_has_more_queries_and_each_daemon_is_up_once(tmp_path: Path) -> None:
    """Each query has its own connection; a wrong answer to another than the first does not make zebra down."""
    router: Any = SimpleNamespace(directory=tmp_path)
    vnis = {"10010": {"vni": 10010, "type": "L2", "numRemoteVteps": 2}}
    answers = {
        "show evpn vni json": json.dumps(vnis), "show evpn mac vni all duplicate json": '{"10010": {"numMacs": 1}}',
        "show evpn es json": "no JSON",
    }  # fmt: skip
    with daemon(tmp_path / "zebra.vty", by_command=answers):
        metrics = RoutingMetrics({"leaf1": router}, evpn=True)
        found = {samples.family.name: list(samples.values) for samples in metrics.look(30)}
        metrics.close()
    assert found == {
        "frr_bgp_l2vpn_evpn_remote_vteps": [2], "rocelab_evpn_duplicate_macs": [1], "frr_collector_up": [1],
    }  # fmt: skip


def looks(metrics: RoutingMetrics, timeout: float) -> dict[str, int]:
    """How many samples of each family a scrape has, and whether bgpd answered."""
    found = {samples.family.name: samples for samples in metrics.look(timeout)}
    up = found.pop("frr_collector_up")
    assert up.labels == [("leaf1", "bgp")]
    return {**{name: len(samples.values) for name, samples in found.items()}, "up": int(up.values[0])}


def test_daemons_that_are_silent_or_restarted(tmp_path: Path) -> None:
    router: Any = SimpleNamespace(directory=tmp_path)
    whole = {
        "frr_bgp_peer_state": 3, "frr_bgp_peer_uptime_seconds": 3, "frr_bgp_peer_message_received_total": 3,
        "frr_bgp_peer_message_sent_total": 3, "up": 1,
    }  # fmt: skip
    with daemon(tmp_path / "bgpd.vty", json.dumps(SUMMARY), "no JSON", json.dumps(SUMMARY), None):
        metrics = RoutingMetrics({"leaf1": router})
        assert looks(metrics, 30) == whole
        assert looks(metrics, 30) == {"up": 0}
        assert looks(metrics, 30) == whole
        assert looks(metrics, 30) == {"up": 0}  # it hung up
        assert looks(metrics, 0.1) == {"up": 0}  # it is silent
    assert looks(metrics, 30) == {"up": 0}
    with daemon(tmp_path / "bgpd.vty", json.dumps(SUMMARY)):
        assert looks(metrics, 30) == whole
        metrics.close()
