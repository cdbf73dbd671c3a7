"""Sources of captures: a file, a compressed file, or standard input."""

from __future__ import annotations

import contextlib
import gzip
import sys
import zlib
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, cast

import typer

from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"

CaptureArgument = Annotated[
    Path, typer.Argument(help="The capture: pcapng or pcap, .gz or .zst too; - is standard input.", exists=False)
]


def require_file(file: Path, wants: str) -> None:
    """Raise UsageError if ``file`` is not a regular file, because ``wants`` reads it twice."""
    if not file.is_file():
        raise UsageError(f"{wants} reads {file} twice, but a pipe can be read only once", "save it to a file first")


@contextlib.contextmanager
def open_capture(file: Path) -> Iterator[BinaryIO]:
    """Open ``file``, or standard input for ``-``; UsageError if it cannot be read or is damaged."""
    if str(file) == "-" and sys.stdin is None:
        raise UsageError("standard input is closed", "name a capture, or write: rocelab analyze - < FILE")
    try:
        with contextlib.ExitStack() as stack:
            name = sys.stdin.fileno() if str(file) == "-" else file
            buffered = BufferedReader(stack.enter_context(FileIO(name, closefd=str(file) != "-")))
            yield _unpacked(buffered)
    except _damage() as error:
        raise UsageError(f"cannot unpack {file}: {error}", "copy it again, or unpack it as far as it goes") from error
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise UsageError(f"cannot read {file}: {error.strerror}", "name a capture, pcapng or pcap") from error


def _damage() -> tuple[type[Exception], ...]:
    """Return the exceptions for damaged archives; evaluated only after an exception."""
    from zstandard import ZstdError  # noqa: PLC0415 - 1.5 MB, of which most captures need nothing

    return EOFError, zlib.error, gzip.BadGzipFile, ZstdError


def _unpacked(packed: BufferedReader[FileIO]) -> BinaryIO:
    """Return the decompressed stream, by its magic number (RFC 1952 section 2.3.1, RFC 8878 section 3.1.1)."""
    magic = packed.peek(len(_ZSTD))[: len(_ZSTD)]
    if magic == _ZSTD:
        import zstandard  # noqa: PLC0415 - see _damage

        return cast("BinaryIO", zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True))
    return cast("BinaryIO", gzip.GzipFile(fileobj=packed) if magic.startswith(_GZIP) else packed)
