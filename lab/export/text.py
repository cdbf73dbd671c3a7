"""Readable YAML: keys in their order, multi-line texts as blocks, and a comment at the top."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Dumper(yaml.SafeDumper):
    """A dumper without aliases: repeated data is written repeatedly."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def as_yaml(data: Any, head: Iterable[str] = ()) -> str:
    """Return ``data`` as a YAML document, below a comment with the paragraphs of ``head``."""
    comment = "".join(f"{line}\n" for paragraph in head for line in _wrapped(paragraph))
    return comment + yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


def _wrapped(paragraph: str) -> list[str]:
    one_line = " ".join(paragraph.split())  # names may contain characters that end a line in YAML
    return textwrap.wrap(one_line, 110, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)
