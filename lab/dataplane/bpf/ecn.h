/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ECN marking by the WRED curve on the depth of the queue that a packet is about to enter (RFC 3168; the curve is that
 * of RED, Floyd and Jacobson 1993, on the instantaneous depth as DCQCN, SIGCOMM 2015, section 3.1, has it).
 *
 *      probability
 *        1 |              ______
 *     pmax |            /
 *          |         /
 *        0 |_______/
 *               kmin    kmax    depth in bytes
 */
#ifndef RL_ECN_H
#define RL_ECN_H

#include "maps.h"
#include "packet.h"

#define RL_HEADERS (ETH_HLEN + 4 + RL_IPV6_LENGTH) /* octets that are written to at most: a tag, and IPv6 */

static __always_inline bool rl_chosen(const struct rl_queue_config *config, __u64 depth)
{
	if (!config->kmax || depth <= config->kmin)
		return false;
	if (depth > config->kmax)
		return true;
	return bpf_get_prandom_u32() < config->pmax * (depth - config->kmin) / (config->kmax - config->kmin);
}

/* Set CE. Of a packet that shares its octets with another, as a copy that a bridge floods does, the kernel's own function
 * changes nothing: it gets octets of its own first. */
static __always_inline bool rl_set_ce(struct __sk_buff *skb)
{
	if (bpf_skb_ecn_set_ce(skb) == 1)
		return true;
	return !bpf_skb_pull_data(skb, skb->len < RL_HEADERS ? skb->len : RL_HEADERS) && bpf_skb_ecn_set_ce(skb) == 1;
}

/* Mark a packet that the curve chose CE. DSCP stays, the IPv4 checksum is mended, and the ICRC does not cover ECN (IBA
 * vol. 1, A17.3.3: the traffic class is taken as all ones). */
static __always_inline void rl_mark_ce(struct __sk_buff *skb, struct rl_queue_counters *count,
				       const struct rl_header *header)
{
	__u32 ecn = header->tos & RL_ECN_MASK;

	if (!header->ip || !ecn)
		__sync_fetch_and_add(&count->not_ect, 1);
	else if (ecn != RL_ECN_CE)
		__sync_fetch_and_add(rl_set_ce(skb) ? &count->ecn_marked : &count->ecn_failed, 1);
}

#endif
