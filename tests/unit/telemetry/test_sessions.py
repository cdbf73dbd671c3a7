"""Which changes of sessions and adjacencies are recorded, from what FRR answers."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lab.telemetry.sample.routing_sessions import Sessions, SessionState, changes

if TYPE_CHECKING:
    from pathlib import Path

NS = 10**9


def bgp(**states: tuple[str, int]) -> dict[str, Any]:
    peers = {name: {"state": state, "peerUptimeMsec": age} for name, (state, age) in states.items()}
    return {"ipv4Unicast": {"peers": peers}, "ipv6Unicast": {"peers": peers}}


def told(known: dict[str, SessionState], said: Any, now: int, daemon: str = "bgpd") -> list[tuple[str, str, str]]:
    events = list(changes("leaf1", daemon, known, said, now * NS))
    assert all(event["node"] == "leaf1" and event["source"] == "routing" for event in events)
    return [(event["interface"], event["before"], event["state"]) for event in events]


def test_sessions_are_told_at_first_and_when_they_change() -> None:
    known: dict[str, SessionState] = {}
    up = ("Established", 100_000)
    assert told(known, bgp(swp1=up, swp2=("Active", 0)), 100) == [
        ("swp1", "", "Established"), ("swp2", "", "Active"),
    ]  # fmt: skip
    assert told(known, bgp(swp1=("Established", 101_000), swp2=("Active", 0)), 101) == []
    assert told(known, bgp(swp1=("Idle", 1_000), swp2=("Active", 0)), 102) == [("swp1", "Established", "Idle")]
    assert told(known, bgp(swp2=("Established", 0)), 103) == [
        ("swp2", "Active", "Established"), ("swp1", "Idle", "gone"),
    ]  # fmt: skip


def test_one_that_went_down_and_came_up_between_two_looks_is_told_by_its_age() -> None:
    known: dict[str, SessionState] = {}
    told(known, bgp(swp1=("Established", 50_000)), 100)
    assert told(known, bgp(swp1=("Established", 51_000)), 101) == []
    assert told(known, bgp(swp1=("Established", 0)), 102) == [("swp1", "Established", "Established")]


def test_one_that_is_only_read_late_has_not_changed() -> None:
    """FRR counts how often a session was established: an answer that waits to be read makes it look younger."""
    known: dict[str, SessionState] = {}
    told(known, counting(50_000, 2), 100)
    assert told(known, counting(51_000, 2), 160) == []
    assert told(known, counting(0, 3), 161) == [("swp1", "Established", "Established")]
    (event,) = changes("leaf1", "bgpd", known, counting(0, 4), 162 * NS)
    assert event["connections"] == 4


def counting(age: int, connections: int) -> dict[str, Any]:
    peer = {"state": "Established", "peerUptimeMsec": age, "connectionsEstablished": connections}
    return {"ipv4Unicast": {"peers": {"swp1": peer}}}


def test_bfd_is_told_likewise() -> None:
    known: dict[str, SessionState] = {}
    assert told(known, [{"interface": "swp1", "status": "up"}], 1, "bfdd") == [("swp1", "", "up")]
    assert told(known, [{"interface": "swp1", "status": "down"}], 2, "bfdd") == [("swp1", "up", "down")]


def test_a_daemon_that_had_gone_before_is_told_of_once_and_when_it_is_back(tmp_path: Path) -> None:
    """Its socket is still there, and nobody listens."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "bgpd.vty"))
    router: Any = SimpleNamespace(directory=tmp_path)
    sessions = Sessions({"leaf1": router}, 0)
    assert sessions.descriptors == []
    lost = {"source": "routing", "kind": "daemon_lost", "node": "leaf1", "daemon": "bgpd"}
    assert [list(sessions.look(now * NS)) for now in (0, 1)] == [[lost], []]
    (tmp_path / "bgpd.vty").unlink()
    with socket.socket(socket.AF_UNIX) as back:
        back.bind(str(tmp_path / "bgpd.vty"))
        back.listen()
        assert [list(sessions.look(now * NS)) for now in (2, 3)] == [[lost | {"kind": "daemon_back"}], []]
        assert len(sessions.descriptors) == 1
        sessions.close()


def test_one_without_sessions_is_asked_whether_it_is_there(tmp_path: Path) -> None:
    """vtysh's protocol: a command ends with a zero, an answer with three and a status."""
    router: Any = SimpleNamespace(directory=tmp_path)
    with socket.socket(socket.AF_UNIX) as zebra:
        zebra.bind(str(tmp_path / "zebra.vty"))
        zebra.listen()
        sessions = Sessions({"leaf1": router}, 0)
        with zebra.accept()[0] as heard:
            assert list(sessions.look(0)) == []
            assert heard.recv(99) == b"enable\0echo present\0"
            heard.send(b"\0\0\0\0present\n\0\0\0\0")
            assert [list(sessions.look(now * NS)) for now in (1, 2)] == [
                [], [{"source": "routing", "kind": "daemon_silent", "node": "leaf1", "daemon": "zebra"}],
            ]  # fmt: skip
        assert [event["kind"] for event in sessions.look(3 * NS)] == ["daemon_lost"]
        sessions.close()


def test_a_first_answer_has_the_age_of_what_is_up() -> None:
    known: dict[str, SessionState] = {}
    said = bgp(swp1=("Established", 100_000), swp2=("Active", 5_000))
    assert [event.get("age") for event in changes("leaf1", "bgpd", known, said, 200 * NS)] == [100.0, None]
    later = bgp(swp1=("Idle", 1_000), swp2=("Established", 0))
    assert [event.get("age") for event in changes("leaf1", "bgpd", known, later, 201 * NS)] == [None, None]
    peers = [
        {"interface": "swp1", "status": "up", "uptime": 7},
        {"interface": "swp2", "status": "down", "uptime": 9},
        {"interface": "swp3", "status": "up"},
    ]
    assert [event.get("age") for event in changes("leaf1", "bfdd", {}, peers, NS)] == [7, None, None]


def test_they_are_known_when_every_daemon_with_sessions_has_answered_or_gone(tmp_path: Path) -> None:
    assert Sessions({}, 0).are_known
    router: Any = SimpleNamespace(directory=tmp_path)
    with socket.socket(socket.AF_UNIX) as bgpd, socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(tmp_path / "bfdd.vty"))
        bgpd.bind(str(tmp_path / "bgpd.vty"))
        bgpd.listen()
        sessions = Sessions({"leaf1": router}, 0)
        with bgpd.accept()[0] as heard:
            list(sessions.look(NS))
            known = [sessions.are_known]
            heard.send(b"\0\0\0\0{}\n\0\0\0\0")
            list(sessions.look(2 * NS))
            assert [*known, sessions.are_known] == [False, True]
        sessions.close()


def ospf(**states: tuple[str, int]) -> dict[str, Any]:
    rows = [
        {"nbrState": f"{state}/-", "upTimeInMsec": age, "ifaceName": f"{name}:10.253.0.1"}
        for name, (state, age) in states.items()
    ]
    return {"neighbors": {"10.254.0.1": rows}}


def ospf6(**states: tuple[str, str]) -> dict[str, Any]:
    rows = [{"interfaceName": name, "state": state, "duration": age} for name, (state, age) in states.items()]
    return {"neighbors": rows}


def isis(**states: tuple[str, str]) -> dict[str, Any]:
    rows = [{"interface": {"name": name, "state": state, "last-ago": age}} for name, (state, age) in states.items()]
    return {"areas": [{"circuits": rows}]}


def test_an_adjacency_that_is_no_longer_listed_is_down_until_it_is_back() -> None:
    known: dict[str, SessionState] = {}
    up = {"swp1": ("Full", 90_000), "swp2": ("Full", 90_000)}
    assert told(known, ospf(**up), 100, "ospfd") == [("swp1", "", "Full"), ("swp2", "", "Full")]
    assert told(known, ospf(swp1=("Full", 91_000)), 101, "ospfd") == [("swp2", "Full", "Down")]
    assert told(known, ospf(swp1=("Full", 92_000)), 102, "ospfd") == []
    assert told(known, ospf(swp1=("Full", 93_000), swp2=("Exchange", 20)), 103, "ospfd") == [
        ("swp2", "Down", "Exchange")
    ]


def test_adjacencies_of_each_protocol_are_events_of_their_own_kind_with_their_age() -> None:
    said = {
        "ospfd": ("ospf", ospf(swp1=("Full", 7_000)), "Full"),
        "ospf6d": ("ospf6", ospf6(swp1=("Full", "00:00:07")), "Full"),
        "isisd": ("isis", isis(swp1=("Up", "7s")), "Up"),
    }
    for daemon, (kind, answer, state) in said.items():
        (event,) = changes("leaf1", daemon, {}, answer, 9 * NS)
        assert (event["kind"], event["state"], event["before"], event["age"]) == (kind, state, "", 7.0)
        (event,) = changes("leaf1", daemon, {"swp1": SessionState(state, 1.0)}, answer, 20 * NS)
        assert (event["state"], event["before"]) == (state, state)


def test_an_age_in_days_is_not_compared() -> None:
    """ospf6d reports an age of more than a day in minutes."""
    known: dict[str, SessionState] = {}
    told(known, ospf6(swp1=("Full", "23:59:59")), 100_000, "ospf6d")
    for now, age in ((100_001, "1d00h00m"), (100_050, "1d00h00m"), (100_061, "1d00h01m")):
        assert told(known, ospf6(swp1=("Full", age)), now, "ospf6d") == []
    assert told(known, ospf6(swp1=("Full", "00:00:01")), 100_062, "ospf6d") == [("swp1", "Full", "Full")]
