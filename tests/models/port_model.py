"""Runs a C model of the port's surroundings on the port's own sources, with the machine's compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.dataplane.port_layout import SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

_HERE: Final = Path(__file__).parent / "port"
_FOR_CLANG: Final = (
    ("kernel.h", "#pragma clang", "#pragma of_clang"),
    ("kernel.h", "#define NULL ((void *)0)", ""),
    ("kernel.h", "#define rl_may_loop()", "#define rl_may_loop() true\n#define rl_may_loop_of_bpf()"),
)
"""Words that only clang knows, and the same for gcc."""


def compile_on_sources(model: str, folder: Path, changes: Sequence[tuple[str, str, str]] = ()) -> Path:
    """Compile ``model`` in ``folder`` with copies of the sources, changed by (file, before, after).

    Sources with changes are not optimised: the model stops at the mistake, so compiling takes longer than running.
    """
    for header in SOURCE.parent.glob("*.[ch]"):
        shutil.copy(header, folder)
    for name, before, after in (*_FOR_CLANG, *changes):
        text = (folder / name).read_text()
        assert before in text, f"{name} has no {before!r}"
        (folder / name).write_text(text.replace(before, after))
    program = folder / model
    flags = ["-w", "-O0" if changes else "-O2", f"-I{folder}", f"-I{_HERE}"]
    argv = ["gcc", *flags, "-o", str(program), str(_HERE / f"{model}.c")]
    subprocess.run(argv, check=True, timeout=60)
    return program


def run_on_sources(
    model: str, folder: Path, arguments: Sequence[int], changes: Sequence[tuple[str, str, str]] = ()
) -> subprocess.CompletedProcess[str]:
    """Compile ``model`` as ``compile_on_sources`` does, and run it."""
    call = [str(compile_on_sources(model, folder, changes)), *map(str, arguments)]
    return subprocess.run(call, capture_output=True, text=True, timeout=250, check=False)
