"""The judge of "nothing is left" sees what is left: each kind of thing alone, and a real namespace."""

from dataclasses import fields, replace

import pytest

from lab.kernel import netns
from tests.fabric import snapshot

pytestmark = pytest.mark.fabric


@pytest.mark.parametrize("kind", [field.name for field in fields(snapshot.Snapshot)])
def test_what_came_and_what_went_is_told(kind: str) -> None:
    before = snapshot.take()
    after = replace(before, **{kind: (*getattr(before, kind), "something new")})
    assert before.differences(before) == []
    assert before.differences(after) == [f"{kind} + something new"]
    assert after.differences(before) == [f"{kind} - something new"]


def test_what_is_there_twice_is_told_from_what_is_there_once() -> None:
    """A mount on top of its like."""
    before = snapshot.take()
    once = before.mounts[0]
    after = replace(before, mounts=(*before.mounts, once))
    assert before.differences(after) == [f"mounts + {once}"]


def test_a_namespace_that_was_left_is_seen_in_mounts_and_files() -> None:
    before = snapshot.take()
    netns.create(["rl-left-over"])
    try:
        seen = before.differences(snapshot.take())
    finally:
        netns.delete(["rl-left-over"])
    assert "files + /run/netns/rl-left-over" in seen
    assert any(line.startswith("mounts + ") and "/run/netns/rl-left-over" in line for line in seen)
    assert before.differences(snapshot.take()) == []
