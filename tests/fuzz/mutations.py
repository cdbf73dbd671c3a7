"""Mutations of YAML files: common mistakes in the files that rocelab ships, and hostile values.

``mutated`` takes any ``random.Random``, also that of Hypothesis, which shrinks what it finds.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import yaml

from lab.model.values.yamltext import read_yaml

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

_SCALARS: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 8, 63, 64, 255, 256, 4095, 4096, 65535, 65536, 2**24, 2**32, 2**63, 10**39,
    10**60, 0.5, -0.0, 1e300, float("nan"), float("inf"), "", " ", "~", "no", "yes", "0x10", "1e3", "1_000", "1:30",
    "100Mbit", "0bit", "1Tbit", "99999Tbit", "100Mbps", "-5us", "0s", "1us", "60s", "1h", "9000", "1500", "64", "0B",
    "1GB", "4096GiB", "5%", "0%", "101%", "-1%", "1/3", "10.0.0.0/8", "10.0.0.0/31", "10.0.0.1/8", "0.0.0.0/0",
    "::/0", "fd00::/64", "fd00::/127", "300.1.1.1", "10.1.10.1", "h1", "leaf1", "spine1", "leaf1:swp1", "h1:eth1",
    "h1:eth9999",
    "leaf1--spine1", "h99", "leaf", "host", "lab", "sonic", "off", "é", "\u202e", "名前", "🔥", "a" * 300,
    "\x1b[2J", "a: b", "# x", "'", '"', "{", "[", "*a", "&a", "!!x", "%", "@", "`", "2001-01-01", "null", "true",
)  # fmt: skip
_KEYS: Final = (
    "name", "defaults", "rate", "mtu", "delay", "nodes", "links", "ends", "role", "qos", "overlay", "faults", "frr",
    "generate", "shape", "", " ", "é", "\x1b[0m", "a" * 300, "<<", "0", "*", "-", "x.y", "x[0]", "?", "true", "null",
)  # fmt: skip
_LINES: Final = (
    "---", "...", "%YAML 1.1", "%TAG ! x", "a: &a [1]", "b: *a", "<<: *a", "<<: {name: x}", "? [a, b]", ": x", "- x",
    "\t", "\tx: 1", "  : 1", "x: |", "x: >-", "x: '", 'x: "', "x: [", "x: {", "}", "]", "!!python/object:os.system x",
    "x: !!binary aGk=", "x: \x85y", "\ufeff", "x: \u2028", "[[[[[[[[[[[[[[[[[[[[",
    "x: {a: {a: {a: {a: {a: {a: 1}}}}}}",
    "qos: lab", "name: other", "overlay: {}", "generate: {shape: leaf-spine}",
)  # fmt: skip
_MOST: Final = 4
"""Mutations of one file."""
_COPIES: Final = (2, 3, 50, 400)

Place = tuple[Any, Any]
"""A list or a mapping, and an index or a key in it."""


def mutated(text: str, others: Sequence[str], rng: random.Random) -> str:
    """``text`` with one to four mutations; some take a part of one of the ``others``."""
    if rng.random() < 0.8:
        tree = {"": read_yaml(text, "shipped").data}
        for _ in range(rng.randint(1, _MOST)):
            places = list(_places(tree))
            rng.choice(_TREE)(*rng.choice(places), places, rng)
            if rng.random() < 0.1:
                holder, at = rng.choice(list(_places(tree)))
                holder[at] = copy.deepcopy(_any_part(rng.choice(others), rng))
        text = yaml.dump(
            tree[""], allow_unicode=True, sort_keys=False, default_flow_style=rng.choice([None, True, False])
        )
        if rng.random() < 0.8:
            return text
    lines = text.split("\n")
    for _ in range(rng.randint(1, _MOST)):
        rng.choice(_TEXT)(lines, rng)
    return "\n".join(lines)


def _places(tree: Any) -> list[Place]:
    found: list[Place] = []
    waiting = [tree]
    while waiting:
        holder = waiting.pop()
        pairs = list(holder.items()) if isinstance(holder, dict) else list(enumerate(holder))
        for at, value in pairs:
            found.append((holder, at))
            if isinstance(value, dict | list):
                waiting.append(value)
    return found


def _any_part(text: str, rng: random.Random) -> Any:
    holder, at = rng.choice(_places({"": read_yaml(text, "shipped").data}))
    return holder[at]


def _replace(holder: Any, at: Any, _: Sequence[Place], rng: random.Random) -> None:
    holder[at] = rng.choice(_SCALARS)


def _near(holder: Any, at: Any, _: Sequence[Place], rng: random.Random) -> None:
    """A number that is slightly or far off, or a word with a typing error."""
    value = holder[at]
    if isinstance(value, bool):
        holder[at] = rng.choice([not value, str(value), int(value)])
    elif isinstance(value, int | float):
        holder[at] = rng.choice(
            [value + 1, value - 1, -value, value * 1000, value * 10**9, value / 3, str(value), [value], 0]
        )
    elif isinstance(value, str):
        holder[at] = mistyped(value, rng)


def mistyped(word: str, rng: random.Random) -> str:
    """``word`` with one typing error."""
    at = rng.randrange(len(word) + 1)
    return rng.choice(
        [
            word[:at] + word[at + 1 :],
            word[:at] + rng.choice("aZ0-_:./ é\n\t,%") + word[at:],
            word.upper(),
            word.title(),
            word.replace("-", "_"),
            word + word,
            f" {word} ",
            word.replace("1", "99"),
        ]
    )


def _drop(holder: Any, at: Any, _: Sequence[Place], __: random.Random) -> None:
    if at != "":
        del holder[at]


def _rename(holder: Any, at: Any, _: Sequence[Place], rng: random.Random) -> None:
    if isinstance(holder, dict) and at != "":
        new = rng.choice([mistyped(str(at), rng), rng.choice(_KEYS), rng.choice([1, None, True, 1.5])])
        items = [(new if key == at else key, value) for key, value in holder.items()]
        holder.clear()
        holder.update(items)


def _add(holder: Any, _at: Any, _: Sequence[Place], rng: random.Random) -> None:
    if isinstance(holder, dict):
        if "" not in holder:
            holder[rng.choice(_KEYS)] = rng.choice([*_SCALARS, [], {}, [[]], [{}], {"a": {}}])
    else:
        holder.insert(rng.randrange(len(holder) + 1), rng.choice([*_SCALARS, [], {}]))


def _wrap(holder: Any, at: Any, _: Sequence[Place], rng: random.Random) -> None:
    value = holder[at]
    holder[at] = rng.choice(
        [[value], {"x": value}, [[value]], [value, value], {at if isinstance(at, str) and at else "x": value}]
    )


def _unwrap(holder: Any, at: Any, _: Sequence[Place], rng: random.Random) -> None:
    value = holder[at]
    if isinstance(value, dict) and value:
        holder[at] = rng.choice(
            [*value.values(), list(value.values()), list(value), [{k: v} for k, v in value.items()]]
        )
    elif isinstance(value, list) and value:
        holder[at] = rng.choice([*value, {str(number): each for number, each in enumerate(value)}, str(value)])


def _swap(holder: Any, at: Any, places: Sequence[Place], rng: random.Random) -> None:
    """Another value of the file takes this place."""
    other, there = rng.choice(places)
    holder[at] = copy.deepcopy(other[there])


def _repeat(holder: Any, at: Any, _: Sequence[Place], rng: random.Random) -> None:
    """An item many times, or a key under many names."""
    times = rng.choice(_COPIES)
    if isinstance(holder, list):
        holder[at:at] = [copy.deepcopy(holder[at]) for _ in range(times)]
    elif at != "":
        holder |= {f"{at}{number}": copy.deepcopy(holder[at]) for number in range(times)}


_TREE: Final[tuple[Callable[[Any, Any, Sequence[Place], random.Random], None], ...]] = (
    _replace, _replace, _near, _near, _near, _drop, _rename, _rename, _add, _wrap, _unwrap, _swap, _swap, _repeat,
)  # fmt: skip


def _insert_line(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines) + 1)
    indent = len(lines[at - 1]) - len(lines[at - 1].lstrip()) if at else 0
    lines.insert(at, " " * rng.choice([0, indent]) + rng.choice(_LINES))


def _double_line(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    lines[at:at] = lines[at : at + rng.randint(1, 5)]


def _lose_lines(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    del lines[at : at + rng.randint(1, 5)]
    lines[:] = lines or [""]


def _indent(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    for number in range(at, min(at + rng.randint(1, 5), len(lines))):
        lines[number] = rng.choice(
            [f"  {lines[number]}", lines[number][2:], f"\t{lines[number].lstrip()}", f" {lines[number]}"]
        )


def _cut(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    del lines[at + 1 :]
    lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]


def _anchor(lines: list[str], rng: random.Random) -> None:
    """A value of its own line gets an anchor, or is an alias."""
    at = rng.randrange(len(lines))
    key, colon, value = lines[at].partition(": ")
    if colon:
        lines[at] = rng.choice(
            [f"{key}: &a {value}", f"{key}: *a", f"{key}: !!str {value}", f"{key}:{value}", f"*a : {value}"]
        )


def _character(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    where = rng.randrange(len(lines[at]) + 1)
    odd = rng.choice(
        [
            "\0",
            "\x07",
            "\x1b",
            "\r",
            "\x85",
            "\u2028",
            "\ud800",
            "\ufeff",
            "\u202e",
            "{",
            "[",
            '"',
            "'",
            ":",
            "#",
            "\t",
        ]
    )
    lines[at] = lines[at][:where] + odd + lines[at][where + rng.randint(0, 1) :]


_TEXT: Final[tuple[Callable[[list[str], random.Random], None], ...]] = (
    _insert_line, _double_line, _lose_lines, _indent, _cut, _anchor, _character,
)  # fmt: skip
