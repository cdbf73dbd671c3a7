"""Passwords and keys of running FRR daemons: their sessions work, digests compare, and no output has a secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lab.audit import snapshot
from lab.audit.reader import audit
from lab.audit.without_plan import differences_without_plan
from lab.backends.lifecycle import reading
from tests.fabric.command import TOPOLOGIES, rocelab
from tests.patience import PATIENCE, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("unchanged")]

SECRET, OTHER = "Xk7-horse", "Xk7-mouse"


class Keyed(NamedTuple):
    """How a session is given a secret."""

    topology: str
    lines: tuple[str, ...]
    """For both ends of the link between swp1 of leaf1 and swp1 of spine1."""
    shown: str
    """The beginning of the line that has the secret, after its contexts."""
    state: str
    """The command that shows the session at leaf1."""
    up: str
    """In its answer while the session is up."""


KEYED = [
    Keyed("clos-2x2", ("router bgp", f"neighbor swp1 password {SECRET}"), "neighbor swp1 password ",
          "show bgp neighbors swp1 json", '"bgpState":"Established"'),
    Keyed("ospf", ("interface swp1", "ip ospf authentication message-digest",
                   f"ip ospf message-digest-key 1 md5 {SECRET}"), "ip ospf message-digest-key 1 md5 ",
          "show ip ospf neighbor swp1 json", '"Full/'),
    Keyed("isis", ("interface swp1", f"isis password md5 {SECRET}"), "isis password md5 ",
          "show isis neighbor", "swp1 "),
]  # fmt: skip


def typed(fabric: str, node: str, *lines: str) -> str:
    words = [word for line in lines for word in ("-c", line)]
    return rocelab("vtysh", node, "--fabric", fabric, *words).stdout


def secrets(fabric: str, beginning: str) -> dict[str, str]:
    """The line with a secret of each node that has one, as the audit reads it."""
    with reading(fabric) as opened:
        found = audit(opened)
        assert SECRET not in json.dumps(snapshot.dump(found)), "the audit has a secret"
        differing = str(differences_without_plan(found, opened.topology))
        assert SECRET not in differing
        assert OTHER not in differing
    lines = {name: [each.line.rpartition(" / ")[2] for each in node.frr] for name, node in found.nodes.items()}
    return {name: line for name, each in lines.items() for line in each if line.startswith(beginning)}


@pytest.mark.parametrize("keyed", KEYED, ids=lambda each: each.topology)
def test_secrets_are_compared_and_never_shown(keyed: Keyed, tmp_path: Path) -> None:
    name = keyed.topology
    rocelab("up", TOPOLOGIES / f"{name}.yaml", "--no-rdma")
    ends = "leaf1", "spine1"
    for node in ends:
        typed(name, node, "configure terminal", *keyed.lines)
    if name == "clos-2x2":
        for node in ends:
            typed(name, node, "clear bgp *")
    until(lambda: keyed.up in typed(name, "leaf1", keyed.state).replace(" :", ":").replace(": ", ":"), PATIENCE)
    same = secrets(name, keyed.shown)
    assert set(same) == {*ends}
    assert len({*same.values()}) == 1, "both ends have the same secret"
    assert same["leaf1"].startswith(f"{keyed.shown}<secret:")

    *contexts, last = keyed.lines
    if name == "ospf":
        typed(name, "leaf1", "configure terminal", *contexts, "no ip ospf message-digest-key 1")
    typed(name, "leaf1", "configure terminal", *contexts, last.replace(SECRET, OTHER))
    wrong = secrets(name, keyed.shown)
    assert wrong["spine1"] == same["spine1"]
    assert wrong["leaf1"] != same["leaf1"], "another secret has another digest"

    told = [rocelab("drift", "--fabric", name, *more, expect=1).stdout for more in ((), ("--json",))]
    assert "<secret:" in told[1]
    run = tmp_path / "run"
    rocelab("record", "start", "run", "--output", run, "--fabric", name)
    rocelab("record", "stop", "--fabric", name)
    recorded = [file.read_bytes() for file in run.rglob("*") if file.is_file()]
    assert any(b"<secret:" in each for each in recorded)
    for secret in (SECRET, OTHER):
        assert not any(secret in each for each in told)
        assert not any(secret.encode() in each for each in recorded)
