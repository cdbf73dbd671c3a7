"""Transfers: KV caches, checkpoints and datasets, moved by Mooncake's transfer engine over RDMA.

Start at ``transfer_job``, which runs the requests that ``transfer_spec`` describes::

    transfer_spec -> transfer_job -> jobs.job_session (processes, and PMI to exchange addresses)
                                        '- transfer_program: what each host runs

- ``transfer_engine``: where Mooncake is, and the environment that limits it to one RDMA device.
"""
