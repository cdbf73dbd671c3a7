"""The tests of tests/fabric on two machines side by side: ``python -m tests.fabric_workers [PYTEST ARGS]``, as root.

They are those without the marker ``long``. Each machine (tests/private_machine.py) takes the next file, the longest
first by ``tests/fabric/seconds.json``. They wait more than they compute. RDMA devices and BPF programs are visible on
all machines of one kernel: where it has RDMA, there is one machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.shards import ROOT, Forks, pytest_arguments, run_all, sessions

FABRIC: Final = ROOT / "tests/fabric"
_RDMA: Final = Path("/sys/class/infiniband")
_MACHINES: Final = 2


def main() -> int:
    """Run all files; 1 when a test failed, 130 when interrupted."""
    arguments = pytest_arguments(*sys.argv[1:], long=False)
    machine = [sys.executable, "-m", "tests.private_machine", sys.executable, "-m", "tests.forks", *arguments]
    number = 1 if _RDMA.exists() else _MACHINES
    return run_all(sessions(FABRIC, long=False), [Forks(machine) for _ in range(number)])


if __name__ == "__main__":
    sys.exit(main())
