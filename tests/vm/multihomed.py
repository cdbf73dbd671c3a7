"""The hosts and leaves of topologies/multihomed.yaml: who forwards, which ways there are, what comes how often."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from .on_the_wire import captured, fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ADDRESS: Final = {"h1": "10.1.10.1", "h2": "10.1.10.2", "h3": "10.1.10.3"}
MAC: Final = {"h1": "02:1a:00:05:00:01", "h2": "02:1a:00:06:00:01", "h3": "02:1a:00:07:00:01"}
VTEP: Final = {f"leaf{number}": f"10.252.0.{number}" for number in (1, 2, 3)}
ESI: Final = "03:02:1a:00:00:00:02:00:00:01"
ALL: Final = "10.1.10.255"
SENT: Final = 5


def said(node: str, *argv: str, check: bool = True) -> str:
    words = ["ip", "netns", "exec", f"rl-multihomed.{node}", *argv]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout


def frr(leaf: str, command: str) -> Any:
    sockets = f"/run/rocelab/fabrics/multihomed/nodes/{leaf}"
    return json.loads(said(leaf, "vtysh", "--vty_socket", sockets, "-c", command))


def until(true: Callable[[], bool], what: str, patience: float = 60) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, what


def forwarders() -> dict[str, bool]:
    """Whether each leaf of the segment says that it forwards what is flooded."""
    found = {}
    for leaf in ("leaf1", "leaf2"):
        (segment,) = frr(leaf, "show evpn es json")
        assert segment["esi"] == ESI
        found[leaf] = "nonDF" not in segment["flags"]
    return found


def is_used(leaf: str, leg: str) -> bool:
    """Whether LACP has agreed with a partner, and not come back to its defaults, to send by a leg."""
    (port,) = json.loads(said(leaf, "ip", "-json", "-details", "link", "show", leg))
    state = port["linkinfo"]["info_slave_data"]["ad_actor_oper_port_state_str"]
    return "distributing" in state and "defaulted" not in state


def ways_to_h1() -> set[str]:
    """The VTEPs by which leaf3's kernel sends to h1: those of the group that h1's MAC has, or none."""
    database = json.loads(said("leaf3", "bridge", "-json", "fdb", "show", "dev", "vni10010"))
    groups = {entry["nhid"] for entry in database if entry["mac"] == MAC["h1"] and "nhid" in entry}
    hops = {hop["id"]: hop for hop in json.loads(said("leaf3", "ip", "-json", "nexthop", "show"))}
    return {hops[member["id"]]["gateway"] for group in groups for member in hops[group].get("group", ())}


def flooded(tmp_path: Path, source: str) -> dict[str, int]:
    """How many of ``SENT`` broadcasts from ``source`` come to each leg of h1; what h1 sends itself is left out."""
    with ExitStack() as stack:
        for leg in ("eth1", "eth2"):
            stack.enter_context(captured("rl-multihomed.h1", leg, tmp_path / f"{leg}.pcap", "-Q", "in"))
        said(source, "ping", "-bnqc", str(SENT), "-i.2", "-W1", ALL, check=False)
    shown = f"icmp.type == 8 && ip.dst == {ALL} && ip.src == {ADDRESS[source]}"
    return {leg: len(fields(tmp_path / f"{leg}.pcap", shown, "ip.src")) for leg in ("eth1", "eth2")}


def silence(tmp_path: Path, begin: Callable[[], object]) -> float:
    """The longest time, in seconds, without an answer of h1 to h3, while something begins."""
    file = tmp_path / "answers.pcap"
    with captured("rl-multihomed.h3", "eth1", file, "icmp"):
        argv = ["ip", "netns", "exec", "rl-multihomed.h3", "ping", "-nqi.01", "-W1", ADDRESS["h1"]]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as ping:
            time.sleep(1)  # of answers before
            begin()
            time.sleep(8)  # and after: more than BFD takes
            ping.terminate()
    times = [float(at) for (at,) in fields(file, "icmp.type == 0", "frame.time_epoch")]
    assert len(times) > SENT
    return max(later - earlier for earlier, later in itertools.pairwise(times))
