"""Trees of plain data: the differences between two of the same shape, and the replacement of one value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Path: TypeAlias = tuple[str | int, ...]


def differences(before: Any, after: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Yield the path of every value that differs, with both values."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            yield from differences(before[key], after[key], (*path, key))
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, (*path, place))
    elif before != after:
        yield path, before, after


def put(tree: Any, path: Sequence[str | int], value: Any) -> None:
    """Set the value at ``path``; raise KeyError or IndexError if an inner part of the path does not exist."""
    *way, last = path
    for part in way:
        if isinstance(tree[part], tuple):
            tree[part] = list(tree[part])
        tree = tree[part]
    tree[last] = value
