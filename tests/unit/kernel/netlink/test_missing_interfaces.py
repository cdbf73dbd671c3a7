"""An interface that somebody removed from a node: whoever reads one of its figures names it."""

from __future__ import annotations

import pytest

from lab.errors import OperationFailed
from lab.kernel.netlink import interfaces
from lab.kernel.process.netns import Namespace


def test_a_missing_interface_is_named_and_not_a_key_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Namespace, "inside", lambda _, work: work())
    monkeypatch.setattr(interfaces, "dump", lambda *_: [])
    monkeypatch.setattr(interfaces, "_links", lambda _: [])
    for found in (interfaces.interfaces(Namespace("rl-a.leaf1")), interfaces.indices(Namespace("rl-a.leaf1"))):
        assert found.get("swp9") is None
        assert "swp9" not in found
        with pytest.raises(OperationFailed, match=r"^rl-a\.leaf1 has no interface swp9 now: rocelab status"):
            found["swp9"]
