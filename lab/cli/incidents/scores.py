"""Scores of challenges in the user's state directory; scores from the VM are copied there.

In the VM, the environment of a command has no ``XDG_STATE_HOME``. If it is set, it names the folder of scores there,
too, and they are not copied: tests that are killed leave none to the user.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from lab.cli.answers.scenarios import Score
from lab.cli.kit.output import stderr
from lab.kernel.process.user_folders import STATE_HOME, user_state
from lab.scenario.challenges.story_answer import NO_FAULT
from lab.vm.calls.call import inside_vm
from lab.vm.calls.call_folder import ENTERED, regular_file
from lab.vm.calls.handover import GUEST_CACHE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_FOLDER: Final = "scores"
_LARGEST: Final = 4096
"""Maximum size of a score in bytes: files from the VM are not trusted."""
_FOLLOWED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SCORE: Final = TypeAdapter(Score)


def keep(score: dict[str, Any]) -> None:
    """Save a score, in the VM in the folder that the host collects; if that fails, print an error and continue."""
    copied = inside_vm() and STATE_HOME not in os.environ
    _put(GUEST_CACHE / _FOLDER if copied else user_state(_FOLDER), score)


def collect(guest_cache: Path) -> None:
    """Move the scores from the VM to the user's state directory.

    The guest's root may have put anything there, also a link in place of the folder. Such a link stays.
    """
    for folder, name, score in _in(guest_cache / _FOLDER, ENTERED):
        if score is not None:
            _put(user_state(_FOLDER), score)
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(name, dir_fd=folder)


def all_scores() -> list[dict[str, Any]]:
    """Return all saved scores, the oldest first; invalid files are ignored."""
    scores = (score for _, _, score in _in(user_state(_FOLDER), _FOLLOWED) if score is not None)
    return sorted(scores, key=lambda score: float(score["when"]))


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


def _in(path: Path, flags: int) -> Iterator[tuple[int, str, dict[str, Any] | None]]:
    """Yield the folder's descriptor, name and score of each file; the score is None for anything else."""
    try:
        folder = os.open(path, flags)
    except OSError:  # not there yet
        return
    try:
        names = os.listdir(folder)  # noqa: PTH208 - pathlib lists no descriptor
        for name in sorted(name for name in names if name.endswith(".json")):
            yield folder, name, _read(folder, name)
    finally:
        os.close(folder)


def _read(folder: int, name: str) -> dict[str, Any] | None:
    with regular_file(folder, name) as file:
        text = b"" if file is None else file.read(_LARGEST + 1)
    try:
        read: dict[str, Any] = _SCORE.validate_json(text).model_dump()
    except ValidationError:
        return None
    return read if len(text) <= _LARGEST else None
