/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rate limiters of QPs, and which QP has which: shared by the port, which limits, and qp_pairs.bpf.c, which sees QPs end.
 */
#ifndef RL_LIMITERS_H
#define RL_LIMITERS_H

#include "qp_pairs.h"

/*
 * The rate limiter of one QP at one NIC. A QP's packets may leave by any NIC of its host (a bond, a path that fails), so
 * it has the limiter of the same index at each of them, and each obeys every CNP. What a NIC writes is under the lock of
 * its root qdisc.
 */
struct rl_limiter {
	__u64 cnps, packets, sent_bytes; /* of the QP that has it */
	__u64 rate, target; /* bit/s */
	__u64 due; /* when the next packet may go */
	__u64 alpha_at, decrease_at, increase_at; /* when the timers fire next */
	__u64 bytes; /* of the byte counter */
	__u64 timed_at; /* when the packet that is timed left the NIC; 0: none is */
	__u64 ended_rtt; /* ns; on its way from the ingress program to the root qdisc */
	__u64 rtt, rtts; /* the last RTT in ns, and how many there were */
	__s64 rtt_difference; /* moving average of their differences, in ns */
	__u32 generation; /* at the host's first NIC: how many QPs have had it */
	__u32 closed; /* at the host's first NIC: the last generation that ended with its QP */
	__u32 qpn, peer_qpn; /* at the host's first NIC: the QP that has it */
	__u8 address[RL_ADDRESS], peer[RL_ADDRESS];
	__u32 alpha; /* of RL_ALPHA_ONE */
	__u32 time_stage, byte_stage;
	__u32 calm; /* RTTs in a row that let the rate grow */
	__u32 timed_psn, newest_psn; /* of those that ask for an acknowledgement */
	__u32 head, tail; /* its packets, linked as those of a list */
	__u32 waiting; /* how many there are */
	__u8 started; /* the QP is limited */
	__u8 algorithm; /* enum rl_cc_algorithm: of what sets the rate */
	__u8 alpha_flag, decrease_flag; /* ... since the timer fired last */
	__u8 in_heap; /* its first packet waits for its time */
	__u8 in_queue; /* a packet of it is in its class's queue; the next waits until that has gone */
};

static __always_inline __u64 rl_line_rate(const struct rl_config *config)
{
	return config->rate ?: 10000000000ull;
}

/* Set a rate, within the minimum and the line rate. The line rate holds when the minimum is above it. */
static __always_inline void rl_set_rate(struct rl_limiter *limiter, const struct rl_config *config, __u64 rate)
{
	__u64 line = rl_line_rate(config);

	if (rate < config->cc.rpg_min_rate)
		rate = config->cc.rpg_min_rate;
	limiter->rate = rate < line ? rate : line;
}

#define RL_ARRAY(NAME, TYPE, ENTRIES, FLAGS)                                                                          \
	struct {                                                                                                      \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                     \
		__uint(map_flags, FLAGS);                                                                             \
		__uint(max_entries, ENTRIES);                                                                         \
		__type(key, __u32);                                                                                   \
		__type(value, TYPE);                                                                                  \
	} NAME SEC(".maps")

RL_ARRAY(limiters, struct rl_limiter, 1, BPF_F_MMAPABLE); /* key: NIC * RL_LIMITERS + index */

/*
 * A lease names the limiter that a QP has: its key at the host's first NIC and 1 in the lower half, its generation in the
 * upper. When the limiter has another generation, it is another QP's. One word, so that CPUs can exchange it.
 */
static __always_inline __u64 rl_lease_of(__u32 key, __u32 generation)
{
	return (__u64)generation << 32 | (key + 1);
}

/* The limiter of the QP that a packet is sent by, which has the QPN and the address of its peer only. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RL_QPS);
	__type(key, struct rl_qp_key); /* of the peer, in the namespace of the QP itself */
	__type(value, __u64); /* its lease */
} limited_peers SEC(".maps");

static __always_inline struct rl_limiter *rl_limiter_at(__u32 nic, __u32 index)
{
	__u32 key = nic * RL_LIMITERS + (index & (RL_LIMITERS - 1));

	return bpf_map_lookup_elem(&limiters, &key);
}

/* The limiter of a lease at the host's first NIC, if the lease still holds; else NULL. */
static __always_inline struct rl_limiter *rl_leased(__u64 lease)
{
	__u32 key = (__u32)lease - 1;
	struct rl_limiter *limiter = lease ? bpf_map_lookup_elem(&limiters, &key) : NULL;

	return limiter && limiter->generation == lease >> 32 ? limiter : NULL;
}

static __always_inline __u32 rl_index_of(__u64 lease)
{
	return ((__u32)lease - 1) & (RL_LIMITERS - 1);
}

#endif
