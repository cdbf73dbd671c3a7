"""``rocelab craft --send h1:eth1 --dst h3``: names of nodes where there is a fabric to look them up in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.packets.inject import Sender
from lab.errors import LabError
from lab.wire.frame import decode
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import run

if TYPE_CHECKING:
    from pathlib import Path


class Sent:
    """Stands in for the report of what was sent."""

    facts: dict[str, Any] = {}  # noqa: RUF012 - nothing writes to it


@pytest.fixture(autouse=True)
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(fabric("pfc-ecn"), tmp_path, monkeypatch)
    monkeypatch.setattr(Sender, "complete", lambda _self, specs: list(specs))
    monkeypatch.setattr(Sender, "send", lambda *_: Sent())


def crafted(*words: str) -> tuple[str, str]:
    """The addresses of the packet."""
    result = CliRunner().invoke(app, ["craft", "write", *words, "--send", "h1:eth1", "--json"])
    if isinstance(result.exception, LabError):
        raise result.exception
    assert result.exit_code == 0, result.output
    frame = decode(bytes.fromhex(json.loads(result.stdout)["packets"][0]["octets"]))
    return str(frame.src), str(frame.dst)


def test_a_name_is_the_address_of_the_node() -> None:
    assert crafted("--src", "h2", "--dst", "h3") == ("10.0.0.3", "10.0.0.5")
    assert crafted("--src", "10.9.9.9", "--dst", "leaf2") == ("10.9.9.9", "10.253.0.2")


def test_what_is_no_name_is_told_as_before() -> None:
    with pytest.raises(LabError, match="--dst: 'h77'"):
        crafted("--dst", "h77")
