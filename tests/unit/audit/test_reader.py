"""Reading a node: a part that fails is named with its reason, and stops no other."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from lab.audit import reader
from lab.audit.audited import NodeAudit, UnreadPart
from lab.audit.difference import unread_kinds
from lab.audit.objects.kernel_objects import FilterAudit, SysctlAudit
from lab.backends.backend import Fabric
from lab.backends.fabric_state import FabricState
from lab.errors import EnvironmentLacks
from lab.model.qos.resolve import resolve
from tests.unit.model.qos.fabrics import fabric

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUEUED = FilterAudit("swp1", "ingress", 1, "0x1", "bpf", "all", 0)
BLOCKED = FilterAudit("", "out", 0, "9", "xfrm", "block from all to 10.0.0.1/32", 0)
FORWARDING = SysctlAudit("net.ipv4.ip_forward", "1")


def blocked() -> tuple[FilterAudit, ...]:
    return (BLOCKED,)


def read(
    monkeypatch: pytest.MonkeyPatch, error: Exception, ipsec: Callable[[], tuple[FilterAudit, ...]] = blocked
) -> NodeAudit:
    """A host whose nft reader fails."""

    def failing(_: object) -> Any:
        raise error

    kernel = SimpleNamespace()
    monkeypatch.setattr(reader, "read_kernel", lambda _: kernel)
    monkeypatch.setattr(reader, "_fields", lambda _: {"filters": (QUEUED,)})
    monkeypatch.setattr(reader, "read_ipsec_here", ipsec)
    monkeypatch.setattr(reader, "read_sysctls_here", lambda: (FORWARDING,))
    monkeypatch.setattr(reader, "read_stack_counters_here", lambda: {"IpInReceives": 4})
    monkeypatch.setattr(reader, "read_nft", failing)
    monkeypatch.setattr(reader, "_router", lambda *_: {})
    monkeypatch.setattr(reader, "read_ports", lambda *_: ())
    monkeypatch.setattr(reader, "read_rdma", lambda *_: ((), ()))
    node = SimpleNamespace(role="host")
    fabric = SimpleNamespace(
        topology=SimpleNamespace(node=lambda _: node), namespace=lambda _: SimpleNamespace(inside=lambda work: work())
    )
    return reader.read_node(cast("Any", fabric), "h1")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (EnvironmentLacks("no nft", "install nftables"), "no nft: install nftables"),
        (KeyError("expr"), "unknown form of an answer: KeyError: 'expr'"),
    ],
)
def test_a_part_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str) -> None:
    found = read(monkeypatch, error)
    assert found.unread == (UnreadPart("nft", reason),)
    assert found.sysctls == (FORWARDING,)
    assert found.counters == {"IpInReceives": 4}


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        read(monkeypatch, AssertionError("a fault of the reader"))


def test_policies_of_ipsec_are_a_part_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be read is named. It hides no other state of the kernel."""

    def refused() -> tuple[FilterAudit, ...]:
        raise PermissionError(1, "Operation not permitted")

    assert read(monkeypatch, KeyError()).filters == (QUEUED, BLOCKED)
    found = read(monkeypatch, KeyError(), refused)
    assert found.unread[0] == UnreadPart("ipsec", "[Errno 1] Operation not permitted")
    assert found.filters == (QUEUED,)
    assert unread_kinds(found) == {"filter", "nft"}


def test_ports_are_compared_with_their_configuration_at_the_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A recorder opens a fabric once, and another command configures a port later."""
    monkeypatch.setattr(FabricState, "directory", tmp_path)
    monkeypatch.setattr(reader, "_maps", lambda _: None)
    monkeypatch.setattr(
        reader, "read_node", lambda made, name, *_: NodeAudit(name, f"{made.qos['leaf1'].ports['swp1'].rate}")
    )
    topology = fabric("paper")
    backend: Any = SimpleNamespace(plan=lambda *_: {}, complaints=lambda _: {})
    opened = Fabric(FabricState("t"), topology, backend)
    before = opened.qos["leaf1"]
    slow = {name: replace(port, rate=10**6) for name, port in resolve(topology)["leaf1"].ports.items()}
    FabricState("t").save_qos({"leaf1": replace(before, ports=slow)})
    assert {each.role for each in reader.audit(opened).nodes.values()} == {"1000000"}
