"""Scores of challenges in the user's state directory; scores from the VM are copied there.

In the VM, the environment of a command has no ``XDG_STATE_HOME``. If it is set, it names the folder of scores there,
too, and they are not copied: tests that are killed leave none to the user.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from lab.cli.answers.scenarios import Score
from lab.cli.kit.output import stderr
from lab.kernel.process.user_folders import STATE_HOME, user_state
from lab.scenario.challenges.story_answer import NO_FAULT
from lab.vm.calls.call import inside_vm
from lab.vm.calls.handover import GUEST_CACHE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_FOLDER: Final = "scores"
_LARGEST: Final = 4096
"""Maximum size of a score in bytes: files from the VM are not trusted."""
_SCORE: Final = TypeAdapter(Score)


def keep(score: dict[str, Any]) -> None:
    """Save a score, in the VM in the folder that the host collects; if that fails, print an error and continue."""
    copied = inside_vm() and STATE_HOME not in os.environ
    _put(GUEST_CACHE / _FOLDER if copied else user_state(_FOLDER), score)


def collect(guest_cache: Path) -> None:
    """Move the scores from the VM to the user's state directory."""
    for path, score in _in(guest_cache / _FOLDER):
        if score is not None:
            _put(user_state(_FOLDER), score)
        path.unlink(missing_ok=True)


def all_scores() -> list[dict[str, Any]]:
    """Return all saved scores, the oldest first; invalid files are ignored."""
    found = [score for _, score in _in(user_state(_FOLDER)) if score is not None]
    return sorted(found, key=lambda score: float(score["when"]))


def labelled(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return scores with the labels of NIKA; those of older versions of rocelab lack the answer, and are left out."""
    return [
        {
            **{name: value for name, value in score.items() if name not in {"answer", "guess"}},
            "ground_truth": _labels(score["answer"]),
            "submission": _labels(score["guess"]) if score["guess"] else None,
        }
        for score in found
        if score["answer"]
    ]


def _labels(answer: dict[str, str]) -> dict[str, Any]:
    """Return an answer as labels: capacity is no anomaly, and has no root cause."""
    anomaly = answer["cause"] != NO_FAULT
    causes = [{"resource_id": answer["place"], "fault_type": answer["cause"]}] if anomaly else []
    return {"is_anomaly": anomaly, "root_causes": causes}


def _put(folder: Path, score: dict[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{os.urandom(8).hex()}.json").write_text(json.dumps(score), encoding="utf-8")
    except OSError as error:
        stderr.print(f"the score is not kept: {error}", markup=False, highlight=False, soft_wrap=True)


def _in(folder: Path) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    for path in sorted(folder.glob("*.json")):
        yield path, _read(path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if path.is_symlink() or path.stat().st_size > _LARGEST:
            return None
        read: dict[str, Any] = _SCORE.validate_json(path.read_bytes()).model_dump()
    except (OSError, ValidationError):
        return None
    return read
