"""Sessions of stand-in programs on loopback: order, failures, silence, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from lab.errors import Interrupted, OperationFailed
from lab.kernel.process import process
from lab.rdma.measure import Nic, Pair
from lab.rdma.perftest_session import Exchange, Patience, PerftestSide, free_ports, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")
LISTEN = "import socket,sys; s=socket.create_server(('127.0.0.1',int(sys.argv[1]))); c,_=s.accept(); s.close(); "
CONNECT = "import socket,sys; c=socket.create_connection(('127.0.0.1',int(sys.argv[1]))); "
SERVER = LISTEN + "c.recv(1)"
CLIENT = CONNECT + "c.send(b'x')"
HURRY = Patience(listen=60, connect=60, stall=0.5, overrun=0.5)
LEISURE = Patience(listen=60, connect=60, stall=60, overrun=60)
"""For what ends well, on a machine that does other things too."""


@dataclass(frozen=True)
class Here:
    """Stands in for a namespace: the one we are in."""

    name: str

    def inside(self, work: Callable[[], T]) -> T:
        return work()

    def start(self, argv: process.Argv, **streams: Any) -> process.Process:
        return process.start(argv, **streams)


def exchange(folder: Path, server: str = SERVER, client: str = CLIENT, *, name: str = "0") -> Exchange:
    places: list[Any] = [Here("a"), Here("b")]
    src, dst = (Nic(f"h{i}", "eth1", place, "none", ip_address("127.0.0.1")) for i, place in enumerate(places, 1))
    port = free_ports(places[1], 1, 4)[0]

    def side(who: str, place: Any, program: str) -> PerftestSide:
        files = folder / f"{name}-{who}"
        argv = [sys.executable, "-S", "-c", program, str(port)]
        return PerftestSide(f"{who} at h", place, argv, files.with_suffix(".out"), files.with_suffix(".err"))

    return Exchange(
        Pair(src, dst),
        port,
        side("server", dst.namespace, server),
        side("client", src.namespace, client),
        folder / name,
    )


def quiet(stage: str, done: int, total: int) -> None:
    """Nobody watches."""


def gone(*exchanges: Exchange) -> bool:
    return all(side.code is not None for one in exchanges for side in one.sides if side.running)


def test_servers_listen_before_clients_start_and_all_end_well(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    several = [exchange(tmp_path, name=str(index)) for index in range(3)]
    run(several, LEISURE, lambda *step: told.append(step))
    assert all(one.done for one in several)
    for stage in ("servers", "connect", "measure"):
        assert (stage, 3, 3) in told
    stages = [stage for stage, _, _ in told]
    assert stages == sorted(stages, key=("servers", "connect", "measure").index)


def test_ports_of_one_destination_differ() -> None:
    place: Any = Here("a")
    ports = free_ports(place, 20, 4)
    assert len(set(ports)) == 20
    assert len(free_ports(place, 1, 6)) == 1
    with socket.create_server(("127.0.0.1", ports[0])) as server:
        assert server.getsockname()[1] == ports[0]


@pytest.mark.parametrize(
    ("server", "client", "why"),
    [
        ("import sys; sys.exit(\"IB device x not found\")", CLIENT, "server at h: its RDMA device is missing"),
        (LISTEN + "import os; os.kill(os.getpid(),9)", CONNECT + "c.recv(1); sys.exit(1)", r"server .* \(SIGKILL\)"),
        (SERVER, "import sys; sys.exit(\"Couldn't connect to 10.0.0.9:1\")", "no TCP connection to 10.0.0.9:1"),
        (SERVER, CONNECT + "import os; os.kill(os.getpid(),15)", r"client at h was killed \(SIGTERM\)"),
        (SERVER, CONNECT + "sys.exit(' Failed status 12: wr_id 0')", "transport retry counter exceeded"),
        ("input()", CLIENT, "server at h ended with 1"),
    ],
)  # fmt: skip
def test_the_first_failure_ends_everything(tmp_path: Path, server: str, client: str, why: str) -> None:
    bad, good = (
        exchange(tmp_path, server, client),
        exchange(tmp_path, LISTEN + "c.recv(9)", CONNECT + "c.recv(9)", name="1"),
    )
    with pytest.raises(OperationFailed, match=why):
        run([good, bad], Patience(), quiet)
    assert gone(good, bad)


def test_a_server_that_never_listens_is_given_up(tmp_path: Path) -> None:
    deaf = exchange(tmp_path, "import signal; signal.pause()")
    with pytest.raises(OperationFailed, match=r"the server did not listen within 0\.3 s"):
        run([deaf], Patience(listen=0.3), quiet)
    assert gone(deaf)


def test_a_client_that_never_connects_is_given_up(tmp_path: Path) -> None:
    lost = exchange(tmp_path, client="import signal; signal.pause()")
    with pytest.raises(OperationFailed, match=r"no TCP connection to 127\.0\.0\.1 within 0\.3 s: try: rocelab exec"):
        run([lost], Patience(connect=0.3), quiet)
    assert gone(lost)


def test_silence_and_overrun_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mute = exchange(tmp_path, LISTEN + "c.recv(9)", CONNECT + "c.recv(9)")
    with pytest.raises(OperationFailed, match=r"no RDMA packet came back for 0\.5 s"):
        run([mute], HURRY, quiet)
    assert gone(mute)
    monkeypatch.setattr("lab.rdma.sysfs.packets", lambda *_: time.monotonic_ns())
    busy = exchange(tmp_path, LISTEN + "c.recv(9)", CONNECT + "c.recv(9)")
    with pytest.raises(OperationFailed, match=r"still ran 0\.5 s after its time"):
        run([busy], HURRY, quiet, seconds=0)
    assert gone(busy)


def test_an_interrupt_leaves_no_program(tmp_path: Path) -> None:
    mute = exchange(tmp_path, LISTEN + "c.recv(9)", CONNECT + "c.recv(9)")

    def interrupt(stage: str, _done: int, _total: int) -> None:
        if stage == "measure":
            raise Interrupted("ended by SIGINT")

    with pytest.raises(Interrupted):
        run([mute], Patience(), interrupt)
    assert gone(mute)


@pytest.mark.parametrize("moment", ["asked", "waited for"])
def test_a_second_interrupt_while_programs_are_ended_leaves_none(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the first of them is asked to end, or waited for, and asking alone ends nobody."""
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    several = [
        exchange(tmp_path, deaf + LISTEN + "c.recv(9)", deaf + CONNECT + "c.recv(9)", name=str(index))
        for index in range(2)
    ]
    ask, stop = subprocess.Popen.terminate, process.stop

    def asked(program: process.Process) -> None:
        if moment == "asked":
            os.kill(os.getpid(), signal.SIGINT)
        ask(program)

    def stopped(program: process.Process) -> int:
        if moment == "waited for":
            os.kill(os.getpid(), signal.SIGINT)
        return stop(program, grace=0.01)

    def interrupt(stage: str, _done: int, _total: int) -> None:
        if stage == "measure":
            raise Interrupted("ended by SIGINT")

    monkeypatch.setattr(subprocess.Popen, "terminate", asked)
    monkeypatch.setattr(process, "stop", stopped)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(several, LEISURE, interrupt)
        assert gone(*several)
    finally:
        for program in [side.running for one in several for side in one.sides if side.running]:
            program.kill()
            program.wait()
