/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The notification point of a NIC (IBA vol. 1, A17.9.2; DCQCN, SIGCOMM 2015, section 3.1): a CE-marked packet that
 * arrives makes it send a CNP to the QP that sent the packet, at most one in `min_time_between_cnps`.
 *
 * Data packets of connected QPs are answered. Acknowledgements are not: the sender of an ACK is not what fills the queue.
 * Datagrams (UD) are counted as packets of no QP: a CNP by their source QPN slows nothing that a NIC limits.
 */
#ifndef RL_NOTIFICATION_H
#define RL_NOTIFICATION_H

#include "cnp.h"
#include "reaction.h"

struct rl_cnp_destination {
	__u32 port;
	__u8 address[RL_ADDRESS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RL_QPS);
	__type(key, struct rl_cnp_destination);
	__type(value, __u64);
} cnp_destinations SEC(".maps");

/* When the last CNP was sent to an address from a port; NULL for want of memory. */
static __always_inline __u64 *rl_cnp_destination(__u32 port, const __u8 *address)
{
	struct rl_cnp_destination key = { .port = port };
	__u64 never = 0, *at;

	__builtin_memcpy(key.address, address, RL_ADDRESS);
	at = bpf_map_lookup_elem(&cnp_destinations, &key);
	if (at)
		return at;
	bpf_map_update_elem(&cnp_destinations, &key, &never, BPF_NOEXIST);
	return bpf_map_lookup_elem(&cnp_destinations, &key);
}

/* Whether a CNP may be sent now, and if so, note that it is. `at` is when the last one was; two CPUs may ask at once. */
static __always_inline bool rl_may_notify(__u64 *at, __u64 now, __u64 apart)
{
	__u64 last = *at;

	return (!last || now - last >= apart) && __sync_val_compare_and_swap(at, last, now) == last;
}

/* Answer a CE-marked packet, if it has a QP to answer and its turn has come. */
static __always_inline void rl_notify(struct __sk_buff *skb, const struct rl_port *port, const struct rl_roce *roce)
{
	const struct rl_cc_config *cc = &port->config->cc;
	struct rl_counters *counters = port->counters;
	struct rl_qp_pair *pair;
	__u32 mark = skb->mark;
	__u64 *at;

	__sync_fetch_and_add(&counters->np_ecn_marked_roce_packets, 1);
	if (rl_is_acknowledgement(roce))
		return;
	pair = rl_find_qp(skb, roce);
	if (!pair) {
		__sync_fetch_and_add(&counters->np_cnp_no_qp, 1);
		return;
	}
	at = &pair->cnp_sent_at;
	if (cc->moderation == RL_CNP_PER_PORT)
		at = &port->state->cnp_sent_at;
	else if (cc->moderation == RL_CNP_PER_DESTINATION)
		at = rl_cnp_destination(port->id, roce->source);
	if (at && !rl_may_notify(at, bpf_ktime_get_ns(), cc->min_time_between_cnps)) {
		__sync_fetch_and_add(&counters->np_cnp_suppressed, 1);
		return;
	}
	skb->mark = rl_mark(RL_KIND_CNP, 0, 0);
	if (!at || bpf_clone_redirect(skb, skb->ifindex, 0))
		__sync_fetch_and_add(&counters->np_cnp_failed, 1);
	skb->mark = mark;
}

/* What a RoCEv2 packet is to the reaction point. */
enum rl_arrival { RL_OF_NO_CONCERN, RL_ARRIVED_CNP, RL_ARRIVED_ACK };

/* A packet has come to a NIC that has congestion control: answer a marked one, and see what it is to the reaction point. */
__noinline int rl_receive_roce(struct __sk_buff *skb, __u32 id)
{
	struct rl_roce roce;
	struct rl_port port;

	if (!rl_find(&port, id) || !rl_read_roce(skb, &roce))
		return RL_OF_NO_CONCERN;
	if (roce.opcode == RL_CNP)
		return RL_ARRIVED_CNP;
	if (port.config->cc.notify && (roce.tos & RL_ECN_MASK) == RL_ECN_CE)
		rl_notify(skb, &port, &roce);
	return rl_needs_rtts(&port.config->cc) && rl_is_acknowledgement(&roce) ? RL_ARRIVED_ACK : RL_OF_NO_CONCERN;
}

/* Whether an IP packet may be what rl_receive_roce has something to do for. Of most that can be told in place. */
static __always_inline bool rl_may_concern(struct __sk_buff *skb, const struct rl_cc_config *cc, __u8 tos)
{
	const __u8 *ip = (const __u8 *)(long)skb->data + ETH_HLEN;
	const struct rl_udp *udp = (const struct rl_udp *)(ip + RL_IPV4_LENGTH);
	const struct rl_bth *bth = (const struct rl_bth *)(udp + 1);

	if ((tos & RL_ECN_MASK) == RL_ECN_CE || rl_needs_rtts(cc) || skb->protocol != bpf_htons(ETH_P_IP) ||
	    (const __u8 *)(long)skb->data_end < (const __u8 *)(bth + 1) || ip[0] != RL_IPV4_PLAIN)
		return true;
	return ip[9] == RL_UDP && udp->destination == bpf_htons(RL_ROCE_PORT) && bth->opcode == RL_CNP;
}

/* The same, and have the reaction point take it; whether it is a CNP, which ends here. Calls are side by side, because
 * nested ones would need more stack than there is. */
static __always_inline bool rl_control_congestion(struct __sk_buff *skb, __u32 id)
{
	int arrival = rl_receive_roce(skb, id);

	if (arrival == RL_ARRIVED_CNP && rl_check_cnp(skb, id))
		rl_receive_cnp(skb, id, rl_limiter_of(skb, id));
	else if (arrival == RL_ARRIVED_ACK)
		rl_receive_ack(skb, id, rl_limiter_of(skb, id));
	return arrival == RL_ARRIVED_CNP;
}

#endif
