"""The cycle counter: steady against the kernel's clock, however busy the machine; readings make a frequency."""

from __future__ import annotations

import platform
import subprocess
import sys
import time

import pytest

from lab.errors import EnvironmentLacks
from lab.kernel.process import tsc
from lab.kernel.process.tsc import TscReading, frequency


def test_the_counter_goes_at_one_rate_while_the_machine_is_busy() -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        readings = []
        for _ in range(3):
            readings.append(tsc.read())
            time.sleep(0.2)  # time is what is measured
        first, middle, last = readings
        assert first.cycles < middle.cycles < last.cycles
        assert frequency(first, middle) == pytest.approx(frequency(middle, last), rel=1e-3)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_frequency_is_cycles_per_second() -> None:
    assert frequency(TscReading(100, 1.0), TscReading(600, 3.0)) == 250
    assert frequency(TscReading(600, 1.0), TscReading(100, 3.0)) < 0


def test_the_closest_pair_of_clocks_is_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0, 900, 1000, 1010] + [2000, 2500] * 14)
    counter = iter(range(16))
    monkeypatch.setattr(tsc, "_counter", lambda: lambda: next(counter))
    monkeypatch.setattr("lab.kernel.process.tsc.time.monotonic_ns", lambda: next(clock))
    reading = tsc.read()
    assert reading.cycles == 1
    assert reading.seconds == pytest.approx(1005e-9)


def test_an_unknown_processor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    tsc._counter.cache_clear()
    with pytest.raises(EnvironmentLacks, match="processor riscv64"):
        tsc.read()
