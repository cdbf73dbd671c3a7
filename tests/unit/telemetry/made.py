"""Recordings that needed no kernel: the ports' maps are arrays of the test's own, samples are when it says.

RDMA devices are an array, too, with a row for each of ``hosts``, which are hosts with one NIC, or NICs (``h1:eth2``).
"""

from __future__ import annotations

import json
import socket
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.dataplane.numbering import number_ports
from lab.model import store
from lab.telemetry.record.finish import finish
from lab.telemetry.sample.port_source import PortSource, describe_events
from lab.telemetry.store import recording_folder as files
from lab.telemetry.store.rawlog import LogFrameKind, LogWriter
from lab.telemetry.store.recording_folder import Folder
from lab.telemetry.store.sample_layout import CounterColumn, CounterTable
from tests.unit.dataplane.made_maps import configured
from tests.unit.model.qos.fabrics import fabric

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.model.topology import Topology

START = 5_000_000_000
STEP = 50_000_000
RDMA = (
    "completer_retry_err",
    "out_of_seq_request",
    "rcvd_pkts",
    "rcvd_seq_err",
    "sent_pkts",
    "rcvd_bytes",
    "duplicate_request",
)


class Made:
    """A recording of a fabric whose ports count what the test writes into ``maps``; a sample each 50 ms."""

    def __init__(self, path: Path, topology: Topology, hz: float = 20.0, hosts: Sequence[str] = ()) -> None:
        self.folder = Folder(path)
        path.mkdir()
        self.maps = configured(topology)
        self.numbering = number_ports(topology)
        self._source = PortSource(self.maps, self.numbering, 0)
        self.hosts = list(hosts)
        self.devices = np.zeros((len(hosts), len(RDMA)), np.uint64)
        self.ns = START
        self.about: dict[str, Any] = {
            "format": files.FORMAT, "version": files.VERSION, "fabric": topology.name, "hz": hz, "complete": False,
            "start_ns": START, "realtime_offset_ns": 10**18,
        }  # fmt: skip
        files.write_json(self.folder.about, self.about)
        self.folder.topology.write_text(store.dump(topology))
        header = {
            "fabric": topology.name,
            "time": "virtual",
            "sections": [section.as_data() for section in (*self._source.sections, *self._rdma())],
            "port_events": describe_events(self.numbering),
            "nodes": [{"name": node.name, "interfaces": {}} for node in topology.nodes],
            "links": {str(end): True for link in topology.links for end in link.ends},
        }
        self._nodes = [node.name for node in topology.nodes]
        self.log = LogWriter(self.folder.log, header, START, self._source.width + self.devices.size)

    def _rdma(self) -> list[CounterTable]:
        columns = tuple(CounterColumn(name, number) for number, name in enumerate(RDMA))
        named = [(host, interface or "eth1") for host, _, interface in (each.partition(":") for each in self.hosts)]
        names = tuple((host, interface, f"made.{host}.{interface}") for host, interface in named)
        places = tuple(self._source.width + number * len(RDMA) for number in range(len(names)))
        return [CounterTable("rdma", ("node", "interface", "device"), names, places, columns)] if names else []

    def counters(self, end: str) -> Any:
        """The counters of a port, to be written."""
        node, _, interface = end.partition(":")
        return self.maps.counters[self.numbering.nodes[node].port(interface)]

    def sample(self, late: int = 0) -> int:
        """Take one, ``late`` ns after it was due, and say when."""
        words = np.zeros(self._source.width + self.devices.size, np.uint64)
        self._source.read(words[: self._source.width])
        words[self._source.width :] = self.devices.ravel()
        taken = self.ns + late
        self.log.sample(taken, self.ns, 1000, words)
        self.ns += STEP
        return taken

    def phase(self, name: str) -> None:
        """A phase begins with a sample."""
        files.append_line(self.folder.notes, {"ns": self.sample(), "kind": "phase", "name": name})

    def event(self, ns: int, **told: Any) -> None:
        """Something that a router told."""
        self.log.frame(LogFrameKind.EVENT, ns, json.dumps(told).encode())

    def link(self, port: str, *, up: bool) -> None:
        """A message of the kernel, when the link of a port goes up or down."""
        node, _, interface = port.partition(":")
        number = self._nodes.index(node).to_bytes(2, "little")
        self.log.frame(LogFrameKind.KERNEL_NEWS, self.ns, number + newlink(interface, up=up))

    def killed(self) -> Path:
        """What is left when its recorder is killed now."""
        self.log.flush()
        self.log.close()
        return self.folder.path

    def finished(self) -> Path:
        """What is left when it ends well."""
        path = self.killed()
        finish(self.folder, {**self.about, "skipped": 0, "why": ""})
        return path


def newlink(
    name: str, mac: str = "02:00:00:00:00:01", *, up: bool = True, master: int = 0, member_of: str = ""
) -> bytes:
    """An interface as the kernel reports it (RTM_NEWLINK, <linux/rtnetlink.h>), which can be in a ``bridge``."""
    content = struct.pack("=BxHiII", socket.AF_UNSPEC, 1, 2, 1, 0)
    state = bytes([6 if up else 2, 0, 0, 0])
    for number, value in ((1, bytes.fromhex(mac.replace(":", ""))), (3, f"{name}\0".encode()),
                          (4, struct.pack("=I", 9000)), (16, state), *_membership(master, member_of)):  # fmt: skip
        content += struct.pack("=HH", 4 + len(value), number) + value.ljust(-(-len(value) // 4) * 4, b"\0")
    return struct.pack("=IHHII", 16 + len(content), 16, 0, 0, 0) + content


def _membership(master: int, kind: str) -> list[tuple[int, bytes]]:
    """IFLA_MASTER, and IFLA_INFO_SLAVE_KIND in IFLA_LINKINFO."""
    if not master:
        return []
    named = f"{kind}\0".encode()
    return [(10, struct.pack("=I", master)), (18, struct.pack("=HH", 4 + len(named), 4) + named)]


def plain_run(path: Path, sent: int, dropped: int = 0) -> Path:
    """A recording of plain links that was killed. leaf1:swp3 sends ``sent`` bytes before each of its 21 samples.

    It drops ``dropped`` packets in each direction before each sample.
    """
    folder, topology = Folder(path), fabric("pfc-ecn")
    path.mkdir()
    files.write_json(folder.about, {
        "format": files.FORMAT, "version": files.VERSION, "fabric": "t", "hz": 20.0, "complete": False,
        "start_ns": START, "realtime_offset_ns": 0,
    })  # fmt: skip
    folder.topology.write_text(store.dump(topology))
    names = ("tx_bytes", "rx_bytes", "rx_dropped", "tx_dropped")
    columns = tuple(CounterColumn(name, place) for place, name in enumerate(names))
    table = CounterTable("interfaces", ("node", "interface"), (("leaf1", "swp3"),), (0,), columns)
    header = {"fabric": "t", "sections": [table.as_data()], "port_events": None, "nodes": []}
    log = LogWriter(folder.log, header, START, len(names))
    for number in range(1_000_000_000 // STEP + 1):
        words = np.array((number * sent, 0, number * dropped, number * dropped), np.uint64)
        log.sample(START + number * STEP, START + number * STEP, 1000, words)
    log.flush()
    log.close()
    return path
