// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What befalls packets on a link: lost, corrupted, rewritten, duplicated, by a seeded generator.
 *
 *        wire ──► impair, impair ... ──► port_rx ──► ...  ──► impair, impair ... ──► port_tx ──► queue ──► wire
 *                 (ingress, 1 to 99)     (100)                (egress, 1 to 99)      (100)
 *
 * Each is loaded for itself, with what is asked for as constants, so that the verifier takes out all that it never
 * does. What is lost is stolen rather than shot: the hook counts no drop, and neither does anybody else.
 */
#include "draw.h"
#include "impair.h"
#include "mark.h"
#include "packet.h"

#define RL_ALL 0xffffffffffffffffull
#define RL_TCP 6
#define RL_IGMP 2
#define RL_BGP_PORT 179
#define RL_BFD_PORT 3784
#define RL_BFD_ECHO_PORT 3785
#define RL_BFD_MULTIHOP_PORT 4784
#define RL_HOP_BY_HOP 0 /* options of IPv6 that all routers look at: those of MLD (RFC 2711, RFC 3810) */
#define RL_IPV4_SHORTEST 20
#define RL_IPV4_OFFSET 0x1fff
#define RL_UDP_LENGTH 8
#define RL_UDP_CHECKSUM 6
#define RL_BTH_LENGTH 12
#define RL_ICRC_LENGTH 4
#define RL_IPV4_CHECKSUM 10

char _license[] SEC("license") = "GPL";

const volatile struct rl_impairment rl_asked = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rl_truth);
} truth SEC(".maps");

/* Puts enumerations that no map mentions into the BTF, for user space to find. */
const volatile union {
	enum rl_impair_size size;
	enum rl_traffic traffic;
	enum rl_stream stream;
} rl_impair_spoken = {};

struct rl_ports {
	__be16 source, destination;
};

struct rl_packet {
	struct rl_header header;
	__u32 ip; /* offsets of the headers in the frame; 0: there is none */
	__u32 transport;
	__u32 end; /* where the IP packet ends */
	__u32 size;
	struct rl_ports ports;
	__u8 version;
	__u8 protocol;
	__u8 ip_id;
	__u8 opcode;
	enum rl_traffic traffic;
};

/* The part of an IPv4 header that matters here. */
static __always_inline void rl_look_at_ipv4(struct __sk_buff *skb, struct rl_packet *packet)
{
	struct {
		__u8 version_length, tos;
		__be16 length, id, offset;
		__u8 ttl, protocol;
	} head;
	__u32 length;

	if (bpf_skb_load_bytes(skb, packet->ip, &head, sizeof(head)))
		return;
	length = (head.version_length & 15) * 4;
	packet->version = 4;
	packet->size = bpf_ntohs(head.length);
	packet->ip_id = bpf_ntohs(head.id) & 0xff;
	packet->protocol = head.protocol;
	if (length >= RL_IPV4_SHORTEST && !(bpf_ntohs(head.offset) & RL_IPV4_OFFSET))
		packet->transport = packet->ip + length;
}

/* That of an IPv6 header. What has extension headers has no ports here. */
static __always_inline void rl_look_at_ipv6(struct __sk_buff *skb, struct rl_packet *packet)
{
	struct {
		__be32 flow;
		__be16 length;
		__u8 next, hops;
	} head;

	if (bpf_skb_load_bytes(skb, packet->ip, &head, sizeof(head)))
		return;
	packet->version = 6;
	packet->size = bpf_ntohs(head.length) + RL_IPV6_LENGTH;
	packet->protocol = head.next;
	packet->transport = packet->ip + RL_IPV6_LENGTH;
}

/* Whether an IP packet serves the network itself: BGP (RFC 4271), BFD (RFC 5881, 5883), IGMP, MLD. */
static __always_inline bool rl_is_control(const struct rl_packet *packet)
{
	__u16 source = bpf_ntohs(packet->ports.source), destination = bpf_ntohs(packet->ports.destination);

	if (packet->header.control || packet->protocol == (packet->version == 4 ? RL_IGMP : RL_HOP_BY_HOP))
		return true;
	if (packet->protocol == RL_TCP)
		return source == RL_BGP_PORT || destination == RL_BGP_PORT;
	return packet->protocol == RL_UDP && (destination == RL_BFD_PORT || destination == RL_BFD_ECHO_PORT ||
					      destination == RL_BFD_MULTIHOP_PORT);
}

static __always_inline enum rl_traffic rl_traffic_of(struct __sk_buff *skb, struct rl_packet *packet)
{
	if (!packet->version || rl_is_control(packet))
		return RL_TRAFFIC_CONTROL;
	if (packet->protocol != RL_UDP || packet->ports.destination != bpf_htons(RL_ROCE_PORT))
		return RL_TRAFFIC_OTHER;
	if (bpf_skb_load_bytes(skb, packet->transport + RL_UDP_LENGTH, &packet->opcode, 1))
		return RL_TRAFFIC_OTHER;
	return RL_TRAFFIC_ROCE;
}

static __always_inline void rl_look(struct __sk_buff *skb, struct rl_packet *packet)
{
	*packet = (struct rl_packet){};
	rl_parse(skb, &packet->header);
	if (skb->protocol == bpf_htons(RL_ETH_P_PAUSE) || rl_mark_kind(skb->mark) == RL_KIND_PFC) {
		packet->traffic = RL_TRAFFIC_PAUSES;
		return;
	}
	packet->ip = ETH_HLEN;
	if (!skb->vlan_present && skb->protocol == bpf_htons(ETH_P_8021Q))
		packet->ip += 4;
	packet->size = skb->len - packet->ip;
	if (packet->header.ip) {
		__u8 first = 0;

		bpf_skb_load_bytes(skb, packet->ip, &first, 1);
		if (first >> 4 == 4)
			rl_look_at_ipv4(skb, packet);
		else if (first >> 4 == 6)
			rl_look_at_ipv6(skb, packet);
	}
	if (packet->transport && (packet->protocol == RL_TCP || packet->protocol == RL_UDP))
		bpf_skb_load_bytes(skb, packet->transport, &packet->ports, sizeof(packet->ports));
	packet->end = packet->ip + packet->size;
	packet->traffic = rl_traffic_of(skb, packet);
}

static __always_inline bool rl_has(__u64 bits, __u32 number)
{
	return bits >> (number & 63) & 1;
}

static __always_inline bool rl_has_opcode(const struct rl_packet *packet)
{
	__u64 all = RL_ALL;
	__u32 i;

	for (i = 0; i < RL_IMPAIR_OPCODE_WORDS; i++)
		all &= rl_asked.opcodes[i];
	if (all == RL_ALL)
		return true;
	return packet->traffic == RL_TRAFFIC_ROCE &&
	       rl_has(rl_asked.opcodes[packet->opcode / 64 & (RL_IMPAIR_OPCODE_WORDS - 1)], packet->opcode);
}

static __always_inline bool rl_matches(const struct rl_packet *packet)
{
	if (!(rl_asked.traffic & packet->traffic))
		return false;
	if (packet->traffic == RL_TRAFFIC_PAUSES)
		return true; /* it has nothing else to go by */
	if (rl_asked.dscps != RL_ALL && !(packet->version && rl_has(rl_asked.dscps, packet->header.tos >> 2)))
		return false;
	if (rl_asked.pcps != 0xff && !(packet->header.tagged && rl_asked.pcps >> (packet->header.pcp & 7) & 1))
		return false;
	if (packet->size < rl_asked.min_size || !rl_has_opcode(packet))
		return false;
	if (rl_asked.protocol != RL_IMPAIR_ANY && !(packet->version && packet->protocol == rl_asked.protocol))
		return false;
	if (rl_asked.port && packet->ports.destination != bpf_htons(rl_asked.port))
		return false;
	return rl_asked.ip_id == RL_IMPAIR_ANY || (packet->version == 4 && packet->ip_id == rl_asked.ip_id);
}

static __always_inline bool rl_happens(__u64 probability, __u64 number, enum rl_stream stream)
{
	return probability && rl_draw(rl_asked.seed, number, stream) >> 32 < probability;
}

/* Count it all, and that it failed. */
static __always_inline void rl_count(__u64 *done, struct rl_truth *counts, bool failed)
{
	__sync_fetch_and_add(failed ? &counts->failed : done, 1);
}

/* Flip one bit behind the BTH: in what headers and payload follow it, and where nothing does, in the ICRC. The UDP
 * checksum, where there is one, is mended: as of a switch that corrupts what it stores, and checks nothing. */
static __always_inline bool rl_flip(struct __sk_buff *skb, const struct rl_packet *packet, __u64 draw)
{
	__u32 first = packet->transport + RL_UDP_LENGTH + RL_BTH_LENGTH, count, at;
	__be16 before, after;

	if (packet->end < first + RL_ICRC_LENGTH)
		return false;
	count = packet->end - RL_ICRC_LENGTH - first;
	at = first + (__u32)((draw >> 32) * (count ?: RL_ICRC_LENGTH) >> 32);
	at &= ~1u; /* a word of the checksum: no header before it has an odd length */
	if (bpf_skb_load_bytes(skb, at, &before, sizeof(before)))
		return false;
	after = before ^ 1 << (draw & 15);
	if (bpf_skb_store_bytes(skb, at, &after, sizeof(after), BPF_F_RECOMPUTE_CSUM))
		return false;
	return !bpf_l4_csum_replace(skb, packet->transport + RL_UDP_CHECKSUM, before, after,
				    BPF_F_MARK_MANGLED_0 | sizeof(after));
}

/* Give an IP packet another type of service or traffic class; the ICRC covers neither (IBA vol. 1, A17.3.3). */
static __always_inline bool rl_set_tos(struct __sk_buff *skb, struct rl_packet *packet, __u8 tos)
{
	__u8 start[2];
	__be16 before, after;

	if (bpf_skb_load_bytes(skb, packet->ip, start, sizeof(start)))
		return false;
	before = *(__be16 *)start;
	if (packet->version == 4) {
		start[1] = tos;
	} else {
		start[0] = 6 << 4 | tos >> 4;
		start[1] = tos << 4 | (start[1] & 15);
	}
	after = *(__be16 *)start;
	if (packet->version == 4) /* checksum and change make up for each other in skb->csum */
		return !bpf_l3_csum_replace(skb, packet->ip + RL_IPV4_CHECKSUM, before, after, sizeof(after)) &&
		       !bpf_skb_store_bytes(skb, packet->ip, start, sizeof(start), 0);
	return !bpf_skb_store_bytes(skb, packet->ip, start, sizeof(start), BPF_F_RECOMPUTE_CSUM);
}

/* What of a packet is rewritten; whether anything was. */
static __always_inline bool rl_rewrite(struct __sk_buff *skb, struct rl_packet *packet, struct rl_truth *counts)
{
	__u8 before = packet->header.tos, dscp = before >> 2, ecn = before & RL_ECN_MASK;
	bool failed;

	if (!packet->version)
		return false;
	if (rl_asked.set_dscp != RL_IMPAIR_ANY)
		dscp = rl_asked.set_dscp;
	if (rl_asked.clear_ecn)
		ecn = 0;
	if ((dscp << 2 | ecn) == before)
		return false;
	failed = !rl_set_tos(skb, packet, dscp << 2 | ecn);
	if (dscp != before >> 2)
		rl_count(&counts->dscp_rewritten, counts, failed);
	if (ecn != (before & RL_ECN_MASK))
		rl_count(&counts->ecn_cleared, counts, failed);
	return true;
}

/* What becomes of packet `number` of those that match, beside changes: whether it is lost. */
static __always_inline bool rl_is_lost(struct rl_truth *counts, __u64 number)
{
	if (rl_happens(rl_asked.loss, number, RL_STREAM_LOSS) ||
	    (rl_asked.lose_every && number % rl_asked.lose_every == rl_asked.lose_every - 1)) {
		__sync_fetch_and_add(&counts->lost, 1);
		return true;
	}
	if (rl_happens(rl_asked.corrupt_frame, number, RL_STREAM_FRAME)) {
		__sync_fetch_and_add(&counts->corrupted_frames, 1);
		return true;
	}
	return false;
}

/* Send a copy the same way: it comes in again, behind what is under way, and is known by its mark. */
static __always_inline void rl_duplicate(struct __sk_buff *skb, struct rl_truth *counts)
{
	__u32 mark = skb->mark;

	skb->mark = rl_mark(RL_KIND_COPY, 0, rl_asked.place);
	rl_count(&counts->duplicated, counts, bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS) != 0);
	skb->mark = mark;
}

/* Make the changes that packet `number` gets; whether any was made. */
static __always_inline bool rl_change(struct __sk_buff *skb, struct rl_packet *packet, struct rl_truth *counts,
				      __u64 number)
{
	bool struck = false;

	if (packet->traffic == RL_TRAFFIC_ROCE && rl_happens(rl_asked.corrupt_payload, number, RL_STREAM_PAYLOAD)) {
		rl_count(&counts->corrupted_payloads, counts,
			 !rl_flip(skb, packet, rl_draw(rl_asked.seed, number, RL_STREAM_PLACE)));
		struck = true;
	}
	struck |= rl_rewrite(skb, packet, counts);
	if (rl_happens(rl_asked.duplicate, number, RL_STREAM_DUPLICATE)) {
		rl_duplicate(skb, counts);
		struck = true;
	}
	return struck;
}

static __always_inline void rl_count_struck(struct rl_truth *counts, const struct rl_packet *packet, __u32 len)
{
	__sync_fetch_and_add(&counts->struck_bytes, len);
	if (packet->version)
		__sync_fetch_and_add(&counts->dscp_struck[packet->header.tos >> 2 & (RL_IMPAIR_DSCPS - 1)], 1);
	if (packet->traffic == RL_TRAFFIC_ROCE)
		__sync_fetch_and_add(&counts->opcode_struck[packet->opcode], 1);
}

/* The next number of a packet that matches. */
static __always_inline __u64 rl_number(struct rl_truth *counts, const struct rl_packet *packet)
{
	if (packet->version)
		__sync_fetch_and_add(&counts->dscp_matched[packet->header.tos >> 2 & (RL_IMPAIR_DSCPS - 1)], 1);
	if (packet->traffic == RL_TRAFFIC_ROCE)
		__sync_fetch_and_add(&counts->opcode_matched[packet->opcode], 1);
	return __sync_fetch_and_add(&counts->matched, 1);
}

/* Whether the packet is none that a link carries: the port's own signals, and copies that have been here. */
static __always_inline bool rl_is_aside(struct __sk_buff *skb)
{
	switch (rl_mark_kind(skb->mark)) {
	case RL_KIND_TOKEN:
	case RL_KIND_SPARE:
	case RL_KIND_KICK:
	case RL_KIND_CNP:
		return true;
	case RL_KIND_PFC:
		return !(skb->mark & RL_WRITTEN);
	case RL_KIND_COPY:
		if (rl_mark_low(skb->mark) == rl_asked.place)
			skb->mark = 0;
		return true;
	default:
		return false;
	}
}

SEC("tc")
int impair(struct __sk_buff *skb)
{
	__u32 zero = 0, len = skb->len;
	struct rl_truth *counts = bpf_map_lookup_elem(&truth, &zero);
	struct rl_packet packet;
	__u64 number;

	if (!counts || rl_is_aside(skb))
		return TC_ACT_UNSPEC;
	__sync_fetch_and_add(&counts->seen, 1);
	rl_look(skb, &packet);
	if (!rl_matches(&packet))
		return TC_ACT_UNSPEC;
	number = rl_number(counts, &packet);
	if (rl_is_lost(counts, number)) {
		rl_count_struck(counts, &packet, len);
		return TC_ACT_STOLEN;
	}
	if (rl_change(skb, &packet, counts, number))
		rl_count_struck(counts, &packet, len);
	return TC_ACT_UNSPEC;
}
