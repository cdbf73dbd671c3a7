"""``rocelab up``: its warnings, before anything is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.backends import lifecycle
from lab.cli.fabrics.up import up
from lab.errors import OperationFailed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("rdma", [True, False])
def test_without_pfc_hosts_without_rdma_devices_are_warned_of(
    rdma: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise OperationFailed("stopped before building", "")

    monkeypatch.setattr(lifecycle, "up", stop)
    file = tmp_path / "lossy.yaml"
    file.write_text(
        "name: t\ndefaults: {rate: 100Mbit, mtu: 1500}\n"
        "generate: {shape: leaf-spine, spines: 1, leaves: 2}\nqos: lossy\n"
    )
    with pytest.raises(OperationFailed, match="stopped before building"):
        up(file, rdma=rdma)
    assert ("limits QPs of RDMA devices only" in capsys.readouterr().err.replace("\n", " ")) is not rdma
