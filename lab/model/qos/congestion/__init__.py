"""Congestion control of host NICs: registers, published sets of values, and the law that scales them to the lab.

``cc_registers`` has the registers of a NIC and their resolved form (``CcQos``), ``cc_presets`` the published values
with their sources, ``cc_profile`` the settings of a profile and how they are applied to a port, and ``cc_check`` the
contradictions between them.

A published value is meant for a real link. With s = real rate / lab rate, times are multiplied by s and rates divided
by s; sizes in bytes and the MTU stay. All that happens on the real link then happens here, s times as slowly.
"""
