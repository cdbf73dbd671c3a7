/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connected QPs of a fabric's hosts, each with its peer.
 *
 * A data packet carries the QPN of its receiver only, and a CNP that of the sender only (IBA vol. 1, 9.2 and A17.9.3).
 * The UDP source port is a fold of both QPNs and stands for more than one pair. So the pairs are learned where they are
 * made: qp_pairs.bpf.c, on rxe's verbs, writes the map that port.bpf.c reads.
 */
#ifndef RL_QP_PAIRS_H
#define RL_QP_PAIRS_H

#include "kernel.h"
#include "port.h"

#define RL_ADDRESS 16 /* octets; an IPv4 address is mapped into IPv6 (RFC 4291, 2.5.5.2), as GIDs are (IBA A17.4) */

/* Addresses and QPNs of two fabrics may be the same, their namespaces are not. */
struct rl_qp_key {
	__u32 netns; /* inode of the host's network namespace */
	__u32 qpn;
	__u8 address[RL_ADDRESS];
};

struct rl_qp_pair {
	__u64 cnp_sent_at; /* to this peer, for this QP */
	__u64 lease; /* the limiter that the QP has (limiters.h); 0: none */
	__u32 peer_qpn;
	__u8 peer[RL_ADDRESS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RL_QPS);
	__type(key, struct rl_qp_key);
	__type(value, struct rl_qp_pair);
} qp_pairs SEC(".maps");

static __always_inline bool rl_same_address(const __u8 *one, const __u8 *other)
{
	const __u32 *left = (const __u32 *)one, *right = (const __u32 *)other;

	return !((left[0] ^ right[0]) | (left[1] ^ right[1]) | (left[2] ^ right[2]) | (left[3] ^ right[3]));
}

static __always_inline void rl_copy_address(__u8 *to, const __u8 *from)
{
	const __u32 *source = (const __u32 *)from;
	__u32 *target = (__u32 *)to;

	target[0] = source[0];
	target[1] = source[1];
	target[2] = source[2];
	target[3] = source[3];
}

#endif
