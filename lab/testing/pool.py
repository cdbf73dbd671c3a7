"""The fabrics of one run of pytest: built when they are asked for, shared, and taken down with who asked first."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from lab.backends import lifecycle, registry
from lab.faults import declared
from lab.kernel.process import process
from lab.model.load import renamed
from lab.model.topology import MAX_FABRIC_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Fabric
    from lab.model.topology import Topology

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass
class _Live:
    topology: Topology
    fabric: Fabric


@dataclass
class FabricPool:
    """Fabrics by who keeps them: the id of a test, of a module, or of the session."""

    _live: dict[str, list[_Live]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _warden: process.Process | None = None

    def has(self, keeper: str) -> bool:
        """Whether anything was asked for ``keeper`` and is not released."""
        return keeper in self._live

    def get(self, keeper: str, topology: Topology) -> Fabric:
        """A fabric of this topology under a name of its own: the one that is kept already, or a new one.

        Raises as ``lifecycle.up``.
        """
        for live in self._live.setdefault(keeper, []):
            if live.topology == topology and live.fabric.state.ready:
                return lifecycle.open_fabric(live.fabric.name, lambda _: None)  # whoever has it ends
        named = renamed(topology, self._name(topology.name))
        self._watch(named.name)
        fabric, _ = lifecycle.up(named, registry.backend(registry.DEFAULT))
        declared.inject(fabric)
        self._live[keeper].append(_Live(topology, fabric))
        return fabric

    def release(self, keeper: str) -> None:
        """Take down what is kept for ``keeper``, the last first."""
        with contextlib.ExitStack() as downs:  # one that does not go does not keep the others
            for live in self._live.pop(keeper, []):
                downs.callback(lifecycle.down, live.fabric.state)

    def close(self) -> None:
        """Take down all that is left, and send the warden home."""
        with contextlib.ExitStack() as downs:
            downs.callback(self._dismiss)
            for keeper in tuple(self._live):
                downs.callback(self.release, keeper)

    def _name(self, name: str) -> str:
        """That of the topology, with the process's number and one of its own behind it: parallel runs never meet."""
        suffix = f"-t{_short(os.getpid())}-{_short(next(self._numbers))}"
        return name[: MAX_FABRIC_NAME - len(suffix)].rstrip("-") + suffix

    def _watch(self, name: str) -> None:
        """Have a process that outlives this one take the fabric down, should this one be killed."""
        if self._warden is None:
            self._warden = process.start([sys.executable, "-m", "lab.testing.cleanup_process"], stdin=process.PIPE)
        assert self._warden.stdin is not None  # noqa: S101 - it has a pipe
        self._warden.stdin.write(f"{name}\n")
        self._warden.stdin.flush()

    def _dismiss(self) -> None:
        if self._warden is not None and self._warden.stdin is not None:
            self._warden.stdin.close()
            process.wait(self._warden, 60)
            self._warden = None


def _short(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
        if not number:
            return digits
