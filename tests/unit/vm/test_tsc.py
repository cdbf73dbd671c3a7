"""The frequency that a guest is told: the host's own, and none where there is no one frequency."""

from pathlib import Path

import pytest

from lab.kernel.process import tsc
from lab.kernel.process.tsc import TscReading
from lab.vm.host import guest_tsc
from lab.vm.host.qemu import Time
from lab.vm.image.arch import ARCHES


@pytest.mark.parametrize(
    ("cpuinfo", "khz"),
    [
        ("processor\t: 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n", 2_596_130),
        ("processor\t: 0\nflags\t\t: fpu tsc\nbugs\t\t: constant_tsc\n", None),
        ("processor\t: 0\nFeatures\t: fp asimd evtstrm\n", None),
    ],
    ids=["constant", "follows the processor", "arm"],
)
def test_only_a_constant_counter_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cpuinfo: str, khz: int | None
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(cpuinfo)
    readings = iter([TscReading(0, 1.0), TscReading(259_613_000, 1.1)])
    monkeypatch.setattr(guest_tsc, "_CPUINFO", file)
    monkeypatch.setattr(tsc, "read", lambda: next(readings))
    assert guest_tsc.guest_khz(ARCHES["x86_64"], Time.HOST) == khz


def test_in_virtual_time_a_cycle_is_a_nanosecond() -> None:
    assert guest_tsc.guest_khz(ARCHES["x86_64"], Time.VIRTUAL) == 1_000_000
    assert guest_tsc.guest_khz(ARCHES["aarch64"], Time.VIRTUAL) is None
