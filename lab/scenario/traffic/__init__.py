"""Traffic of scenarios beside RDMA writes: finite transfers, TCP, pings, and traffic patterns."""
