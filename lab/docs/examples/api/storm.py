"""A NIC that sends nothing but pauses, and what is left to a pair that never meets it: 50 Mb/s, then next to none."""

from lab.testing.context import running

FABRIC = {
    "defaults": {"rate": "100Mbit", "mtu": 9000},
    "generate": {"shape": "leaf-spine", "spines": 1, "leaves": 2, "hosts_per_leaf": 2},
    "qos": "pfc-ecn",
}

with running(FABRIC) as lab:
    with lab.recording() as run, lab.fabric.writing("h1:h3", "h2:h4"):
        with run.phase("before"):
            lab.fabric.hold(1)
        with lab.fault("pause-storm", "h4"), run.phase("storm"):
            lab.fabric.hold(1)
    bystander = run.read().port("leaf2:swp2").tx_bytes(3)  # towards h3
    before, storm = (bystander.during(p).rate() * 8e-6 for p in ("before", "storm"))
    print(f"h1 to h3: {before:.1f} Mb/s, and {storm:.1f} while h4 storms")
    assert storm < before / 2
