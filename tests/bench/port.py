"""The cost of the emulated port: packets that a switch forwards, next to bare interfaces. In the VM, as root.

    ./scripts/bench port [--json] [--rounds N] [--seconds N]

One switch forwards small packets of a lossless class between two hosts: with nothing on its interfaces, with emulated
ports that do not shape, and with ports that do nothing (nothing.bpf.c), which is what the kernel takes for running
programs and a qdisc in eBPF at all. They take turns, and the medians are compared. To reach: 75% of bare. Ports with
the congestion control of a NIC, and no QP that is limited, cost at most 5% more.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.cli.kit.output import stderr, stdout, table
from lab.dataplane import configure, port_maps
from lab.dataplane.numbering import Numbering
from lab.dataplane.port_maps import Programs
from lab.kernel.bpf import bpf_object, clang, pins
from lab.kernel.process import process
from lab.model.load import load_topology
from lab.model.qos.resolve import resolve
from tests.bench import forwarding
from tests.bench.bench_command import run_bench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.qos.port import NodeQos

NAME: Final = "bench-port"
TARGET: Final = 0.75
IDLE_TARGET: Final = 0.95
LINES: Final = {
    "bare_pps": "bare veth",
    "nothing_pps": "a port that does nothing",
    "port_pps": "emulated port, rate 0",
    "idle_pps": "the same, congestion control on",
}
_NOTHING: Final = Path(__file__).with_name("nothing.bpf.c")
_HEADERS: Final = Path(port_maps.__file__).with_name("bpf")
_LOSSLESS_TOS: Final = 26 << 2 | 2
_SLOTS: Final = 16384
_TOPOLOGY: Final = """
name: bench-port
qos: pfc-ecn
nodes: {s1: {role: leaf}, h1: {role: host, rdma: false}, h2: {role: host, rdma: false}}
links: [{ends: [h1, s1]}, {ends: [h2, s1]}]
"""


def unshaped() -> NodeQos:
    """A switch of the laboratory's profile whose links have no rate."""
    qos = resolve(load_topology(_TOPOLOGY))[forwarding.PORTS.node]
    return replace(qos, ports={name: replace(port, rate=0) for name, port in qos.ports.items()})


@contextmanager
def nothing() -> Iterator[Programs]:
    """Programs and a qdisc that do nothing, in the kernel."""
    with bpf_object.Object.open(clang.compile_bpf(_NOTHING, _HEADERS)) as loaded:
        loaded.load()
        loaded.attach_struct_ops("port")
        rx, tx = loaded.program("port_rx"), loaded.program("port_tx")
        yield Programs("rl_nothing", rx, tx, tick=rx)


def forward(rounds: int, seconds: float) -> dict[str, list[float]]:
    """Packets per second of each of ``LINES``, in turns."""
    qos = unshaped()
    figures: dict[str, list[float]] = {key: [] for key in LINES}
    process.run(["modprobe", "pktgen"])
    with ExitStack() as stack:
        stack.callback(pins.unpin, pins.folder_of(NAME))
        port_maps.load(NAME, Numbering({forwarding.PORTS.node: forwarding.PORTS}), "bench", _SLOTS)
        configure_switch(qos)
        programs = stack.enter_context(port_maps.programs(NAME))
        lines = {
            "bare_pps": stack.enter_context(forwarding.line("bare", None, None)),
            "nothing_pps": stack.enter_context(forwarding.line("nothing", qos, stack.enter_context(nothing()))),
            "port_pps": stack.enter_context(forwarding.line("port", qos, programs)),
        }
        lines["idle_pps"] = lines["port_pps"]
        for number in range(rounds):
            stderr.print(f"round {number + 1} of {rounds}", highlight=False)
            for key, line in lines.items():
                control_congestion(on=key == "idle_pps")
                figures[key].append(line.packets_per_second(seconds, _LOSSLESS_TOS))
    return figures


def configure_switch(qos: NodeQos) -> None:
    """Write the switch's records."""
    maps = port_maps.open_maps(NAME, writable=True)
    maps.nodes[0] = configure.node_record(qos, forwarding.PORTS)
    maps.config[forwarding.PORTS.clock] = configure.clock_record(forwarding.PORTS)
    for interface, port in qos.ports.items():
        record = configure.port_record(port, forwarding.PORTS, interface, forwarding.MAC)
        maps.config[forwarding.PORTS.port(interface)] = record


def control_congestion(*, on: bool) -> None:
    """Turn both roles of a NIC on or off at all ports."""
    maps = port_maps.open_maps(NAME, writable=True)
    for role in ("notify", "react"):
        maps.config["cc"][role] = on


def measure(rounds: int, seconds: float) -> dict[str, object]:
    """All figures, the ratio that has a target, and how much of what eBPF leaves the port takes."""
    figures = forward(rounds, seconds)
    bare, least, port, idle = (statistics.median(figures[key]) for key in LINES)
    ratios = {"ratio": port / bare, "target": TARGET, "ratio_to_nothing": port / least}
    return {**figures, **ratios, "ratio_idle": idle / port, "target_idle": IDLE_TARGET}


def show(measured: dict[str, object]) -> None:
    """A row per line with all rounds, and the ratios of the medians."""
    rows = []
    for key, title in LINES.items():
        values = measured[key]
        assert isinstance(values, list)
        rows.append((title, f"{statistics.median(values):,.0f}", ", ".join(f"{value:,.0f}" for value in values)))
    stdout.print(table("Packets per second through one switch", ("", "median", "rounds"), rows))
    said = f"the port reaches {measured['ratio']:.0%} of bare (to reach: {TARGET:.0%})"
    stdout.print(f"{said}, and {measured['ratio_to_nothing']:.0%} of a port that does nothing", highlight=False)
    idle = f"{measured['ratio_idle']:.0%} of that (to reach: {IDLE_TARGET:.0%})"
    stdout.print(f"congestion control that limits no QP leaves {idle}", highlight=False)


if __name__ == "__main__":
    run_bench("port", __doc__, {"rounds": (int, 15), "seconds": (float, 1.0)}, measure, show)
