// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The emulated port of a switch or NIC: 802.1Qbb PFC, a switch's buffer, ECN and a scheduler, in tc.
 *
 *        wire ──► port_rx ──► routing, bridging, VXLAN ──► port_tx ──► rl_enqueue ► rl_dequeue ──► wire
 *                 (ingress)                                (egress)         (root qdisc)
 *                 classify, take PFC,                      classify, CE,    charge the buffer, schedule,
 *                 send XOFF                                write PFC        honour pauses, shape
 *
 *        tick (ingress of `lo`): the node's clock. A token packet goes round between it and lo's root qdisc while any
 *        priority group is in XOFF; each time it sends the XONs and refreshes that are due.
 */
#include "acks.h"
#include "admit.h"
#include "clock.h"
#include "ecn.h"
#include "notification.h"

char _license[] SEC("license") = "GPL";

/* Pause the peer, if the packet at hand takes its group beyond the threshold. */
__noinline int rl_pause_peer(struct __sk_buff *skb, __u32 id, __u32 group)
{
	__u64 now = bpf_ktime_get_ns();
	struct rl_node *node;
	struct rl_port port;
	__u32 classes;

	if (!rl_find(&port, id))
		return 0;
	node = rl_find_node(&port);
	classes = rl_group_classes(port.config, group);
	if (!classes || !node || !rl_crosses(&port, node, group, skb->len, rl_refresh_at(&port, now)))
		return 0;
	if (rl_send_pfc(skb, id, group, RL_XOFF))
		rl_take_back(&port, group, RL_REFRESH);
	rl_log(id, RL_EVENT_XOFF_SENT, group, port.counters->group[group & (RL_CLASSES - 1)].bytes);
	rl_start_clock(skb, &port, node, group, now);
	return 0;
}

SEC("tc")
int port_rx(struct __sk_buff *skb)
{
	struct rl_header header;
	struct rl_node *node;
	struct rl_port port;
	__u32 priority, group;

	if (!rl_find_at(&port, skb))
		return TC_ACT_UNSPEC;
	if (skb->protocol == bpf_htons(RL_ETH_P_PAUSE)) {
		rl_receive_pfc(skb, port.id);
		return TC_ACT_SHOT;
	}
	rl_parse(skb, &header);
	priority = rl_classify(port.config, &header);
	port.counters->priority[priority].rx_packets++;
	port.counters->priority[priority].rx_bytes += skb->len;
	if (header.ip && rl_is_cnp(skb))
		__sync_fetch_and_add(&port.counters->rx_cnp, 1);
	if (rl_may_be_ack(skb))
		rl_follow_ack(skb, port.id, 0);
	if ((port.config->cc.notify | port.config->cc.react) && header.ip &&
	    rl_may_concern(skb, &port.config->cc, header.tos) && rl_control_congestion(skb, port.id))
		return TC_ACT_STOLEN;
	group = port.config->priority_to_group[priority] & (RL_CLASSES - 1);
	node = rl_find_node(&port);
	if (!node)
		return TC_ACT_UNSPEC;
	if (rl_nears(&port, node, group, skb->len))
		rl_pause_peer(skb, port.id, group);
	if (node->busy)
		rl_watch_clock(skb, port.id);
	skb->mark = rl_mark(RL_KIND_DATA, priority, port.id);
	return TC_ACT_UNSPEC;
}

/*
 * Replace a forwarded TCP packet by a clone without a socket, and return whether it was.
 *
 * A NIC releases what it has sent. A veth pair does not: until a router or the receiver takes the packet, it counts as
 * unsent by its sender. TCP then has no more than two packets in a bridge's queue (tcp_small_queue_check).
 */
static __always_inline bool rl_leave_socket(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk ? bpf_sk_fullsock(skb->sk) : NULL;

	/* A positive result says that the queue dropped the clone, and has counted it. */
	return sk && sk->protocol == RL_TCP && bpf_clone_redirect(skb, skb->ifindex, 0) >= 0;
}

SEC("tc")
int port_tx(struct __sk_buff *skb)
{
	enum rl_kind kind = rl_mark_kind(skb->mark);
	struct rl_header header;
	struct rl_port port;
	__u32 priority, queue;

	if (kind == RL_KIND_TOKEN || kind == RL_KIND_SPARE || kind == RL_KIND_KICK)
		return TC_ACT_UNSPEC;
	if (!rl_find_at(&port, skb))
		return TC_ACT_UNSPEC;
	if (kind == RL_KIND_PFC)
		return rl_transmit_pfc(skb, port.config);
	if (kind == RL_KIND_CNP)
		return rl_transmit_cnp(skb, port.id);
	if (kind == RL_KIND_DATA) {
		if (rl_leave_socket(skb))
			return TC_ACT_STOLEN; /* the clone has come by here */
		priority = rl_mark_priority(skb->mark);
	} else {
		rl_parse(skb, &header);
		priority = rl_classify(port.config, &header);
		skb->mark = rl_mark(RL_KIND_DATA, priority,
				    port.state->limited ? rl_limited_by(skb) : RL_NO_PORT);
	}
	if (rl_may_be_ack(skb))
		rl_follow_ack(skb, port.id, 1);
	queue = port.config->priority_to_queue[priority & (RL_CLASSES - 1)] & (RL_CLASSES - 1);
	if (rl_chosen(&port.config->queue[queue], port.counters->queue[queue].depth_bytes)) {
		rl_parse(skb, &header);
		rl_mark_ce(skb, &port.counters->queue[queue], &header);
	}
	return TC_ACT_UNSPEC;
}

SEC("tc")
int tick(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns(), soonest;
	struct rl_node *node;
	struct rl_port clock;
	__u32 mark;

	if (rl_mark_kind(skb->mark) != RL_KIND_TOKEN && rl_mark_kind(skb->mark) != RL_KIND_SPARE)
		return TC_ACT_UNSPEC;
	if (!rl_find(&clock, rl_mark_low(skb->mark)))
		return TC_ACT_UNSPEC;
	node = rl_find_node(&clock);
	mark = node ? rl_take_token(&clock, node, skb->mark) : 0;
	if (!mark)
		return TC_ACT_SHOT;
	bpf_skb_change_tail(skb, RL_MIN_FRAME, 0); /* only saves copying: a token of any length tells the time */
	node->ticks++;
	soonest = rl_tick_node(skb, clock.id, now);
	if (!node->busy) {
		/* A group may have crossed XOFF meanwhile, and seen the token still under way. Stored plainly, the word
		 * could reach the other CPU after the next line has been read: neither of us would wind the clock. */
		__sync_lock_test_and_set(&node->ticking, 0);
		if (!node->busy || __sync_lock_test_and_set(&node->ticking, 1))
			return TC_ACT_SHOT;
	}
	node->tick_at = now + (soonest < RL_MIN_TICK ? RL_MIN_TICK : soonest);
	rl_keep_spare(skb, &clock);
	skb->mark = mark;
	return bpf_redirect(RL_LOOPBACK, 0);
}

SEC("struct_ops/rl_enqueue")
int BPF_PROG(rl_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	const struct qdisc_skb_cb *cb = (struct qdisc_skb_cb *)skb->cb;
	__u32 len = cb->pkt_len, psn = *(__u32 *)cb->data, mark = skb->mark;
	struct rl_limiter *limiter;
	struct rl_slot *slot;
	struct rl_port port;
	__u32 link, list;

	if (!rl_find(&port, sch->handle >> 16))
		goto drop;
	if (rl_mark_kind(mark) == RL_KIND_KICK) {
		if (rl_mark_low(mark))
			rl_obey(port.memory, rl_mark_low(mark) - 1, rl_mark_priority(mark));
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_SUCCESS; /* it has come, and that is all that it is for */
	}
	slot = rl_slot_take(&port, &link);
	if (!slot) {
		if (rl_mark_kind(mark) == RL_KIND_DATA)
			rl_refuse(&port, sch, mark, len);
		else
			sch->qstats.drops++;
		goto drop;
	}
	slot->len = len;
	list = rl_place(&port, sch, slot, mark);
	if (list >= RL_LISTS) {
		rl_slot_give(&port, slot, link);
		goto drop;
	}
	skb = bpf_kptr_xchg(&slot->skb, skb);
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
	if (list <= RL_CONTROL)
		port.state->held++;
	limiter = rl_is_limited(slot->from) && list < RL_CLASSES ? rl_find_limiter(&port, slot->from - RL_LIMITED) : NULL;
	if (limiter && !limiter->started) {
		slot->from = RL_NO_PORT; /* a limiter that starts meanwhile must not take it for its own */
		limiter = NULL;
	}
	if (limiter)
		slot->ready_at = psn;
	if (limiter && rl_must_wait(&port, limiter)) {
		rl_hold_back(&port, limiter, slot, link);
	} else {
		rl_append(&port, list, slot, link);
		if (list < RL_CLASSES)
			port.state->waiting |= 1u << list;
	}
	sch->q.qlen++;
	sch->qstats.backlog += len;
	return NET_XMIT_SUCCESS;
drop:
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

SEC("struct_ops/rl_dequeue")
struct sk_buff *BPF_PROG(rl_dequeue, struct Qdisc *sch)
{
	struct rl_slot *slot;
	struct rl_port port;
	struct sk_buff *skb;
	__u64 *wake, now;
	__u32 link = 0;

	if (!rl_find(&port, sch->handle >> 16))
		return NULL;
	if (!sch->q.qlen && !port.state->stormed) {
		port.state->idle = 1;
		return NULL;
	}
	now = rl_is_open(&port) ? 0 : bpf_ktime_get_ns();
	wake = &port.state->wake;
	*wake = RL_NEVER;
	if (port.state->limited && !rl_serve_limited(&port, now)) {
		port.state->idle = 1;
		rl_sleep(&port, sch, now);
		return NULL;
	}
	if (port.state->stormed || port.state->blocked || rl_watched_pause(&port, now))
		rl_watchdog(&port, sch, now, wake);
	if (rl_is_clock(&port))
		slot = rl_next_of_clock(&port, sch, bpf_ktime_get_ns(), wake, &link);
	else if (port.config->delay_ns || port.state->disturbed || port.state->on_wire)
		slot = rl_through_cable(&port, now, wake, &link);
	else
		slot = rl_transmit(&port, now, wake, &link);
	if (!slot) {
		rl_sleep(&port, sch, now);
		return NULL;
	}
	skb = bpf_kptr_xchg(&slot->skb, NULL);
	sch->q.qlen--;
	sch->qstats.backlog -= slot->len;
	rl_slot_give(&port, slot, link);
	if (skb)
		bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops/rl_init")
int BPF_PROG(rl_init, struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct rl_port port;

	if (!rl_find(&port, sch->handle >> 16))
		return -22; /* EINVAL: the handle's major number is no port of this fabric */
	if (sch->dev_queue->dev->ifindex != port.config->index)
		return -22; /* or not that of this interface */
	port.state->idle = 1;
	port.state->armed = 0;
	return 0;
}

SEC("struct_ops/rl_reset")
void BPF_PROG(rl_reset, struct Qdisc *sch)
{
	struct rl_port port;
	__u32 list;

	if (!rl_find(&port, sch->handle >> 16))
		return;
	rl_release_all(port.memory);
	bpf_for(list, 0, RL_LISTS)
		rl_discard(&port, sch, list, RL_DROP_FLUSH);
	port.state->spares = 0;
	port.state->late = 0;
	port.state->armed = 0; /* the kernel stops it */
	port.state->idle = 1;
}

SEC("struct_ops/rl_destroy")
void BPF_PROG(rl_destroy, struct Qdisc *sch)
{
}

SEC(".struct_ops.link")
struct Qdisc_ops port = {
	.enqueue = (void *)rl_enqueue,
	.dequeue = (void *)rl_dequeue,
	.init = (void *)rl_init,
	.reset = (void *)rl_reset,
	.destroy = (void *)rl_destroy,
	.id = "rocelab",
};
