"""The BPF objects that rocelab ships, built by the image's compiler; after a change to their sources, run::

rocelab vm run -- python3 -m tests.vm.build_objects
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import lab
from lab.kernel import clang, process

SOURCES: Final = tuple(sorted(Path(lab.__path__[0]).rglob("*.bpf.c")))


def build(source: Path, output: Path) -> Path:
    """The object as it is shipped: what debuggers read is left out, the types stay (``bpftool gen object``)."""
    with tempfile.TemporaryDirectory() as folder:
        whole = clang.build(source, Path(folder) / output.name)
        process.run(["bpftool", "gen", "object", output, whole])
    return output


def main() -> None:
    """Put the objects beside their sources, in place of the ones that were there."""
    for source in SOURCES:
        for old in source.parent.glob(f"{source.stem}-*.o"):
            old.unlink()
        print(build(source, clang.shipped(source)))


if __name__ == "__main__":
    main()
