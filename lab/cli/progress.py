"""Progress of long work on a terminal's standard error: a bar for each stage, nothing where nobody watches."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from lab.cli.output import stderr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import TaskID

    from lab.backends.base import Progress


@contextlib.contextmanager
def stages() -> Iterator[Progress]:
    """A ``Progress`` that draws one bar for each stage, in the order in which they begin."""
    columns = (SpinnerColumn(), TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn())
    tasks: dict[str, TaskID] = {}
    with Bars(*columns, TimeElapsedColumn(), console=stderr, disable=not stderr.is_terminal) as bars:

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield show
