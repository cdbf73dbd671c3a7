"""Families of causes: the name of each cause of the table, as the kind of thing that is wrong."""

from __future__ import annotations

from typing import Final

_MEMBERS: Final = {
    "loss": ("gray-loss", "link-cut"),
    "link-down": ("link-flap", "link-down", "power-lost", "leaf-dies", "rehash-on-failure"),
    "mtu": ("mtu-black-hole", "vxlan-mtu"),
    "filter": ("acl-4791",),
    "route": ("routing-loop", "default-route-lost", "wrong-gateway", "vtep-unreachable"),
    "paths": ("one-path-only", "hash-polarisation", "elephant-collision"),
    "neighbour": ("stale-neighbour",),
    "address": ("wrong-address", "gid-index", "duplicate-mac"),
    "rdma-device": ("rdma-device-lost",),
    "rate": ("link-rate", "slow-receiver"),
    "pfc": ("pfc-one-sided",),
    "pfc-frames": ("pfc-storm", "malformed-pfc", "global-pause"),
    "buffer": ("headroom-too-small", "pfc-deadlock"),
    "watchdog": ("pfc-watchdog-missing", "pfc-watchdog-loop"),
    "ecn": ("ecn-missing-one-leaf", "ecn-above-xoff", "ecn-off-by-3kb", "ecn-too-low"),
    "class": ("not-ect", "dscp-map-mismatch", "dscp-lost-in-vxlan", "dscp-rewritten"),
    "congestion-control": (
        "dcqcn-off-on-one-host", "ecn-without-cc", "cnp-lost", "cnp-in-lossy-class", "cc-parameters-differ",
        "ack-starved-by-pfc",
    ),
    "session": ("daemon-killed", "daemon-stopped", "evpn-af-missing"),
    "overlay": (
        "evpn-vni-mismatch", "evpn-rt-mismatch", "evpn-no-imet", "gateway-mac-conflict", "esi-mismatch",
        "spine-as-bottleneck",
    ),
    "duplicate": ("link-duplicate",),
    "delay": ("link-delay",),
    "unnamed": ("silent-drop",),
    "host": ("straggler-host",),
    "capacity": ("incast", "parking-lot", "victim-flow"),
}  # fmt: skip

FAMILY_OF: Final = {cause: family for family, causes in _MEMBERS.items() for cause in causes}
"""The family of each cause. A cause that only names a place is of no fault's family."""
