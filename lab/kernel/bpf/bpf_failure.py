"""The reason why a BPF object failed to load, from libbpf's messages and the verifier's log."""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks, LabError, OperationFailed
from lab.kernel.process.user_folders import kernel_cache

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LOG: Final = re.compile(r"prog '(\w+)': -- BEGIN PROG LOAD LOG --\n(.*)-- END PROG LOAD LOG --", re.DOTALL)
_STATISTICS: Final = re.compile(r"processed \d+ insns ")
_EXPLANATION: Final = "\nVerification failed: "
_SOURCE: Final = re.compile(r"^; .* @ (\S+:\d+)$")
_LACKING: Final = re.compile(r"not found in kernel|kernel BTF is missing|loading vmlinux BTF")
_PREFIX: Final = "libbpf: "
_FIRST_OF_LIBBPF: Final = 4000
"""Errors from this number on are libbpf's own (LIBBPF_ERRNO__START), unknown to strerror(3)."""


def failure(path: Path, what: str, number: int, said: Sequence[str]) -> LabError:
    """Return the error to raise when libbpf failed on ``path`` with the errno ``number`` and the messages ``said``.

    The verifier's log is saved to a file in the cache, whose path the error contains.
    """
    if number == errno.EPERM and os.geteuid() != 0:
        return EnvironmentLacks(what, "run as root")
    messages = [message.removeprefix(_PREFIX) for message in said]
    lacking = next((message for message in messages if _LACKING.search(message)), None)
    if lacking is not None:
        return EnvironmentLacks(f"{what}: {lacking}", "this kernel lacks it; see rocelab doctor, or use --vm")
    for message in messages:
        if refused := _LOG.search(message):
            return _refused(path, *refused.groups())
    reason = messages[0] if messages else _describe(number)
    return OperationFailed(f"{what}: {reason}")


def _refused(path: Path, program: str, log: str) -> LabError:
    folder = kernel_cache("bpf")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    full = folder / f"{path.stem}.{program}.log"
    full.write_text(log, encoding="utf-8")
    return OperationFailed(f"the verifier refuses program {program}: {verdict(log)}", f"its log is in {full}")


def verdict(log: str) -> str:
    """Return the reason at the end of a verifier's log, with the line of the source if the log has it.

    Newer kernels append a long explanation, which is left out.
    """
    steps = log.partition(_EXPLANATION)[0].splitlines()
    lines = [line.strip() for line in steps if line.strip() and not _STATISTICS.match(line)]
    reason = lines[-1] if lines else "it gives no reason"
    sources = [found.group(1) for line in lines if (found := _SOURCE.match(line))]
    return f"{reason} ({sources[-1]})" if sources else reason


def _describe(number: int) -> str:
    return os.strerror(number) if 0 < number < _FIRST_OF_LIBBPF else f"libbpf error {number}"
