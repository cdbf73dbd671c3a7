"""A compiled BPF object in the kernel: opened, fitted to its use, loaded, attached and pinned.

An object is CO-RE: loading relocates it against the running kernel's own BTF, so one serves every kernel. Nothing of
it outlives this process, however it ends, until ``pin`` has given it names in the BPF file system; a struct_ops is
attached by a link, which is pinned like the rest. ``lab.kernel.bpf.pins`` has what later processes do with the pins.
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
    """A BPF object file on its way into the kernel; use it in a ``with``, which closes what was opened.

    Maps, programs and variables go by their names in the C source.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle: int | None = handle
        self._links: dict[str, int] = {}

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read an object file; OperationFailed when it is none, EnvironmentLacks without libbpf."""
        with _explained(path, f"{path} cannot be opened as a BPF object"):
            return cls(path, _check(library().bpf_object__open_file(os.fsencode(path), None)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything: what is pinned, or attached to an interface, stays in the kernel."""
        for link in self._links.values():
            library().bpf_link__destroy(link)
        self._links.clear()
        if self._handle is not None:
            library().bpf_object__close(self._handle)
            self._handle = None

    def resize(self, name: str, entries: int) -> None:
        """Set how many entries a map has; before ``load``."""
        with self._explained(f"map {name} cannot have {entries} entries"):
            _check(library().bpf_map__set_max_entries(self._map(name), entries))

    def set_constant(self, name: str, value: bytes) -> None:
        """Set a ``const volatile`` variable, before ``load``: the verifier then knows its value."""
        place = self._types().variable(_READ_ONLY, name)
        if len(value) != place.size:
            raise OperationFailed(f"{name} takes {place.size} bytes, not {len(value)}")
        self._write(_READ_ONLY, place.offset, value)

    def set_qdisc_id(self, name: str, identity: str) -> None:
        """Name the kind of qdisc that the Qdisc_ops ``name`` is, for tc and the whole machine; before ``load``.

        The kernel takes up to 15 letters, digits, underscores and dots, and no hyphen. EnvironmentLacks when libbpf
        is too old for it.
        """
        require_qdiscs()
        if not _QDISC_ID.fullmatch(identity):
            raise OperationFailed(f"{identity!r} is no id of a qdisc: up to 15 letters, digits and underscores are")
        place = self._types().member(_QDISC_OPS, "id")
        self._write(name, place.offset, identity.encode().ljust(place.size, b"\0"))

    def load(self) -> None:
        """Bring maps and programs into the kernel, past the verifier.

        OperationFailed has the verifier's reason, and its full log stands in a file in the user's cache.
        EnvironmentLacks when the kernel lacks something that the object uses.
        """
        with self._explained(f"{self._path.name} cannot be loaded"):
            _check(library().bpf_object__load(self._handle))

    def attach_struct_ops(self, name: str) -> None:
        """Register a loaded struct_ops with the kernel; it stays for as long as this object, or its pinned link."""
        with self._explained(f"{name} cannot be registered with the kernel"):
            self._links[name] = _check(library().bpf_map__attach_struct_ops(self._map(name)))

    def program(self, name: str) -> int:
        """The descriptor of a loaded program, which this object closes."""
        program: int | None = library().bpf_object__find_program_by_name(self._handle, name.encode())
        if program is None:
            raise OperationFailed(f"{self._path.name} has no program {name}")
        descriptor: int = library().bpf_program__fd(program)
        return descriptor

    def pin(self, folder: Path, owner: str) -> None:
        """Give everything a name below ``folder``, which must not exist and is the ``owner``'s: see ``pins.create``.

        Links come last: a struct_ops that outlives us has its maps pinned. Nothing is left of what fails.
        """
        pins.create(folder, owner)
        try:
            with self._explained(f"{self._path.name} cannot be pinned below {folder}"):
                for name, each in self._maps():
                    _check(library().bpf_map__pin(each, os.fsencode(pins.map_path(folder, name))))
                for name, each in self._programs():
                    _check(library().bpf_program__pin(each, os.fsencode(pins.program_path(folder, name))))
                for name, each in self._links.items():
                    _check(library().bpf_link__pin(each, os.fsencode(pins.link_path(folder, name))))
        except BaseException:
            pins.unpin_own(folder, owner)
            raise

    def _maps(self) -> Iterator[tuple[str, int]]:
        """The maps that people name: not sections of variables, and not a struct_ops, which its link holds."""
        found: int | None = library().bpf_object__next_map(self._handle, None)
        while found is not None:
            internal = library().bpf_map__is_internal(found)
            if not internal and library().bpf_map__type(found) != _STRUCT_OPS_MAP:
                yield library().bpf_map__name(found).decode(), found
            found = library().bpf_object__next_map(self._handle, found)

    def _programs(self) -> Iterator[tuple[str, int]]:
        """The programs that can be attached to something, one by one: not those of a struct_ops."""
        found: int | None = library().bpf_object__next_program(self._handle, None)
        while found is not None:
            if library().bpf_program__type(found) != _STRUCT_OPS_PROGRAM:
                yield library().bpf_program__name(found).decode(), found
            found = library().bpf_object__next_program(self._handle, found)

    def _types(self) -> btf.Types:
        """As libbpf has them: it knows the places of variables, which a compiler leaves to a linker."""
        size = ctypes.c_uint32()
        types: int = library().bpf_object__btf(self._handle)
        return btf.Types(ctypes.string_at(library().btf__raw_data(types, ctypes.byref(size)), size.value))

    def _map(self, name: str) -> int:
        found: int | None = library().bpf_object__find_map_by_name(self._handle, name.encode())
        if found is None:
            raise OperationFailed(f"{self._path.name} has no map {name}")
        return found

    def _write(self, name: str, offset: int, value: bytes) -> None:
        """Change the initial value of a map, in libbpf's memory."""
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
    """Turn an OSError into one of ours that says ``what`` failed, with the reason that libbpf gives."""
    with listening() as said:
        try:
            yield
        except OSError as error:
            raise failure(path, what, error.errno or 0, said) from error


def _check(result: int | None) -> int:
    """What libbpf returned, or OSError for a failure: NULL with errno set, or a negative error number."""
    if result is None:
        raise OSError(ctypes.get_errno(), "")
    if result < 0:
        raise OSError(-result, "")
    return result
