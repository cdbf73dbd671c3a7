"""Probes try, leave nothing, and say what they saw."""

import os
from pathlib import Path

import pytest

from lab.errors import CommandFailed, EnvironmentLacks
from lab.kernel.bpf import bpf_object, libbpf, probe
from lab.kernel.bpf.probe import ProbeFinding


@pytest.fixture
def btf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for the kernel's own types."""
    path = tmp_path / "vmlinux"
    monkeypatch.setattr(probe, "BTF", path)
    return path


def test_a_kernel_without_types_has_neither_btf_nor_bpf_qdisc(btf: Path) -> None:
    assert not btf.exists()
    assert probe.btf().present is False
    assert probe.bpf_qdisc() == ProbeFinding(False, "no struct_ops Qdisc_ops")


def test_a_file_that_is_not_btf_is_not_taken_for_it(btf: Path) -> None:
    btf.write_bytes(b"\x7fELF")
    assert probe.btf().present is False


def test_bpf_qdisc_is_told_from_a_kernel_that_merely_has_qdiscs(btf: Path) -> None:
    btf.write_bytes(b"\x9f\xeb\x01\0" + b"\0Qdisc_ops\0bpf_struct_ops_tcp_congestion_ops\0")
    assert probe.btf().present is True
    assert not probe.declares_bpf_qdisc()
    btf.write_bytes(btf.read_bytes() + b"bpf_struct_ops_Qdisc_ops\0")
    assert probe.declares_bpf_qdisc()


def test_a_bpf_qdisc_is_not_taken_for_granted_where_nothing_loads_it(
    btf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_library() -> None:
        raise EnvironmentLacks("no libbpf.so.1 on this machine", "apt-get install libbpf1, or use --vm")

    btf.write_bytes(b"\x9f\xeb\x01\0\0bpf_struct_ops_Qdisc_ops\0")
    monkeypatch.setenv("PATH", str(btf.parent))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(probe, "in_new_namespace", lambda work: work())
    monkeypatch.setattr(libbpf, "library", no_library)
    monkeypatch.setattr(bpf_object, "library", no_library)
    assert probe.bpf_qdisc() == ProbeFinding(False, "no libbpf.so.1 on this machine")
    assert probe.lack_of_libbpf() == "apt-get install libbpf1, or use --vm"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert probe.bpf_qdisc() == ProbeFinding(None, "needs root to try")


def test_without_root_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert probe.root() == ProbeFinding(False, "uid 1000")
    for finding in (probe.namespaces(), probe.device("veth"), probe.qdisc("netem"), probe.rxe(), probe.hash_seed()):
        assert finding == ProbeFinding(None, "needs root to try")
    assert not probe.has_qdisc("netem")


def test_a_missing_tool_is_missing_and_a_version_is_read() -> None:
    assert probe.tool("no-such-program-anywhere") == ProbeFinding(False, "not installed")
    assert probe.tool("python3", "--version").detail.startswith("3.")
    assert probe.tool("true") == ProbeFinding(True)


@pytest.mark.parametrize(
    ("failure", "detail"),
    [
        (CommandFailed(["ip"], 2, "Error: Unknown device type.\n"), "Unknown device type"),
        (CommandFailed(["ip"], 2, ""), "ip ended with 2"),
        (EnvironmentLacks("program ip not found", "install it"), "program ip not found"),
        (PermissionError(1, "Operation not permitted"), "Operation not permitted"),
    ],
)
def test_a_failed_trial_says_why(failure: Exception, detail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> str:
        raise failure

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(probe, "in_new_namespace", fail)
    assert probe.namespaces() == ProbeFinding(False, detail)
