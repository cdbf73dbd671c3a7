"""The agent in the guest: a thread for each virtio-serial port, which serves calls.

The guest's init starts it (scripts/guest/root/.../init): ``python3 -m lab.vm.guest.agent``.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from pathlib import Path
from typing import Final

from lab.kernel.process import time_source
from lab.vm.calls.frames import PORT_NAME, CallFrame, CallFrameKind
from lab.vm.checkpoints.fingerprint import of_code
from lab.vm.guest.archived_modules import archived_code
from lab.vm.guest.guest_session import GuestSession
from lab.vm.guest.idle_loop import Idler
from lab.vm.guest.launch import Launcher
from lab.vm.guest.virtio_port import Disconnected, VirtioPort
from lab.vm.image.arch import host_arch

_CLASS: Final = Path("/sys/class/virtio-ports")
READY: Final = "rocelab: ready after {:.2f} s"


def find_ports() -> list[Path]:
    """Return the device nodes of the ports for calls. The guest has no udev that would name them."""
    found = [port for port in _CLASS.iterdir() if (port / "name").read_text().startswith(PORT_NAME)]
    return [Path("/dev", port.name) for port in sorted(found)]


def open_port(path: Path) -> VirtioPort:
    """Open the port at a device node."""
    return VirtioPort(os.open(path, os.O_RDWR | os.O_NONBLOCK))


def serve(port: VirtioPort, launcher: Launcher, idler: Idler | None = None) -> None:
    """Serve one call after another, as long as the guest runs."""
    following: CallFrame | None = None
    while True:
        start, after = (following, []) if following else next_start(port)
        try:
            following = GuestSession(port, start, launcher, idler, after).run()
        except Disconnected:
            following = None
        if following:
            port.reset()


def next_start(port: VirtioPort) -> tuple[CallFrame, list[CallFrame]]:
    """Wait for the START of the next call, and return it with the frames received after it."""
    with select.epoll() as events:
        events.register(port.fileno(), port.edges)
        while True:
            frames = _heard(port)
            for number, frame in enumerate(frames):
                if frame.kind is CallFrameKind.START:
                    return frame, frames[number + 1 :]
            port.flush()
            events.poll()


def _heard(port: VirtioPort) -> list[CallFrame]:
    try:
        return port.receive()
    except Disconnected:
        port.reset()
        return []


def main() -> None:
    """Open the ports, report on the console that the guest is ready, and serve."""
    for number in (signal.SIGINT, signal.SIGQUIT):  # init's shell ignores these, and programs would inherit that
        signal.signal(number, signal.SIG_DFL)
    idler = Idler(host_arch()) if time_source.lives_in() == time_source.VIRTUAL else None
    launcher = Launcher()
    threads = [threading.Thread(target=serve, args=(open_port(path), launcher, idler)) for path in find_ports()]
    for thread in threads:
        thread.start()
    uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    print(READY.format(uptime), flush=True)
    launcher.keep_resident(archived_code() or of_code())
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
