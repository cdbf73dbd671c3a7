/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RoCEv2 packets: their addresses and the base transport header (IBA vol. 1, 9.2 and A17.3), and the ICRC.
 *
 * A tag beside the packet (skb->vlan_tci) does not matter here; a NIC takes no packet with a second one in it.
 */
#ifndef RL_ROCE_H
#define RL_ROCE_H

#include "packet.h"
#include "qp_pairs.h"

#define RL_IPV4_LENGTH 20
#define RL_IPV4_PLAIN 0x45 /* version 4, no options */
#define RL_IPV4_FRAGMENT 0x3fff /* offset, and more of them to come (RFC 791) */
#define RL_OPERATION 0x1f
#define RL_QPN 0xffffff
#define RL_READ_REQUEST 0x0c
#define RL_ACKNOWLEDGE 0x11
#define RL_ATOMIC_ACKNOWLEDGE 0x12

struct rl_bth {
	__u8 opcode;
	__u8 flags;
	__be16 pkey;
	__u8 notification; /* FECN, BECN */
	__u8 qpn[3];
	__be32 psn;
};

struct rl_udp {
	__be16 source, destination, length, checksum;
};

struct rl_roce {
	__u8 source[RL_ADDRESS], destination[RL_ADDRESS];
	__u32 qpn;
	__u32 psn; /* with RL_ACK_REQUEST, as in the BTH */
	__be16 port; /* UDP source port */
	__u8 opcode;
	__u8 syndrome; /* of an acknowledgement's AETH; what it is otherwise has no meaning */
	__u8 tos;
	bool ipv6;
};

/* Map an IPv4 address into IPv6. */
static __always_inline void rl_map_ipv4(__u8 *address, const __u8 *ipv4)
{
	__u32 *words = (__u32 *)address;

	words[0] = words[1] = 0;
	words[2] = bpf_htonl(0xffff);
	words[3] = *(const __u32 *)ipv4;
}

/* The IP header; the offset of what follows it in the frame, or 0. */
static __always_inline __u32 rl_read_ip(struct __sk_buff *skb, struct rl_roce *roce)
{
	__u8 head[RL_IPV6_LENGTH] __attribute__((aligned(4)));
	__u32 length;

	roce->ipv6 = skb->protocol == bpf_htons(ETH_P_IPV6);
	if (roce->ipv6) {
		if (bpf_skb_load_bytes(skb, ETH_HLEN, head, RL_IPV6_LENGTH) || head[RL_IPV6_NEXT] != RL_UDP)
			return 0;
		roce->tos = head[0] << 4 | head[1] >> 4;
		__builtin_memcpy(roce->source, head + 8, RL_ADDRESS);
		__builtin_memcpy(roce->destination, head + 24, RL_ADDRESS);
		return ETH_HLEN + RL_IPV6_LENGTH;
	}
	if (skb->protocol != bpf_htons(ETH_P_IP) || bpf_skb_load_bytes(skb, ETH_HLEN, head, RL_IPV4_LENGTH))
		return 0;
	length = (head[0] & 15) * 4;
	if (length < RL_IPV4_LENGTH || head[9] != RL_UDP || (head[6] << 8 | head[7]) & RL_IPV4_FRAGMENT)
		return 0;
	roce->tos = head[1];
	rl_map_ipv4(roce->source, head + 12);
	rl_map_ipv4(roce->destination, head + 16);
	return ETH_HLEN + length;
}

/* Read a packet's headers; false when it is no RoCEv2 packet. */
static __always_inline bool rl_read_roce(struct __sk_buff *skb, struct rl_roce *roce)
{
	struct {
		struct rl_udp udp;
		struct rl_bth bth;
		__u8 syndrome;
	} __attribute__((packed)) transport;
	__u32 offset = rl_read_ip(skb, roce);

	if (!offset || bpf_skb_load_bytes(skb, offset, &transport, sizeof(transport)) ||
	    transport.udp.destination != bpf_htons(RL_ROCE_PORT))
		return false;
	roce->port = transport.udp.source;
	roce->opcode = transport.bth.opcode;
	roce->psn = bpf_ntohl(transport.bth.psn);
	roce->syndrome = transport.syndrome;
	roce->qpn = transport.bth.qpn[0] << 16 | transport.bth.qpn[1] << 8 | transport.bth.qpn[2];
	return true;
}

/* The same of a packet whose headers are in its linear part, and that has neither IPv4 options nor a syndrome: no more
 * than rl_limited_by needs, in a quarter of the time. False for all others, which `rl_read_roce` reads. */
static __always_inline bool rl_peek_roce(struct __sk_buff *skb, struct rl_roce *roce)
{
	const __u8 *ip = (const __u8 *)(long)skb->data + ETH_HLEN;
	const __u8 *end = (const __u8 *)(long)skb->data_end;
	const struct rl_udp *udp;
	const struct rl_bth *bth;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		udp = (const struct rl_udp *)(ip + RL_IPV4_LENGTH);
		bth = (const struct rl_bth *)(udp + 1);
		if ((const __u8 *)(bth + 1) > end || ip[0] != RL_IPV4_PLAIN || ip[9] != RL_UDP ||
		    *(const __u16 *)(ip + 6) & bpf_htons(RL_IPV4_FRAGMENT))
			return false;
		rl_map_ipv4(roce->destination, ip + 16);
	} else {
		udp = (const struct rl_udp *)(ip + RL_IPV6_LENGTH);
		bth = (const struct rl_bth *)(udp + 1);
		if ((const __u8 *)(bth + 1) > end || skb->protocol != bpf_htons(ETH_P_IPV6) ||
		    ip[RL_IPV6_NEXT] != RL_UDP)
			return false;
		rl_copy_address(roce->destination, ip + 24);
	}
	if (udp->destination != bpf_htons(RL_ROCE_PORT))
		return false;
	roce->opcode = bth->opcode;
	roce->psn = bpf_ntohl(bth->psn);
	roce->qpn = bpf_ntohl(*(const __be32 *)&bth->notification) & RL_QPN;
	return true;
}

/* Whether a packet only acknowledges others: the QP that sent it is not what fills the queue. */
static __always_inline bool rl_is_acknowledgement(const struct rl_roce *roce)
{
	__u8 operation = roce->opcode & RL_OPERATION;

	return operation == RL_ACKNOWLEDGE || operation == RL_ATOMIC_ACKNOWLEDGE;
}

/* The namespace that a packet's interface is in. */
static __always_inline __u32 rl_netns(struct __sk_buff *skb)
{
	const struct sk_buff *packet = bpf_cast_to_kern_ctx(skb);

	return packet->dev->nd_net.net->ns.inum;
}

/* The QP that a packet is for, when it is connected with the packet's sender; else NULL. */
static __always_inline struct rl_qp_pair *rl_find_qp(struct __sk_buff *skb, const struct rl_roce *roce)
{
	struct rl_qp_key key = { .netns = rl_netns(skb), .qpn = roce->qpn };
	struct rl_qp_pair *pair;

	__builtin_memcpy(key.address, roce->destination, RL_ADDRESS);
	pair = bpf_map_lookup_elem(&qp_pairs, &key);
	return pair && rl_same_address(pair->peer, roce->source) ? pair : NULL;
}

/* CRC-32 (IEEE 802.3 3.2.9, reflected) of each half octet: with a table there is no branch for the verifier to follow. */
static const __u32 rl_crc32_of[16] = {
	0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
	0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

/* CRC-32 of octets that follow others with the CRC `crc`; `count` is a constant. */
static __always_inline __u32 rl_crc32(__u32 crc, const __u8 *octets, __u32 count)
{
	__u32 i;

	bpf_for(i, 0, count) {
		if (i >= count)
			break; /* the verifier does not see that bpf_for ends there */
		crc ^= octets[i];
		crc = crc >> 4 ^ rl_crc32_of[crc & 15];
		crc = crc >> 4 ^ rl_crc32_of[crc & 15];
	}
	return crc;
}

#endif
