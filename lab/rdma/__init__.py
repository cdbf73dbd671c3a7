"""RDMA on the fabric's hosts: rxe devices, perftest runs between them, and their counters."""
