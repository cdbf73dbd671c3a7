"""RDMA devices are removed while others end namespaces all the time: the kernel survives it.

Without ``none_ending`` one removal in thirty is a NULL pointer dereference in kobject_uevent_env of Linux 7.3, which
ends this VM.
"""

from __future__ import annotations

import os
import threading
from typing import Final

import pytest

from lab.kernel.bpf import probe
from lab.kernel.process import process
from lab.rdma import rxe, sysfs

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(900)]
TIMES: Final = 60
NEIGHBOURS: Final = 3
DEVICE: Final = f"ending-{os.getpid()}"


def removed_again_and_again() -> None:
    process.run(["ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"])
    for _ in range(TIMES):
        process.run(["rdma", "link", "add", DEVICE, "type", "rxe", "netdev", "probe0"])
        rxe.delete(DEVICE)


def test_devices_go_beside_namespaces_that_end() -> None:
    rxe.check()
    over, ended = threading.Event(), [0] * NEIGHBOURS

    def neighbour(number: int) -> None:
        while not over.is_set():
            probe.in_new_namespace(lambda: None)
            ended[number] += 1

    neighbours = [threading.Thread(target=neighbour, args=(number,)) for number in range(NEIGHBOURS)]
    for thread in neighbours:
        thread.start()
    try:
        probe.in_new_namespace(removed_again_and_again)
    finally:
        over.set()
        for thread in neighbours:
            thread.join()
    assert not sysfs.exists(DEVICE)
    assert min(ended) > TIMES
    assert "BUG:" not in process.run(["dmesg"]).stdout
