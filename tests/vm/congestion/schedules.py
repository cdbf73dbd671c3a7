"""Random schedules of all that befalls a NIC with limited QPs, by the port's programs alone.

Packets come, CNPs change rates, QPs end, pauses and storms hold queues, the link goes down, and cables are long or
have no rate. Whatever happens, a packet leaves the heap of its NIC when it is due, or ``SLACK`` later at most.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.dataplane.port_layout import LIMITERS
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.model.qos.port import StormAction, WatchdogQos
from lab.wire.craft import build
from tests.inside import entered
from tests.vm.limited_qp import BACK, LOSSLESS, OURS, PATH, THEIRS, write
from tests.vm.one_switch import pfc, waited
from tests.vm.port_programs import PORT, RATE, SWP1, Switch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

QPS: Final = 12
SLACK: Final = 50e-6
"""Seconds that a packet may leave late: RL_PACE_SLACK of pace.h."""
_MOST_BURST: Final = 6
_MOST_WAITING: Final = 12
"""Packets of a QP: at the lowest rate it takes them a second to leave."""
_QUANTA: Final = (0, 50, 500, 5000)
"""Pauses of 0 to 26 ms."""
_WATCHDOG: Final = WatchdogQos(enabled=True, detection=0.004, restoration=0.004, action=StormAction.DROP)
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_IFREQ: Final = struct.Struct("16sH22x")
_NOT_DUE: Final = np.uint64(2**64 - 1)


@dataclass
class Schedule:
    """A NIC, and a generator that decides what befalls it."""

    nic: Switch
    choice: Random
    out: socket.socket = field(init=False)
    frames: list[bytes] = field(init=False)
    lateness: float = field(default=0.0, init=False)
    """The longest time in seconds that ``look`` has seen a packet wait beyond its due time."""

    def __post_init__(self) -> None:
        with entered(self.nic.inside):
            self.out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            self.out.bind(("swp1", 0))
        path = replace(BACK, dscp=LOSSLESS)
        self.frames = [write(THEIRS + number, self.choice.randint(100, 600), path) for number in range(QPS)]

    def begin(self) -> None:
        """Connect the QPs, with rates at which some packets of each wait, by a choice of registers."""
        rate = self.choice.choice((200_000, 2_000_000, 20_000_000))
        published = replace(
            CC_PRESETS["connectx"].registers,
            rpg_time_reset=self.choice.choice((0.002, 0.05, 10.0)),
            rate_to_set_on_first_cnp=rate,
            rpg_min_rate=rate // 4,
        )
        cc = replace(CC_PRESETS["connectx"], real_rate=RATE, registers=published).qos(RATE, 1146)
        enabled = self.choice.random() < 0.7
        watched = replace(PORT.pfc, watchdog=replace(_WATCHDOG, enabled=enabled))
        delay = self.choice.choice((0, 0, 0.003))
        port = replace(PORT, rate=self.choice.choice((0, RATE // 10, RATE)), delay=delay, cc=cc, pfc=watched)
        self.nic.reset(port)
        for number in range(QPS):
            self.nic.connect(PATH.dst, OURS + number, PATH.src, THEIRS + number, fresh=False)
            self.notify(number)

    def notify(self, number: int) -> None:
        """A CNP for a QP."""
        self.nic.rx(build.cnp(PATH, OURS + number))

    def send(self) -> None:
        """Some packets of some QP; none where many wait. A port whose link is down refuses them."""
        number = self.choice.randrange(QPS)
        if self.waiting.max() + _MOST_BURST > _MOST_WAITING:
            return
        for _ in range(self.choice.randint(1, _MOST_BURST)):
            try:
                self.out.send(self.frames[number])
            except OSError as error:
                if error.errno not in {errno.ENETDOWN, errno.ENXIO, errno.ENOBUFS}:
                    raise

    def pause(self) -> None:
        """A PFC frame for all priorities; 0 quanta end the pause."""
        self.nic.rx(pfc(dict.fromkeys(range(8), self.choice.choice(_QUANTA))))

    def end_qp(self) -> None:
        """A QP is destroyed, and its QPN connected anew, as qp_pairs.bpf.c has it."""
        limiters = self.nic.maps.limiters
        index = self.choice.randrange(QPS)
        limiters["closed"][index] = limiters["generation"][index]
        number = self.choice.randrange(QPS)
        self.nic.connect(PATH.dst, OURS + number, PATH.src, THEIRS + number, fresh=False)
        self.notify(number)

    def set_link(self, *, up: bool) -> None:
        """Set the NIC's link up or down."""
        with entered(self.nic.inside), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            _, flags = _IFREQ.unpack(fcntl.ioctl(control, _SIOCGIFFLAGS, _IFREQ.pack(b"swp1", 0)))
            flags = flags | _IFF_UP if up else flags & ~_IFF_UP
            fcntl.ioctl(control, _SIOCSIFFLAGS, _IFREQ.pack(b"swp1", flags))

    def flap(self) -> None:
        """The link goes down for a moment, in which all may befall the NIC."""
        self.set_link(up=False)
        for _ in range(self.choice.randint(0, 4)):
            self.choice.choice((self.send, self.pause, self.pause))()
            time.sleep(self.choice.uniform(0, 0.006))
        self.set_link(up=True)

    def step(self) -> None:
        """One event, whichever."""
        self.choose(_CHANCES)

    def choose(self, chances: Mapping[str, int]) -> None:
        """One event, named as its method, with these chances."""
        name = self.choice.choices(list(chances), list(chances.values()))[0]
        if name == "notify":
            self.notify(self.choice.randrange(QPS))
        else:
            getattr(self, name)()

    @property
    def waiting(self) -> Any:
        """How many packets of each limiter of the NIC wait for their time."""
        return self.nic.maps.limiters["waiting"][:LIMITERS]

    def look(self) -> float:
        """Return by how many seconds the first packet of any QP is beyond its due time, in the heap of the NIC.

        The time is read first: an entry that is due after that is not late, whenever it leaves. The qdisc may write
        while a record is copied, and leave an old due time beside a new flag. A QP counts if two copies agree on it.
        """
        now = time.monotonic_ns()
        first, second = self._due(), self._due()
        alike = (first == second) & (second != _NOT_DUE)
        late = (now - int(second[alike].min())) / 1e9 if alike.any() else 0.0
        self.lateness = max(self.lateness, late)
        return late

    def _due(self) -> Any:
        """When the first packet of each limiter is due, in ns; ``_NOT_DUE`` where none waits in the heap."""
        limiters = self.nic.maps.limiters[:LIMITERS].copy()
        return np.where((limiters["in_heap"] != 0) & (limiters["waiting"] != 0), limiters["due"], _NOT_DUE)

    def drain(self) -> None:
        """Wait until all packets have left, without anything that would have the qdisc look."""
        queues = self.nic.maps.counters[SWP1]["queue"]
        waited(lambda: not queues["depth_packets"].any() and not self.waiting.any(), "all packets to leave", 60.0)

    def close(self) -> None:
        """Close the socket by which packets are sent."""
        self.out.close()


_CHANCES: Final = {"send": 70, "pause": 12, "notify": 10, "end_qp": 4, "flap": 4}
