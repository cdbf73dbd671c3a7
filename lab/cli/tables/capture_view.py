"""Packets on the terminal during a capture."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from lab.cli.tables.packet_view import DIRECTIONS, summary_line
from lab.wire.frame import decode
from lab.wire.pcapng import Direction
from lab.wire.summary import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lab.wire.pcapng import Interface, Record, Sink, Statistics


class Printed:
    """A sink that prints a line for each packet, then passes it to ``sink``, if there is one.

    ``when_left`` is called once when the reader of the output is gone, as in ``rocelab capture --live ... | head``.
    """

    def __init__(self, sink: Sink | None, when_left: Callable[[], None]) -> None:
        self._sink = sink
        self._when_left = when_left
        self._interfaces: list[Interface] = []
        self._first: int | None = None
        self._count = 0
        self._left = False

    def add_interface(self, interface: Interface) -> int:
        """Record the name and the rate of an interface."""
        self._interfaces.append(interface)
        if self._sink is not None:
            self._sink.add_interface(interface)
        return len(self._interfaces) - 1

    def write(self, records: Iterable[Record]) -> None:
        """Print a packet, then pass it on."""
        packets = list(records)
        if not self._left:
            self._print(packets)
        if self._sink is not None:
            self._sink.write(packets)

    def _print(self, packets: list[Record]) -> None:
        try:
            for packet in packets:
                sys.stdout.write(self._line(packet))
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self._left = True
            self._when_left()

    def _line(self, packet: Record) -> str:
        self._count += 1
        self._first = packet.timestamp if self._first is None else self._first
        interface = self._interfaces[packet.interface]
        where = f"{interface.name} {DIRECTIONS[Direction(packet.direction)]}"
        text = describe(decode(bytes(packet.data), packet.length), interface.speed)
        return summary_line(self._count, f"{(packet.timestamp - self._first) / 1e9:.9f}", where, text)

    def write_statistics(self, interface: int, statistics: Statistics) -> None:
        """Pass the statistics on."""
        if self._sink is not None:
            self._sink.write_statistics(interface, statistics)
