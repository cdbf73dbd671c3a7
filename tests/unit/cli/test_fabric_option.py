"""``--fabric`` is one option: every command about a fabric that runs has it, means the same, and answers alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.command_entry import Target
from lab.cli.command_registry import walk
from lab.errors import UsageError
from tests.command_line import every_command
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records

if TYPE_CHECKING:
    from pathlib import Path

CAPTURE: Final = "CAPTURE"
TRAINING: Final = "training.yaml"
WORDS: Final[dict[str, str]] = {
    "path": "h1 h2",
    "exec": "h1 -- true",
    "shell": "h1",
    "vtysh": "leaf1",
    "rdma bw": "h1 h2",
    "rdma lat": "h1 h2",
    "qos set": "leaf1 pfc.rx=false",
    "scenario check": "--cause link-loss --where leaf1",
    "fault inject": "link-loss leaf1--spine1",
    "fault heal": "1",
    "expect": "drops==0",
    "capture": "leaf1 -o - --seconds 1",
    "craft": "pfc --send h1:eth1",
    "record start": "-o run",
    "job train": TRAINING,
    "job transfer": "h1 --to h2",
    "top": "--stream",
    "metrics serve": "--stream --port 0",
    "live": "--stream",
    "dissect": f"{CAPTURE} --filter host==h1",
    "analyze": f"{CAPTURE} --filter host==h1",
}
"""What a command needs besides."""
EVERY: Final = dict(every_command())
SERVERS: Final = {"mcp"}
"""Commands that begin without a fabric, and report in each answer that none runs."""
WITH_FABRIC: Final = [
    path for path, command in EVERY.items() if "--fabric" in {o for p in command.params for o in p.opts}
]


def test_every_command_on_a_fabric_that_runs_has_it() -> None:
    """Except ``scenario break``, which builds one of its own, and those of captures, which take a file, too."""
    on_fabric = {path for path, entry in walk() if Target.FABRIC in entry.targets}
    assert on_fabric - {"scenario break"} == set(WITH_FABRIC) - {"dissect", "analyze"} - SERVERS


@pytest.mark.parametrize("path", WITH_FABRIC)
def test_it_is_declared_alike(path: str) -> None:
    (option,) = [parameter for parameter in EVERY[path].params if "--fabric" in parameter.opts]
    assert option.opts == ["--fabric"]
    assert not option.secondary_opts
    assert not option.required
    assert option.default is None
    assert option.metavar == ("NAME|FILE" if path in {"dissect", "analyze"} else "NAME")
    assert not any("--name" in parameter.opts for parameter in EVERY[path].params)


@pytest.mark.parametrize("path", sorted(set(WITH_FABRIC) - SERVERS))
def test_one_that_does_not_run_is_answered_alike(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.pcapng"
    file.write_bytes(pcapng(records([packets.send(1)])))
    (tmp_path / TRAINING).write_text("ranks: 4\ncompute: 100ms\nallreduce: 1MiB\n")
    monkeypatch.chdir(tmp_path)
    words = WORDS.get(path, "").replace(CAPTURE, str(file)).split()
    end = words.index("--") if "--" in words else len(words)
    argv = [*path.split(), *words[:end], "--fabric", "nosuch", *words[end:]]
    done = CliRunner().invoke(app, argv)
    assert isinstance(done.exception, UsageError), (argv, done.output, done.exception)
    assert str(done.exception).startswith("no fabric nosuch: ")
