/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reaction point of a NIC: packets of a QP leave at the rate that its algorithm sets (algorithms.h).
 *
 *        rl_enqueue ──► FIFO of the QP ──► heap, by when the first of each is due ──► its class's queue ──► wire
 *
 * A QP has at most one packet in its class's queue, and the next one becomes due when that has been sent. So a pause
 * holds the QP as it holds the queue, and no burst follows it. Other QPs pass by. In a storm (watchdog.h) only what has
 * reached the queue is dropped, at the QP's rate: the rest waits as it would in the host's memory.
 *
 * A QP that has recovered joins those that are not limited, with all its packets: with one in the queue, beside QPs with
 * 64, it would have little of the link. So has a QP that is still limited, if others of its NIC fill the link.
 *
 * A port without a limited QP does none of this: `limited` is 0.
 */
#ifndef RL_PACE_H
#define RL_PACE_H

#include "algorithms.h"
#include "queue.h"
#include "rtt.h"

#define RL_PACE_OVERHEAD 24 /* FCS, preamble and gap: rates are those of the wire */
#define RL_PACE_CREDIT 1000000ull /* ns for which a QP may make up when it was sent late */
#define RL_PACE_SLACK 50000ull /* ns that a packet may leave late, so that the timer fires for several at once ... */
#define RL_TIMER_SLACK (RL_PACE_SLACK - 2 * RL_LIMITERS) /* ... of which an entry of the heap may take the rest */
#define RL_RELEASES 64 /* packets that one dequeue releases at most */
#define RL_REVIEWS_APART 50000ull /* ns between two reviews of limiters */

static __always_inline struct rl_limiter *rl_find_limiter(const struct rl_port *port, __u32 index)
{
	return rl_limiter_at(port->config->cc.nic, index);
}

/* Whether packets of a limiter's QP wait for their time, or in their queue. */
static __always_inline bool rl_has_packets(const struct rl_limiter *limiter)
{
	return limiter->waiting | limiter->in_heap | limiter->in_queue;
}

static __always_inline bool rl_is_limited(__u32 from)
{
	return from >= RL_LIMITED && from < RL_LIMITED + RL_LIMITERS;
}

static __always_inline struct rl_heap *rl_find_heap(const struct rl_port *port)
{
	__u32 key = port->config->cc.nic;

	return bpf_map_lookup_elem(&heaps, &key);
}

/* A place of the heap. */
static __always_inline __u64 *rl_due_at(struct rl_heap *heap, __u32 place)
{
	return &heap->due[place & (RL_LIMITERS - 1)];
}

/* Move the cursor up from the end, or down from the vacant first place, to where an entry belongs. It is kept in memory:
 * of what is there the verifier knows nothing, so that all turns of a loop are one to it. A loop turns at most as often
 * as the heap is deep: 11 times, far from what rl_may_loop ends. */
static __always_inline void rl_heap_seek(struct rl_heap *heap, __u64 due)
{
	const __u64 *pair;
	__u64 earlier;
	__u32 other;

	if (heap->vacant) {
		heap->vacant = 0;
		heap->cursor = 0;
		while (rl_may_loop()) {
			other = 2 * heap->cursor + 1;
			if (other >= heap->count)
				break;
			pair = rl_due_at(heap, other);
			earlier = pair[0];
			if (pair[1] < earlier) {
				earlier = pair[1];
				other++;
			}
			if (earlier >= due)
				break;
			*rl_due_at(heap, heap->cursor) = earlier;
			heap->cursor = other;
		}
		return;
	}
	heap->cursor = heap->count++;
	rl_due_at(heap, heap->cursor)[1] = RL_NEVER;
	while (rl_may_loop()) {
		other = (heap->cursor - 1) / 2;
		if (!heap->cursor || *rl_due_at(heap, other) <= due)
			break;
		*rl_due_at(heap, heap->cursor) = *rl_due_at(heap, other);
		heap->cursor = other;
	}
}

/* Put a limiter into the heap of its NIC, until its first packet is due. */
__noinline int rl_heap_push(__u32 nic, __u32 index, __u64 at)
{
	struct rl_heap *heap = bpf_map_lookup_elem(&heaps, &nic);
	__u64 due = ((at + RL_LIMITERS - 1) & -(__u64)RL_LIMITERS) | (index & (RL_LIMITERS - 1));

	if (!heap || (!heap->vacant && heap->count >= RL_LIMITERS))
		return 0;
	rl_heap_seek(heap, due);
	*rl_due_at(heap, heap->cursor) = due;
	return 0;
}

/* The earliest entry, or RL_NEVER. */
static __always_inline __u64 rl_heap_first(struct rl_heap *heap)
{
	if (!heap->vacant)
		return heap->count ? heap->due[0] : RL_NEVER;
	if (heap->count < 2)
		return RL_NEVER;
	return heap->due[1] < heap->due[2] ? heap->due[1] : heap->due[2];
}

/*
 * Take the earliest off the heap, which is not empty: its limiter. Its place stays vacant. Mostly the QP's next packet
 * comes to wait as this one is sent, and takes it; otherwise the last entry does, before another is taken off.
 */
static __always_inline __u32 rl_heap_take(struct rl_heap *heap)
{
	__u64 last;

	if (heap->vacant) {
		heap->count--;
		last = *rl_due_at(heap, heap->count);
		*rl_due_at(heap, heap->count) = RL_NEVER;
		rl_heap_seek(heap, last);
		*rl_due_at(heap, heap->cursor) = last;
	}
	heap->vacant = 1;
	return heap->due[0] & (RL_LIMITERS - 1);
}

/* Put a limiter into its port's heap, and note when the qdisc has to look. */
static __always_inline void rl_await(const struct rl_port *port, struct rl_limiter *limiter, __u32 index)
{
	limiter->in_heap = 1;
	rl_heap_push(port->config->cc.nic, index, limiter->due);
	if (limiter->due < port->state->due)
		port->state->due = limiter->due;
}

/*
 * Whether a new packet has to wait for its time. Otherwise it is its QP's packet in the queue from now on: none of the QP
 * is before it, and its time had come when the qdisc last looked.
 */
static __always_inline bool rl_must_wait(const struct rl_port *port, struct rl_limiter *limiter)
{
	if (rl_has_packets(limiter) || limiter->due > port->state->looked_at)
		return true;
	limiter->in_queue = 1;
	return false;
}

/* Put a packet into its QP's FIFO. */
static __always_inline void rl_hold_back(const struct rl_port *port, struct rl_limiter *limiter, struct rl_slot *slot,
					 __u32 link)
{
	struct rl_slot *last = limiter->head ? rl_find_slot(limiter->tail) : NULL;

	slot->next = 0;
	if (last)
		last->next = link;
	else
		limiter->head = link;
	limiter->tail = link;
	limiter->waiting++;
	if (limiter->in_heap || limiter->in_queue)
		return;
	rl_await(port, limiter, slot->from - RL_LIMITED);
}

/* Move the first packet of a QP into its class's queue. */
static __always_inline void rl_let_go(const struct rl_port *port, struct rl_limiter *limiter)
{
	__u32 link = limiter->head, queue;
	struct rl_slot *slot = rl_find_slot(link);

	if (!slot)
		return;
	limiter->head = slot->next;
	if (!slot->next)
		limiter->tail = 0;
	limiter->waiting--;
	limiter->in_queue = 1;
	queue = port->config->priority_to_queue[slot->priority & (RL_CLASSES - 1)] & (RL_CLASSES - 1);
	rl_append(port, queue, slot, link);
	port->state->waiting |= 1u << queue;
}

/* Move what is due now into the queues. */
__noinline int rl_release_due(struct rl_memory *memory, __u64 now)
{
	struct rl_limiter *limiter;
	struct rl_heap *heap;
	struct rl_port port;

	if (!rl_enter(&port, memory))
		return 0;
	heap = rl_find_heap(&port);
	if (!heap)
		return 0;
	heap->turns = 0;
	while (heap->turns++ < RL_RELEASES && rl_may_loop()) {
		if (rl_heap_first(heap) > now)
			break;
		limiter = rl_find_limiter(&port, rl_heap_take(heap));
		if (limiter) {
			limiter->in_heap = 0;
			rl_let_go(&port, limiter);
		}
	}
	port.state->due = rl_heap_first(heap);
	return 0;
}

/* Move all packets of limited QPs into their queues, to be dropped there. */
__noinline int rl_release_all(struct rl_memory *memory)
{
	struct rl_limiter *limiter;
	struct rl_port port;
	__u32 i, j;

	if (!rl_enter(&port, memory) || !port.state->limited)
		return 0;
	bpf_for(i, 0, RL_LIMITERS) {
		limiter = rl_find_limiter(&port, i);
		if (!limiter)
			break;
		bpf_for(j, 0, rl_slots) {
			if (!limiter->head)
				break;
			rl_let_go(&port, limiter);
		}
	}
	return 0;
}

/* Have a limiter's state be that of `now`. */
__noinline int rl_catch_up(struct rl_memory *memory, __u32 index, __u64 now)
{
	struct rl_limiter *limiter;
	struct rl_port port;

	if (!rl_enter(&port, memory))
		return 0;
	limiter = rl_find_limiter(&port, index);
	if (limiter)
		rl_on_timer(limiter, port.config, now);
	return 0;
}

/* Look at one limiter after the other, one each time: those whose QP has recovered, or is no more, are given back. They
 * cost little until then, and a look costs more than a packet of theirs. */
__noinline int rl_review_limiter(struct rl_memory *memory, __u64 now)
{
	const struct rl_limiter *first;
	struct rl_limiter *limiter;
	struct rl_node *node;
	struct rl_port port;
	__u32 used, index;

	if (!rl_enter(&port, memory))
		return 0;
	node = rl_find_node(&port);
	if (!node)
		return 0;
	port.state->reviewed_at = now;
	used = node->limiters < RL_LIMITERS ? node->limiters : RL_LIMITERS;
	index = port.state->reviewed++ % (used ?: 1);
	first = rl_limiter_at(node->first_nic, index);
	limiter = rl_find_limiter(&port, index);
	if (!first || !limiter || !limiter->started || rl_has_packets(limiter))
		return 0;
	rl_catch_up(memory, index, now);
	if (first->closed != first->generation && !rl_is_done(limiter, port.config))
		return 0;
	limiter->started = 0;
	port.state->limited--;
	return 0;
}

/* Put packets of limited QPs that are due into the queues, and set when the qdisc looks again: at the next due time. False
 * when all that the port has still waits for its time. */
static __always_inline bool rl_serve_limited(const struct rl_port *port, __u64 now)
{
	struct rl_state *state = port->state;

	if (now - state->reviewed_at >= RL_REVIEWS_APART)
		rl_review_limiter(port->memory, now);
	state->looked_at = now;
	if (state->due <= now)
		rl_release_due(port->memory, now);
	if (state->due != RL_NEVER)
		state->wake = state->due + RL_TIMER_SLACK;
	return state->waiting | state->list[RL_CONTROL].head | state->on_wire | state->stormed;
}

/* A packet of a QP takes its time from now on: the next one is due when that is over. */
static __always_inline void rl_take_time(struct rl_limiter *limiter, __u32 len, __u64 now)
{
	__u64 bits = (len + RL_PACE_OVERHEAD) * 8ull;

	if (limiter->due + RL_PACE_CREDIT < now)
		limiter->due = now;
	limiter->due += bits * 1000000000ull / (limiter->rate ?: 1);
}

/* A storm drops a packet of a limited QP: as if it had been sent, so that no more reach the queue than would without. */
__noinline int rl_note_lost(struct rl_memory *memory, __u32 index, __u32 len)
{
	struct rl_limiter *limiter;
	struct rl_port port;

	if (!rl_enter(&port, memory))
		return 0;
	limiter = rl_find_limiter(&port, index);
	if (limiter)
		rl_take_time(limiter, len, bpf_ktime_get_ns());
	return 0;
}

/* Have a limiter's QP be limited no longer: what waits for its time follows what is in the queues. */
__noinline int rl_free_qp(struct rl_memory *memory, __u32 index)
{
	struct rl_limiter *limiter;
	struct rl_slot *slot;
	struct rl_port port;
	__u32 i;

	if (!rl_enter(&port, memory))
		return 0;
	limiter = rl_find_limiter(&port, index);
	if (!limiter || !limiter->started)
		return 0;
	bpf_for(i, 0, rl_slots) {
		slot = limiter->head ? rl_find_slot(limiter->head) : NULL;
		if (!slot)
			break;
		slot->from = RL_NO_PORT; /* a limiter that starts meanwhile must not take it for its own */
		rl_let_go(&port, limiter);
	}
	limiter->in_queue = 0;
	limiter->started = 0;
	port.state->limited--;
	return 0;
}

/* A packet of a limited QP leaves its queue: sent, or dropped (`now` is 0). The next one is due when the QP's rate allows:
 * the qdisc may have looked before that was known. */
__noinline int rl_note_paced(struct rl_memory *memory, __u32 index, __u32 len, __u64 now, __u32 psn)
{
	struct rl_limiter *limiter;
	struct rl_port port;

	if (!rl_enter(&port, memory))
		return 0;
	limiter = rl_find_limiter(&port, index);
	if (!limiter || !limiter->started)
		return 0;
	limiter->in_queue = 0;
	if (now) {
		rl_time_packet(limiter, psn, now);
		if (rl_has_event(limiter, port.config, now))
			rl_catch_up(memory, index, now);
		rl_on_send(limiter, port.config, len);
		limiter->packets++;
		limiter->sent_bytes += len;
		rl_take_time(limiter, len, now);
	}
	if (!limiter->waiting || limiter->in_heap)
		return 0;
	if (now && rl_is_done(limiter, port.config)) {
		rl_free_qp(memory, index);
	} else {
		rl_await(&port, limiter, index);
		rl_wake(&port.state->wake, limiter->due + RL_TIMER_SLACK);
	}
	return 0;
}

/* A CNP or an acknowledgement has come for a QP, by way of a packet that only carries this here. */
__noinline int rl_obey(struct rl_memory *memory, __u32 index, __u32 kick)
{
	__u64 now = bpf_ktime_get_ns(), rtt;
	struct rl_limiter *limiter;
	struct rl_port port;
	bool first;

	if (!rl_enter(&port, memory))
		return 0;
	limiter = rl_find_limiter(&port, index);
	if (!limiter)
		return 0;
	rl_catch_up(memory, index, now);
	first = !limiter->started || !rl_is_current(limiter, &port.config->cc);
	port.state->limited += !limiter->started;
	if (first) {
		limiter->started = 1;
		limiter->algorithm = port.config->cc.algorithm;
		limiter->rtt = limiter->rtts = 0;
		rl_forget_rtts(limiter);
	}
	if (kick == RL_KICK_ACK) {
		rtt = __sync_lock_test_and_set(&limiter->ended_rtt, 0);
		limiter->rtts += !!rtt;
		rl_on_ack(limiter, port.config, first, rtt);
	} else {
		rl_on_cnp(limiter, port.config, first, now);
	}
	rl_review_limiter(memory, now); /* a NIC that sends nothing would keep those that it has */
	return 0;
}

#endif
