// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A switch's buffer in a simulated fabric: its own sources, and around them links, peers that obey PFC, and a stack.
 *
 *     buffer SEEDS MICROSECONDS HEADROOM [FIRST SEED]
 *
 *     peer ──► link ──► test for XOFF ──► stack ──► charge ──► queue ──► link, one frame after another
 *       ▲                    │                                   │
 *       └──── XOFF, XON ◄────┴───────────────────────────────────┘
 *
 * A packet arrives when its transmission begins, as in the emulation. The stack hands on what has arrived a little later
 * and in any order of the ports, as a device behind a tunnel does. A PFC frame waits for the frame that the switch is
 * sending to that peer. Queues are paused now and then, and some packets are short.
 *
 * HEADROOM is what arrives until a peer obeys. So no peer that is sent PFC loses anything, and when XOFF is sent, all of
 * its group's headroom is free. Nothing counts as below the threshold that was above it on arrival. A paused group waits
 * for some of its own bytes, and at the end nothing is charged any more. It ends with 1 and a line that begins with DROP,
 * HEADROOM, THRESHOLD, STUCK or LEFT where that is not so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "simulation.h"

#define PORTS 4
#define QUEUES 2
#define LENGTH 4096 /* places in a queue */
#define LONGEST 4368 /* bytes */
#define NS_OF_BYTE 80 /* 100 Mb/s */
#define ON_WIRE 24 /* bytes that a frame takes besides on a link */
#define PFC_NS ((60 + ON_WIRE) * NS_OF_BYTE)
#define REACTION 50000 /* ns */
#define IN_STACK 4 /* packets of one peer */
#define STACK 15000 /* ns that a packet spends in the stack at most */
#define NEVER (~0ull)

struct packet {
	__u32 from, len;
	__u64 at; /* leaves the stack */
	__u64 allowed; /* bytes of its group below the threshold, if all in the stack have passed the test */
};

static struct peer {
	struct rl_port port;
	__u64 next; /* its next packet's transmission begins, if it is not paused then */
	__u64 sends_until, reverse_free; /* of a burst; and the switch has ended its frame to the peer */
	__u64 obeys_at; /* the last PFC frame */
	bool paused, is_to_pause;
	struct packet stack[IN_STACK];
	__u32 in_stack, target, share_of_short;
} peers[PORTS];

static struct queue {
	struct packet packets[LENGTH];
	__u32 head, tail;
	__u64 free_at, paused_until;
} queues[QUEUES];

static __u64 now, packets, pauses;
static struct rl_node *node;

__u64 bpf_ktime_get_ns(void)
{
	return now;
}

static void fail(const char *what, __u64 much)
{
	printf("%s %llu at %llu ns\n", what, much, now);
	exit(1);
}

static struct rl_group *group_of(const struct peer *peer)
{
	return rl_find_group(peer->port.id, 3);
}

static __u64 threshold_of(const struct peer *peer)
{
	return rl_threshold(&peer->port.config->group[3], node);
}

/* A PFC frame to a peer: after the frame that is being sent to it, and the peer takes its time. */
static void send_pfc(struct peer *peer, bool xoff)
{
	__u64 begins = peer->reverse_free > now ? peer->reverse_free : now;
	__u64 obeys_at = begins + PFC_NS + up_to(REACTION);

	peer->reverse_free = begins + PFC_NS;
	if (obeys_at > peer->obeys_at)
		peer->obeys_at = obeys_at;
	peer->is_to_pause = xoff;
}

static void arrive(struct peer *peer)
{
	__u32 len = up_to(100) < peer->share_of_short ? 62 : LONGEST;
	const struct rl_group *group = group_of(peer);
	__u64 passed;

	peer->next = now + (len + ON_WIRE) * NS_OF_BYTE;
	if (!up_to(3)) /* the link is busy with a frame to the peer */
		peer->reverse_free = now + up_to((LONGEST + ON_WIRE) * NS_OF_BYTE);
	packets++;
	if (peer->port.config->pfc_tx && rl_nears(&peer->port, node, 3, len) && rl_crosses(&peer->port, node, 3, len, 0)) {
		if (group->headroom)
			fail("HEADROOM is not empty at XOFF:", group->headroom);
		pauses++;
		send_pfc(peer, true);
	}
	passed = peer->in_stack ? peer->stack[peer->in_stack - 1].at : now;
	peer->stack[peer->in_stack++] = (struct packet){
		.from = peer - peers,
		.len = len,
		.at = passed + up_to(now + STACK - passed),
		.allowed = peer->port.config->pfc_tx ? threshold_of(peer) + IN_STACK * LONGEST : 0,
	};
}

/* A packet leaves the stack for a queue. */
static void charge(struct peer *peer)
{
	const struct packet packet = peer->stack[0];
	const struct rl_group *group = group_of(peer);
	struct queue *queue = &queues[peer->target];
	__u64 before = group->bytes - group->headroom, limit = threshold_of(peer), usual;

	memmove(peer->stack, peer->stack + 1, --peer->in_stack * sizeof(packet));
	if (rl_charge(&peer->port, node, 3, packet.len) >= 0) {
		if (peer->port.config->pfc_tx)
			fail("DROP with headroom of", group->headroom);
		return;
	}
	usual = group->bytes - group->headroom;
	if (usual > before && usual > packet.allowed && usual > limit)
		fail("THRESHOLD is exceeded:", usual);
	queue->packets[queue->tail++ % LENGTH] = packet;
	if (queue->tail - queue->head >= LENGTH)
		abort();
}

static void look_at_pauses(void)
{
	__u64 above;

	for (struct peer *peer = peers; peer < peers + PORTS; peer++) {
		enum rl_turn turn = rl_review(&peer->port, node, 3, 0, 1, &above);

		if (turn == RL_RESUME)
			send_pfc(peer, false);
		else if (group_of(peer)->paused && (!above || above > group_of(peer)->bytes))
			fail("STUCK: a paused group waits for nothing", group_of(peer)->bytes);
	}
}

static void leave(struct queue *queue)
{
	const struct packet *packet = &queue->packets[queue->head++ % LENGTH];

	queue->free_at = now + (packet->len + ON_WIRE) * NS_OF_BYTE;
	rl_release(&peers[packet->from].port, node, 3, packet->len);
	look_at_pauses();
	if (!up_to(400))
		queue->paused_until = now + up_to(20000000);
}

/* A peer sends bursts, to a queue of its choice. */
static void take_a_rest(struct peer *peer)
{
	peer->next = up_to(4) ? peer->next : now + up_to(8000000);
	peer->sends_until = peer->next + 1000000 + up_to(40000000);
	peer->target = up_to(3) ? 0 : up_to(QUEUES);
	peer->share_of_short = up_to(3) ? 0 : up_to(60);
}

static __u64 leaves_at(const struct queue *queue)
{
	if (queue->head == queue->tail)
		return NEVER;
	return queue->free_at > queue->paused_until ? queue->free_at : queue->paused_until;
}

/* The next thing that happens; false when nothing will. */
static bool step(bool goes_on)
{
	__u64 first = NEVER;
	struct peer *peer;
	struct queue *queue;

	for (peer = peers; peer < peers + PORTS; peer++) {
		if (peer->obeys_at && peer->obeys_at < first)
			first = peer->obeys_at;
		if (peer->in_stack && peer->stack[0].at < first)
			first = peer->stack[0].at;
		if (goes_on && !peer->paused && peer->in_stack < IN_STACK && peer->next < first)
			first = peer->next;
	}
	for (queue = queues; queue < queues + QUEUES; queue++)
		if (leaves_at(queue) < first)
			first = leaves_at(queue);
	if (first == NEVER)
		return false;
	if (first > now)
		now = first;
	for (peer = peers; peer < peers + PORTS; peer++) {
		if (peer->obeys_at && peer->obeys_at <= now) {
			peer->paused = peer->is_to_pause;
			peer->obeys_at = 0;
		}
		while (peer->in_stack && peer->stack[0].at <= now)
			charge(peer);
	}
	for (queue = queues; queue < queues + QUEUES; queue++)
		if (leaves_at(queue) <= now)
			leave(queue);
	for (peer = peers; goes_on && peer < peers + PORTS; peer++) {
		if (peer->paused || peer->in_stack == IN_STACK || peer->next > now)
			continue;
		if (now > peer->sends_until)
			take_a_rest(peer);
		else
			arrive(peer);
	}
	return true;
}

static void begin(__u32 headroom)
{
	bool in_step = up_to(2), fixed = !up_to(4);

	for (__u32 i = 0; i < PORTS; i++) {
		struct peer *peer = &peers[i];

		memset(peer, 0, sizeof(*peer));
		rl_find(&peer->port, i + 1);
		memset(peer->port.memory, 0, sizeof(*peer->port.memory));
		*group_of(peer) = (struct rl_group){};
		peer->port.config->pfc_tx = i || up_to(4) ? 1 << 3 : 0;
		for (__u32 j = 0; j < RL_CLASSES; j++)
			peer->port.config->priority_to_group[j] = j;
		peer->port.config->group[3] = (struct rl_group_config){
			.reserved = 2 * LONGEST,
			.xoff = 60000,
			.xon = fixed || up_to(2) ? 30000 : 150000,
			.headroom = headroom,
			.alpha = fixed ? 0 : 256,
			.lossless = 1,
		};
		peer->next = now + (in_step ? 0 : up_to(400000));
		take_a_rest(peer);
	}
	memset(queues, 0, sizeof(queues));
	node = bpf_map_lookup_elem(&nodes, &(__u32){ 0 });
	*node = (struct rl_node){ .pool_bytes = 200000 + up_to(400000) };
}

int main(int count, char **arguments)
{
	unsigned long seeds = strtoul(arguments[1], NULL, 10), first = count > 4 ? strtoul(arguments[4], NULL, 10) : 0;
	__u64 length = strtoull(arguments[2], NULL, 10) * 1000, end;

	for (unsigned long seed = first; seed < first + seeds; seed++) {
		begin_random(seed);
		now = 1000000000;
		begin(strtoul(arguments[3], NULL, 10));
		end = now + length;
		while (now < end && step(true))
			;
		while (step(false))
			;
		for (__u32 i = 0; i < PORTS; i++)
			if (group_of(&peers[i])->bytes || group_of(&peers[i])->headroom || group_of(&peers[i])->paused)
				fail("LEFT in a group:", group_of(&peers[i])->bytes);
		if (node->pool_used)
			fail("LEFT in the pool:", node->pool_used);
	}
	printf("%llu packets, %llu pauses\n", packets, pauses);
	return 0;
}
