"""Frames of a log with records of the ports' event log, in the layout that the log's header describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class PortEventFrames:
    """Decodes the records of one log; ports and kinds that its header does not describe are ignored."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        """``described`` is the header's ``port_events``; ValueError or TypeError if no recorder writes it."""
        names, formats, offsets = zip(*described["record"], strict=True)
        self._record = np.dtype(
            {"names": names, "formats": formats, "offsets": offsets, "itemsize": described["size"]}
        )
        self._ports = {int(port): tuple(names) for port, names in described["ports"].items()}
        self._kinds = {int(number): name for number, name in described["kinds"].items()}

    def events(self, data: memoryview) -> Iterator[dict[str, Any]]:
        """Yield the events of a frame, with ``ns``, ``source``, ``kind``, ``node``, ``interface`` and ``number``."""
        for event in np.frombuffer(data, self._record):
            yield from self._event(event)

    def _event(self, event: Any) -> Iterator[dict[str, Any]]:
        if int(event["port"]) not in self._ports or int(event["kind"]) not in self._kinds:
            return
        node, interface = self._ports[int(event["port"])]
        kind, value = self._kinds[int(event["kind"])], int(event["value"])
        told = {"ns": int(event["ns"]), "source": "port", "kind": kind, "node": node, "interface": interface}
        told |= {"number": int(event["index"])}
        if kind == "group_drops":
            yield {**told, "value": 0, "towards": ":".join(self._ports.get(value, ()))}
        else:
            yield {**told, "value": value}
