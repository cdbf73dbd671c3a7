"""Names of signals in messages."""

from __future__ import annotations

import signal

from lab.kernel.process import signals


def test_every_signal_has_a_name() -> None:
    assert signals.name_of(signal.SIGKILL) == "SIGKILL"
    assert signals.name_of(signal.SIGRTMIN + 1) == f"signal {signal.SIGRTMIN + 1}"
