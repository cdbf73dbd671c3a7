"""Send UDP datagrams as fast as the socket's own buffer lets them out, until stdin ends: a program for the tests.

A small buffer is what paces it: the kernel charges a datagram to the socket until the port has sent it.

Usage: python blast.py ADDRESS PORT TOS SIZE   (SIZE is that of the frame, without FCS)
"""

import contextlib
import os
import select
import socket
import sys

HEADERS = 14 + 20 + 8


def main(address: str, port: int, tos: int, size: int) -> None:
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * size)
    sender.connect((address, port))
    payload = bytes(size - HEADERS)
    while not select.select([0], [], [], 0)[0] or os.read(0, 1):
        for _ in range(16):
            with contextlib.suppress(ConnectionRefusedError):
                sender.send(payload)


main(sys.argv[1], *map(int, sys.argv[2:5]))
