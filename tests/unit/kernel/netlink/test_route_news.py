"""Processes whose end is reported beside the news of routes: judged by programs that end."""

from __future__ import annotations

import subprocess

import pytest

from lab.kernel.netlink.routes import RouteNews
from tests.patience import PATIENCE


def test_the_end_of_a_process_is_news() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as program, RouteNews([]) as news:
        news.watch_process(program.pid, "cat@here")
        assert program.stdin is not None
        program.stdin.close()
        assert news.wait(PATIENCE) == {"cat@here"}


def test_one_that_has_ended_and_one_that_is_nobody_are_told() -> None:
    with subprocess.Popen(["true"]) as program:
        program.wait()
    with RouteNews([]) as news:
        for pid in (program.pid, 0):
            with pytest.raises(ProcessLookupError):
                news.watch_process(pid, "true@here")
