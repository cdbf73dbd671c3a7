"""The option ``--pod`` of jobs: ranks run in pods, with interfaces of their own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from lab.backends.job_pods import PodKind, pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.backends.backend import Fabric, Progress
    from lab.rdma.measure import Nic

PodOption = Annotated[
    PodKind | None,
    typer.Option(
        "--pod", help="Run each rank in a pod, whose interface is this kind of sub-interface of the host's NIC."
    ),
]


@contextlib.contextmanager
def in_pods(
    fabric: Fabric, nics: Sequence[Nic], kind: PodKind | None, progress: Progress
) -> Iterator[tuple[Nic, ...]]:
    """Yield the NICs of pods on ``nics``, which exist as long as the block; without ``kind``, the NICs themselves."""
    if kind is None:
        yield tuple(nics)
        return
    with pods(fabric, nics, kind, progress) as made:
        yield made
