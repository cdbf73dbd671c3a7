"""The fabrics of a pytest run: built on request, shared, and taken down with the scope that requested them."""

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
    """Fabrics by keeper: the id of a test, of a module, or of the session."""

    _live: dict[str, list[_Live]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _warden: process.Process | None = None

    def has(self, keeper: str) -> bool:
        """Return whether ``keeper`` has requested fabrics that are not yet released."""
        return keeper in self._live

    def get(self, keeper: str, topology: Topology) -> Fabric:
        """Return a fabric of this topology with a unique name: the keeper's existing one, or a new one.

        Raises the errors of ``lifecycle.up``.
        """
        for live in self._live.setdefault(keeper, []):
            if live.topology == topology and live.fabric.state.ready:
                return lifecycle.open_fabric(live.fabric.name, lambda _: None)  # waits silently for other commands
        named = renamed(topology, self._name(topology.name))
        self._watch(named.name)
        fabric, _ = lifecycle.up(named, registry.backend(registry.DEFAULT))
        declared.inject(fabric)
        self._live[keeper].append(_Live(topology, fabric))
        return fabric

    def release(self, keeper: str) -> None:
        """Take down the fabrics of ``keeper``, in reverse order."""
        with contextlib.ExitStack() as downs:  # a failure does not prevent the others
            for live in self._live.pop(keeper, []):
                downs.callback(lifecycle.down, live.fabric.state)

    def close(self) -> None:
        """Take down all remaining fabrics, and end the cleanup process."""
        with contextlib.ExitStack() as downs:
            downs.callback(self._dismiss)
            for keeper in tuple(self._live):
                downs.callback(self.release, keeper)

    def _name(self, name: str) -> str:
        """Return the topology's name with the process id and a number: parallel runs never collide."""
        suffix = f"-t{_short(os.getpid())}-{_short(next(self._numbers))}"
        return name[: MAX_FABRIC_NAME - len(suffix)].rstrip("-") + suffix

    def _watch(self, name: str) -> None:
        """Register a fabric with the cleanup process, which takes it down if this process is killed."""
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
