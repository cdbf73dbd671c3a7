"""Rows of the table of causes: addresses of hosts and their neighbours.

No scenario shows these causes, so that they are named after the faults that produce them.
"""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import address_symptoms

ADDRESS_CAUSES: Final = (
    Cause(
        "stale-neighbour", "a node sends to a MAC address that its neighbour has not",
        needs=(address_symptoms.sends_to_another_mac,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        nearby=("acl-4791", "gid-index"),
        rival="wrong-address",
        tell="rocelab exec {node} -- ip neigh show dev {interface}, beside ip link of who is there",
        fix="rocelab exec {node} -- ip neigh del ADDRESS dev {interface}: the next packet asks by ARP again",
        words="The NIC was replaced, or somebody has written the entry by hand. Frames leave for an address that"
        " nobody has, and no device counts them as lost.",
    ),
    Cause(
        "wrong-address", "a host is in another network than its switch",
        needs=(address_symptoms.is_in_another_network,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        nearby=("acl-4791", "gid-index", "default-route-lost"),
        rival="stale-neighbour",
        tell="rocelab exec {node} -- ip address show dev {interface}, beside that of {peer}",
        fix="give {node} the address that {peer_node} has a network for, with the same length",
        words="Both ends of the cable are up. Whoever asks for the host's address asks in vain, or the host asks on"
        " its link for addresses that are behind its gateway.",
    ),
    Cause(
        "wrong-address", "two hosts have one address",
        needs=(address_symptoms.two_hosts_answer,),
        rival="duplicate-mac",
        tell="rocelab exec {node} -- ip address show dev {interface}, and so at the others that answer",
        fix="give each host an address of its own, then ip neigh flush at those that talk to them",
        words="Who asks by ARP believes whoever answered last: packets of one host come to the other.",
    ),
    Cause(
        "wrong-address", "a host has no address",
        needs=(address_symptoms.has_no_address,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        nearby=("acl-4791", "gid-index", "default-route-lost"),
        rival="default-route-lost",
        tell="rocelab exec {node} -- ip address show dev {interface}, beside that of {peer}",
        fix="give {node} the address that {peer_node} has a network for, then its default route",
        words="Its link is up, and it answers for no address. The kernel removes the routes that need an address"
        " together with it, and removes IPv6 addresses when an interface is shut.",
    ),
    Cause(
        "default-route-lost", "a host has no route to other hosts",
        needs=(address_symptoms.has_no_way_to_others,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        excludes=(address_symptoms.has_no_address,),
        nearby=("acl-4791", "gid-index"),
        rival="wrong-gateway",
        tell="rocelab exec {node} -- ip route, beside that of another host",
        fix="rocelab exec {node} -- ip route replace default via the address that {peer_node} has on that link",
        words="Its link is up and its address is right, and what it sends beyond its own network goes nowhere. The"
        " kernel flushes routes by an interface that is shut, and setting it up again brings back none of them.",
    ),
    Cause(
        "wrong-gateway", "a host's default route leads to an address that no switch has",
        needs=(address_symptoms.leads_to_nobody_who_forwards,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        nearby=("acl-4791", "gid-index"),
        rival="wrong-address",
        tell="rocelab exec {node} -- ip route, beside ip address of its switch",
        fix="rocelab exec {node} -- ip route replace default via the address that its switch has on that link",
        words="Nobody answers its ARP: it reaches its own network and nothing beyond.",
    ),
)  # fmt: skip
