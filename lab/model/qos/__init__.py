"""QoS of ports: classes, buffers, PFC, ECN marking and scheduling; as profiles, and resolved to numbers."""
