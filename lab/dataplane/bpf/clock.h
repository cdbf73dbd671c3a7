/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The node's clock: what ends pauses and sends them again, as long as any priority group is in XOFF.
 *
 *        port_rx: XOFF ──► token ──► lo's qdisc, until it is due ──► lo ──► tick: XONs, refreshes ──┐
 *                             ▲            └── spare, while no token comes back ──► lo ──► tick     │
 *                             └─────────────────────────────────────────────────────────────────────┘
 *
 * A token can be lost: lo is down, or the backlog of the CPU is full when lo hands it over. So spares wait in lo's
 * qdisc, which go one by one until a token comes back; and a packet that comes in by any port of the node finds the
 * clock overdue and winds it up again, or is itself what ticks. Each token has a generation: one that was given up and
 * turns up after all is dropped.
 */
#ifndef RL_CLOCK_H
#define RL_CLOCK_H

#include "discard.h"
#include "pfc.h"
#include "queue.h"
#include "schedule.h"

#define RL_MIN_TICK 50000ull
#define RL_MAX_TICK 1000000ull
#define RL_OVERDUE 3000000ull /* ns after which a token that was due is taken for lost */
#define RL_SPARES 8 /* each that is lost as well takes RL_OVERDUE: of a backlog that is full, 24 ms */
#define RL_GENERATIONS 8 /* what a mark has bits for */

/* Set bits, with a full barrier: without its result the instruction is unordered on ARM64. */
#define rl_set(word, bits)                                                                                            \
	({                                                                                                            \
		typeof(*(word)) before = __sync_fetch_and_or(word, bits);                                             \
		__asm__ volatile("" ::"r"(before));                                                                   \
	})

/* The number of the lowest bit that is set; the instruction set has none for it. */
static __always_inline __u32 rl_lowest(__u64 bits)
{
	__u64 low = bits & -bits;

	return rl_any(low & 0xffffffff00000000ull) << 5 | rl_any(low & 0xffff0000ffff0000ull) << 4 |
	       rl_any(low & 0xff00ff00ff00ff00ull) << 3 | rl_any(low & 0xf0f0f0f0f0f0f0f0ull) << 2 |
	       rl_any(low & 0xccccccccccccccccull) << 1 | rl_any(low & 0xaaaaaaaaaaaaaaaaull);
}

/* Have the clock look at groups of a port. Groups, port, word are set in this order and taken in the other one, so that
 * what is set while the clock looks is looked at the next time. */
static __always_inline void rl_remember(const struct rl_port *port, struct rl_node *node, __u32 groups)
{
	__u32 number = port->id - node->first_port;
	__u32 word = number / 64 & (RL_NODE_WORDS - 1);

	rl_set(&port->state->in_xoff, groups);
	rl_set(&node->busy_ports[word], 1ull << (number & 63));
	rl_set(&node->busy, 1ull << word);
}

static __always_inline bool rl_is_overdue(const struct rl_node *node, __u64 now)
{
	__s64 late = now - node->tick_at;

	return late > (__s64)RL_OVERDUE;
}

/* Send a new token on its way; false when lo refuses it. */
static __always_inline bool rl_wind(struct __sk_buff *skb, struct rl_node *node, __u64 now)
{
	__u32 mark = skb->mark, refused;
	__u32 generation = __sync_fetch_and_add(&node->generation, 1) + 1;

	node->tick_at = now + RL_MIN_TICK;
	skb->mark = rl_mark(RL_KIND_TOKEN, generation % RL_GENERATIONS, node->first_port);
	refused = bpf_clone_redirect(skb, RL_LOOPBACK, 0) != 0;
	skb->mark = mark;
	if (refused)
		__sync_lock_test_and_set(&node->ticking, 0);
	return !refused;
}

static __always_inline __u64 rl_refresh_at(const struct rl_port *port, __u64 now)
{
	return now + rl_pause_ns(port->config, port->config->pause_quanta) / 2;
}

/* Resume or refresh a paused group if that is due. True while it is paused; `soonest` is when it can have drained. */
static __always_inline bool rl_tick_group(struct __sk_buff *skb, const struct rl_port *port, struct rl_node *node,
					  __u32 group, __u64 now, __u64 *soonest)
{
	__u32 classes = rl_group_classes(port->config, group);
	__u64 above, wait;
	enum rl_turn turn = rl_review(port, node, group, now, rl_refresh_at(port, now), &above);

	if (turn != RL_STAY && rl_send_pfc(skb, port->id, group, turn == RL_RESUME ? 0 : RL_XOFF)) {
		if (rl_take_back(port, group, turn))
			__sync_fetch_and_sub(&node->paused, 1);
		return true;
	}
	if (turn == RL_RESUME) {
		__sync_fetch_and_sub(&node->paused, 1);
		if (classes) /* none where sending was switched off meanwhile */
			rl_log(port->id, RL_EVENT_XON_SENT, group, 0);
	}
	wait = node->drain_rate ? above * 8 * RL_NS / node->drain_rate : RL_MIN_TICK;
	if (above && wait < *soonest)
		*soonest = wait;
	return above;
}

/* Resume or refresh what is due at one port; the time until its fullest group can have drained. */
__noinline __u64 rl_tick_port(struct __sk_buff *skb, __u32 id, __u64 now)
{
	__u64 soonest = RL_MAX_TICK;
	struct rl_node *node;
	struct rl_port port;
	__u32 groups, still = 0, i;

	if (!rl_find(&port, id))
		return soonest;
	node = rl_find_node(&port);
	if (!node)
		return soonest;
	groups = __sync_lock_test_and_set(&port.state->in_xoff, 0);
	bpf_for(i, 0, RL_CLASSES)
		if (groups >> i & 1 && rl_tick_group(skb, &port, node, i, now, &soonest))
			still |= 1u << i;
	if (still)
		rl_remember(&port, node, still);
	return soonest;
}

/* Look at the paused groups of a node, which is named by its clock, and at no other. */
__noinline __u64 rl_tick_node(struct __sk_buff *skb, __u32 clock, __u64 now)
{
	__u64 soonest = RL_MAX_TICK, words, ports, wait;
	__u32 word, i, j;
	struct rl_node *node;
	struct rl_port port;

	if (!rl_find(&port, clock))
		return soonest;
	node = rl_find_node(&port);
	if (!node)
		return soonest;
	words = __sync_lock_test_and_set(&node->busy, 0);
	bpf_for(i, 0, RL_NODE_WORDS) {
		if (!words)
			break;
		word = rl_lowest(words) & (RL_NODE_WORDS - 1);
		words &= words - 1;
		ports = __sync_lock_test_and_set(&node->busy_ports[word], 0);
		bpf_for(j, 0, 64) {
			if (!ports)
				break;
			wait = rl_tick_port(skb, clock + word * 64 + rl_lowest(ports), now);
			ports &= ports - 1;
			if (wait < soonest)
				soonest = wait;
		}
	}
	return soonest;
}

/* Have a spare in lo's qdisc. */
static __always_inline void rl_keep_spare(struct __sk_buff *skb, const struct rl_port *clock)
{
	if (clock->state->spares >= RL_SPARES)
		return;
	skb->mark = rl_mark(RL_KIND_SPARE, 0, clock->id);
	bpf_clone_redirect(skb, RL_LOOPBACK, 0);
}

/* A packet has come in while a pause lasts, or begins one: whether the clock still goes, and has a spare. So the last
 * packet of a full backlog, which is what loses tokens, leaves one behind that finds room. */
__noinline int rl_watch_clock(struct __sk_buff *skb, __u32 id)
{
	__u64 now = bpf_ktime_get_ns();
	struct rl_node *node;
	struct rl_port port;

	if (!rl_find(&port, id))
		return 0;
	node = rl_find_node(&port);
	if (!node || !rl_find(&port, node->first_port))
		return 0;
	if (!port.state->spares)
		rl_keep_spare(skb, &port);
	if (!rl_is_overdue(node, now))
		return 0;
	__sync_fetch_and_add(&node->revived, 1);
	__sync_lock_test_and_set(&node->ticking, 1);
	if (!rl_wind(skb, node, now))
		rl_tick_node(skb, port.id, now);
	return 0;
}

/* A group of a port is in XOFF: from now on the clock looks at it. */
static __always_inline void rl_start_clock(struct __sk_buff *skb, const struct rl_port *port, struct rl_node *node,
					   __u32 group, __u64 now)
{
	__sync_fetch_and_add(&node->paused, 1);
	if (!node->busy)
		node->tick_at = now + RL_MIN_TICK; /* a clock that is about to start is not a late one */
	rl_remember(port, node, 1u << (group & (RL_CLASSES - 1)));
	if (!__sync_lock_test_and_set(&node->ticking, 1))
		rl_wind(skb, node, now);
}

/* A token comes round, or a spare in place of one that was lost: the mark with which it goes on, or 0 to drop it. */
static __always_inline __u32 rl_take_token(const struct rl_port *clock, struct rl_node *node, __u32 mark)
{
	__u32 generation = node->generation;

	if (rl_mark_kind(mark) == RL_KIND_SPARE) {
		__sync_fetch_and_add(&node->revived, 1);
		generation = __sync_fetch_and_add(&node->generation, 1) + 1;
	} else if (rl_mark_priority(mark) != generation % RL_GENERATIONS) {
		return 0;
	}
	return rl_mark(RL_KIND_TOKEN, generation % RL_GENERATIONS, clock->id);
}

/* The spare, when the token has not come back; none is kept where the clock has stopped. */
static __always_inline struct rl_slot *rl_next_spare(const struct rl_port *clock, struct Qdisc *sch,
						     struct rl_node *node, __u64 now, __u64 *wake, __u32 *link)
{
	struct rl_state *state = clock->state;

	*link = state->list[RL_SPARE].head;
	if (!*link)
		return NULL;
	if (!node->ticking) {
		rl_discard(clock, sch, RL_SPARE, RL_DROP_FLUSH);
		state->spares = 0;
		return NULL;
	}
	if (!rl_is_overdue(node, now)) {
		rl_wake(wake, node->tick_at + RL_OVERDUE + 1);
		return NULL;
	}
	node->tick_at = now; /* and if this one is lost as well, the next has its turn as late again */
	state->spares--;
	return rl_unlink(clock, RL_SPARE);
}

/* What lo sends: its own packets at once, the token when it is due, or a spare. */
static __always_inline struct rl_slot *rl_next_of_clock(const struct rl_port *clock, struct Qdisc *sch, __u64 now,
							__u64 *wake, __u32 *link)
{
	struct rl_slot *slot = rl_transmit(clock, now, wake, link);
	struct rl_node *node;

	if (!slot)
		slot = rl_arrived(clock, RL_TOKEN, now, wake, link);
	node = slot ? NULL : rl_find_node(clock);
	return node ? rl_next_spare(clock, sch, node, now, wake, link) : slot;
}

#endif
