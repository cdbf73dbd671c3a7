"""The fix that ``diagnose`` prints, typed in as it is: the next diagnosis finds nothing, for each kind of setting.

On plain links, which need no RDMA, and with the probes' packets alone.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.fabric.command import TOPOLOGIES, argv, rocelab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.long, pytest.mark.timeout(600)]
NAME: Final = "fixes"
AGAIN: Final = 3
"""Diagnoses until the fabric is as it was: sessions come back after their timers."""


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file: Path = tmp_path_factory.mktemp("topology") / "fixes.yaml"
    text = (TOPOLOGIES / "clos-2x4.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("name: clos-2x4", f"name: {NAME}"), encoding="utf-8")
    rocelab("up", file, "--no-rdma")
    yield
    rocelab("down", "--fabric", NAME)


def diagnosed() -> dict[str, Any]:
    words = argv("diagnose", "--probe", "--seconds", "1", "--json", "--fabric", NAME)
    found: dict[str, Any] = json.loads(subprocess.run(words, capture_output=True, check=False, text=True).stdout)
    return found


@pytest.mark.parametrize(
    ("node", "command", "cause", "place"),
    [
        ("leaf1", "ip route add blackhole 10.0.0.9/32", "static-route", "leaf1"),
        ("h1", "ip route add unreachable default metric 1", "static-route", "h1"),
        ("leaf4", "ip rule del pref 32766", "route-differs", "leaf4"),
        ("h7", "ip rule add pref 575 to 10.0.0.9 prohibit", "route-differs", "h7"),
        ("h6", "ip route add 10.0.0.3/32 via 10.99.0.9 dev eth1 onlink", "route-differs", "h6"),
        ("h5", "ip route replace default via 10.0.0.77 dev eth1 onlink metric 100", "wrong-gateway", "h5:eth1"),
        ("h3", "ip neigh replace 10.0.0.4 lladdr 02:de:ad:57:00:01 dev eth1 nud permanent", "stale-neighbour",
         "h3:eth1"),
        ("h4", "ip link set dev eth1 arp off", "neighbour-differs", "h4:eth1"),
        ("h6", "ip address add 10.0.0.1/32 dev eth1", "address-differs", "h6:eth1"),
        ("leaf2", "ip address del 10.0.0.4/31 dev swp3", "wrong-address", "leaf2:swp3"),
        ("leaf1", "sysctl -qw net.ipv4.ip_forward=0", "forwarding-differs", "leaf1"),
        ("leaf2", "sysctl -qw net.ipv4.conf.swp3.forwarding=0", "forwarding-differs", "leaf2:swp3"),
        ("h2", "sysctl -qw net.ipv4.ip_default_ttl=1", "forwarding-differs", "h2"),
        ("h8", "sysctl -qw net.ipv4.icmp_echo_ignore_all=1", "echo-differs", "h8"),
        ("h5", "ip xfrm policy add dst 10.0.0.1/32 dir out action block", "filter-differs", "h5"),
        ("h2", "ip route del default", "default-route-lost", "h2:eth1"),
        ("h5", "ip link set dev eth1 mtu 1500", "mtu-black-hole", "h5:eth1"),
        ("leaf1", "ip link set dev swp2 down", "link-flap", "leaf1:swp2"),
    ],
)  # fmt: skip
def test_the_printed_fix_mends_the_running_fabric(node: str, command: str, cause: str, place: str) -> None:
    rocelab("exec", node, "--fabric", NAME, "--", *command.split())
    mended(cause, place)


@pytest.mark.parametrize(
    ("node", "lines", "cause", "place"),
    [
        ("leaf3", ("router bgp", "neighbor swp1 shutdown"), "session-shutdown", "leaf3:swp1"),
        ("leaf3", ("router bgp", "neighbor FABRIC shutdown"), "session-shutdown", "leaf3"),
        ("leaf4", ("bfd", "profile fabric", "shutdown"), "session-shutdown", "leaf4"),
        ("leaf3", ("interface swp2", "shutdown"), "link-flap", "leaf3:swp2"),
        ("leaf4", ("router bgp", "address-family ipv4 unicast", "maximum-paths 1"), "one-path-only", "leaf4"),
        ("leaf2", ("route-map NOPE deny 10", "exit", "ip protocol bgp route-map NOPE"), "session-differs", "leaf2"),
    ],
)
def test_the_printed_fix_mends_the_configuration_of_frr(
    node: str, lines: tuple[str, ...], cause: str, place: str
) -> None:
    """A line that the plan lacks is removed, and one with another value is given that of the plan."""
    typed = [word for line in ("configure terminal", *lines) for word in ("-c", line)]
    rocelab("vtysh", node, "--fabric", NAME, *typed)
    mended(cause, place)


def mended(cause: str, place: str) -> None:
    """Diagnose a fault, type the fix, and diagnose again: nothing differs."""
    first = diagnosed()["causes"][0]
    assert first["cause"] == cause, first
    assert any(place in each for each in first["places"])
    for fix in first["fix"].split("; "):
        words = shlex.split(fix)
        assert words[:2] in (["rocelab", "exec"], ["rocelab", "vtysh"]), fix
        rocelab(words[1], "--fabric", NAME, *words[2:])
    for _ in range(AGAIN):
        after = diagnosed()
        if not after["causes"] and not after["differing"]:
            break
    assert (after["outcome"], after["causes"], after["differing"]) == ("unchecked", [], [])
