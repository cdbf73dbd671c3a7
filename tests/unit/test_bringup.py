"""The evaluation of figures of the bring-up benchmark."""

import os
import time

import pytest

from tests.bench.bringup import cpu_time, exponent


def test_growth_is_told_as_a_power_of_the_number_of_nodes() -> None:
    measured = [{"nodes": nodes, "up": 0.01 * nodes**1.5} for nodes in (14, 44, 104)]
    assert exponent(measured, "up") == pytest.approx(1.5)


def test_cpu_time_is_what_a_process_has_computed() -> None:
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    computed = sum(os.times()[:4])
    assert cpu_time(os.getpid()) == pytest.approx(computed, abs=0.1)
