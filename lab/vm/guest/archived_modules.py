"""rocelab's modules from an archive: ``python3 -m lab.vm.guest.archived_modules CODE MODULE ARGUMENT...``.

The guest reads the checkout over 9p and caches nothing of it. An import looks at the file system several times, and
each look takes 1 to 3 ms of a core in an emulated guest. The host writes the bytecode of all modules into one file
(lab/vm/image/host_bytecode.py), and the resident rocelab imports from that.

The module imports nothing of rocelab, so that only four files are read over 9p before the archive is.
"""

from __future__ import annotations

import importlib
import marshal
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

NAME: Final = "modules"
"""The archive's file in the folder with the bytecode of a checkout."""
CODE_DIGITS: Final = 16
"""Length of the fingerprint with which the archive begins (lab/vm/checkpoints/fingerprint.py)."""
_CHECKOUT: Final = Path(__file__).parents[3]
_INIT: Final = "__init__.py"


def archive_path() -> Path | None:
    """Return the path of this checkout's archive; None if Python keeps no bytecode apart from the sources."""
    return Path(f"{sys.pycache_prefix}{_CHECKOUT}", NAME) if sys.pycache_prefix else None


def archived_code() -> str:
    """Return the fingerprint of the code in the archive; "" without an archive."""
    path = archive_path()
    try:
        with open(path or "", "rb") as archive:  # noqa: PTH123 - Path("") would be the current folder
            return archive.read(CODE_DIGITS).decode("ascii")
    except (OSError, UnicodeDecodeError):
        return ""


class ArchiveFinder:
    """Finds modules in the archive. Each has the same file name as if it had been imported from the checkout."""

    def __init__(self, modules: Mapping[str, bytes], checkout: Path = _CHECKOUT) -> None:
        """``modules`` has marshalled code by the file's path in the checkout."""
        self._modules = modules
        self._checkout = checkout

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an archived module; None for others, which are imported as usual."""
        del path, target
        stem = name.replace(".", "/")
        for file in (f"{stem}/{_INIT}", f"{stem}.py"):
            if (code := self._modules.get(file)) is not None:
                where = f"{self._checkout}/{file}"
                return spec_from_file_location(name, where, loader=_ArchiveLoader(name, where, code))
        return None


class _ArchiveLoader(SourceFileLoader):
    """Loads a module as from its file, with its code from the archive."""

    def __init__(self, fullname: str, path: str, code: bytes) -> None:
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code."""
        del fullname
        code: CodeType = marshal.loads(self._code)  # noqa: S302 - from the host, as all code here
        return code


def import_from_archive(code: str) -> bool:
    """Import from the archive from now on, if it has the code with this fingerprint. Return whether it has."""
    path = archive_path()
    try:
        archive = path.read_bytes() if path else b""
        if not archive.startswith(code.encode("ascii")):
            return False
        modules = marshal.loads(memoryview(archive)[CODE_DIGITS:])  # noqa: S302 - see above
    except (OSError, EOFError, ValueError, TypeError):
        return False
    sys.meta_path.insert(0, ArchiveFinder(modules))
    return True


def main() -> None:
    """Run the module of this name, with its arguments, from the archive or as usual."""
    _, code, name, *arguments = sys.argv
    import_from_archive(code)
    sys.argv = [name, *arguments]
    importlib.import_module(name).main()


if __name__ == "__main__":
    main()
