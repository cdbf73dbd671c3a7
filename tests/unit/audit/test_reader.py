"""Reading a node: a part that fails is named with its reason, and stops no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.audit import reader
from lab.audit.audited import NodeAudit, SysctlAudit, UnreadPart
from lab.errors import EnvironmentLacks

FORWARDING = SysctlAudit("net.ipv4.ip_forward", "1")


def read(monkeypatch: pytest.MonkeyPatch, error: Exception) -> NodeAudit:
    """A host whose nft reader fails."""

    def failing(_: object) -> Any:
        raise error

    kernel = SimpleNamespace()
    monkeypatch.setattr(reader, "read_kernel", lambda _: kernel)
    monkeypatch.setattr(reader, "_fields", lambda _: {})
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
