/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * skb->mark carries what ingress found out to the egress port of the same switch. The kernel keeps it through
 * routing, bridging and encapsulation, and clears it when a packet leaves the namespace.
 *
 *      31        24 23    21 20    18 17                    0
 *     +------------+--------+--------+-----------------------+
 *     |   magic    |  kind  |priority|     ingress port      |     data
 *     |            |        | group  |   xoff(8) classes(7:0)|     PFC frame to be written; bit 9: it is written
 *     |            |        |  gen.  |       clock port      |     the clock's token, of a generation
 *     +------------+--------+--------+-----------------------+
 */
#ifndef RL_MARK_H
#define RL_MARK_H

#include "kernel.h"

#define RL_MAGIC 0xb7000000u
#define RL_MAGIC_MASK 0xff000000u
#define RL_XOFF 0x100u
#define RL_WRITTEN 0x200u

enum rl_kind {
	RL_KIND_DATA,
	RL_KIND_PFC,
	RL_KIND_TOKEN,
	RL_KIND_KICK, /* makes a sleeping qdisc look again, and is dropped by it */
	RL_KIND_SPARE, /* waits to take the place of a token that is lost */
	RL_KIND_NONE, /* not marked by us */
	RL_KIND_COPY, /* a duplicate, of the impairment at a place (impair.bpf.c) */
	RL_KIND_CNP, /* a CE-marked packet that port_tx turns into the CNP that answers it */
};

static __always_inline __u32 rl_mark(enum rl_kind kind, __u32 priority, __u32 low)
{
	return RL_MAGIC | kind << 21 | (priority & 7) << 18 | (low & 0x3ffff);
}

static __always_inline enum rl_kind rl_mark_kind(__u32 mark)
{
	return (mark & RL_MAGIC_MASK) == RL_MAGIC ? (mark >> 21 & 7) : RL_KIND_NONE;
}

static __always_inline __u32 rl_mark_priority(__u32 mark)
{
	return mark >> 18 & 7;
}

static __always_inline __u32 rl_mark_low(__u32 mark)
{
	return mark & 0x3ffff;
}

#endif
