"""Records settings when they change: the QoS of ports, and how switches choose among equal-cost paths."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lab.errors import LabError
from lab.kernel.process import tuning
from lab.model.qos.qos_store import dump_node
from lab.model.sysctls import HASH_POLICY
from lab.telemetry.store import recording_folder as files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.backends.backend import Fabric
    from lab.kernel.process.netns import Namespace
    from lab.telemetry.store.recording_folder import Folder

_WATCHED: Final = (HASH_POLICY,)


class SettingChanges:
    """The settings of a fabric while it is recorded."""

    def __init__(self, fabric: Fabric, folder: Folder) -> None:
        """Open the sysctls of each switch that answers, and record their values. OSError if that is impossible.

        An open file of ``/proc/sys/net`` shows the values of the namespace in which it was opened.
        """
        self._state, self._folder = fabric.state, folder
        self._stamp = self._state.qos_stamp()
        self._qos = self._state.load_qos()
        self._opened: dict[str, dict[str, int]] = {}
        self._sysctls: dict[str, dict[str, str]] = {}
        for node in fabric.topology.switches:
            if (namespace := fabric.namespace(node.name)).answers():
                self._opened[node.name] = _opened(namespace)
        self._look_at_sysctls(time.monotonic_ns())

    @property
    def descriptors(self) -> Sequence[int]:
        """The descriptors that must stay open."""
        return [descriptor for sysctls in self._opened.values() for descriptor in sysctls.values()]

    def look(self, now: int) -> None:
        """Record what has changed, with the time ``now`` in ns. OSError if it cannot be written."""
        if (stamp := self._state.qos_stamp()) != self._stamp:
            self._stamp = stamp
            self._look_at_qos(now)
        self._look_at_sysctls(now)

    def _look_at_qos(self, now: int) -> None:
        try:
            found = self._state.load_qos()
        except LabError:  # the recorder reports it at the next phase
            return
        changed = {name: dump_node(node) for name, node in found.items() if self._qos.get(name) != node}
        self._qos = found
        if changed:
            files.append_line(self._folder.configuration, {"ns": now, "nodes": changed})

    def _look_at_sysctls(self, now: int) -> None:
        changed: dict[str, Any] = {}
        for node, opened in self._opened.items():
            found = {name: tuning.read_again(descriptor) for name, descriptor in opened.items()}
            if found and found != self._sysctls.get(node):
                self._sysctls[node] = changed[node] = found
        if changed:
            files.append_line(self._folder.sysctls, {"ns": now, "nodes": changed})

    def close(self) -> None:
        """Close all files."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self._opened.clear()


def _opened(namespace: Namespace) -> dict[str, int]:
    found = {name: namespace.inside(partial(tuning.open_sysctl, name)) for name in _WATCHED}
    return {name: descriptor for name, descriptor in found.items() if descriptor is not None}
