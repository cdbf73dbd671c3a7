"""The reason why a guest ended, from its serial console."""

from __future__ import annotations

import itertools
import re
from typing import Final

_FAULT: Final = re.compile(
    r"\bBUG: |\bkernel BUG at |\bOops\b|general protection fault"
    r"|Unable to handle kernel|Internal error: |Kernel panic"
)
"""The beginnings of Linux's fatal messages on the architectures of ``lab.vm.image.arch``."""
_PANIC: Final = "Kernel panic"
_END: Final = "---[ end trace"
_TASK: Final = re.compile(r"\bCPU: \d+ ")
_PLACE: Final = re.compile(r"\bRIP: 0010:|\bpc : ")
_TRACE: Final = re.compile(r"\bCall [Tt]race:")
_CALL: Final = re.compile(r"^\[[ \d.]+\]  [\w.]+\+0x")
"""A reliable frame of a call trace; the unwinder marks the others with a question mark."""
_CALLS: Final = 5
_LINES: Final = 8


def last_words(console: str) -> str:
    """Return the kernel's fault, if there was one, and otherwise the last lines."""
    return fault(console) or "\n".join(console.splitlines()[-_LINES:]) or "its console is empty"


def fault(console: str) -> str:
    """Return the kernel's first fault: message, CPU, place, innermost calls and panic; "" without a fault."""
    lines = list(itertools.dropwhile(lambda line: not _FAULT.search(line), console.splitlines()))
    first = list(itertools.takewhile(lambda line: _END not in line, lines))
    trace = itertools.dropwhile(lambda line: not _TRACE.search(line), first)
    calls = [line for line in trace if _TRACE.search(line) or _CALL.search(line)]
    panics = [line for line in lines if _PANIC in line]
    told = [*first[:1], *_first(_TASK, first), *_first(_PLACE, first), *calls[: 1 + _CALLS], *panics[:1]]
    return "\n".join(dict.fromkeys(told))


def _first(what: re.Pattern[str], lines: list[str]) -> list[str]:
    return [line for line in lines if what.search(line)][:1]
