"""libbpf through ctypes: the functions that load an object, and the messages that libbpf prints meanwhile.

libbpf is loaded at the first use; everything that needs no BPF works without it. It prints its reasons, and the
verifier's log, through one callback for the whole process. The callback here passes them to the calling thread.
"""

from __future__ import annotations

import ctypes
import threading
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_int, c_size_t, c_uint32, c_void_p, cast
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from lab.errors import EnvironmentLacks

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST: Final = (1, 1)
"""The version of Debian 12."""
_OLDEST_FOR_QDISCS: Final = (1, 5)
"""The version of Debian 13. Ubuntu 24.04's 1.3 cannot change a struct_ops between opening and loading it."""
_SONAME: Final = "libbpf.so.1"
_DEBUG: Final = 2
"""LIBBPF_DEBUG of <bpf/libbpf.h>: messages from this level on are ignored."""


class _Signature(NamedTuple):
    """Result and parameters of a function; libbpf's own structures are opaque pointers."""

    returns: type | None
    takes: tuple[type, ...]


_POINTER_OF: Final = _Signature(c_void_p, (c_void_p,))
_FOUND: Final = _Signature(c_void_p, (c_void_p, c_char_p))
_NEXT: Final = _Signature(c_void_p, (c_void_p, c_void_p))
_NAME: Final = _Signature(c_char_p, (c_void_p,))
_NUMBER: Final = _Signature(c_int, (c_void_p,))
_PIN: Final = _Signature(c_int, (c_void_p, c_char_p))
_SIGNATURES: Final = {
    "bpf_map_get_fd_by_id": _Signature(c_int, (c_uint32,)),
    "bpf_map__attach_struct_ops": _POINTER_OF,
    "bpf_map__initial_value": _Signature(c_void_p, (c_void_p, POINTER(c_size_t))),
    "bpf_map__is_internal": _Signature(c_bool, (c_void_p,)),
    "bpf_map__name": _NAME,
    "bpf_map__pin": _PIN,
    "bpf_map__reuse_fd": _Signature(c_int, (c_void_p, c_int)),
    "bpf_map_get_next_key": _Signature(c_int, (c_int, c_void_p, c_void_p)),
    "bpf_map_lookup_elem": _Signature(c_int, (c_int, c_void_p, c_void_p)),
    "bpf_map__set_max_entries": _Signature(c_int, (c_void_p, c_uint32)),
    "bpf_map__type": _NUMBER,
    "bpf_link__destroy": _NUMBER,
    "bpf_link__pin": _PIN,
    "bpf_obj_get": _Signature(c_int, (c_char_p,)),
    "bpf_obj_get_info_by_fd": _Signature(c_int, (c_int, c_void_p, POINTER(c_uint32))),
    "bpf_object__btf": _POINTER_OF,
    "bpf_object__close": _Signature(None, (c_void_p,)),
    "bpf_object__find_map_by_name": _FOUND,
    "bpf_object__find_program_by_name": _FOUND,
    "bpf_object__load": _NUMBER,
    "bpf_object__next_map": _NEXT,
    "bpf_object__next_program": _NEXT,
    "bpf_object__open_file": _Signature(c_void_p, (c_char_p, c_void_p)),
    "bpf_prog_load": _Signature(c_int, (c_int, c_char_p, c_char_p, c_char_p, c_size_t, c_void_p)),
    "bpf_prog_test_run_opts": _Signature(c_int, (c_int, c_void_p)),
    "bpf_prog_get_fd_by_id": _Signature(c_int, (c_uint32,)),
    "bpf_program__attach": _POINTER_OF,
    "bpf_program__fd": _NUMBER,
    "bpf_program__name": _NAME,
    "bpf_program__pin": _PIN,
    "bpf_program__type": _NUMBER,
    "btf__raw_data": _Signature(c_void_p, (c_void_p, POINTER(c_uint32))),
}
_libc: Final = ctypes.CDLL(None)
_heard = threading.local()


@cache
def library() -> ctypes.CDLL:
    """Return libbpf with its functions declared. Raises EnvironmentLacks if it is missing or too old."""
    try:
        found = ctypes.CDLL(_SONAME, use_errno=True)
    except OSError as error:
        raise EnvironmentLacks(f"no {_SONAME} on this machine", "apt-get install libbpf1, or use --vm") from error
    _require(found, OLDEST)
    for name, signature in _SIGNATURES.items():
        function = getattr(found, name)
        function.restype, function.argtypes = signature.returns, signature.takes
    found.libbpf_set_print(_HEAR)
    return found


def require_qdiscs() -> None:
    """Raise EnvironmentLacks if libbpf is missing, or too old to register a qdisc under its own name."""
    _require(library(), _OLDEST_FOR_QDISCS)


def _require(found: ctypes.CDLL, oldest: tuple[int, int]) -> None:
    version = found.libbpf_major_version(), found.libbpf_minor_version()
    if version < oldest:
        have, need = (".".join(map(str, numbers)) for numbers in (version, oldest))
        raise EnvironmentLacks(f"libbpf {have} is older than {need}", "use --vm")


@contextmanager
def listening() -> Iterator[list[str]]:
    """Yield the list of libbpf's messages to the calling thread: reasons and verifier logs, newest last."""
    messages: list[str] = []
    _heard.messages = messages
    try:
        yield messages
    finally:
        del _heard.messages


def _hear(level: int, template: bytes, arguments: int) -> int:
    """Keep one message. ``arguments`` is a va_list, which the supported Linux ABIs pass as a pointer."""
    messages: list[str] | None = getattr(_heard, "messages", None)
    if level >= _DEBUG or messages is None:
        return 0
    text = c_void_p()
    length: int = _libc.vasprintf(ctypes.byref(text), template, c_void_p(arguments))
    if length >= 0:
        messages.append(cast(text, c_char_p).value.decode(errors="replace").rstrip())  # type: ignore[union-attr]
        _libc.free(text)
    return length


_HEAR: Final = CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)(_hear)
"""The callback. libbpf keeps a pointer to it, so it must exist as long as the process."""
