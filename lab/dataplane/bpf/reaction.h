/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CNPs that arrive (IBA vol. 1, A17.9.3), and which limiter a QP has.
 *
 * A CNP ends in the NIC. The QP's rate belongs to root qdiscs, so what has come goes there: clones whose mark names the
 * limiter, which the qdiscs of all NICs of the host obey and drop.
 */
#ifndef RL_REACTION_H
#define RL_REACTION_H

#include "pace.h"
#include "roce.h"

#define RL_CANDIDATES 64 /* limiters that one CNP looks at for a free one */

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
static __always_inline __u64 rl_hand_over(const struct rl_node *node, __u32 index, const struct rl_roce *cnp,
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
	limiter->qpn = cnp->qpn;
	limiter->peer_qpn = peer_qpn;
	__builtin_memcpy(limiter->address, cnp->destination, RL_ADDRESS);
	__builtin_memcpy(limiter->peer, cnp->source, RL_ADDRESS);
	return rl_lease_of(node->first_nic * RL_LIMITERS + index, ++limiter->generation);
}

/* Give a limiter to the QP that a CNP is for; false when none is free. */
static __always_inline bool rl_take_limiter(struct __sk_buff *skb, struct rl_node *node, const struct rl_roce *cnp,
					    struct rl_qp_pair *pair)
{
	struct rl_qp_key peer = { .netns = rl_netns(skb), .qpn = pair->peer_qpn };
	__u64 lease = 0, former = pair->lease;
	__u32 i, index;

	bpf_for(i, 0, RL_CANDIDATES) {
		index = __sync_fetch_and_add(&node->limiters, 1) & (RL_LIMITERS - 1); /* no other CPU gets the same */
		if (!rl_is_free(node, index))
			continue;
		lease = rl_hand_over(node, index, cnp, pair->peer_qpn);
		break;
	}
	if (!lease)
		return false;
	if (__sync_val_compare_and_swap(&pair->lease, former, lease) != former)
		return true; /* a CNP on another CPU has given it one; this one is free */
	__builtin_memcpy(peer.address, cnp->source, RL_ADDRESS);
	if (!bpf_map_update_elem(&limited_peers, &peer, &lease, BPF_ANY))
		return true;
	pair->lease = 0;
	return false;
}

/* Have all NICs of the host obey a CNP; false if none could be reached. One whose link is down has no qdisc. */
static __always_inline bool rl_tell_nics(struct __sk_buff *skb, const struct rl_node *node, __u32 index)
{
	__u32 mark = skb->mark, reached = 0, i;
	struct rl_port nic;

	skb->mark = rl_mark(RL_KIND_KICK, 0, index + 1);
	bpf_for(i, 0, node->nics)
		if (rl_find(&nic, node->first_port + 1 + i) && nic.config->cc.react)
			reached |= bpf_clone_redirect(skb, nic.config->index, 0) == 0;
	skb->mark = mark;
	return reached;
}

/* Take a CNP. */
__noinline int rl_receive_cnp(struct __sk_buff *skb, __u32 id)
{
	struct rl_qp_pair *pair;
	struct rl_node *node;
	struct rl_roce cnp;
	struct rl_port port;

	if (!rl_find(&port, id) || !rl_read_roce(skb, &cnp))
		return 0;
	node = rl_find_node(&port);
	pair = port.config->cc.react ? rl_find_qp(skb, &cnp) : NULL;
	if (!node || !pair || (!rl_leased(pair->lease) && !rl_take_limiter(skb, node, &cnp, pair)))
		__sync_fetch_and_add(&port.counters->rp_cnp_ignored, 1);
	else if (rl_tell_nics(skb, node, rl_index_of(pair->lease)))
		__sync_fetch_and_add(&port.counters->rp_cnp_handled, 1);
	else
		__sync_fetch_and_add(&port.counters->rp_cnp_failed, 1);
	return 0;
}

/* What takes the ingress port's place in the mark of a packet that the host itself sends. */
__noinline __u32 rl_limited_by(struct __sk_buff *skb, __u32 id)
{
	struct rl_qp_key peer = {};
	struct rl_roce roce;
	const __u64 *lease;

	if (!rl_read_roce(skb, &roce))
		return RL_NO_PORT;
	peer.netns = rl_netns(skb);
	peer.qpn = roce.qpn;
	__builtin_memcpy(peer.address, roce.destination, RL_ADDRESS);
	lease = bpf_map_lookup_elem(&limited_peers, &peer);
	if (!lease || !rl_leased(*lease) || rl_is_acknowledgement(&roce))
		return RL_NO_PORT;
	return RL_LIMITED + rl_index_of(*lease);
}

#endif
