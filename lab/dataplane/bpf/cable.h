/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A cable that is worse than it is said to be: longer, unsteady, and out of order. By a seeded generator, and only for
 * data: what is sent behind a packet that is late waits for it, PFC frames too, unless that one is overtaken.
 *
 *        rl_transmit ──┬──► RL_WIRE: in order, each when it is ready and those before it have gone ──┬──► far end
 *                      └──► RL_LATE: until so many of RL_WIRE have gone, or the time is up ──────────┘
 */
#ifndef RL_CABLE_H
#define RL_CABLE_H

#include "draw.h"
#include "queue.h"
#include "watchdog.h"

enum rl_cable_stream {
	RL_CABLE_JITTER,
	RL_CABLE_REORDER,
};

static __always_inline bool rl_is_disturbed(const struct rl_port *port, const struct rl_slot *slot)
{
	return port->state->disturbed && slot->priority < RL_CLASSES && port->cable->priorities >> slot->priority & 1;
}

/* A time from 0 up to `most` by 32 random bits. The product does not fit 64 bits where `most` is above 4.29 s. */
static __always_inline __u64 rl_up_to(__u64 most, __u64 draw)
{
	return draw * (most >> 32) + (draw * (__u32)most >> 32);
}

/* Put a packet that the link has taken into the cable, whose end it reaches at `arrival` at the soonest. */
static __always_inline void rl_enter_cable(const struct rl_port *port, struct rl_slot *slot, __u32 link, __u64 arrival)
{
	struct rl_cable *cable = port->cable;
	struct rl_state *state = port->state;
	__u32 list = RL_WIRE;

	slot->ready_at = arrival;
	if (state->disturbed)
		slot->ready_at += cable->delay_ns;
	if (rl_is_disturbed(port, slot)) {
		__u64 number = cable->packets++;

		slot->ready_at += rl_up_to(cable->jitter_ns, rl_draw(cable->seed, number, RL_CABLE_JITTER) >> 32);
		if (rl_draw(cable->seed, number, RL_CABLE_REORDER) >> 32 < cable->reorder) {
			list = RL_LATE;
			slot->ready_at += cable->hold_ns;
			slot->from = state->arrived + (state->on_wire - state->late) + cable->distance;
			state->late++;
			cable->reordered++;
		}
	}
	rl_append(port, list, slot, link);
	state->on_wire++;
}

/* The first of the packets that are overtaken, when so many have overtaken it or its time is up. */
static __always_inline struct rl_slot *rl_overtaken(const struct rl_port *port, __u64 now, __u64 *wake, __u32 *link)
{
	struct rl_state *state = port->state;
	struct rl_slot *slot = rl_find_slot(state->list[RL_LATE].head);

	if (!slot)
		return NULL;
	if ((__s32)(state->arrived - slot->from) < 0 && slot->ready_at > now) {
		rl_wake(wake, slot->ready_at);
		return NULL;
	}
	if ((__s32)(state->arrived - slot->from) < 0)
		port->cable->timed_out++;
	*link = state->list[RL_LATE].head;
	state->late--;
	return rl_unlink(port, RL_LATE);
}

#endif
