// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An emulated port that does nothing: programs on both hooks that let every packet pass, and a qdisc that holds one
 * packet. What it costs is the kernel's price for having a port in eBPF at all.
 */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

struct place {
	struct sk_buff __kptr *skb;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16); /* key: the major number of a port's root qdisc */
	__type(key, __u32);
	__type(value, struct place);
} places SEC(".maps");

SEC("tc")
int port_rx(struct __sk_buff *skb)
{
	return TC_ACT_UNSPEC;
}

SEC("tc")
int port_tx(struct __sk_buff *skb)
{
	return TC_ACT_UNSPEC;
}

SEC("struct_ops/hold")
int BPF_PROG(hold, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	__u32 major = sch->handle >> 16;
	struct place *place = bpf_map_lookup_elem(&places, &major);

	if (place)
		skb = bpf_kptr_xchg(&place->skb, skb);
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
	else
		sch->q.qlen++;
	return NET_XMIT_SUCCESS;
}

SEC("struct_ops/release")
struct sk_buff *BPF_PROG(release, struct Qdisc *sch)
{
	__u32 major = sch->handle >> 16;
	struct sk_buff *skb = NULL;
	struct place *place;

	if (!sch->q.qlen)
		return NULL;
	place = bpf_map_lookup_elem(&places, &major);
	if (place)
		skb = bpf_kptr_xchg(&place->skb, NULL);
	if (skb) {
		sch->q.qlen--;
		bpf_qdisc_bstats_update(sch, skb);
	}
	return skb;
}

SEC("struct_ops/init")
int BPF_PROG(init, struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	return 0;
}

SEC("struct_ops/reset")
void BPF_PROG(reset, struct Qdisc *sch)
{
}

SEC("struct_ops/destroy")
void BPF_PROG(destroy, struct Qdisc *sch)
{
}

SEC(".struct_ops.link")
struct Qdisc_ops port = {
	.enqueue = (void *)hold,
	.dequeue = (void *)release,
	.init = (void *)init,
	.reset = (void *)reset,
	.destroy = (void *)destroy,
	.id = "rl_nothing",
};
