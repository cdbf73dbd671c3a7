"""Load a compiled BPF object into the kernel: open it, set its sizes and constants, load, attach and pin it.

An object is CO-RE: loading relocates it against the running kernel's BTF, so one object serves every kernel. The
kernel frees it when this process ends, unless ``pin`` has given it names in the BPF file system. A struct_ops or
a tracing program is attached by a link, which is pinned, too. ``lab.kernel.bpf.pins`` is for later processes that use
the pins.
"""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from lab.errors import OperationFailed
from lab.kernel.bpf import btf, pins
from lab.kernel.bpf.bpf_failure import failure
from lab.kernel.bpf.libbpf import library, listening, require_qdiscs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

_QDISC_ID: Final = re.compile(r"[A-Za-z0-9_.]{1,15}")
_QDISC_OPS: Final = "Qdisc_ops"
_READ_ONLY: Final = ".rodata"
_STRUCT_OPS_PROGRAM: Final = 27
_STRUCT_OPS_MAP: Final = 26
"""BPF_PROG_TYPE_STRUCT_OPS and BPF_MAP_TYPE_STRUCT_OPS of <linux/bpf.h>."""


class Object:
    """An open BPF object file. As a context manager it closes all that it opened.

    Maps, programs and variables have the names of the C source.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle: int | None = handle
        self._links: dict[str, int] = {}

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an object file. Raises OperationFailed if it is none, and EnvironmentLacks without libbpf."""
        with _explained(path, f"{path} cannot be opened as a BPF object"):
            return cls(path, _check(library().bpf_object__open_file(os.fsencode(path), None)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release everything. Objects that are pinned, or attached to an interface, stay in the kernel."""
        for link in self._links.values():
            library().bpf_link__destroy(link)
        self._links.clear()
        if self._handle is not None:
            library().bpf_object__close(self._handle)
            self._handle = None

    def resize(self, name: str, entries: int) -> None:
        """Set the number of entries of a map, before ``load``."""
        with self._explained(f"map {name} cannot have {entries} entries"):
            _check(library().bpf_map__set_max_entries(self._map(name), entries))

    def reuse(self, name: str, path: Path) -> None:
        """Use the map that is pinned at ``path`` as the map ``name``, before ``load``."""
        descriptor = pins.open_pinned(path)
        try:
            with self._explained(f"map {name} cannot be the one at {path}"):
                _check(library().bpf_map__reuse_fd(self._map(name), descriptor))  # it keeps a copy of the descriptor
        finally:
            os.close(descriptor)

    def set_constant(self, name: str, value: bytes) -> None:
        """Set a ``const volatile`` variable, before ``load``, so that the verifier knows its value."""
        place = self._types().variable(_READ_ONLY, name)
        if len(value) != place.size:
            raise OperationFailed(f"{name} takes {place.size} bytes, not {len(value)}")
        self._write(_READ_ONLY, place.offset, value)

    def set_qdisc_id(self, name: str, identity: str) -> None:
        """Set the qdisc kind that the Qdisc_ops ``name`` registers, before ``load``. tc and the whole machine see it.

        The kernel accepts up to 15 letters, digits, underscores and dots, but no hyphen. Raises EnvironmentLacks if
        libbpf is too old for it.
        """
        require_qdiscs()
        if not _QDISC_ID.fullmatch(identity):
            raise OperationFailed(f"{identity!r} is no id of a qdisc: up to 15 letters, digits and underscores are")
        place = self._types().member(_QDISC_OPS, "id")
        self._write(name, place.offset, identity.encode().ljust(place.size, b"\0"))

    def load(self) -> None:
        """Load maps and programs into the kernel, through the verifier.

        OperationFailed contains the verifier's reason, and the path of its full log in the user's cache.
        EnvironmentLacks means that the kernel lacks something that the object uses.
        """
        with self._explained(f"{self._path.name} cannot be loaded"):
            _check(library().bpf_object__load(self._handle))

    def attach_struct_ops(self, name: str) -> None:
        """Register a loaded struct_ops with the kernel, until this object is closed or its pinned link is removed."""
        with self._explained(f"{name} cannot be registered with the kernel"):
            self._links[name] = _check(library().bpf_map__attach_struct_ops(self._map(name)))

    def attach_program(self, name: str) -> None:
        """Attach a loaded program where its section says, until this object closes or its pinned link is removed."""
        with self._explained(f"{name} cannot be attached to the kernel"):
            self._links[name] = _check(library().bpf_program__attach(self._program(name)))

    def program(self, name: str) -> int:
        """Return the descriptor of a loaded program. This object closes it."""
        descriptor: int = library().bpf_program__fd(self._program(name))
        return descriptor

    def pin(self, folder: Path, owner: str) -> None:
        """Pin everything below ``folder``, which must not exist and belongs to ``owner``: see ``pins.create``.

        Links come last, so that a struct_ops that outlives this process always has its maps pinned. A failure leaves
        nothing behind.
        """
        pins.create(folder, owner)
        try:
            with self._explained(f"{self._path.name} cannot be pinned below {folder}"):
                for name, each in self._maps():
                    _check(library().bpf_map__pin(each, os.fsencode(pins.map_path(folder, name))))
                for name, each in self._programs():
                    _check(library().bpf_program__pin(each, os.fsencode(pins.program_path(folder, name))))
            self.pin_links(folder)
        except BaseException:
            pins.unpin_own(folder, owner)
            raise

    def pin_links(self, folder: Path) -> None:
        """Pin what is attached below ``folder``, which ``pins.create`` made: it stays attached as long as its pin."""
        with self._explained(f"the links of {self._path.name} cannot be pinned below {folder}"):
            for name, each in self._links.items():
                _check(library().bpf_link__pin(each, os.fsencode(pins.link_path(folder, name))))

    def _maps(self) -> Iterator[tuple[str, int]]:
        """Yield the named maps: no sections of variables, and no struct_ops, which is pinned by its link."""
        found: int | None = library().bpf_object__next_map(self._handle, None)
        while found is not None:
            internal = library().bpf_map__is_internal(found)
            if not internal and library().bpf_map__type(found) != _STRUCT_OPS_MAP:
                yield library().bpf_map__name(found).decode(), found
            found = library().bpf_object__next_map(self._handle, found)

    def _programs(self) -> Iterator[tuple[str, int]]:
        """Yield the programs that can be attached one by one: none of a struct_ops."""
        found: int | None = library().bpf_object__next_program(self._handle, None)
        while found is not None:
            if library().bpf_program__type(found) != _STRUCT_OPS_PROGRAM:
                yield library().bpf_program__name(found).decode(), found
            found = library().bpf_object__next_program(self._handle, found)

    def _types(self) -> btf.Types:
        """Return the types from libbpf. It has the offsets of variables, which the compiler leaves to the linker."""
        size = ctypes.c_uint32()
        types: int = library().bpf_object__btf(self._handle)
        return btf.Types(ctypes.string_at(library().btf__raw_data(types, ctypes.byref(size)), size.value))

    def _program(self, name: str) -> int:
        found: int | None = library().bpf_object__find_program_by_name(self._handle, name.encode())
        if found is None:
            raise OperationFailed(f"{self._path.name} has no program {name}")
        return found

    def _map(self, name: str) -> int:
        found: int | None = library().bpf_object__find_map_by_name(self._handle, name.encode())
        if found is None:
            raise OperationFailed(f"{self._path.name} has no map {name}")
        return found

    def _write(self, name: str, offset: int, value: bytes) -> None:
        """Change the initial value of a map, in libbpf's memory, before ``load``."""
        size = ctypes.c_size_t()
        start: int | None = library().bpf_map__initial_value(self._map(name), ctypes.byref(size))
        if start is None or offset + len(value) > size.value:
            raise OperationFailed(f"{self._path.name}: the initial value of {name} cannot be changed")
        ctypes.memmove(start + offset, value, len(value))

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        with _explained(self._path, what):
            yield


@contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    """Turn an OSError into a LabError that says that ``what`` failed, with libbpf's reason."""
    with listening() as said:
        try:
            yield
        except OSError as error:
            raise failure(path, what, error.errno or 0, said) from error


def _check(result: int | None) -> int:
    """Return libbpf's result. Raises OSError for a failure: NULL with errno set, or a negative error number."""
    if result is None:
        raise OSError(ctypes.get_errno(), "")
    if result < 0:
        raise OSError(-result, "")
    return result
