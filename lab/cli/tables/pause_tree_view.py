"""Trees of pauses on the terminal, live ones and those of a capture alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.markup import escape
from rich.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable


class Branch(NamedTuple):
    """A pause in words, and those that it led to."""

    text: str
    behind: tuple[Branch, ...]


def draw(head: str, branches: Iterable[Branch]) -> Tree:
    """A tree below ``head``."""
    tree = Tree(escape(head), style="bold")
    _grow(tree, branches)
    return tree


def _grow(tree: Tree, branches: Iterable[Branch]) -> None:
    for branch in branches:
        _grow(tree.add(escape(branch.text), style="not bold"), branch.behind)
