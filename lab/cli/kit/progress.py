"""Progress of long work on standard error: a bar for each stage on a terminal, lines of text elsewhere."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from lab.backends.backend import in_lines, silent
from lab.cli.kit.output import stderr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import TaskID

    from lab.backends.backend import Progress


@contextlib.contextmanager
def stages(*, lines: bool = False) -> Iterator[Progress]:
    """Yield a ``Progress`` that draws one bar for each stage, in the order in which they begin.

    If standard error is not a terminal, ``lines`` prints lines of text instead; otherwise nothing is printed.
    """
    if not stderr.is_terminal:
        yield in_lines(_print) if lines else silent
        return
    columns = (SpinnerColumn(), TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn())
    tasks: dict[str, TaskID] = {}
    with Bars(*columns, TimeElapsedColumn(), console=stderr) as bars:

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield show


def _print(line: str) -> None:
    stderr.print(line, markup=False, highlight=False, soft_wrap=True)
