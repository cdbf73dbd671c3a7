/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The only place that reads packets: every length is checked here and nowhere else.
 *
 * bpf_skb_load_bytes is used throughout: it also reaches what is not in the linear part of a packet.
 */
#ifndef RL_PACKET_H
#define RL_PACKET_H

#include "kernel.h"
#include "port.h"

#define RL_ETH_P_PAUSE 0x8808 /* MAC control, IEEE 802.3 clause 31 */
#define RL_ECN_MASK 3 /* RFC 3168: 00 Not-ECT, 01 and 10 ECT, 11 CE */
#define RL_ECN_CE 3
#define RL_CONTROL_DSCP 48 /* CS6, network control (RFC 4594) */
#define RL_IPV6_NEXT 6 /* offsets in the IPv6 header, and behind it (RFC 8200) */
#define RL_IPV6_LENGTH 40
#define RL_ICMPV6 58
#define RL_TCP 6
#define RL_UDP 17
#define RL_ROCE_PORT 4791 /* IBA vol. 1, A17.3.1 */
#define RL_CNP 0x81 /* its opcode (IBA vol. 1, A17.9.3) */
#define RL_CNP_LENGTH 40 /* UDP header, BTH, 16 octets, ICRC */
#define RL_CNP_SHORTEST (ETH_HLEN + 20 + RL_CNP_LENGTH) /* of a frame: IPv4 ... */
#define RL_CNP_LONGEST (ETH_HLEN + 4 + RL_IPV6_LENGTH + RL_CNP_LENGTH) /* ... and tagged IPv6 */
#define RL_ND_FIRST 133 /* router solicitation to redirect (RFC 4861) */
#define RL_ND_LAST 137

struct rl_header {
	bool ip;
	bool tagged;
	bool control; /* ARP or neighbour discovery */
	__u8 pcp;
	__u8 tos; /* IPv4 type of service or IPv6 traffic class: DSCP and ECN */
};

static __always_inline bool rl_is_discovery(struct __sk_buff *skb, __u32 offset)
{
	__u8 next, type;

	return !bpf_skb_load_bytes(skb, offset + RL_IPV6_NEXT, &next, 1) && next == RL_ICMPV6 &&
	       !bpf_skb_load_bytes(skb, offset + RL_IPV6_LENGTH, &type, 1) && type >= RL_ND_FIRST &&
	       type <= RL_ND_LAST;
}

/* A RoCEv2 CNP (IBA vol. 1, A17.9.3), of which every one has the same length: BTH, 16 reserved octets and ICRC. */
static __always_inline bool rl_is_cnp(struct __sk_buff *skb)
{
	__u32 tag = skb->protocol == bpf_htons(ETH_P_8021Q) ? 4 : 0, ip = 20;
	__be16 port;
	__u8 octet;

	if (skb->len - RL_CNP_SHORTEST > RL_CNP_LONGEST - RL_CNP_SHORTEST)
		return false; /* too short or too long, as most packets are */
	if (skb->len == ETH_HLEN + tag + RL_IPV6_LENGTH + RL_CNP_LENGTH)
		ip = RL_IPV6_LENGTH;
	else if (skb->len != ETH_HLEN + tag + ip + RL_CNP_LENGTH)
		return false;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + tag + (ip == 20 ? 9 : RL_IPV6_NEXT), &octet, 1) || octet != RL_UDP)
		return false;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + tag + ip + 2, &port, 2) || port != bpf_htons(RL_ROCE_PORT))
		return false;
	return !bpf_skb_load_bytes(skb, ETH_HLEN + tag + ip + 8, &octet, 1) && octet == RL_CNP;
}

/* The first two octets of an IP header, which most packets have in their linear part; false when there are none. */
static __always_inline bool rl_read_start(struct __sk_buff *skb, __u32 offset, __u8 *start)
{
	const __u8 *ip = (const __u8 *)(long)skb->data + offset;

	if (ip + 2 > (const __u8 *)(long)skb->data_end)
		return !bpf_skb_load_bytes(skb, offset, start, 2);
	start[0] = ip[0];
	start[1] = ip[1];
	return true;
}

/* The tag may be beside the packet (skb->vlan_tci) or in it. */
static __always_inline void rl_parse(struct __sk_buff *skb, struct rl_header *header)
{
	__u16 protocol = bpf_ntohs(skb->protocol);
	__u16 tag[2];
	__u8 start[2];
	__u32 offset = ETH_HLEN;

	*header = (struct rl_header){};
	if (skb->protocol == bpf_htons(ETH_P_IP) && !skb->vlan_present) {
		header->ip = rl_read_start(skb, ETH_HLEN, start);
		header->tos = header->ip ? start[1] : 0;
		return;
	}
	if (skb->vlan_present) {
		header->tagged = true;
		header->pcp = skb->vlan_tci >> 13 & 7;
	} else if (protocol == ETH_P_8021Q) {
		if (bpf_skb_load_bytes(skb, offset, tag, sizeof(tag)))
			return;
		header->tagged = true;
		header->pcp = bpf_ntohs(tag[0]) >> 13;
		protocol = bpf_ntohs(tag[1]);
		offset += sizeof(tag);
	}
	header->control = protocol == ETH_P_ARP || (protocol == ETH_P_IPV6 && rl_is_discovery(skb, offset));
	if (protocol != ETH_P_IP && protocol != ETH_P_IPV6)
		return;
	if (!rl_read_start(skb, offset, start))
		return;
	header->ip = true;
	header->tos = protocol == ETH_P_IP ? start[1] : start[0] << 4 | start[1] >> 4;
}

/* IEEE 802.1Q 6.9.3 for PCP, RFC 2474 for DSCP; what has neither is as DSCP 0. What finds neighbours has no DSCP of its
 * own, and a full queue of best effort would cut hosts and BGP off: it goes with them, as a switch's CPU sends it. */
static __always_inline __u32 rl_classify(const struct rl_config *config, const struct rl_header *header)
{
	__u32 dscp = header->ip ? header->tos >> 2 : 0;

	if (header->control)
		return config->dscp_to_priority[RL_CONTROL_DSCP] & 7;
	if (config->trust_pcp)
		return config->pcp_to_priority[header->pcp & 7] & 7;
	return config->dscp_to_priority[dscp & (RL_DSCPS - 1)] & 7;
}

#endif
