"""Run a command in the guest for the host's own purposes, without a user; its output is returned."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.vm.calls.channel import Lost, opened_at
from lab.vm.calls.frames import CallFrameKind
from lab.vm.calls.request import GuestRequest
from lab.vm.checkpoints.fingerprint import of_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.vm.calls.channel import GuestChannel
    from lab.vm.calls.frames import CallFrame
    from lab.vm.host.vm_state import StateFolder


_LONGEST: Final = 900.0
"""Default time limit in seconds: the VM's lock is held meanwhile, and commands that wait for it cannot say why.

The first command compiles all modules: 120 s of a whole CPU without KVM, and several VMs may share two CPUs.
"""


def run(state: StateFolder, port: int, *command: str, timeout: float = _LONGEST) -> str:
    """Run ``command`` in the guest's /, on a port that the caller has reserved, and return its output.

    Raises OperationFailed if it fails, or if it runs longer than ``timeout`` seconds and is ended.
    """
    request = GuestRequest(argv=command, directory="/", environment={}, terminal=None, code=of_code())
    printed = b""
    try:
        with opened_at(state, port, request) as channel:
            channel.send(CallFrameKind.INPUT_END)
            for frames in _frames(channel, command, timeout):
                for frame in frames:
                    if frame.kind is CallFrameKind.EXIT:
                        return _judged(command, int(frame.payload), printed.decode(errors="replace").strip())
                    if frame.kind in {CallFrameKind.OUTPUT, CallFrameKind.ERRORS}:
                        printed += frame.payload
            raise Lost
    except Lost as lost:
        raise OperationFailed(f"the VM was lost while {command[0]} ran", "rocelab vm down, then up again") from lost


def _frames(channel: GuestChannel, command: tuple[str, ...], timeout: float) -> Iterator[list[CallFrame]]:
    ready = select.poll()
    ready.register(channel, select.POLLIN)
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        if ready.poll(left * 1000):
            yield channel.receive()
    raise OperationFailed(
        f"{' '.join(command)} did not end in the VM within {timeout:g} s", "rocelab vm down, then up again"
    )


def _judged(command: tuple[str, ...], code: int, printed: str) -> str:
    if code:
        raise OperationFailed(f"{' '.join(command)} failed in the VM: {printed or f'exit code {code}'}")
    return printed
