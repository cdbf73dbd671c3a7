"""The guest's side of calls: a thread for each virtio-serial port that QEMU gives the guest for them.

The guest's first program starts it (scripts/guest/root/.../init). ``python3 -m lab.vm.agent``.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from pathlib import Path
from typing import Final

from lab.kernel import clock
from lab.vm.arch import host_arch
from lab.vm.fingerprint import of_code
from lab.vm.frames import PORT_NAME, Frame, Kind
from lab.vm.idle import Idler
from lab.vm.launch import Launcher
from lab.vm.port import Disconnected, Port
from lab.vm.session import Session

_CLASS: Final = Path("/sys/class/virtio-ports")
READY: Final = "rocelab: ready after {:.2f} s"


def find_ports() -> list[Path]:
    """The device nodes of the ports for calls; there is no udev that would name them."""
    found = [port for port in _CLASS.iterdir() if (port / "name").read_text().startswith(PORT_NAME)]
    return [Path("/dev", port.name) for port in sorted(found)]


def open_port(path: Path) -> Port:
    """Open the port at a device node."""
    return Port(os.open(path, os.O_RDWR | os.O_NONBLOCK))


def serve(port: Port, launcher: Launcher, idler: Idler | None = None) -> None:
    """Serve one call after another, for as long as the guest runs."""
    following: Frame | None = None
    while True:
        start, after = (following, []) if following else next_start(port)
        try:
            following = Session(port, start, launcher, idler, after).run()
        except Disconnected:
            following = None
        if following:
            port.reset()


def next_start(port: Port) -> tuple[Frame, list[Frame]]:
    """The START of the next call, which is waited for, and what has come after it."""
    with select.epoll() as events:
        events.register(port.fileno(), port.edges)
        while True:
            frames = _heard(port)
            for number, frame in enumerate(frames):
                if frame.kind is Kind.START:
                    return frame, frames[number + 1 :]
            port.flush()
            events.poll()


def _heard(port: Port) -> list[Frame]:
    try:
        return port.receive()
    except Disconnected:
        port.reset()
        return []


def main() -> None:
    """Open the ports, tell the console that the guest is ready, and serve."""
    for number in (signal.SIGINT, signal.SIGQUIT):  # init's shell made us, and so what we start, deaf to them
        signal.signal(number, signal.SIG_DFL)
    idler = Idler(host_arch()) if clock.lives_in() == clock.VIRTUAL else None
    launcher = Launcher()
    threads = [threading.Thread(target=serve, args=(open_port(path), launcher, idler)) for path in find_ports()]
    for thread in threads:
        thread.start()
    uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    print(READY.format(uptime), flush=True)
    launcher.keep_resident(of_code())
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
