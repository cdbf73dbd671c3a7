"""The connected QPs of a fabric, each with its peer: a NIC needs them to answer CE marks and to obey CNPs.

A packet contains only one QPN of its pair. So ``bpf/qp_pairs.bpf.c`` learns the pairs from rxe, where QPs are
connected and destroyed, and writes them to a map that the port's programs read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.bpf import bpf_object, pins, type_layouts

SOURCE: Final = Path(__file__).parent / "bpf" / "qp_pairs.bpf.c"
_MAPS: Final = ("qp_pairs", "limiters", "limited_peers")
"""The maps that both objects have."""
_PROGRAMS: Final = ("qp_modified", "qp_destroyed")


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
