"""The connected QPs of a fabric, each with its peer: a NIC needs them to answer CE marks and to obey CNPs.

A packet contains only one QPN of its pair. So ``bpf/qp_pairs.bpf.c`` learns the pairs from rxe, where QPs are
connected and destroyed, and writes them to a map that the port's programs read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.dataplane.limited_qps import gid_address
from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.bpf import array_maps, bpf_object, pins, type_layouts

if TYPE_CHECKING:
    from lab.model.addressing import Address

SOURCE: Final = Path(__file__).parent / "bpf" / "qp_pairs.bpf.c"
_MAPS: Final = ("qp_pairs", "limiters", "limited_peers")
"""The maps that both objects have."""
_PROGRAMS: Final = ("qp_modified", "qp_destroyed")
_KEY: Final = np.dtype([("netns", "<u4"), ("qpn", "<u4"), ("address", "u1", 16)])
"""struct rl_qp_key of ``bpf/qp_pairs.h``."""
_PAIR: Final = np.dtype(
    {
        "names": ["peer_qpn", "peer"],
        "formats": ["<u4", ("u1", 16)],
        "offsets": [16, 20],
        "itemsize": 40,
    }
)
"""struct rl_qp_pair: the members that are read, and its size with the padding at its end."""


@dataclass(frozen=True, slots=True)
class ConnectedQp:
    """A connected QP and its peer. Two fabrics may have the same addresses, but not the same namespaces."""

    netns: int
    """The inode of the host's network namespace."""
    qpn: int
    address: Address
    peer: Address
    peer_qpn: int


def learn(fabric: str) -> None:
    """Learn the QPs that are connected from now on, as long as the fabric exists.

    rdma_rxe must be loaded. EnvironmentLacks, with the kernel's reason, if its functions cannot be traced.
    """
    folder = pins.folder_of(fabric)
    with bpf_object.Object.open(type_layouts.compile_checked(SOURCE)) as program:
        for name in _MAPS:
            program.reuse(name, pins.map_path(folder, name))
        try:
            program.load()
            for name in _PROGRAMS:
                program.attach_program(name)
        except OperationFailed as error:
            raise EnvironmentLacks(f"QPs cannot be learned from rxe: {error.message}", error.remedy) from error
        program.pin_links(folder)


def are_learned(fabric: str) -> bool:
    """Return whether the fabric's connected QPs are learned."""
    folder = pins.folder_of(fabric)
    return all(pins.link_path(folder, name).exists() for name in _PROGRAMS)


def connected(fabric: str) -> list[ConnectedQp]:
    """Return the QPs that are connected now, of all hosts of the fabric; empty if they are not learned."""
    if not are_learned(fabric):
        return []
    descriptor = pins.open_pinned(pins.map_path(pins.folder_of(fabric), _MAPS[0]))
    try:
        pairs = array_maps.hash_items(descriptor, _KEY, _PAIR)
    finally:
        os.close(descriptor)
    return [
        ConnectedQp(
            netns=int(key["netns"]),
            qpn=int(key["qpn"]),
            address=gid_address(key["address"]),
            peer=gid_address(pair["peer"]),
            peer_qpn=int(pair["peer_qpn"]),
        )
        for key, pair in pairs
    ]
