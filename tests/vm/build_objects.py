"""The BPF objects that rocelab ships, built by the VM's compiler, and the layouts of their structs.

After a change to their sources, run::

python -m tests.vm.build_objects
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import lab
from lab.kernel.bpf import clang, type_layouts
from lab.kernel.process import process
from lab.vm.calls.call import inside_vm

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = tuple(sorted(Path(lab.__path__[0]).rglob("*.bpf.c")))


def build(source: Path, output: Path) -> Path:
    """The object as it is shipped: what debuggers read is left out, the types stay (``bpftool gen object``)."""
    with tempfile.TemporaryDirectory() as folder:
        whole = clang.build(source, Path(folder) / output.name)
        process.run(["bpftool", "gen", "object", output, whole])
    return output


def write_layouts(source: Path, made: Path) -> None:
    """Write the layouts of an object's structs beside its source; an object without any has no file."""
    layouts = type_layouts.TypeLayouts.of_object(made)
    if layouts.structs:
        layouts.write(type_layouts.beside(source))


def main() -> None:
    """Have the VM build the objects, and put them beside their sources, in place of the ones that were there."""
    shipped = [clang.shipped(source) for source in SOURCES]
    names = [str(path.relative_to(ROOT)) for path in shipped]
    asked = [word for name in names for word in ("--output", name)]
    there = ["python3", "-m", "tests.vm.build_objects", *names]
    subprocess.run([sys.executable, "-m", "lab", "vm", "run", *asked, "--", *there], cwd=ROOT, check=True)
    for source, made in zip(SOURCES, shipped, strict=True):
        write_layouts(source, made)
        for old in source.parent.glob(f"{source.stem}-*.o"):
            if old != made:
                old.unlink()
    print(*names, sep="\n")


if __name__ == "__main__":
    if inside_vm():
        for each, output in zip(SOURCES, sys.argv[1:], strict=True):
            build(each, Path(output))
    else:
        main()
