"""FRR configuration of one switch: pure functions of the topology and its plan."""
