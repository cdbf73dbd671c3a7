/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * PFC frames, IEEE 802.1Q clause 36 (frame of 36.4, 802.3 Annex 31D): made, and taken to heart.
 *
 * An eBPF program cannot make a packet out of nothing: the frame is a clone of the packet that crossed XOFF (or of the
 * clock's token), sent to the same interface with a mark that tells port_tx what to write over it.
 *
 * The kernel takes a packet's length before the egress hook (qdisc_skb_cb(skb)->pkt_len), and a hook cannot change that.
 * So port_tx sends what it has written to the interface once more: the root qdisc and `tc` see a frame of 60 bytes.
 */
#ifndef RL_PFC_H
#define RL_PFC_H

#include "buffer.h"
#include "mark.h"
#include "packet.h"

#define RL_PFC_OPCODE 0x0101
#define RL_GLOBAL_PAUSE_OPCODE 0x0001
#define RL_MIN_FRAME 60 /* without FCS */
#define RL_MAX_CUT 4095 /* octets that bpf_skb_adjust_room removes at once */
#define RL_MAX_CUTS 17 /* of a packet of 64 KiB */
#define RL_UNSHAPED_RATE 10000000000ull /* what pause quanta mean on a link without a rate */
#define RL_NS 1000000000ull

struct rl_pfc {
	__u8 destination[ETH_ALEN];
	__u8 source[ETH_ALEN];
	__be16 type;
	__be16 opcode;
	__be16 classes; /* the upper octet is reserved: sent as 0 and ignored */
	__be16 quanta[RL_CLASSES];
} __attribute__((packed));

struct rl_pfc_frame {
	struct rl_pfc pfc;
	__u8 padding[RL_MIN_FRAME - sizeof(struct rl_pfc)];
} __attribute__((packed));

/* A quantum is 512 bit times at the link's rate (IEEE 802.3 31B.2). */
static __always_inline __u64 rl_pause_ns(const struct rl_config *config, __u32 quanta)
{
	return quanta * 512 * RL_NS / (config->rate ?: RL_UNSHAPED_RATE);
}

/* Cut a packet to a length of at least the shortest frame's, or extend it to that. False when that cannot be done. */
static __always_inline bool rl_cut(struct __sk_buff *skb, __u32 length)
{
	__u32 excess, i;

	if (!bpf_skb_change_tail(skb, length, 0))
		return true;
	/* The kernel cuts no packet before its transport header, but it removes octets behind the Ethernet header. */
	bpf_for(i, 0, RL_MAX_CUTS) {
		excess = skb->len - length;
		if (bpf_skb_adjust_room(skb, -(__s32)(excess < RL_MAX_CUT ? excess : RL_MAX_CUT), BPF_ADJ_ROOM_MAC, 0))
			return false;
		if (skb->len <= length)
			return true;
	}
	return false;
}

/* Turn the packet at hand into the PFC frame that its mark asks for. Not 0 when that cannot be done. */
static __always_inline int rl_write_pfc(struct __sk_buff *skb, const struct rl_config *config)
{
	__u32 asked = rl_mark_low(skb->mark);
	__be16 quanta = asked & RL_XOFF ? bpf_htons(config->pause_quanta) : 0;
	struct rl_pfc_frame frame = {
		.pfc = {
			.destination = { 0x01, 0x80, 0xc2, 0x00, 0x00, 0x01 },
			.type = bpf_htons(RL_ETH_P_PAUSE),
			.opcode = bpf_htons(RL_PFC_OPCODE),
			.classes = bpf_htons(asked & 0xff),
		},
	};

	/* MAC control frames have no tag (IEEE 802.3 31.4.1), and the packet that this one was may have had two. */
	for (int i = 0; i < 2; i++)
		if (skb->vlan_present)
			bpf_skb_vlan_pop(skb);
	__builtin_memcpy(frame.pfc.source, config->mac, ETH_ALEN);
	for (int i = 0; i < RL_CLASSES; i++)
		frame.pfc.quanta[i] = asked >> i & 1 ? quanta : 0;
	if (!rl_cut(skb, RL_MIN_FRAME))
		return -1;
	return bpf_skb_store_bytes(skb, 0, &frame, sizeof(frame), BPF_F_INVALIDATE_HASH);
}

/* Write a PFC frame over the packet at hand and send it to the same interface; the verdict on the packet. */
static __always_inline int rl_transmit_pfc(struct __sk_buff *skb, const struct rl_config *config)
{
	__u32 mark = skb->mark;
	int refused;

	if (mark & RL_WRITTEN)
		return TC_ACT_UNSPEC;
	if (rl_write_pfc(skb, config))
		return TC_ACT_SHOT;
	skb->mark = mark | RL_WRITTEN;
	refused = bpf_clone_redirect(skb, skb->ifindex, 0);
	skb->mark = mark;
	return refused ? TC_ACT_SHOT : TC_ACT_STOLEN;
}

/* Whether a frame is overtaken: the group's state, which the frame was to tell, is another one by now. */
static __always_inline bool rl_is_stale(__u32 id, __u32 group, __u32 xoff)
{
	const struct rl_group *found = rl_find_group(id, group);

	return found && !!found->paused != !!xoff;
}

/* Send a PFC frame for a priority group out of an interface; `skb` is any packet, and is left as it was. Not 0 when it
 * could not be sent, and is still to be. */
__noinline int rl_send_pfc(struct __sk_buff *skb, __u32 id, __u32 group, __u32 xoff)
{
	__u32 mark = skb->mark, classes, refused, i;
	struct rl_port port;

	if (!rl_find(&port, id))
		return 0;
	classes = rl_group_classes(port.config, group);
	if (!classes)
		return 0;
	skb->mark = rl_mark(RL_KIND_PFC, group, classes | xoff);
	refused = bpf_clone_redirect(skb, port.config->index, 0) != 0;
	skb->mark = mark;
	if (refused && rl_is_stale(id, group, xoff))
		return 0;
	__sync_fetch_and_add(&port.counters->tx_pfc_failed, refused);
	bpf_for(i, 0, RL_CLASSES) {
		struct rl_priority_counters *count = &port.counters->priority[i & (RL_CLASSES - 1)];
		__u64 sent = (classes >> i & 1) & !refused;

		__sync_fetch_and_add(&count->tx_pause, sent & !!xoff);
		__sync_fetch_and_add(&count->tx_resume, sent & !xoff);
	}
	return refused;
}

/* Set one priority's timer; true when it now ends sooner, so that a sleeping qdisc has to look again. */
static __always_inline bool rl_set_timer(const struct rl_port *port, __u32 priority, __u32 quanta, __u64 now)
{
	struct rl_priority_counters *count = &port->counters->priority[priority & (RL_CLASSES - 1)];
	__u64 before = count->paused_until, until = now + rl_pause_ns(port->config, quanta);
	__u64 end = before < now ? before : now;
	__u64 over = rl_ones((1 - rl_any(quanta)) & rl_has_come(before, now));

	if (!(port->config->pfc_rx >> priority & 1)) {
		count->rx_pause_ignored++;
		return false;
	}
	if (end > count->paused_from)
		count->paused_ns += end - count->paused_from;
	if (before <= now && before > count->paused_from)
		rl_log_at(before, port->id, RL_EVENT_EXPIRED, priority, 0);
	/* An XON for what is not paused (`over`) changes nothing: the pause ended when it ended. Whoever counts from there,
	 * as the watchdog does, counts on, however many of them come. Without a branch, for the verifier. */
	count->paused_from = now ^ ((now ^ before) & over);
	count->paused_until = until ^ ((until ^ before) & over);
	count->rx_pause += quanta != 0;
	count->rx_resume += quanta == 0;
	if (quanta && before <= now)
		rl_log(port->id, RL_EVENT_PAUSED, priority, quanta);
	if (!quanta && before > now)
		rl_log(port->id, RL_EVENT_RESUMED, priority, 0);
	return until < before;
}

/* A queue is held as long as any priority that it serves. */
static __always_inline void rl_hold_queues(const struct rl_port *port, __u64 now)
{
	__u64 until[RL_CLASSES] = {}, last = 0;
	__u32 i;

	bpf_for(i, 0, RL_CLASSES) {
		__u32 queue = port->config->priority_to_queue[i & (RL_CLASSES - 1)] & (RL_CLASSES - 1);
		__u64 end = port->counters->priority[i & (RL_CLASSES - 1)].paused_until;

		if (end > until[queue])
			until[queue] = end;
		if (end > last)
			last = end;
	}
	bpf_for(i, 0, RL_CLASSES)
		port->state->pause_until[i & (RL_CLASSES - 1)] = until[i & (RL_CLASSES - 1)];
	port->state->pause_end = last > now ? last : 0;
}

/* Whether these are the octets of a whole PFC frame; what is not is counted and otherwise ignored. */
static __always_inline bool rl_is_pfc(const struct rl_port *port, const struct rl_pfc *frame)
{
	if (frame->destination[0] != 0x01 || frame->destination[1] != 0x80 || frame->destination[2] != 0xc2 ||
	    frame->destination[3] || frame->destination[4] || frame->destination[5] != 0x01) {
		port->counters->rx_pfc_invalid++;
		return false;
	}
	if (frame->opcode == bpf_htons(RL_PFC_OPCODE))
		return true;
	if (frame->opcode == bpf_htons(RL_GLOBAL_PAUSE_OPCODE))
		port->counters->rx_global_pause++;
	else
		port->counters->rx_pfc_invalid++;
	return false;
}

/* Take a MAC control frame. */
__noinline int rl_receive_pfc(struct __sk_buff *skb, __u32 id)
{
	__u64 now = bpf_ktime_get_ns();
	struct rl_pfc frame = {};
	struct rl_port port;
	bool sooner = false;
	__u32 classes, i;

	if (!rl_find(&port, id))
		return 0;
	if (bpf_skb_load_bytes(skb, 0, &frame, sizeof(frame))) {
		port.counters->rx_pfc_invalid++;
		return 0;
	}
	if (!rl_is_pfc(&port, &frame))
		return 0;
	port.counters->rx_pfc++;
	classes = bpf_ntohs(frame.classes) & 0xff;
	bpf_for(i, 0, RL_CLASSES)
		if (classes >> i & 1)
			sooner |= rl_set_timer(&port, i, bpf_ntohs(frame.quanta[i & (RL_CLASSES - 1)]), now);
	rl_hold_queues(&port, now);
	if (sooner) {
		skb->mark = rl_mark(RL_KIND_KICK, 0, 0);
		bpf_clone_redirect(skb, skb->ifindex, 0);
	}
	return 0;
}

#endif
