/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Acknowledgements that a newer one of the same queue pair has overtaken, counted at both ends of a link.
 *
 *      wire ──► port_rx ──► flows of the ingress ──► rx_ack_out_of_order
 *      wire ◄── port_tx ◄── flows of the egress  ──► tx_ack_out_of_order
 *
 * A responder acknowledges requests in the order of their PSNs (IBA vol. 1, 9.7.5), and answers a duplicate with the
 * newest PSN again. So an acknowledgement with an older PSN was overtaken on its way. RDMA devices ignore it, and count
 * nothing. Where paths merge, order may be lost by design: then the egress port counts it, too. If a link delivers more
 * of them than were sent into it, it has reordered packets itself.
 *
 * NAKs are left out: each has the PSN that is expected next, and a duplicate may be answered after it. A queue pair that
 * reuses the number of another begins with any PSN, so that the newest one is forgotten after RL_ACK_APART.
 *
 * Flows are in a table with one place for each hash. A flow whose place another one has taken begins anew, so that some
 * may be missed, and none is counted that was not overtaken.
 */
#ifndef RL_ACKS_H
#define RL_ACKS_H

#include "maps.h"
#include "roce.h"
#include "rtt.h"

#define RL_VXLAN_PORT 4789 /* RFC 7348 */
#define RL_VXLAN_LENGTH 8
#define RL_ACK_LENGTH 20 /* BTH, AETH, ICRC */
#define RL_ACK_SHORTEST (ETH_HLEN + RL_IPV4_LENGTH + 8 + RL_ACK_LENGTH) /* of a frame: IPv4, with UDP ... */
#define RL_ACK_LONGEST (2 * (ETH_HLEN + RL_IPV6_LENGTH + 8) + 4 + RL_VXLAN_LENGTH + RL_ACK_LENGTH) /* IPv6 in VXLAN */
#define RL_ACK_APART 250000000ull /* ns: longer than a packet is overtaken, shorter than a QP takes to connect */

/* An acknowledgement. */
struct rl_ack {
	__u8 source[RL_ADDRESS], destination[RL_ADDRESS];
	__u32 qpn, vni, psn;
	__be16 port; /* UDP destination port */
};

/* Whether a packet has the length of an acknowledgement. Most have not, and need not be read. */
static __always_inline bool rl_may_be_ack(const struct __sk_buff *skb)
{
	return skb->len - RL_ACK_SHORTEST <= RL_ACK_LONGEST - RL_ACK_SHORTEST;
}

/* Read the IP and UDP headers at `offset`; the offset of what follows them, or 0. */
static __always_inline __u32 rl_read_udp(struct __sk_buff *skb, __u32 offset, struct rl_ack *ack)
{
	__u8 head[RL_IPV6_LENGTH] __attribute__((aligned(4)));
	struct rl_udp udp;

	if (bpf_skb_load_bytes(skb, offset, head, RL_IPV4_LENGTH))
		return 0;
	if (head[0] == RL_IPV4_PLAIN) {
		if (head[9] != RL_UDP || (head[6] << 8 | head[7]) & RL_IPV4_FRAGMENT)
			return 0;
		rl_map_ipv4(ack->source, head + 12);
		rl_map_ipv4(ack->destination, head + 16);
		offset += RL_IPV4_LENGTH;
	} else {
		if (head[0] >> 4 != 6 || head[RL_IPV6_NEXT] != RL_UDP ||
		    bpf_skb_load_bytes(skb, offset, head, RL_IPV6_LENGTH))
			return 0;
		rl_copy_address(ack->source, head + 8);
		rl_copy_address(ack->destination, head + 24);
		offset += RL_IPV6_LENGTH;
	}
	if (bpf_skb_load_bytes(skb, offset, &udp, sizeof(udp)))
		return 0;
	ack->port = udp.destination;
	return offset + sizeof(udp);
}

/* Read an acknowledgement of a reliable connection, also one in VXLAN; false for all other packets. */
static __always_inline bool rl_read_ack(struct __sk_buff *skb, struct rl_ack *ack)
{
	struct {
		struct rl_bth bth;
		__u8 syndrome;
	} __attribute__((packed)) transport;
	__u32 offset = ETH_HLEN + (skb->protocol == bpf_htons(ETH_P_8021Q) ? 4 : 0);
	__be32 vni = 0;

	offset = rl_read_udp(skb, offset, ack);
	if (offset && ack->port == bpf_htons(RL_VXLAN_PORT)) {
		if (bpf_skb_load_bytes(skb, offset + 4, &vni, sizeof(vni)))
			return false;
		offset = rl_read_udp(skb, offset + RL_VXLAN_LENGTH + ETH_HLEN, ack);
	}
	if (!offset || ack->port != bpf_htons(RL_ROCE_PORT) || skb->len != offset + RL_ACK_LENGTH ||
	    bpf_skb_load_bytes(skb, offset, &transport, sizeof(transport)))
		return false;
	ack->vni = bpf_ntohl(vni) >> 8;
	ack->qpn = transport.bth.qpn[0] << 16 | transport.bth.qpn[1] << 8 | transport.bth.qpn[2];
	ack->psn = bpf_ntohl(transport.bth.psn) & RL_PSN;
	return transport.bth.opcode == RL_ACKNOWLEDGE && !(transport.syndrome & RL_NAK);
}

/* The place of a flow in a table: its QPN and the last octets of its addresses, spread by Knuth's multiplier. */
static __always_inline __u32 rl_place_of_ack(const struct rl_ack *ack)
{
	__u32 octets = ack->destination[15] << 8 | ack->destination[13] << 16 | ack->source[15];

	return (__u64)(((octets ^ ack->vni << 20) * 31 + ack->qpn) * 2654435769u) * RL_ACK_FLOWS >> 32;
}

/* Take note of an acknowledgement in its flow, and return whether a newer one came before it. */
static __always_inline bool rl_is_overtaken(struct rl_ack_flow *flow, const struct rl_ack *ack, __u64 now)
{
	bool known = flow->qpn == ack->qpn && flow->vni == ack->vni && rl_same_address(flow->source, ack->source) &&
		     rl_same_address(flow->destination, ack->destination) && now - flow->newest_at < RL_ACK_APART;

	if (known && ((ack->psn - flow->newest_psn) & RL_PSN) >= RL_PSN_PAST)
		return true;
	rl_copy_address(flow->source, ack->source);
	rl_copy_address(flow->destination, ack->destination);
	flow->qpn = ack->qpn;
	flow->vni = ack->vni;
	flow->newest_psn = ack->psn;
	flow->newest_at = now;
	return false;
}

/* Count a packet that leaves a port (`sent` is 1) or comes in (0), if it is an acknowledgement that was overtaken. */
__noinline int rl_follow_ack(struct __sk_buff *skb, __u32 id, __u32 sent)
{
	struct rl_ack_flow *flow;
	struct rl_port port;
	struct rl_ack ack;
	bool overtaken;
	__u64 now;
	__u32 key;

	if (!rl_read_ack(skb, &ack) || !rl_find(&port, id))
		return 0;
	key = (id * 2 + (sent & 1)) * RL_ACK_FLOWS + rl_place_of_ack(&ack);
	flow = bpf_map_lookup_elem(&ack_flows, &key);
	if (!flow)
		return 0;
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&flow->lock);
	overtaken = rl_is_overtaken(flow, &ack, now);
	bpf_spin_unlock(&flow->lock);
	if (overtaken)
		__sync_fetch_and_add(sent ? &port.counters->tx_ack_out_of_order : &port.counters->rx_ack_out_of_order, 1);
	return 0;
}

#endif
