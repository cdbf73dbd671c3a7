"""Jobs: MPI collectives between the hosts of a fabric, over real verbs, one rank on each NIC.

Start at ``collective_job``, which runs a collective, and at ``job_spec``, which describes one::

    job_spec, rank_placement -> collective_job -> job_session (processes) -> bus_bandwidth (the table of nccl-tests)
                                                   |  pmi_server: how ranks find each other
                                                   '- rank_program: what each rank runs (MPICH over UCX)

A training job is converted to a schedule of operations first::

    training_spec -> training_schedule -> rank_schedule -> schedule_job -> job_session -> training_job (figures)
                                           |                                '- schedule_program: what each rank runs
                                           '- schedule_arithmetic: how long a step takes at the rate of the NICs

- ``mpi_library``: where MPICH is, and the environment that limits UCX to one RDMA device.
- ``job_failure``: one line for each way in which a rank fails.
"""
