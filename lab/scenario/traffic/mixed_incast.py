"""The traffic of SONiC's RoCEv2 test plan: a 3:1 incast of lossless and lossy classes, on sonic-dut.yaml."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.scenario.stage import Stage

SENDERS: Final = ("h1", "h2")
"""Ranks 0 and 1, which write in lossless classes."""
LOSSY: Final = "h3"
"""Rank 2, which writes with a QP in each lossy class."""
RECEIVER: Final = "h4"
"""Rank 3."""
DSCPS: Final = {0: 0, 1: 8, 2: 16, 3: 26, 4: 34}
"""A DSCP of each priority that carries data."""
ECT: Final = 2
CE: Final = 3
TIMEOUT: Final = 22
"""QPs retransmit after 17 s.

Up to 64 packets lie between two ACKs, for which a QP at its minimum rate of 250 kb/s needs 9 s.
"""


@contextmanager
def mixed_incast(stage: Stage, *priorities: int, size: int, ecn: int = ECT) -> Iterator[None]:
    """Run the incast for the block. Ranks 0 and 1 write in ``priorities``, a QP each, in messages of ``size`` bytes.

    ``ecn`` is the ECN field of lossless packets as they leave: ECT(0), or CE.
    """
    with ExitStack() as writers:
        for sender, priority in zip(SENDERS, priorities, strict=True):
            pair = f"{sender}:{RECEIVER}"
            writers.enter_context(stage.writing(pair, size=size, tclass=DSCPS[priority] << 2 | ecn, timeout=TIMEOUT))
        for priority in (0, 1, 2):
            pair = f"{LOSSY}:{RECEIVER}"
            writers.enter_context(stage.writing(pair, size=size, tclass=DSCPS[priority] << 2 | ECT, timeout=TIMEOUT))
        yield
