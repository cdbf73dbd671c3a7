"""A hierarchical AllReduce: the memory of a host in place of NVLink, and RDMA between the hosts on each rail.

Start at ``hierarchical_program``, which each rank runs::

    jobs.collective_job -> jobs.job_session (processes; one MPI job for each rail)
          |                      '- hierarchical_program: what each rank runs
          '- host_memory: what the ranks of a host share
"""
