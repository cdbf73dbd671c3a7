"""The kernel command line shows whether a machine runs in real or in virtual time."""

from pathlib import Path

import pytest

from lab.kernel.process import time_source


@pytest.mark.parametrize(
    ("words", "time"),
    [
        ("console=ttyS0 rocelab.time=virtual quiet", "virtual"),
        ("rocelab.time=host", "host"),
        ("quiet", "host"),
        ("xrocelab.time=virtual rocelab.time=virtually", "host"),
    ],
)
def test_lives_in(words: str, time: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cmdline").write_text(words + "\n")
    monkeypatch.setattr(time_source, "_COMMAND_LINE", tmp_path / "cmdline")
    assert time_source.lives_in() == time
