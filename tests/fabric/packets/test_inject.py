"""Frames sent out of an interface whose port sends nothing: an interrupt ends that."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Final

import pytest

from lab.kernel.packets.inject import Injector
from lab.kernel.process import netns
from lab.kernel.process.netns import Namespace
from tests.patience import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fabric
COUNT: Final = 5000
BUFFER: Final = re.compile(r"skmem:\(.*?\bt(\d+),tb(\d+)")
FRAME: Final = bytes.fromhex("02000000000202000000000188b5") + bytes(1400)


@pytest.fixture
def stuck() -> Iterator[Namespace]:
    """A namespace whose interface eth1 sends 100 bytes per second, like one that its peer pauses."""
    name = f"rv-{os.getpid()}-stuck"
    netns.create([name])
    try:
        space = Namespace(name)
        space.run(["ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth2"])
        for interface in ("eth1", "eth2"):
            space.run(["ip", "link", "set", interface, "up"])
        slow = ["tbf", "rate", "800bit", "burst", "1500", "limit", "10mb"]
        space.run(["tc", "qdisc", "add", "dev", "eth1", "root", *slow])
        yield space
    finally:
        netns.delete([name])


@pytest.mark.timeout(60)
def test_an_interrupt_ends_a_sender_that_waits_for_its_port(stuck: Namespace) -> None:
    taken: list[int] = []

    def frames() -> Iterator[bytes]:
        for number in range(COUNT):
            taken.append(number)
            yield FRAME

    with Injector(stuck, "eth1") as injector:

        def is_full() -> bool:
            """Whether the socket has used up its buffer, by ss(8): ``t`` of ``tb`` bytes."""
            used = BUFFER.search(stuck.run(["ss", "--packet", "--memory", "--no-header"]).stdout)
            return used is not None and int(used[1]) >= int(used[2])

        def interrupt() -> None:
            until(is_full)
            injector.interrupt()

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        sent = injector.send(frames())
        interrupting.join()
    assert 0 < sent.packets < COUNT
    assert sent.bytes == sent.packets * len(FRAME)
    assert sent.refused == 0
    assert len(taken) == sent.packets + 1  # the one that waited was not sent
