"""Which routes go with an interface and must be put back: what ip(8) shows, read."""

from lab.kernel.netlink.ip_state import _routes

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
