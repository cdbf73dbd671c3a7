"""Families of causes: the name of each cause of the table, as the kind of thing that is wrong."""

from __future__ import annotations

from typing import Final

_MEMBERS: Final = {
    "loss": ("gray-loss", "link-cut"),
    "corrupt": ("link-corrupt",),
    "link-down": ("link-differs", "link-flap", "link-down", "power-lost", "leaf-dies", "rehash-on-failure"),
    "mtu": ("mtu-differs", "mtu-black-hole", "vxlan-mtu", "mtu-not-negotiated"),
    "filter": ("filter-differs", "acl-4791",),
    "route": (
        "route-differs", "static-route", "routing-loop", "default-route-lost", "wrong-gateway", "vtep-unreachable",
    ),
    "paths": ("hash-differs", "one-path-only", "hash-polarisation", "elephant-collision"),
    "neighbour": ("neighbour-differs", "stale-neighbour",),
    "cabling": ("cable-swapped",),
    "address": ("address-differs", "wrong-address", "gid-index", "duplicate-mac"),
    "rdma-device": ("rdma-device-differs", "rdma-device-lost",),
    "rate": ("rate-differs", "link-rate", "slow-receiver"),
    "pfc": ("pfc-differs", "pfc-one-sided",),
    "pfc-frames": ("pfc-storm", "malformed-pfc", "global-pause"),
    "buffer": ("buffer-differs", "headroom-too-small", "pfc-deadlock"),
    "watchdog": ("watchdog-differs", "pfc-watchdog-missing", "pfc-watchdog-loop"),
    "ecn": ("ecn-differs", "ecn-missing-one-leaf", "ecn-above-xoff", "ecn-off-by-3kb", "ecn-too-low"),
    "class": ("class-differs", "not-ect", "dscp-map-mismatch", "dscp-lost-in-vxlan", "dscp-rewritten",
        "wrong-traffic-class",
    ),
    "congestion-control": ("congestion-control-differs",
        "dcqcn-off-on-one-host", "ecn-without-cc", "cnp-lost", "cnp-in-lossy-class", "cc-parameters-differ",
        "ack-starved-by-pfc",
    ),
    "session": (
        "session-differs", "session-shutdown", "daemon-silent", "daemon-killed", "daemon-stopped", "evpn-af-missing",
    ),
    "overlay": ("bridge-differs",
        "evpn-vni-mismatch", "evpn-rt-mismatch", "evpn-no-imet", "gateway-mac-conflict", "esi-mismatch",
        "spine-as-bottleneck",
    ),
    "duplicate": ("link-duplicate",),
    "reorder": ("link-reorder",),
    "delay": ("delay-differs", "link-delay",),
    "unnamed": ("silent-drop",),
    "host": ("straggler-host", "rail-misaligned-placement"),
    "queue": ("queue-differs", "queue-replaced"),
    "forwarding": ("forwarding-differs", "echo-differs"),
    "scheduler": ("scheduler-differs",),
    "capacity": ("incast", "parking-lot", "victim-flow"),
}  # fmt: skip

FAMILY_OF: Final = {cause: family for family, causes in _MEMBERS.items() for cause in causes}
"""The family of each cause. A cause that only names a place is of no fault's family."""
