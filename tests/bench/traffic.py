"""A capture of RDMA WRITEs of any length, stamped from a template: a million packets take seconds."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.wire.pcapng import Direction, Interface, Record, Writer
from tests.unit.analysis.captures import pcapng, records
from tests.unit.analysis.packets import ack, send, write

if TYPE_CHECKING:
    from pathlib import Path as FilePath

QPS: Final = 8
MESSAGE: Final = 64  # packets
_MTU: Final = 1024
_GAP: Final = 1000  # ns
PACKETS_PER_ROUND: Final = QPS * (MESSAGE + 1)
_ROUNDS_AT_ONCE: Final = 32


def _frames() -> list[tuple[int, int, bytes]]:
    """A round, in which every QP sends one message and is answered: place of the PSN's word, first PSN, frame."""
    messages = [write(qp * 1000, MESSAGE, mtu=_MTU, qp=0x100 + qp) for qp in range(QPS)]
    found = [(50, qp * 1000 + index, messages[qp][index]) for index in range(MESSAGE) for qp in range(QPS)]
    last = [qp * 1000 + MESSAGE - 1 for qp in range(QPS)]
    return found + [(50, psn, ack(psn, qp=0x200 + qp)) for qp, psn in enumerate(last)]


def generate(file: FilePath, packets: int) -> int:
    """Write a capture of at least ``packets`` packets; returns how many they are. PSNs go on, ICRCs do not follow."""
    frames = _frames()
    output = io.BytesIO()
    writer = Writer(output)
    writer.add_interface(Interface("leaf1:swp1", speed=10**10))
    head = len(output.getvalue())
    places = []
    for _, _, frame in frames:
        places.append(len(output.getvalue()) - head)
        writer.write([Record(0, 0, len(frame), Direction.INBOUND, frame)])
    template = np.frombuffer(output.getvalue(), np.uint8)[head:]
    rounds = -(-packets // len(frames))
    with file.open("wb") as stream:
        stream.write(output.getvalue()[:head])
        for first in range(0, rounds, _ROUNDS_AT_ONCE):
            number = np.arange(first, min(rounds, first + _ROUNDS_AT_ONCE))
            pages = np.tile(template, (len(number), 1))
            for index, ((offset, psn, _), place) in enumerate(zip(frames, places, strict=True)):
                _stamp(pages, number, place, (index, len(frames), 28 + offset, psn))
            stream.write(pages.tobytes())
    return rounds * len(frames)


def flood(flows: int) -> bytes:
    """A capture of many flows of two packets, between which others are missing."""
    template = send(1, 4, ackreq=False)
    frames = [
        template[:47] + qp.to_bytes(3) + template[50:51] + psn.to_bytes(3) + template[54:]
        for qp in range(flows)
        for psn in (1, 9)
    ]
    return pcapng(records(frames, 1), Interface("leaf1:swp1", speed=10**9))


def _stamp(pages: np.ndarray, number: np.ndarray, place: int, frame: tuple[int, int, int, int]) -> None:
    index, count, psn_at, first_psn = frame
    time = 10**18 + (number * count + index) * _GAP
    stamps = np.stack([time >> 32, time & 0xFFFFFFFF], 1).astype("<u4")
    pages[:, place + 12 : place + 20] = stamps.view(np.uint8)
    psn = (first_psn + number * MESSAGE & 0xFFFFFF).astype(">u4")
    pages[:, place + psn_at + 1 : place + psn_at + 4] = psn.view(np.uint8).reshape(-1, 4)[:, 1:]
