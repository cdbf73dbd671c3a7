/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's types and functions that the port uses, as much of each as it touches.
 *
 * They are relocated against the running kernel's BTF when the object is loaded (CO-RE), so that one object serves
 * every kernel that takes them and no header of 5 MB has to be made from the target first.
 */
#ifndef RL_KERNEL_H
#define RL_KERNEL_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/types.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define NULL ((void *)0)
#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sk_buff {
	struct net_device *dev;
	__u32 len;
	__u32 mark;
	char cb[48];
};

struct qdisc_skb_cb {
	struct {
		__u32 pkt_len;
	};
	unsigned char data[20]; /* what a tc program has in __sk_buff.cb */
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct gnet_stats_queue {
	__u32 qlen;
	__u32 backlog;
	__u32 drops;
};

struct ns_common {
	__u32 inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	struct Qdisc *qdisc;
	possible_net_t nd_net;
};

struct netdev_queue {
	struct net_device *dev;
};

struct Qdisc {
	__u32 limit;
	__u32 handle;
	struct netdev_queue *dev_queue;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct nlattr {
	__u16 nla_len;
};

struct netlink_ext_ack {
	const char *_msg;
};

struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *, struct Qdisc *, struct sk_buff **);
	struct sk_buff *(*dequeue)(struct Qdisc *);
	int (*init)(struct Qdisc *, struct nlattr *, struct netlink_ext_ack *);
	void (*reset)(struct Qdisc *);
	void (*destroy)(struct Qdisc *);
};

#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *context) __ksym;
extern void bpf_kfree_skb(struct sk_buff *skb) __ksym;
extern void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym;
extern void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;
extern void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, __u64 expire, __u64 delta_ns) __ksym;

/* 1 for a word that is not 0, else 0. The instruction set has this only as a branch: eight in a row, whose outcomes meet
 * in one word, are 256 states for the verifier. So the compiler must not see that it is a comparison. */
static __always_inline __u64 rl_any(__u64 word)
{
	__u64 sign = word | -word;

	__asm__ volatile("" : "+r"(sign));
	return sign >> 63;
}

/* The number of the only bit of an octet: each puts three other bits of a de Bruijn sequence to the top. */
static __always_inline __u32 rl_bit_of(__u32 octet)
{
	return 0x56374210 >> ((octet * 0x17 >> 5 & 7) * 4) & 7;
}

/* 1 when the moment `at` is not after `now`, else 0, and no branch as above. */
static __always_inline __u64 rl_has_come(__u64 at, __u64 now)
{
	__u64 left = now - at;

	__asm__ volatile("" : "+r"(left));
	return left >> 63 ^ 1;
}

/*
 * True; the condition of a loop that the verifier must not follow turn by turn, at the cost of three instructions a turn
 * (`may_goto`, Linux 6.9). A call of a function may turn 65,535 times before the kernel looks at its clock, and a loop of
 * more could be ended after 250 ms (Linux 6.15), as if this were false. So every loop must have a smaller bound of its own.
 */
#define rl_may_loop()                                                                                                 \
	({                                                                                                            \
		__label__ ends, goes_on;                                                                              \
		bool may = true;                                                                                      \
                                                                                                                      \
		__asm__ goto("1: .byte 0xe5, 0; .long ((%l[ends] - 1b - 8) / 8) & 0xffff; .short 0" ::::ends);        \
		goto goes_on;                                                                                         \
	ends:                                                                                                         \
		may = false;                                                                                          \
	goes_on:                                                                                                      \
		may;                                                                                                  \
	})

/* All bits as `bit` is. */
static __always_inline __u64 rl_ones(__u64 bit)
{
	__u64 ones = -bit;

	__asm__ volatile("" : "+r"(ones));
	return ones;
}

#endif
