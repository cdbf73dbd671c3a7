/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets that a port drops although it had room for them: its link goes down, or a storm holds them up.
 */
#ifndef RL_DISCARD_H
#define RL_DISCARD_H

#include "pace.h"

/* Drop all that a list holds. */
static __always_inline void rl_discard(const struct rl_port *port, struct Qdisc *sch, __u32 list,
				       enum rl_drop reason)
{
	struct rl_slot *slot;
	struct sk_buff *skb;
	__u32 link;
	int i;

	bpf_for(i, 0, rl_slots) {
		link = port->state->list[list < RL_LISTS ? list : 0].head;
		slot = rl_unlink(port, list);
		if (!slot)
			break;
		rl_note_left(port, list);
		if (list == RL_WIRE || list == RL_LATE)
			port->state->on_wire--;
		if (list <= RL_CONTROL)
			rl_leave(port, list, slot);
		if (list < RL_CLASSES)
			rl_count_drop(port, sch, list, reason, slot->len);
		if (rl_is_limited(slot->from) && list < RL_CLASSES) {
			if (reason == RL_DROP_WATCHDOG)
				rl_note_lost(port->memory, slot->from - RL_LIMITED, slot->len);
			rl_note_paced(port->memory, slot->from - RL_LIMITED, slot->len, 0, 0);
		}
		sch->q.qlen--;
		sch->qstats.backlog -= slot->len;
		skb = bpf_kptr_xchg(&slot->skb, NULL);
		if (skb)
			bpf_kfree_skb(skb);
		rl_slot_give(port, slot, link);
	}
}

#endif
