"""Jobs: MPI collectives between the hosts of a fabric, over real verbs, one rank on each NIC.

Start at ``collective_job``, which runs a job, and at ``job_spec``, which describes one::

    job_spec, rank_placement -> collective_job -> job_session (processes) -> bus_bandwidth (the table of nccl-tests)
                                                   |  pmi_server: how ranks find each other
                                                   '- rank_program: what each rank runs (MPICH over UCX)

- ``mpi_library``: where MPICH is, and the environment that limits UCX to one RDMA device.
- ``job_failure``: one line for each way in which a rank fails.
"""
