"""The results of runs by their seeds, one file each, so that an interrupted series of runs resumes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path


class SeedResults:
    """The results of one kind of run, below the folder of its recordings.

    A result stays as it was judged: choose another folder after a change of what judges it.
    """

    def __init__(self, output: Path, kind: str) -> None:
        self._folder, self._kind = output / "results", kind

    def missing(self, seeds: Iterable[int]) -> list[int]:
        """Return the seeds without a result."""
        return [seed for seed in seeds if not self._file(seed).exists()]

    def play(
        self, seeds: Sequence[int], fabric: Callable[[], AbstractContextManager[None]],
        one: Callable[[int], dict[str, Any]],
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Run ``one`` for each seed without a result, on a fabric; return the results of all seeds."""
        if missing := self.missing(seeds):
            self._folder.mkdir(parents=True, exist_ok=True)
            with fabric():
                for seed in missing:
                    self._store(seed, one(seed))
        return self.of(seeds)

    def of(self, seeds: Iterable[int]) -> list[dict[str, Any]]:
        """Return the results of the seeds that have one."""
        return [json.loads(file.read_text(encoding="utf-8")) for file in map(self._file, seeds) if file.exists()]

    def all(self) -> list[dict[str, Any]]:
        """Return all results, by seed."""
        seeds = (int(file.stem.rpartition("-")[2]) for file in self._folder.glob(f"{self._kind}-*.json"))
        return self.of(sorted(seeds))

    def _store(self, seed: int, result: dict[str, Any]) -> None:
        whole = self._file(seed)
        part = whole.with_suffix(".part")
        part.write_text(json.dumps(result), encoding="utf-8")
        part.rename(whole)

    def _file(self, seed: int) -> Path:
        return self._folder / f"{self._kind}-{seed}.json"
