/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The least queueing discipline that the kernel accepts: it drops every packet. That it loads and can be attached
 * shows that this kernel takes disciplines written in BPF.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define NET_XMIT_DROP 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sk_buff {
	__u32 len;
};

struct Qdisc {
	__u32 handle;
};

struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

struct nlattr {
	__u16 nla_len;
};

struct netlink_ext_ack {
	const char *_msg;
};

struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
};

#pragma clang attribute pop

extern void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;

SEC("struct_ops")
int BPF_PROG(probe_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(probe_dequeue, struct Qdisc *sch)
{
	return (void *)0;
}

SEC("struct_ops")
int BPF_PROG(probe_init, struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	return 0;
}

SEC("struct_ops")
void BPF_PROG(probe_reset, struct Qdisc *sch)
{
}

SEC("struct_ops")
void BPF_PROG(probe_destroy, struct Qdisc *sch)
{
}

SEC(".struct_ops.link")
struct Qdisc_ops probe = {
	.enqueue = (void *)probe_enqueue,
	.dequeue = (void *)probe_dequeue,
	.init = (void *)probe_init,
	.reset = (void *)probe_reset,
	.destroy = (void *)probe_destroy,
	.id = "rl_probe",
};

char _license[] SEC("license") = "GPL";
