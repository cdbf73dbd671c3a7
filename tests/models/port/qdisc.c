// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The qdisc of a NIC with limited QPs in a simulated kernel: its own sources, a clock, a timer, and two CPUs.
 *
 *     qdisc SEEDS EVENTS [FIRST SEED]
 *
 * All that the qdisc does is under the lock of the root qdisc. So what two CPUs do is some order of enqueues and dequeues:
 * while one CPU sends a packet, the lock is free, and the other may enqueue, or the timer may fire and find the qdisc
 * running. The clock that programs read is up to 60 ns behind that of the timer.
 *
 * After every event: with packets that wait, the timer is set, for no later than the first due time and RL_PACE_SLACK; and
 * the heap is one. No QP has more than one packet in its queue, nor one before its time. A port for whose busy link a packet
 * waits is not idle. It ends with 1 and a line that begins with LOST, STUCK, HEAP, QUEUE or IDLE where that is not so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port.bpf.c"
#include "simulation.h"

#define ID 5
#define QPS 12
#define MOST_WAITING 12
#define QUOTA 64 /* packets that the kernel takes in one run */

static __u64 clock_now, timer_at;
static bool timer_set, link_down, pending, in_program;
static unsigned long checks, sent;
static struct net_device device = { .ifindex = 9 };
static struct netdev_queue device_queue = { .dev = &device };
static struct Qdisc qdisc = { .handle = ID << 16, .dev_queue = &device_queue };
static struct rl_port nic;

/* The timer's softirq runs the qdisc once the lock is free. */
static void pass(__u32 ns)
{
	clock_now += ns;
	if (!timer_set || timer_at > clock_now)
		return;
	timer_set = false;
	pending = true;
}

__u64 bpf_ktime_get_ns(void)
{
	__u64 now = clock_now - up_to(60);

	if (in_program)
		pass(up_to(400));
	return now;
}

void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, __u64 expire, __u64 delta)
{
	if (link_down)
		return;
	timer_set = true;
	timer_at = expire;
	pass(up_to(300));
}

/* clang-format off: what the qdisc does not call, or has no effect here */
__u32 bpf_get_prandom_u32(void) { return up_to(~0u); }
int bpf_clone_redirect(struct __sk_buff *skb, __u32 index, __u64 flags) { return 0; }
long bpf_csum_diff(__be32 *from, __u32 size, __be32 *to, __u32 length, __u64 seed) { return 0; }
struct bpf_sock *bpf_sk_fullsock(struct bpf_sock *sk) { return sk; }
int bpf_redirect(__u32 index, __u64 flags) { return 0; }
int bpf_skb_adjust_room(void *skb, int more, __u32 mode, __u64 flags) { return 0; }
int bpf_skb_change_tail(void *skb, __u32 length, __u64 flags) { return 0; }
int bpf_skb_ecn_set_ce(void *skb) { return 0; }
int bpf_skb_load_bytes(const void *skb, __u32 offset, void *to, __u32 length) { return -1; }
int bpf_skb_pull_data(void *skb, __u32 length) { return 0; }
int bpf_skb_store_bytes(void *skb, __u32 offset, const void *from, __u32 length, __u64 flags) { return 0; }
int bpf_skb_vlan_pop(void *skb) { return 0; }
int bpf_skb_vlan_push(void *skb, __be16 protocol, __u16 tci) { return 0; }
void *bpf_cast_to_kern_ctx(void *context) { return context; }
void bpf_kfree_skb(struct sk_buff *skb) { free(skb); }
void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) {}
void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) { free(skb); }
/* clang-format on */

static void enqueue(__u32 mark, __u32 len)
{
	struct sk_buff *skb = calloc(1, sizeof(*skb));

	skb->mark = mark;
	skb->len = ((struct qdisc_skb_cb *)skb->cb)->pkt_len = len;
	in_program = true;
	rl_enqueue(skb, &qdisc, NULL);
	in_program = false;
}

static struct sk_buff *dequeue(void)
{
	struct sk_buff *skb;

	in_program = true;
	skb = rl_dequeue(&qdisc);
	in_program = false;
	return skb;
}

/* Packets of a QP, or of one that is not limited. */
static void enqueue_some(void)
{
	__u32 qp = up_to(QPS + 1), count = 1 + up_to(6);

	if (qp < QPS && rl_limiter_at(0, qp)->waiting > MOST_WAITING)
		return;
	while (count--)
		enqueue(rl_mark(RL_KIND_DATA, up_to(8) ? 3 : 0, qp < QPS ? RL_LIMITED + qp : RL_NO_PORT), 60 + up_to(1400));
}

/* A CNP for a QP; 0: only a kick. */
static void kick(__u32 place)
{
	enqueue(rl_mark(RL_KIND_KICK, RL_KICK_CNP, place), 60);
}

/* What port_rx writes when a PFC frame has come; its kick follows. */
static void pause_all(void)
{
	__u64 end = up_to(3) ? 0 : clock_now + 1 + up_to(40000000);

	for (int i = 0; i < RL_CLASSES; i++)
		nic.state->pause_until[i] = end;
	nic.state->pause_end = end;
}

/* What the other CPU may do while this one sends a packet: it finds the qdisc running, and leaves the rest to it. */
static void disturb(void)
{
	__u32 what = up_to(12);

	if (what == 0)
		pause_all();
	else if (what < 3)
		kick(what == 1 ? 1 + up_to(QPS) : 0);
	else if (what < 6)
		enqueue_some();
}

static void run(void)
{
	struct sk_buff *skb;

	for (int quota = QUOTA; quota; quota--) {
		pending = false; /* what has fired so far is seen by this dequeue */
		skb = dequeue();
		if (!skb)
			return;
		free(skb);
		sent++;
		pass(up_to(3000));
		if (!up_to(6))
			disturb();
	}
	pending = true;
}

static void fail(const char *what, const char *after)
{
	printf("%s after %s\n", what, after);
	exit(1);
}

static void check_heap(const char *after)
{
	struct rl_heap *heap = rl_find_heap(&nic);
	__u32 waiting = 0;

	for (int i = 0; i < RL_LIMITERS; i++)
		waiting += rl_limiter_at(0, i)->in_heap;
	if (waiting != heap->count - heap->vacant)
		fail("HEAP: not all are in it", after);
	for (__u32 i = 1; i < heap->count; i++)
		if (heap->due[(i - 1) / 2] > heap->due[i] && (!heap->vacant || (i - 1) / 2))
			fail("HEAP: one is before its parent", after);
	if (heap->count && heap->due[heap->count] != RL_NEVER)
		fail("HEAP: something is behind the last", after);
}

/* A QP has at most one packet in its class's queue, whose time has come, and then none that waits in the heap. */
static void check_queues(const char *after)
{
	__u32 queued[QPS] = {}, link;

	for (int i = 0; i < RL_CLASSES; i++)
		for (link = nic.state->list[i].head; link; link = rl_find_slot(link)->next)
			if (rl_is_limited(rl_find_slot(link)->from))
				queued[rl_find_slot(link)->from - RL_LIMITED]++;
	for (int i = 0; i < QPS; i++) {
		const struct rl_limiter *limiter = rl_limiter_at(0, i);

		if (queued[i] != limiter->in_queue || (limiter->in_queue && limiter->in_heap))
			fail("QUEUE: a QP's packets are not one by one in it", after);
		if (limiter->in_queue && limiter->due > clock_now)
			fail("QUEUE: a packet is before its time in it", after);
	}
}

static void settle(const char *after)
{
	__u64 first = RL_NEVER;

	while (pending && !link_down) {
		pending = false;
		run();
	}
	checks++;
	for (int i = 0; i < QPS; i++) {
		const struct rl_limiter *limiter = rl_limiter_at(0, i);

		if (limiter->in_heap && limiter->waiting && limiter->due < first)
			first = limiter->due;
	}
	if (first != RL_NEVER && (!timer_set || timer_at > first + RL_PACE_SLACK))
		fail("LOST: the timer is not set, or too late,", after);
	if (qdisc.q.qlen && !timer_set)
		fail("STUCK: no timer is set", after);
	check_heap(after);
	check_queues(after);
	if (!link_down && nic.state->waiting && nic.state->next_tx > clock_now && nic.state->idle)
		fail("IDLE: a packet waits for the link", after);
}

/* The kernel marks the qdisc, then resets it. A dequeue before or after may find the timer refused. */
static void flap(void)
{
	link_down = true;
	if (!up_to(2))
		free(dequeue());
	rl_reset(&qdisc);
	timer_set = pending = false;
	if (!up_to(2))
		pause_all();
	if (!up_to(2)) {
		pass(up_to(9000000));
		free(dequeue());
	}
	pass(up_to(3000000));
	link_down = false;
	settle("a link that came up");
}

static void step(void)
{
	__u32 what = up_to(20), qp = up_to(QPS);

	if (what == 0) {
		pause_all();
		kick(0);
	} else if (what < 3) {
		kick(1 + qp);
	} else if (what == 3) {
		rl_limiter_at(0, qp)->closed = rl_limiter_at(0, qp)->generation;
	} else if (what == 4 && !up_to(3)) {
		flap();
	} else if (what > 5) {
		enqueue_some();
	}
	pending = true; /* the kernel looks after every enqueue, and now and then for no reason */
	settle("an event");
}

static void wait_until(__u64 moment)
{
	while (timer_set && timer_at <= moment) {
		if (timer_at > clock_now)
			clock_now = timer_at;
		pass(up_to(20000)); /* until its softirq runs */
		settle("the timer");
	}
	if (moment > clock_now)
		clock_now = moment;
}

static void begin(void)
{
	static const __u64 links[] = { 0, 10000000, 100000000, 1000000000 };
	static const __u64 limits[] = { 200000, 2000000, 20000000, 100000000 };
	struct rl_config *config;
	struct rl_node *node;

	rl_find(&nic, ID);
	config = nic.config;
	memset(config, 0, sizeof(*config));
	memset(nic.state, 0, sizeof(*nic.state));
	memset(rl_find_heap(&nic), 0, sizeof(struct rl_heap));
	for (int i = 0; i < RL_LIMITERS; i++)
		*rl_limiter_at(0, i) = (struct rl_limiter){ .generation = 1 };
	qdisc.q.qlen = 0;
	timer_set = link_down = pending = false;
	config->rate = links[up_to(4)];
	config->delay_ns = up_to(3) ? 0 : 3000000;
	config->index = device.ifindex;
	config->watchdog_detect_ns = up_to(2) ? 4000000 : 0;
	config->watchdog_restore_ns = 4000000;
	config->watchdog_forward = !up_to(4);
	config->lossless = 1 << 3;
	for (int i = 0; i < RL_CLASSES; i++) {
		config->priority_to_queue[i] = config->priority_to_group[i] = i;
		config->queue[i].weight = i & 1;
	}
	config->cc = (struct rl_cc_config){
		.react = 1,
		.rpg_time_reset = up_to(2) ? 300000 : 50000000,
		.rpg_ai_rate = 5000000,
		.rpg_hai_rate = 50000000,
		.rpg_min_rate = 50000,
		.rate_to_set_on_first_cnp = limits[up_to(4)],
		.dce_tcp_rtt = 100000,
		.rate_reduce_monitor_period = 400000,
		.rpg_threshold = 1,
		.rpg_gd = 11,
		.rpg_min_dec_fac = 50,
		.dce_tcp_g = 1019,
		.initial_alpha_value = 1023,
	};
	node = rl_find_node(&nic);
	*node = (struct rl_node){ .first_port = ID - 1, .nics = 1, .limiters = QPS };
	if (rl_init(&qdisc, NULL, NULL))
		abort();
	for (int i = 0; i < QPS; i++)
		kick(i + 1);
}

int main(int count, char **arguments)
{
	unsigned long seeds = strtoul(arguments[1], NULL, 10), events = strtoul(arguments[2], NULL, 10);
	unsigned long first = count > 3 ? strtoul(arguments[3], NULL, 10) : 0;

	*(__u32 *)&rl_slots = 2048;
	clock_now = 1000000000;
	for (unsigned long seed = first; seed < first + seeds; seed++) {
		begin_random(seed);
		begin();
		for (unsigned long event = 0; event < events; event++) {
			wait_until(clock_now + up_to(up_to(10) ? 300000 : up_to(20) ? 5000000 : 60000000));
			step();
		}
	}
	printf("%lu checks, %lu packets sent\n", checks, sent);
	return 0;
}
