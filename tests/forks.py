"""pytest for one session after another, in forks of a process that has imported what takes long: no start for each.

The process collects the first file before it forks. Every fork inherits pytest's plugins and the modules that this
file and its conftests import, with rewritten assertions. It imports only what its own file needs besides.

``python -m tests.forks [PYTEST ARGS]`` reads the files of a session from each line of its input. At the end of each
session it prints a line that begins with ``ENDED`` and has the exit code.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
from pathlib import Path
from typing import Final

import pytest
from hypothesis.internal.conjecture import providers

from lab.cli.resident import warm_up
from tests.fabric import resident

ENDED: Final = "--- exit code "
_IMPORTED: Final = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
"""Where rocelab's plugin is installed, pytest would rewrite assertions in all of ``lab``."""


def tested(arguments: list[str]) -> int:
    """The exit code of pytest with ``arguments``, in a fork."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        code = int(pytest.main(arguments))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    finally:
        os._exit(int(pytest.ExitCode.INTERNAL_ERROR))


def collect(arguments: list[str]) -> None:
    """Import what pytest imports for ``arguments``, and try what this machine has.

    Errors are reported by the fork that runs the tests.
    """
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        pytest.main(["--collect-only", "--quiet", *arguments])
    from tests.conftest import NEEDS, what_lacks  # noqa: PLC0415 - tests.shards imports this module, and no conftest

    ignore_constants_of_imported_modules()
    for marker in NEEDS.keys() & {part for argument in arguments for part in Path(argument).parts[1:2]}:
        what_lacks(marker)  # each fork inherits the answer
    gc.collect()
    gc.freeze()


def ignore_constants_of_imported_modules() -> None:
    """Let Hypothesis look for constants only in modules that are imported from now on.

    Otherwise each fork with a test of it reads the sources of all of ``lab``, which takes 50 s of a core in a VM. Its
    tests there are about BPF programs, and not about these modules.
    """
    providers._seen_modules.update(map(id, sys.modules.values()))


def main() -> None:
    """Test what the input names."""
    warm_up()
    resident.fork_for_children()
    for number, line in enumerate(sys.stdin):
        arguments = [*_IMPORTED, *sys.argv[1:], *line.split()]
        if number == 0:
            collect(arguments)
        code = tested(arguments)
        print(f"\n{ENDED}{code}", flush=True)


if __name__ == "__main__":
    main()
