"""Traffic of scenarios other than plain RDMA writes: finite transfers, TCP, pings, and traffic patterns."""
