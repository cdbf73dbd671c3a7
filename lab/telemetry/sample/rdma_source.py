"""The counters of all RDMA devices of a fabric, as words of a sample: open files, one read each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks
from lab.rdma.device_counters import MEANINGS, files_of
from lab.telemetry.store.sample_layout import CounterColumn, CounterTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

_LONGEST: Final = 32


class RdmaSource:
    """The counters of ``devices``, each given as node, interface and device name.

    A device that is gone keeps its last values, zero if it never existed. ``gone`` has these devices, and ``look``
    reports each once.
    """

    def __init__(self, devices: Sequence[tuple[str, str, str]], start: int) -> None:
        """Open the counters of all devices that exist."""
        self._devices = devices
        self._files: list[list[int]] = []
        self.gone: set[str] = set()
        self._reported: set[str] = set()
        names: list[str] = []
        for _, _, device in devices:
            files = self._files_of(device)
            names = names or [file.name for file in files]
            self._files.append([os.open(file, os.O_RDONLY | os.O_CLOEXEC) for file in files])
        names = names or list(MEANINGS)
        self._per_device = len(names)
        self.width = self._per_device * len(devices)
        columns = tuple(CounterColumn(name, number) for number, name in enumerate(names))
        places = tuple(start + number * self._per_device for number in range(len(devices)))
        self.sections = (
            CounterTable(
                table="rdma",
                keys=("node", "interface", "device"),
                names=tuple(devices),
                places=places,
                columns=columns,
            ),
        )

    def _files_of(self, device: str) -> list[Path]:
        try:
            return sorted(files_of(device))
        except EnvironmentLacks:
            self.gone.add(device)
            return []

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that must stay open."""
        return [file for files in self._files for file in files]

    def read(self, words: NDArray[np.uint64]) -> None:
        """Read all counters into ``words``, which hold the previous values."""
        for number, (files, device) in enumerate(zip(self._files, self._devices, strict=True)):
            first = number * self._per_device
            try:
                words[first : first + len(files)] = [int(os.pread(file, _LONGEST, 0)) for file in files]
            except OSError:
                self.gone.add(device[2])

    def look(self, now: int) -> Iterator[dict[str, str]]:  # noqa: ARG002 - signature of all event sources
        """Yield an event for each device that is gone, once."""
        for node, interface, device in self._devices:
            if device in self.gone - self._reported:
                self._reported.add(device)
                yield {
                    "source": "rdma", "kind": "device_gone", "node": node, "interface": interface, "device": device,
                }  # fmt: skip

    def close(self) -> None:
        """Close all files."""
        for file in self.descriptors:
            os.close(file)
        self._files.clear()
