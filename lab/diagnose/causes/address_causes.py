"""Rows of the table of causes: addresses of hosts, their neighbours, and cables in a port with another address.

No scenario shows these causes, so that they are named after the faults that produce them.
"""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import address_symptoms, crossed_cables

ADDRESS_CAUSES: Final = (
    Cause(
        "cable-swapped", "the cables of two ports of a switch are in each other's port",
        needs=(crossed_cables.hosts_are_crossed,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        nearby=(
            "acl-4791", "gid-index", "default-route-lost", "static-route", "wrong-address", "wrong-gateway",
            "stale-neighbour", "link-flap", "gray-loss",
        ),
        rival="wrong-address",
        tell="rocelab lldp, or lldpctl on a switch: the neighbour of {place} is a port of another host",
        fix="exchange the cables at {node}; or exchange the addresses of its two ports, if the cables are to stay",
        words="All links are up, and addresses, routes and neighbours are as configured. Each port has the address of"
        " the other port's host: the ARP requests of both hosts for their gateway stay unanswered.",
    ),
    Cause(
        "stale-neighbour", "a node sends to a MAC address that its neighbour does not have",
        needs=(address_symptoms.sends_to_another_mac,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        nearby=("acl-4791", "gid-index", "one-path-only"),
        rival="wrong-address",
        tell="rocelab exec {node} -- ip neigh show dev {interface}, compared with ip link at its neighbour",
        fix="rocelab exec {node} -- ip neigh del ADDRESS dev {interface}: the next packet resolves it again by ARP",
        words="The NIC was replaced, or the entry was written by hand. Frames go to an address that no device has,"
        " and no counter shows them as lost.",
    ),
    Cause(
        "wrong-address", "a host has an address in another network than its switch",
        needs=(address_symptoms.is_in_another_network,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        nearby=("acl-4791", "gid-index", "default-route-lost"),
        rival="stale-neighbour",
        tell="rocelab exec {node} -- ip address show dev {interface}, compared with {peer}",
        fix="give {node} an address in the network of {peer_node}, with the same prefix length",
        words="Both ends of the cable are up. ARP requests for the host's address stay unanswered, or the host"
        " sends ARP requests for addresses behind its gateway.",
    ),
    Cause(
        "wrong-address", "two hosts have the same address",
        needs=(address_symptoms.two_hosts_answer,),
        rival="duplicate-mac",
        tell="rocelab exec {node} -- ip address show dev {interface}, and the same at the other hosts that answer",
        fix="give each host its own address, then run ip neigh flush on the hosts that communicate with them",
        words="A neighbour uses the last ARP reply that it received: packets for one host arrive at the other.",
    ),
    Cause(
        "wrong-address", "a host has no address",
        needs=(address_symptoms.has_no_address,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        nearby=("acl-4791", "gid-index", "default-route-lost"),
        rival="default-route-lost",
        tell="rocelab exec {node} -- ip address show dev {interface}, compared with {peer}",
        fix="give {node} an address in the network of {peer_node}, then its default route",
        words="Its link is up, but it answers no ARP request. The kernel removes the routes of an address together"
        " with it, and removes IPv6 addresses when an interface is shut.",
    ),
    Cause(
        "wrong-address", "a switch has no address on the link of a host",
        needs=(address_symptoms.a_switch_port_has_no_address,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        nearby=("acl-4791", "gid-index", "default-route-lost", "wrong-gateway"),
        rival="wrong-gateway",
        tell="rocelab exec {node} -- ip address show dev {interface}, compared with {peer}",
        fix="give {place} its address in the network of {peer_node}",
        words="The link is up. ARP requests for the host's gateway stay unanswered, and the switch does not advertise"
        " the host's network.",
    ),
    Cause(
        "default-route-lost", "a host has no route to other hosts",
        needs=(address_symptoms.has_no_way_to_others,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        excludes=(address_symptoms.has_no_address,),
        nearby=("acl-4791", "gid-index"),
        rival="wrong-gateway",
        tell="rocelab exec {node} -- ip route, compared with another host",
        fix="rocelab exec {node} -- ip route replace default via ADDRESS, which is that of {peer_node} on this link",
        words="Its link is up and its address is correct, but it cannot send beyond its own network. The kernel"
        " flushes the routes of an interface that is shut, and does not restore them.",
    ),
    Cause(
        "static-route", "a node has a route that rejects packets to other hosts",
        needs=(address_symptoms.a_route_rejects,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        excludes=(address_symptoms.has_no_address,),
        nearby=("acl-4791", "gid-index"),
        rival="default-route-lost",
        tell="rocelab exec {node} -- ip route show type unreachable, and the same for blackhole, prohibit and throw",
        fix="rocelab exec {node} -- ip route del TYPE PREFIX, with the type and the prefix of the evidence",
        words="Its links are up and its addresses are right. A route of type unreachable, prohibit, blackhole or"
        " throw takes precedence over the one that leads to a neighbour: it is to fewer addresses, or has a lower"
        " metric.",
    ),
    Cause(
        "wrong-gateway", "a host's default route points to an address that no switch has",
        needs=(address_symptoms.leads_to_nobody_who_forwards,),
        supports=(address_symptoms.a_ping_is_not_answered,),
        nearby=("acl-4791", "gid-index"),
        rival="wrong-address",
        tell="rocelab exec {node} -- ip route, compared with ip address on its switch",
        fix="rocelab exec {node} -- ip route replace default via ADDRESS, which is that of its switch on this link",
        words="Its ARP requests stay unanswered: it reaches its own network and nothing beyond.",
    ),
)  # fmt: skip
