"""RDMA on the fabric's hosts: rxe devices, perftest runs, and device counters.

Start at ``rxe`` for devices and ``perftest`` for measurements::

    nic_choice -> perftest (perftest_session, window_counters) -> measure (result) ; device_counters, sysfs
"""
