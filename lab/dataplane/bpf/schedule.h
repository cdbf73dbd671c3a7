/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which packet leaves next, and when: pauses, strict priority, DWRR and the link's rate.
 */
#ifndef RL_SCHEDULE_H
#define RL_SCHEDULE_H

#include "cable.h"
#include "pace.h"
#include "pfc.h"
#include "queue.h"
#include "watchdog.h"

#define RL_QUANTUM 64 /* bytes of a DWRR turn for each unit of weight */
#define RL_OVERHEAD 24 /* FCS, preamble and inter-frame gap (IEEE 802.3) */
#define RL_MAX_BURST 1000000ull /* ns of line time that a port makes up for at once when its timer fired late ... */
#define RL_MAX_DEBT 250000000ull /* ... and afterwards, at twice the rate: a longer stall stays a gap */
#define RL_WIRE_BATCH 64 /* packets that may enter a cable with delay at once */

/* Queues with a packet that may go now, one bit each. */
static __always_inline __u32 rl_ready(const struct rl_port *port, __u64 now, __u64 *wake)
{
	const struct rl_state *state = port->state;
	__u32 through = port->config->watchdog_forward ? state->stormed : 0;
	__u32 ready = state->waiting, i;

	if (state->pause_end <= now)
		return ready;
	bpf_for(i, 0, RL_CLASSES) {
		__u64 until = state->pause_until[i & (RL_CLASSES - 1)];

		if (!(ready >> i & 1) || until <= now || through >> i & 1)
			continue;
		rl_wake(wake, until);
		ready &= ~(1u << i);
	}
	return ready;
}

/* Let every waiting queue earn as many turns as it takes until one of them may send. */
static __always_inline void rl_earn(const struct rl_port *port, __u32 waiting)
{
	struct rl_state *state = port->state;
	__u32 rounds = 1 << 20, i;

	bpf_for(i, 0, RL_CLASSES) {
		__u32 quantum = port->config->queue[i & (RL_CLASSES - 1)].weight * RL_QUANTUM;
		__s64 deficit = state->deficit[i & (RL_CLASSES - 1)];
		__u32 owed = deficit > 0 ? 0 : -deficit, need;

		if (!(waiting >> i & 1) || !quantum)
			continue;
		need = owed / quantum + 1;
		if (need < rounds)
			rounds = need;
	}
	bpf_for(i, 0, RL_CLASSES)
		if (waiting >> i & 1)
			state->deficit[i & (RL_CLASSES - 1)] +=
				(__u64)rounds * port->config->queue[i & (RL_CLASSES - 1)].weight * RL_QUANTUM;
}

/* The first queue after the one whose turn it was that has earned something, or RL_LISTS. */
static __always_inline __u32 rl_next_turn(const struct rl_state *state, __u32 waiting)
{
	__u32 i;

	bpf_for(i, 1, RL_CLASSES + 1) {
		__u32 next = (state->turn + i) & (RL_CLASSES - 1);

		if (waiting >> next & 1 && state->deficit[next] > 0)
			return next;
	}
	return RL_LISTS;
}

/* Surplus round robin: a queue is served until it has used up what it earned, and owes what its last packet took
 * beyond that; so no packet has to be looked at before it is sent, and shares are exact whatever the sizes. */
static __always_inline __u32 rl_weighted(const struct rl_port *port, __u32 waiting)
{
	struct rl_state *state = port->state;
	__u32 turn = state->turn & (RL_CLASSES - 1);

	if (waiting >> turn & 1 && state->deficit[turn] > 0)
		return turn;
	turn = rl_next_turn(state, waiting);
	if (turn >= RL_LISTS) {
		rl_earn(port, waiting);
		turn = rl_next_turn(state, waiting);
	}
	if (turn < RL_LISTS)
		state->turn = turn;
	return turn;
}

/* The only queue that waits: it takes no turns, and what it owes there is nobody to owe to. */
static __always_inline __u32 rl_alone(const struct rl_port *port, __u32 waiting)
{
	__u32 queue = rl_bit_of(waiting);
	__u32 weight = port->config->queue[queue].weight;

	if (weight) {
		port->state->turn = queue;
		if (port->state->deficit[queue] <= 0)
			port->state->deficit[queue] = weight * RL_QUANTUM;
	}
	return queue;
}

/* The list to send from, or RL_LISTS. PFC first, then strict queues from the highest, then the others in turn. */
static __always_inline __u32 rl_choose(const struct rl_port *port, __u64 now, __u64 *wake)
{
	__u32 ready, i;

	if (port->state->list[RL_CONTROL].head)
		return RL_CONTROL;
	ready = rl_ready(port, now, wake);
	if (!ready)
		return RL_LISTS;
	if (!(ready & (ready - 1)))
		return rl_alone(port, ready);
	bpf_for(i, 0, RL_CLASSES) {
		__u32 queue = (RL_CLASSES - 1 - i) & (RL_CLASSES - 1);

		if (ready >> queue & 1 && !port->config->queue[queue].weight)
			return queue;
	}
	return rl_weighted(port, ready);
}

/* Time that a frame takes on a link that has a rate. */
static __always_inline __u64 rl_wire_ns(const struct rl_config *config, __u32 len)
{
	__u64 bits = ((len < RL_MIN_FRAME ? RL_MIN_FRAME : len) + RL_OVERHEAD) * 8ull;

	return (bits * RL_NS + config->rate / 2) / config->rate;
}

/* Whether nothing can hold a packet up: it leaves before another comes, and no clock has to be asked. */
static __always_inline bool rl_is_open(const struct rl_port *port)
{
	const struct rl_state *state = port->state;

	return !port->config->rate && !(port->config->delay_ns | state->next_tx | state->pause_end) &&
	       !(state->stormed | state->blocked | state->on_wire | state->disturbed | state->limited);
}

/* Occupy the link for one packet. A port that was busy makes up for a late timer, one that was idle does not; never
 * in one long burst, which would outrun the peer's pause. */
static __always_inline void rl_occupy(const struct rl_port *port, __u32 len, __u64 now)
{
	struct rl_state *state = port->state;
	__u64 wire, late, repaid;

	if (!port->config->rate) {
		state->next_tx = 0;
		state->debt = 0;
		return;
	}
	wire = rl_wire_ns(port->config, len);
	if (state->idle) {
		state->next_tx = now;
		state->debt = 0;
	}
	state->idle = 0;
	late = now - state->next_tx;
	if (late > port->counters->late_ns)
		port->counters->late_ns = late;
	if (late > RL_MAX_BURST) {
		state->debt += late - RL_MAX_BURST;
		if (state->debt > RL_MAX_DEBT)
			state->debt = RL_MAX_DEBT;
		state->next_tx = now - RL_MAX_BURST;
	}
	repaid = wire / 2 < state->debt ? wire / 2 : state->debt;
	state->debt -= repaid;
	state->next_tx += wire - repaid;
}

static __always_inline void rl_count_sent(const struct rl_port *port, __u32 list, const struct rl_slot *slot)
{
	if (list < RL_CLASSES) {
		port->counters->queue[list].sent_packets++;
		port->counters->queue[list].sent_bytes += slot->len;
		port->counters->priority[slot->priority & (RL_CLASSES - 1)].tx_packets++;
		port->counters->priority[slot->priority & (RL_CLASSES - 1)].tx_bytes += slot->len;
		if (!port->config->queue[list].weight)
			return;
		port->state->deficit[list] -= slot->len;
		if (!port->state->list[list].head && port->state->deficit[list] > 0)
			port->state->deficit[list] = 0;
	}
}

/* The next packet that the link is free for, taken off its list; the link is then busy with it. */
static __always_inline struct rl_slot *rl_transmit(const struct rl_port *port, __u64 now, __u64 *wake, __u32 *link)
{
	struct rl_state *state = port->state;
	struct rl_slot *slot;
	__u32 list;

	if (!state->held) {
		state->idle = 1;
		return NULL;
	}
	if (state->next_tx > now) {
		state->idle = 0; /* what waits for a busy link makes up for a late timer */
		rl_wake(wake, state->next_tx);
		return NULL;
	}
	list = rl_choose(port, now, wake);
	if (list >= RL_LISTS) {
		state->idle = 1;
		return NULL;
	}
	*link = state->list[list].head;
	slot = rl_unlink(port, list);
	if (!slot)
		return NULL;
	rl_note_left(port, list);
	rl_leave(port, list, slot);
	rl_count_sent(port, list, slot);
	if (rl_is_limited(slot->from) && list < RL_CLASSES)
		rl_note_paced(port->memory, slot->from - RL_LIMITED, slot->len, now, slot->ready_at);
	if (list == RL_CONTROL && slot->priority == RL_CLASSES) {
		port->counters->tx_pfc++;
		port->counters->tx_pfc_bytes += slot->len;
	}
	rl_occupy(port, slot->len, now);
	return slot;
}

/* The first packet of a list that is in the order of time, when its time has come: at the end of the cable, or a clock's
 * token. */
static __always_inline struct rl_slot *rl_arrived(const struct rl_port *port, __u32 list, __u64 now, __u64 *wake,
						  __u32 *link)
{
	struct rl_slot *slot = rl_find_slot(port->state->list[list].head);

	if (!slot)
		return NULL;
	if (slot->ready_at > now) {
		rl_wake(wake, slot->ready_at);
		return NULL;
	}
	*link = port->state->list[list].head;
	return rl_unlink(port, list);
}

/* Let all that the link is free for into the cable, and see what has come to its end. */
static __always_inline struct rl_slot *rl_through_cable(const struct rl_port *port, __u64 now, __u64 *wake,
							__u32 *link)
{
	struct rl_slot *slot;
	int i;

	bpf_for(i, 0, RL_WIRE_BATCH) {
		slot = rl_transmit(port, now, wake, link);
		if (!slot)
			break;
		rl_enter_cable(port, slot, *link,
			       (port->config->rate ? port->state->next_tx : now) + port->config->delay_ns);
	}
	slot = rl_overtaken(port, now, wake, link);
	if (!slot) {
		slot = rl_arrived(port, RL_WIRE, now, wake, link);
		port->state->arrived += !!slot;
	}
	if (slot)
		port->state->on_wire--;
	return slot;
}

#endif
