/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Congestion notification packets (IBA vol. 1, A17.9.3): a CE-marked packet becomes the CNP that answers it.
 *
 * As a PFC frame, a CNP is a clone that port_tx writes over and sends to the interface once more (pfc.h). It goes back
 * the way that the packet came: to its MAC and IP addresses, with its tag and its UDP source port, which is the same in
 * both directions of a pair of QPs.
 */
#ifndef RL_CNP_H
#define RL_CNP_H

#include "pfc.h"
#include "roce.h"

#define RL_BECN 0x40
#define RL_HOPS 64
#define RL_CNP_RESERVED 16
#define RL_DEFAULT_PKEY 0xffff
#define RL_IPV4_DF 0x4000
#define RL_CRC_OF_LRH 0xdebb20e3 /* CRC-32 of eight octets of ones, for the masked LRH (A17.3.3), before the final NOT */

struct rl_cnp_transport {
	struct rl_udp udp;
	struct rl_bth bth;
	__u8 reserved[RL_CNP_RESERVED];
	__u32 icrc;
} __attribute__((packed));

struct rl_cnp_ethernet {
	__u8 destination[ETH_ALEN], source[ETH_ALEN];
	__be16 type;
} __attribute__((packed));

struct rl_cnp_ipv4 {
	struct rl_cnp_ethernet ethernet;
	__u8 version_length, tos;
	__be16 length, id, fragment;
	__u8 hops, protocol;
	__u16 checksum;
	__u8 source[4], destination[4];
	struct rl_cnp_transport transport;
} __attribute__((packed));

struct rl_cnp_ipv6 {
	struct rl_cnp_ethernet ethernet;
	__be32 flow;
	__be16 length;
	__u8 next, hops;
	__u8 source[RL_ADDRESS], destination[RL_ADDRESS];
	struct rl_cnp_transport transport;
} __attribute__((packed));

/* All behind the IP header; what the ICRC does not cover is ones. */
static __always_inline void rl_fill_transport(struct rl_cnp_transport *transport, const struct rl_roce *answered,
					      __u32 qpn)
{
	*transport = (struct rl_cnp_transport){
		.udp = {
			.source = answered->port,
			.destination = bpf_htons(RL_ROCE_PORT),
			.length = bpf_htons(RL_CNP_LENGTH),
			.checksum = 0xffff,
		},
		.bth = {
			.opcode = RL_CNP,
			.pkey = bpf_htons(RL_DEFAULT_PKEY),
			.notification = 0xff,
			.qpn = { qpn >> 16, qpn >> 8, qpn },
		},
	};
}

/* The ICRC of a packet whose variant fields are ones, and the values of those behind the IP header. No UDP checksum, as
 * rxe sends: IBA A17.3.2 leaves it to the sender. */
static __always_inline void rl_seal(struct rl_cnp_transport *transport, const void *ip, __u32 length)
{
	transport->icrc = ~rl_crc32(RL_CRC_OF_LRH, ip, length);
	transport->udp.checksum = 0;
	transport->bth.notification = RL_BECN;
}

/* Whether the ICRC of a CNP is right; `ip` is its IP header, whose variant fields are ones. */
static __always_inline bool rl_is_sealed(struct rl_cnp_transport *transport, const void *ip, __u32 length)
{
	transport->udp.checksum = 0xffff;
	transport->bth.notification = 0xff;
	return transport->icrc == ~rl_crc32(RL_CRC_OF_LRH, ip, length);
}

__noinline int rl_is_sealed_ipv4(struct __sk_buff *skb)
{
	struct rl_cnp_ipv4 frame = {};

	if (bpf_skb_load_bytes(skb, 0, &frame, sizeof(frame)))
		return 0;
	frame.tos = frame.hops = 0xff;
	frame.checksum = 0xffff;
	return rl_is_sealed(&frame.transport, &frame.version_length,
			    sizeof(frame) - ETH_HLEN - sizeof(frame.transport.icrc));
}

__noinline int rl_is_sealed_ipv6(struct __sk_buff *skb)
{
	struct rl_cnp_ipv6 frame = {};

	if (bpf_skb_load_bytes(skb, 0, &frame, sizeof(frame)))
		return 0;
	frame.flow |= bpf_htonl(0x0fffffff);
	frame.hops = 0xff;
	return rl_is_sealed(&frame.transport, &frame.flow, sizeof(frame) - ETH_HLEN - sizeof(frame.transport.icrc));
}

/* Whether a CNP that has come is to be obeyed: its ICRC is right. One that is not is counted. */
__noinline int rl_check_cnp(struct __sk_buff *skb, __u32 id)
{
	struct rl_port port;

	if (skb->protocol == bpf_htons(ETH_P_IPV6) ? rl_is_sealed_ipv6(skb) : rl_is_sealed_ipv4(skb))
		return 1;
	if (rl_find(&port, id))
		__sync_fetch_and_add(&port.counters->rp_cnp_icrc_error, 1);
	return 0;
}

static __always_inline void rl_reverse(struct __sk_buff *skb, struct rl_cnp_ethernet *ethernet)
{
	struct rl_cnp_ethernet answered = {};

	bpf_skb_load_bytes(skb, 0, &answered, sizeof(answered));
	__builtin_memcpy(ethernet->destination, answered.source, ETH_ALEN);
	__builtin_memcpy(ethernet->source, answered.destination, ETH_ALEN);
	ethernet->type = answered.type;
}

__noinline int rl_write_cnp_ipv4(struct __sk_buff *skb, __u32 qpn, __u32 tos)
{
	struct rl_cnp_ipv4 frame = {};
	struct rl_roce answered;
	__u64 sum;

	if (!rl_read_roce(skb, &answered))
		return -1;
	rl_reverse(skb, &frame.ethernet);
	frame.version_length = 0x45;
	frame.length = bpf_htons(sizeof(frame) - ETH_HLEN);
	frame.fragment = bpf_htons(RL_IPV4_DF);
	frame.protocol = RL_UDP;
	frame.tos = frame.hops = 0xff;
	frame.checksum = 0xffff;
	__builtin_memcpy(frame.source, answered.destination + 12, 4);
	__builtin_memcpy(frame.destination, answered.source + 12, 4);
	rl_fill_transport(&frame.transport, &answered, qpn);
	rl_seal(&frame.transport, &frame.version_length, sizeof(frame) - ETH_HLEN - sizeof(frame.transport.icrc));
	frame.tos = tos;
	frame.hops = RL_HOPS;
	frame.checksum = 0;
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&frame.version_length, RL_IPV4_LENGTH, 0);
	sum = (sum & 0xffff) + (sum >> 16);
	frame.checksum = ~(sum + (sum >> 16));
	if (!rl_cut(skb, sizeof(frame)))
		return -1;
	return bpf_skb_store_bytes(skb, 0, &frame, sizeof(frame), BPF_F_INVALIDATE_HASH);
}

__noinline int rl_write_cnp_ipv6(struct __sk_buff *skb, __u32 qpn, __u32 tos)
{
	struct rl_cnp_ipv6 frame = {};
	struct rl_roce answered;

	if (!rl_read_roce(skb, &answered))
		return -1;
	rl_reverse(skb, &frame.ethernet);
	frame.flow = bpf_htonl(0x6fffffff);
	frame.length = bpf_htons(RL_CNP_LENGTH);
	frame.next = RL_UDP;
	frame.hops = 0xff;
	__builtin_memcpy(frame.source, answered.destination, RL_ADDRESS);
	__builtin_memcpy(frame.destination, answered.source, RL_ADDRESS);
	rl_fill_transport(&frame.transport, &answered, qpn);
	rl_seal(&frame.transport, &frame.flow, sizeof(frame) - ETH_HLEN - sizeof(frame.transport.icrc));
	frame.flow = bpf_htonl(0x60000000 | tos << 20);
	frame.hops = RL_HOPS;
	if (!rl_cut(skb, sizeof(frame)))
		return -1;
	return bpf_skb_store_bytes(skb, 0, &frame, sizeof(frame), BPF_F_INVALIDATE_HASH);
}

/* Write the CNP to a QP over the packet at hand. Not 0 when that cannot be done. */
static __always_inline int rl_write_cnp(struct __sk_buff *skb, const struct rl_cc_config *cc, __u32 qpn)
{
	__u32 tci = skb->vlan_tci, tagged = skb->vlan_present, failed;

	if (tagged)
		bpf_skb_vlan_pop(skb);
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		failed = rl_write_cnp_ipv6(skb, qpn, cc->cnp_dscp << 2);
	else
		failed = rl_write_cnp_ipv4(skb, qpn, cc->cnp_dscp << 2);
	if (!failed && tagged)
		failed = bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), (tci & 0xfff) | cc->cnp_802p_prio << 13);
	return failed;
}

/* Turn a CE-marked packet, which is about to go back out of its port, into a CNP, and send that; the verdict on the
 * packet. */
__noinline int rl_transmit_cnp(struct __sk_buff *skb, __u32 id)
{
	__u32 mark = skb->mark, refused = 1;
	struct rl_header header = { .ip = true };
	const struct rl_cc_config *cc;
	const struct rl_qp_pair *pair;
	struct rl_roce answered;
	struct rl_port port;

	if (!rl_find(&port, id))
		return TC_ACT_SHOT;
	cc = &port.config->cc;
	header.tos = cc->cnp_dscp << 2;
	header.pcp = skb->vlan_present ? cc->cnp_802p_prio : 0;
	pair = rl_read_roce(skb, &answered) ? rl_find_qp(skb, &answered) : NULL;
	if (pair && !rl_write_cnp(skb, cc, pair->peer_qpn)) {
		skb->mark = rl_mark(RL_KIND_DATA, rl_classify(port.config, &header), RL_NO_PORT);
		refused = bpf_clone_redirect(skb, skb->ifindex, 0) != 0;
		skb->mark = mark;
	}
	__sync_fetch_and_add(refused ? &port.counters->np_cnp_failed : &port.counters->np_cnp_sent, 1);
	return refused ? TC_ACT_SHOT : TC_ACT_STOLEN;
}

#endif
