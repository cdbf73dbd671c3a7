// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The port's own sources for acknowledgements, on frames from standard input: a line each, until its end.
 *
 *     PORT SENT NS FRAME        SENT is 1 for a frame that leaves the port; FRAME is in hexadecimal digits
 *
 * It prints a line for each of PORTS ports: how many acknowledgements came in out of order, and how many left so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acks.h"
#include "simulation.h"

#define PORTS 4
#define LONGEST 4096

static __u64 now;
static __u8 frame[LONGEST];
static char digits[2 * LONGEST + 1];

__u64 bpf_ktime_get_ns(void)
{
	return now;
}

int bpf_skb_load_bytes(const void *packet, __u32 offset, void *to, __u32 length)
{
	const struct __sk_buff *skb = packet;

	if (length > skb->len || offset > skb->len - length)
		return -1;
	memcpy(to, frame + offset, length);
	return 0;
}

int main(void)
{
	unsigned int port, sent, octet;
	struct rl_port found;

	while (scanf("%u %u %llu %8192s", &port, &sent, &now, digits) == 4) {
		struct __sk_buff skb = { .len = strlen(digits) / 2 };

		for (__u32 i = 0; i < skb.len; i++) {
			sscanf(digits + 2 * i, "%2x", &octet);
			frame[i] = octet;
		}
		skb.protocol = *(__u16 *)(frame + 12);
		if (rl_may_be_ack(&skb))
			rl_follow_ack(&skb, port, sent);
	}
	for (port = 0; port < PORTS; port++)
		if (rl_find(&found, port))
			printf("%llu %llu\n", found.counters->rx_ack_out_of_order, found.counters->tx_ack_out_of_order);
	return 0;
}
