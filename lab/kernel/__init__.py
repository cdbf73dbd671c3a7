"""Linux mechanisms behind typed functions. Only this room uses pyroute2 and subprocess.

Start at ``process.netns`` for namespaces, ``netlink.rtnl`` for batched netlink requests, ``bpf.bpf_object`` for BPF
programs and ``packets.live_capture`` for captures::

    netlink/    links, addresses, routes, qdiscs, RDMA resources: requests in batches, dumps, events
    bpf/        BPF objects: compile, load, attach, pin; maps as NumPy arrays
    process/    programs, signals, threads, cgroups, namespaces, locks, time
    packets/    AF_PACKET: capture, send, ARP and path probes
"""
