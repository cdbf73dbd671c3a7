"""Parsed answers of FRR 8.4, and errors of daemons that do not answer."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lab.errors import OperationFailed
from lab.kernel.process.netns import Namespace
from lab.routing.daemons import Router
from lab.routing.show import BgpSession, liveness, sessions, show
from lab.routing.vty import Vty

BGP = """
{"ipv4Unicast": {"as": 4200100001, "peers": {
   "swp1": {"desc": "spine1:swp1", "state": "Established", "pfxRcd": 12, "peerUptimeMsec": 9000},
   "swp2": {"desc": "spine2:swp1", "state": "Active", "peerUptimeMsec": 0}}},
 "ipv6Unicast": {"peers": {
   "swp1": {"desc": "spine1:swp1", "state": "Established", "pfxRcd": 5, "peerUptimeMsec": 9000},
   "swp2": {"desc": "spine2:swp1", "state": "Active", "peerUptimeMsec": 0}}}}
"""
OUTSIDE = """
{"ipv4Unicast": {"routerId": "10.253.0.3", "as": 4200100003, "vrfId": 16, "vrfName": "blue", "peers": {
   "10.9.0.2": {"desc": "h6", "state": "Idle", "pfxRcd": 0, "peerUptime": "never", "peerUptimeMsec": 0}}},
 "ipv6Unicast": {"peers": {
   "fd00:9::2": {"desc": "h6", "state": "Established", "pfxRcd": 1, "peerUptimeMsec": 9000}}}}
"""
BFD = '[{"interface": "swp1", "status": "up"}, {"interface": "swp2", "status": "down"}]'


class Daemon(threading.Thread):
    """Takes one command at its terminal, as FRR does, and sends what it is to in pieces."""

    def __init__(self, terminal: Path, said: Sequence[bytes]) -> None:
        super().__init__()
        self.asked = b""
        self._said = said
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(terminal))
        self._listener.listen()

    def run(self) -> None:
        with self._listener, self._listener.accept()[0] as connection:
            heard = connection.makefile("rb")
            assert heard.read(len(b"enable\0")) == b"enable\0"
            connection.sendall(b"\0\0\0\0")
            while not self.asked.endswith(b"\0"):
                self.asked += heard.read(1)
            for piece in self._said:
                connection.sendall(piece)


@contextlib.contextmanager
def listening(folder: Path, **said: Sequence[bytes]) -> Iterator[Router]:
    """A router of which these daemons live."""
    daemons = [Daemon(folder / f"{name}.vty", pieces) for name, pieces in said.items()]
    for daemon in daemons:
        daemon.start()
    yield Router("leaf1", Namespace("x"), folder)
    for daemon in daemons:
        daemon.join(10)
        assert daemon.asked.endswith(b" json\0")


def whole(text: str) -> list[bytes]:
    return [text.encode() + b"\0\0\0\0"]


def test_prefixes_of_all_families_are_added_up_and_bfd_is_read(tmp_path: Path) -> None:
    with listening(tmp_path, bgpd=whole(BGP), bfdd=whole(BFD)) as router:
        peers, bfd = sessions(router), liveness(router)
    assert peers == [
        BgpSession("swp1", "spine1:swp1", "Established", 17, 9.0),
        BgpSession("swp2", "spine2:swp1", "Active", 0, 0.0),
    ]
    assert [peer.established for peer in peers] == [True, False]
    assert bfd == {"swp1": True, "swp2": False}


def test_sessions_of_a_vrf_are_asked_for_by_its_name(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "bgpd.vty", whole(OUTSIDE))
    daemon.start()
    peers = sessions(Router("leaf3", Namespace("x"), tmp_path), "blue")
    daemon.join(10)
    assert daemon.asked == b"show bgp vrf blue summary json\0"
    assert peers == [
        BgpSession("10.9.0.2", "h6", "Idle", 0, 0.0),
        BgpSession("fd00:9::2", "h6", "Established", 1, 9.0),
    ]
    assert all(peer.of_loopbacks for peer in peers)


def test_a_daemon_that_does_not_listen_is_named_by_its_command(tmp_path: Path) -> None:
    with (
        listening(tmp_path) as router,
        pytest.raises(OperationFailed, match="leaf1: no answer to 'show bfd "),
    ):
        liveness(router)


@pytest.mark.parametrize(
    "pieces",
    [[b""], [b"[]"], [b"[]\0\0\0"], [b"[]\0\0\0\1"], [b"% Unknown command\n\0\0\0\2"], whole("no JSON"), whole("")],
    ids=["hangs up", "does not end", "ends early", "warns", "refuses", "no JSON", "nothing"],
)
def test_a_daemon_that_does_not_answer_is_too(tmp_path: Path, pieces: list[bytes]) -> None:
    with (
        listening(tmp_path, bfdd=pieces) as router,
        pytest.raises(OperationFailed, match="leaf1: no answer to 'show bfd peers json'"),
    ):
        show(router, "bfdd", "show bfd peers json")


@pytest.mark.parametrize("cut", range(1, 6))
def test_an_answer_may_come_in_pieces(tmp_path: Path, cut: int) -> None:
    answer = whole("[1]")[0]
    with listening(tmp_path, bfdd=[answer[:cut], answer[cut:]]) as router:
        assert show(router, "bfdd", "show bfd peers json") == [1]


def test_a_command_that_is_sent_in_part_is_an_error(tmp_path: Path) -> None:
    """A daemon that is stopped reads nothing: its socket takes what it has room for."""
    terminal = tmp_path / "bgpd.vty"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(terminal))
        listener.listen()
        with Vty(terminal) as vty:
            vty.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
            with pytest.raises(OperationFailed, match="does not read its commands"):
                vty.ask("show " + "x" * (1 << 24))
            with pytest.raises(OperationFailed, match="has hung up"):
                vty.ask("show version")
