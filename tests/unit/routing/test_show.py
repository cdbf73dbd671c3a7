"""What FRR 8.4 answered, read; and what no daemon answered, told."""

import subprocess
from pathlib import Path

import pytest

from lab.errors import OperationFailed
from lab.kernel.netns import Namespace
from lab.routing.daemons import Router
from lab.routing.show import Session, sessions_and_liveness

BGP = """
{"ipv4Unicast": {"as": 4200100001, "peers": {
   "swp1": {"desc": "spine1:swp1", "state": "Established", "pfxRcd": 12, "peerUptimeMsec": 9000},
   "swp2": {"desc": "spine2:swp1", "state": "Active", "peerUptimeMsec": 0}}},
 "ipv6Unicast": {"peers": {
   "swp1": {"desc": "spine1:swp1", "state": "Established", "pfxRcd": 5, "peerUptimeMsec": 9000},
   "swp2": {"desc": "spine2:swp1", "state": "Active", "peerUptimeMsec": 0}}}}
"""
BFD = '[{"interface": "swp1", "status": "up"}, {"interface": "swp2", "status": "down"}]'


def router(monkeypatch: pytest.MonkeyPatch, said: str) -> Router:
    def run(_: Namespace, argv: list[str], **__: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(argv, 0, said, "")

    monkeypatch.setattr(Namespace, "run", run)
    monkeypatch.setattr(Router, "vtysh", lambda _, *commands: ["vtysh", *commands])
    return Router("leaf1", Namespace("x"), Path("/nowhere"))


def test_prefixes_of_all_families_are_added_up_and_bfd_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    peers, bfd = sessions_and_liveness(router(monkeypatch, BGP + BFD))
    assert peers == [
        Session("swp1", "spine1:swp1", "Established", 17, 9.0),
        Session("swp2", "spine2:swp1", "Active", 0, 0.0),
    ]
    assert [peer.established for peer in peers] == [True, False]
    assert bfd == {"swp1": True, "swp2": False}


@pytest.mark.parametrize(
    ("said", "silent"), [("bgpd is not running\n", "bgp"), (BGP + "bfdd is not running\n", "bfd")]
)
def test_a_daemon_that_does_not_answer_is_named_by_its_command(
    monkeypatch: pytest.MonkeyPatch, said: str, silent: str
) -> None:
    with pytest.raises(OperationFailed, match=f"leaf1: no answer to 'show {silent} "):
        sessions_and_liveness(router(monkeypatch, said))
