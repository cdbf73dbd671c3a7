"""The two tenants of topologies/tenant.yaml: how they come up, their addresses, and what leaves tell of them."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

from lab.audit.reader import audit
from lab.audit.without_plan import differences_without_plan
from lab.backends.lifecycle import reading
from lab.errors import ExitCode
from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, rocelab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TENANTS: Final = TOPOLOGIES / "tenant.yaml"
WITHOUT_H6: Final = ("      tagged: [h6]\n", "")
"""The change by which h6 is in no network."""
RED_APART: Final = (
    "[10.1.10.0/24]\n      gateways: [10.1.10.1]\n      untagged: [h2, h4]",
    "[10.3.30.0/24]\n      gateways: [10.3.30.1]\n      untagged: [h2, h4]",
)
"""The change by which red has addresses that blue has not, 10.3.30.2 and so on."""
BORDER: Final = """
    wan:
      vlan: 40
      l2vni: 10040
      tenant: blue
      subnets: [10.9.0.0/29, "fd00:9::/64"]
      gateways: [10.9.0.1, "fd00:9::1"]
      untagged: [h6]
  border:
    - {router: h6, asn: 65010, prefixes: [0.0.0.0/0, 203.0.113.0/24, "2001:db8:9::/48"]}
"""
"""At the end of the file: h6, which is in no network, is a router outside of blue."""
LEAVES: Final = ("leaf1", "leaf2", "leaf3")
BLUE: Final = {"h1": "10.1.10.2", "h3": "10.1.10.3", "h5": "10.1.20.2"}
BLUE6: Final = {"h1": "fd00:1:10::2", "h3": "fd00:1:10::3", "h5": "fd00:1:20::2"}
RED: Final = {"h2": "10.1.10.2", "h4": "10.1.10.3", "h6": "10.1.10.4"}
MTU: Final = 4300
GATEWAY_MAC: Final = "02:1a:00:00:00:01"
MAC: Final = {f"h{number}": f"02:1a:00:{5 + number:02x}:00:01" for number in range(1, 7)}


def changed(folder: Path, *changes: tuple[str, str], more: str = "") -> Path:
    """The topology's file in ``folder``, with other words for some that it has once, and with more at its end."""
    text = TENANTS.read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = folder / TENANTS.name
    file.write_text(text + more)
    return file


@contextlib.contextmanager
def fabric_of(file: Path, *options: str) -> Iterator[None]:
    """It is up meanwhile; afterwards the machine is as it was."""
    before = snapshot.take()
    rocelab("up", file, *options)
    yield
    rocelab("down", "--fabric", "tenant")
    assert before.differences(snapshot.take()) == []


def assert_healthy(name: str) -> None:
    """No setting of a running fabric differs, with or without the plan, and ``diagnose`` names no cause."""
    rocelab("drift", "--fabric", name)
    with reading(name) as fabric:
        assert differences_without_plan(audit(fabric), fabric.topology) == []
    for plan in ("--plan", "--no-plan"):
        words = ("diagnose", "--seconds", "1", "--settings", plan, "--json", "--fabric", name)
        answer = json.loads(rocelab(*words, expect=ExitCode.UNKNOWN).stdout)
        assert answer["differing"] == answer["causes"] == []


def said(node: str, *argv: str) -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", f"rl-tenant.{node}", *argv], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def frr(leaf: str, command: str) -> Any:
    sockets = f"/run/rocelab/fabrics/tenant/nodes/{leaf}"
    return json.loads(said(leaf, "vtysh", "--vty_socket", sockets, "-c", command))


def pings(tenant: dict[str, str], size: int) -> Iterator[tuple[str, str, str]]:
    """From each host to each other, all at once, of exactly ``size`` bytes each, never in fragments."""
    begun = []
    for source, target in itertools.permutations(tenant, 2):
        address = tenant[target]
        payload = size - 8 - (40 if ":" in address else 20)
        argv = ["ping", "-nqc2", "-i.3", "-W5", "-Mdo", f"-s{payload}", address]
        command = ["ip", "netns", "exec", f"rl-tenant.{source}", *argv]
        begun.append((source, target, subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
    for source, target, ping in begun:
        yield source, target, ping.communicate(timeout=120)[0]


def routes_of(leaf: str) -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str]]]:
    """A leaf's routes as type, teller and what they are of; and those of hosts' addresses but link-local ones."""
    found: set[tuple[str, str, str]] = set()
    hosts: set[tuple[str, str, str]] = set()
    for routes in frr(leaf, "show bgp l2vpn evpn route json").values():
        for prefix in routes if isinstance(routes, dict) else ():
            if prefix.startswith("["):
                teller = f"leaf{routes['rd'].split(':')[0].rsplit('.', 1)[-1]}"
                kind, _, _, of, *address = prefix.strip("[]").split("]:[")
                found.add((kind, teller, of))
                if kind == "2" and address and not address[1].startswith("fe80:"):
                    hosts.add((teller, of, address[1]))
    return found, hosts


def ways(leaf: str, vrf: str, prefix: str) -> list[str]:
    """Where a leaf's kernel sends what is for a prefix, as its BGP has it: all next hops, in order."""
    family = "-6" if ":" in prefix else "-4"
    words = ("ip", "-json", family, "route", "show", "vrf", vrf, "proto", "bgp", "exact", prefix)
    found = json.loads(said(leaf, *words))
    hops = [hop for route in found for hop in route.get("nexthops", [route])]
    return sorted(hop["gateway"].removeprefix("::ffff:") for hop in hops)


def greet_gateways() -> Iterator[tuple[str, str]]:
    """Each host with its gateway, which has heard it: its leaf knows its address from then on."""
    for host in (*BLUE, *RED):
        gateway = "10.1.20.1" if host == "h5" else "10.1.10.1"
        said(host, "ping", "-qc1", "-W5", gateway)
        yield host, gateway


def await_routes() -> None:
    """Until each leaf tells of what it has and nothing else: RFC 7432 types 2 and 3, RFC 9136 type 5, one by one."""
    leaf_of = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf2", "h4": "leaf2", "h5": "leaf3", "h6": "leaf3"}
    wanted = {("5", leaf, prefix) for leaf in ("leaf1", "leaf2") for prefix in ("10.1.10.0", "fd00:1:10::")}
    wanted |= {("5", "leaf3", "10.1.20.0"), ("5", "leaf3", "fd00:1:20::"), ("5", "leaf3", "10.1.10.0")}
    wanted |= {("3", leaf, f"10.252.0.{leaf[-1]}") for leaf in LEAVES}
    wanted |= {("2", leaf, MAC[host]) for host, leaf in leaf_of.items()}
    addresses = {**BLUE, **RED}
    hosts = {(leaf_of[host], MAC[host], addresses[host]) for host in leaf_of}
    hosts |= {(leaf_of[host], MAC[host], address) for host, address in BLUE6.items()}
    deadline = time.monotonic() + 60  # a host's route is told to others when its leaf has heard it
    for leaf in LEAVES:
        while (table := routes_of(leaf)) != (wanted, hosts):
            assert time.monotonic() < deadline, (leaf, table[0] ^ wanted, table[1] ^ hosts)
