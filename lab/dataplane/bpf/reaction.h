/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CNPs (IBA vol. 1, A17.9.3) and acknowledgements that arrive, and which limiter a QP has.
 *
 * A CNP ends in the NIC. The QP's rate belongs to root qdiscs, so what has come goes there: clones whose mark names the
 * limiter, which the qdiscs of all NICs of the host obey and drop.
 */
#ifndef RL_REACTION_H
#define RL_REACTION_H

#include "pace.h"
#include "roce.h"

#define RL_CANDIDATES 64 /* limiters that one packet looks at for a free one */

/* Whether a limiter can be another QP's: at no NIC of the host is anything limited by it. */
static __always_inline bool rl_is_free(const struct rl_node *node, __u32 index)
{
	const struct rl_limiter *limiter;
	__u32 i;

	bpf_for(i, 0, node->nics) {
		limiter = rl_limiter_at(node->first_nic + i, index);
		if (!limiter || limiter->started || rl_has_packets(limiter))
			return false;
	}
	return true;
}

/* Have a limiter be another QP's at all NICs of the host; the lease that it has of it. */
static __always_inline __u64 rl_hand_over(const struct rl_node *node, __u32 index, const struct rl_roce *arrived,
					  __u32 peer_qpn)
{
	struct rl_limiter *limiter;
	__u32 i;

	bpf_for(i, 0, node->nics) {
		limiter = rl_limiter_at(node->first_nic + i, index);
		if (limiter)
			limiter->cnps = limiter->packets = limiter->sent_bytes = 0;
	}
	limiter = rl_limiter_at(node->first_nic, index);
	if (!limiter)
		return 0;
	limiter->qpn = arrived->qpn;
	limiter->peer_qpn = peer_qpn;
	__builtin_memcpy(limiter->address, arrived->destination, RL_ADDRESS);
	__builtin_memcpy(limiter->peer, arrived->source, RL_ADDRESS);
	return rl_lease_of(node->first_nic * RL_LIMITERS + index, ++limiter->generation);
}

/* Give a limiter to the QP that a packet is for; false when none is free. */
static __always_inline bool rl_take_limiter(struct __sk_buff *skb, struct rl_node *node,
					    const struct rl_roce *arrived, struct rl_qp_pair *pair)
{
	struct rl_qp_key peer = { .netns = rl_netns(skb), .qpn = pair->peer_qpn };
	__u64 lease = 0, former = pair->lease;
	__u32 i, index;

	bpf_for(i, 0, RL_CANDIDATES) {
		index = __sync_fetch_and_add(&node->limiters, 1) & (RL_LIMITERS - 1); /* no other CPU gets the same */
		if (!rl_is_free(node, index))
			continue;
		lease = rl_hand_over(node, index, arrived, pair->peer_qpn);
		break;
	}
	if (!lease)
		return false;
	if (__sync_val_compare_and_swap(&pair->lease, former, lease) != former)
		return true; /* a packet on another CPU has given it one; this one is free */
	__builtin_memcpy(peer.address, arrived->source, RL_ADDRESS);
	if (!bpf_map_update_elem(&limited_peers, &peer, &lease, BPF_ANY))
		return true;
	pair->lease = 0;
	return false;
}

/* The index of the limiter of the QP that a packet is for, which gets one if it has none, and 1; 0: it cannot be limited. */
__noinline __u32 rl_limiter_of(struct __sk_buff *skb, __u32 id)
{
	struct rl_qp_pair *pair;
	struct rl_node *node;
	struct rl_roce arrived;
	struct rl_port port;

	if (!rl_find(&port, id) || !rl_read_roce(skb, &arrived))
		return 0;
	node = rl_find_node(&port);
	pair = port.config->cc.react ? rl_find_qp(skb, &arrived) : NULL;
	if (!node || !pair || (!rl_leased(pair->lease) && !rl_take_limiter(skb, node, &arrived, pair)))
		return 0;
	return rl_index_of(pair->lease) + 1;
}

/* Have all NICs of the host obey what has come for a QP; false if none could be reached. One whose link is down has no
 * qdisc. */
static __always_inline bool rl_tell_nics(struct __sk_buff *skb, const struct rl_node *node, __u32 index,
					 enum rl_kick kick)
{
	__u32 mark = skb->mark, reached = 0, i;
	struct rl_port nic;

	skb->mark = rl_mark(RL_KIND_KICK, kick, index + 1);
	bpf_for(i, 0, node->nics)
		if (rl_find(&nic, node->first_port + 1 + i) && nic.config->cc.react)
			reached |= bpf_clone_redirect(skb, nic.config->index, 0) == 0;
	skb->mark = mark;
	return reached;
}

/* Take a CNP for the QP that has limiter `place` - 1. */
__noinline int rl_receive_cnp(struct __sk_buff *skb, __u32 id, __u32 place)
{
	struct rl_node *node;
	struct rl_port port;

	if (!rl_find(&port, id))
		return 0;
	node = rl_find_node(&port);
	if (!node || !place || !rl_obeys_cnps(&port.config->cc))
		__sync_fetch_and_add(&port.counters->rp_cnp_ignored, 1);
	else if (rl_tell_nics(skb, node, place - 1, RL_KICK_CNP))
		__sync_fetch_and_add(&port.counters->rp_cnp_handled, 1);
	else
		__sync_fetch_and_add(&port.counters->rp_cnp_failed, 1);
	return 0;
}

/* The RTT that an acknowledgement ends at any NIC of the host, in ns; 0: it ends none. All NICs obey it. */
static __always_inline __u64 rl_end_rtts(const struct rl_node *node, __u32 index, const struct rl_roce *ack)
{
	__u64 now = bpf_ktime_get_ns(), rtt = 0;
	struct rl_limiter *limiter;
	__u32 i;

	bpf_for(i, 0, node->nics) {
		limiter = rl_limiter_at(node->first_nic + i, index);
		if (limiter)
			rtt |= rl_end_rtt(limiter, ack->psn, ack->syndrome, now);
	}
	if (!rtt)
		return 0;
	bpf_for(i, 0, node->nics) {
		limiter = rl_limiter_at(node->first_nic + i, index);
		if (limiter)
			__sync_lock_test_and_set(&limiter->ended_rtt, rtt);
	}
	return rtt;
}

/* Take note of an acknowledgement for the QP that has limiter `place` - 1: the first of a QP starts its limiter, and one of
 * a packet that is timed ends an RTT. */
__noinline int rl_receive_ack(struct __sk_buff *skb, __u32 id, __u32 place)
{
	const struct rl_limiter *limiter;
	struct rl_node *node;
	struct rl_port port;
	struct rl_roce ack;
	__u64 rtt;

	if (!rl_find(&port, id) || !rl_read_roce(skb, &ack))
		return 0;
	node = rl_find_node(&port);
	limiter = place ? rl_find_limiter(&port, place - 1) : NULL;
	if (!node || !limiter) {
		__sync_fetch_and_add(&port.counters->rp_rtt_ignored, 1);
		return 0;
	}
	rtt = rl_end_rtts(node, place - 1, &ack);
	if (!rtt && limiter->started && rl_is_current(limiter, &port.config->cc))
		return 0;
	if (!rl_tell_nics(skb, node, place - 1, RL_KICK_ACK))
		__sync_fetch_and_add(&port.counters->rp_rtt_failed, 1);
	else if (rtt)
		__sync_fetch_and_add(&port.counters->rp_rtt_handled, 1);
	return 0;
}

/* What takes the ingress port's place in the mark of a packet that the host itself sends. The root qdisc gets its PSN too,
 * without the request if it is not an acknowledgement that answers it. */
__noinline __u32 rl_limited_by(struct __sk_buff *skb)
{
	struct rl_qp_key peer = {};
	struct rl_roce roce;
	const __u64 *lease;

	if (!rl_peek_roce(skb, &roce) && !rl_read_roce(skb, &roce))
		return RL_NO_PORT;
	peer.netns = rl_netns(skb);
	peer.qpn = roce.qpn;
	rl_copy_address(peer.address, roce.destination);
	lease = bpf_map_lookup_elem(&limited_peers, &peer);
	if (!lease || !rl_leased(*lease) || rl_is_acknowledgement(&roce))
		return RL_NO_PORT;
	skb->cb[0] = (roce.opcode & RL_OPERATION) == RL_READ_REQUEST ? roce.psn & RL_PSN : roce.psn;
	return RL_LIMITED + rl_index_of(*lease);
}

#endif
