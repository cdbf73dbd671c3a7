"""Commands about traffic and lossless ports: rdma, qos, counters, congestion, expect."""
