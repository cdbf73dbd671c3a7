"""The overlay of a fabric: its specification, rules, and plan for each node. All pure."""
