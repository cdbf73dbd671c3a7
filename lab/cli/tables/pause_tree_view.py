"""Pause trees on the terminal, of a running fabric or of a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.markup import escape
from rich.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable


class Branch(NamedTuple):
    """A pause as text, and the pauses that it caused."""

    text: str
    behind: tuple[Branch, ...]


def draw(head: str, branches: Iterable[Branch]) -> Tree:
    """Return a tree below ``head``."""
    tree = Tree(escape(head), style="bold")
    _grow(tree, branches)
    return tree


def _grow(tree: Tree, branches: Iterable[Branch]) -> None:
    for branch in branches:
        _grow(tree.add(escape(branch.text), style="not bold"), branch.behind)
