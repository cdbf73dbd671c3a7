/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What tests/vm/kernel/test_bpf.py and test_tc.py load: a program that counts and obeys a map, and a qdisc that drops. */
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

const volatile __u64 step = 1;
const volatile __u32 role = 0;

/* 12 bytes, which the kernel lays out every 16. */
struct order {
	__u32 verdict;
	__u32 seen;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct order);
} orders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} dropped SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} hidden SEC(".maps");

SEC("tc")
int obey(struct __sk_buff *skb)
{
	__u32 key = role;
	struct order *order = bpf_map_lookup_elem(&orders, &key);

	if (!order)
		return -1;
	__sync_fetch_and_add(&order->seen, 1);
	return order->verdict;
}

SEC("struct_ops")
int BPF_PROG(sample_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&dropped, &zero);

	if (count)
		__sync_fetch_and_add(count, step);
	bpf_map_lookup_elem(&hidden, &zero);
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(sample_dequeue, struct Qdisc *sch)
{
	return (void *)0;
}

SEC("struct_ops")
int BPF_PROG(sample_init, struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	return 0;
}

SEC("struct_ops")
void BPF_PROG(sample_reset, struct Qdisc *sch)
{
}

SEC("struct_ops")
void BPF_PROG(sample_destroy, struct Qdisc *sch)
{
}

SEC(".struct_ops.link")
struct Qdisc_ops drop_all = {
	.enqueue = (void *)sample_enqueue,
	.dequeue = (void *)sample_dequeue,
	.init = (void *)sample_init,
	.reset = (void *)sample_reset,
	.destroy = (void *)sample_destroy,
	.id = "rl_sample",
};

char _license[] SEC("license") = "GPL";
