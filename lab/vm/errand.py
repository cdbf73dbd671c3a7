"""A command in the guest for the host's own purposes: nobody watches it, and what it prints is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import OperationFailed
from lab.vm.channel import Lost, opened_at
from lab.vm.fingerprint import of_code
from lab.vm.frames import Kind
from lab.vm.request import Request

if TYPE_CHECKING:
    from lab.vm.state import StateFolder


def run(state: StateFolder, port: int, *command: str) -> str:
    """Run ``command`` in the guest's /, on a port that the caller has, and return what it printed.

    OperationFailed when it ends with an error.
    """
    request = Request(argv=command, directory="/", environment={}, terminal=None, code=of_code())
    printed = b""
    try:
        with opened_at(state, port, request) as channel:
            channel.send(Kind.INPUT_END)
            while True:
                for frame in channel.receive():
                    if frame.kind is Kind.EXIT:
                        return _judged(command, int(frame.payload), printed.decode(errors="replace").strip())
                    if frame.kind in {Kind.OUTPUT, Kind.ERRORS}:
                        printed += frame.payload
    except Lost as lost:
        raise OperationFailed(f"the VM was lost while {command[0]} ran", "rocelab vm down, then up again") from lost


def _judged(command: tuple[str, ...], code: int, printed: str) -> str:
    if code:
        raise OperationFailed(f"{' '.join(command)} failed in the VM: {printed or f'exit code {code}'}")
    return printed
