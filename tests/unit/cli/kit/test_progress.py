"""Progress of long work where standard error is no terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.backends.backend import in_lines
from lab.cli.kit.progress import stages

if TYPE_CHECKING:
    import pytest

    from lab.backends.backend import Progress


def work(progress: Progress) -> None:
    """A stage of a hundred steps, and one that has none."""
    for done in range(101):
        progress("links", done, 100)
    progress("rdma", 0, 0)
    progress("links", 100, 100)


EXPECTED = ["links: 0 of 100", "links: 25 of 100", "links: 50 of 100", "links: 75 of 100", "links: 100 of 100"]


def test_a_line_for_each_quarter_of_a_stage() -> None:
    lines: list[str] = []
    work(in_lines(lines.append))
    assert lines == [*EXPECTED, "rdma: 0 of 0"]


def test_captured_output_has_the_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with stages(lines=True) as progress:
        work(progress)
    said = capsys.readouterr()
    assert (said.out, said.err.splitlines()) == ("", [*EXPECTED, "rdma: 0 of 0"])
    with stages() as progress:
        work(progress)
    assert capsys.readouterr() == ("", "")
