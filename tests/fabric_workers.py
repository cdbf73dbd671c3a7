"""The tests of tests/fabric on two machines side by side: ``python -m tests.fabric_workers [PYTEST ARGS]``, as root.

They are those without the marker ``long``. Each machine (tests/private_machine.py) takes the next file, the longest
first by ``tests/fabric/seconds.json``. They wait more than they compute. RDMA devices and BPF programs are visible on
all machines of one kernel: where it has RDMA, there is one machine.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Final

from tests import private_machine
from tests.shards import ROOT, Forks, pytest_arguments, run_all, sessions

FABRIC: Final = ROOT / "tests/fabric"
_RDMA: Final = Path("/sys/class/infiniband")
_MACHINES: Final = 2


class MachineForks(Forks):
    """They run on a private machine, whose cgroup has counted the time of all processes there."""

    def cpu_seconds(self) -> float | None:
        """Those of the cgroup (cgroup v2: ``cpu.stat``); 0 before the machine is made."""
        if self._running is None:
            return 0.0
        group = private_machine.cgroup_of(self._running.pid)
        if group is not None:
            with contextlib.suppress(FileNotFoundError):
                usage = (group / "cpu.stat").read_text(encoding="ascii").split()
                return int(usage[usage.index("usage_usec") + 1]) / 1e6
        return None


def main() -> int:
    """Run all files; 1 when a test failed, 130 when interrupted."""
    arguments = pytest_arguments(*sys.argv[1:], long=False)
    machine = [sys.executable, "-m", "tests.private_machine", sys.executable, "-m", "tests.forks", *arguments]
    number = 1 if _RDMA.exists() else _MACHINES
    return run_all(sessions(FABRIC, long=False), [MachineForks(machine) for _ in range(number)])


if __name__ == "__main__":
    sys.exit(main())
