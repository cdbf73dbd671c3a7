"""Which routes go with an interface and must be put back: what ip(8) shows, read."""

from lab.kernel.netlink.ip_state import _routes, documents

SHOWN = """\
1 default via 10.0.0.0 proto 3 scope 0
1 10.0.0.0/31 proto 2 scope 253 src 10.0.0.1
1 10.0.0.9 proto 3 scope 0
\tnexthop via inet6 fe80::1 weight 1
\tnexthop via inet6 fe80::2 weight 1
1 10.0.0.11 nhid 5 proto 3 scope 0
1 10.0.0.12 via 10.0.0.2 proto 3 scope 0 linkdown
"""


def test_routes_by_one_next_hop_are_put_back_and_not_those_that_have_others() -> None:
    assert _routes("eth1", SHOWN.splitlines()) == [
        "route add default via 10.0.0.0 proto 3 scope 0 dev eth1",
        "route add 10.0.0.12 via 10.0.0.2 proto 3 scope 0 dev eth1",
    ]
    assert _routes("eth1", []) == []


def test_a_route_through_a_tunnel_keeps_its_own_prefix() -> None:
    """As iproute2 6.1 prints it: ``dst`` is the prefix first, and then the end of the tunnel."""
    shown = '[{"dst":"10.6.0.0/16","encap":"ip","id":5,"src":"0.0.0.0","dst":"10.9.9.9","dev":"d0"}] [{"dst":"a"}]'
    (route,), (other,) = documents(shown, 2)
    assert (route["dst"], route["encap dst"]) == ("10.6.0.0/16", "10.9.9.9")
    assert other == {"dst": "a"}
