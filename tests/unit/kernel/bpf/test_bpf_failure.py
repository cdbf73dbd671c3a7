"""Refusals told in one line, from what libbpf 1.5 said on Linux 7.3."""

import errno
import os
from pathlib import Path

import pytest

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.bpf.bpf_failure import failure, verdict

LOG = (Path(__file__).parents[1] / "data/verifier-7.3.log").read_text()
"""tests/vm/bpf/sample.bpf.c without its NULL check, refused by Linux 7.3, which adds an explanation at length."""
OLDER = """\
0: R1=ctx() R10=fp0
; __sync_fetch_and_add(&order->seen, 1); @ wild.bpf.c:85
10: (c3) lock *(u32 *)(r0 +4) += r1
R0 invalid mem access 'map_value_or_null'
processed 9 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""
SAID = [
    "libbpf: prog 'obey': BPF program load failed: Permission denied",
    f"libbpf: prog 'obey': -- BEGIN PROG LOAD LOG --\n{LOG}-- END PROG LOAD LOG --",
    "libbpf: prog 'obey': failed to load: -13",
    "libbpf: failed to load object 'wild.o'",
]


def test_the_verifier_s_reason_is_told_with_the_line_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package may not be written to: the log is not beside an object that is shipped in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    error = failure(Path("/nowhere/wild.o"), "it cannot be loaded", errno.EACCES, SAID)
    assert isinstance(error, OperationFailed)
    full = tmp_path / "rocelab/bpf/wild.obey.log"
    reason = "R0 invalid mem access 'map_value_or_null' (wild.bpf.c:85)"
    assert verdict(OLDER) == reason
    assert str(error) == f"the verifier refuses program obey: {reason}: its log is in {full}"
    assert full.read_text() == LOG


def test_a_log_without_lines_of_source_or_without_anything() -> None:
    assert verdict("invalid func unknown#195896080\nprocessed 3 insns (limit 1000000)\n") == (
        "invalid func unknown#195896080"
    )
    assert verdict("") == "it gives no reason"


def test_what_the_kernel_lacks_is_told_from_what_went_wrong() -> None:
    lacking = [
        "libbpf: struct_ops init_kern: struct Qdisc_ops is not found in kernel BTF",
        "libbpf: failed to load object 'port.bpf.o'",
    ]
    error = failure(Path("port.o"), "port.o cannot be loaded", errno.ESRCH, lacking)
    assert isinstance(error, EnvironmentLacks)
    assert error.message == f"port.o cannot be loaded: {lacking[0].removeprefix('libbpf: ')}"
    assert "--vm" in error.remedy


def test_only_root_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    error = failure(Path("port.o"), "port.o cannot be loaded", errno.EPERM, ["libbpf: Error in bpf_object__probe"])
    assert isinstance(error, EnvironmentLacks)
    assert error.remedy == "run as root"


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.EEXIST, "File exists"), (4003, "libbpf error 4003"), (0, "libbpf error 0")]
)
def test_without_words_the_number_speaks(number: int, reason: str) -> None:
    assert str(failure(Path("port.o"), "it failed", number, [])) == f"it failed: {reason}"
