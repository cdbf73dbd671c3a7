/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the emulated port's programs and user space agree upon: the values of the maps, and nothing else. User space
 * reads all of it, names too, in port.bpf.layout.json, generated from the object's BTF (lab/dataplane/port_layout.py).
 *
 * Units: bytes are those of the frame without its FCS (what the kernel counts), times are nanoseconds of
 * CLOCK_MONOTONIC, rates are bits per second. Every map is an array whose key is a port's id, except where told. The id
 * is the major number of the root qdisc of the port's interface.
 */
#ifndef RL_PORT_H
#define RL_PORT_H

enum rl_size {
	RL_CLASSES = 8, /* priorities, queues and priority groups: as many as a PFC frame has timers */
	RL_DSCPS = 64,
	RL_EVENTS = 65536, /* a power of two */
	RL_NO_PORT = 0x3ffff,
	RL_NODE_WORDS = 64,
	RL_NODE_PORTS = 64 * RL_NODE_WORDS, /* ids that one node may have */
	RL_CONTROL_SLOTS = 64, /* slots of a port that no data take: for PFC frames and a clock's tokens */
	RL_QPS = 65536, /* connected QPs of a fabric */
	RL_ACK_FLOWS = 256, /* queue pairs whose acknowledgements a port follows in each direction */
	RL_LIMITERS = 1024, /* QPs that one NIC can slow down at once */
	RL_ALPHA_ONE = 1 << 26, /* what alpha is in parts of: NVIDIA's ten bits and RL_ALPHA_FRACTION more */
	RL_FRACTION_BITS = 20,
	RL_FRACTION_ONE = 1 << RL_FRACTION_BITS, /* what TIMELY's alpha and beta are in parts of */
	RL_LIMITED = 0x10000, /* in place of an ingress port: of the QP with limiter so many more; ids have 16 bits */
};
#define RL_DROPS_APART 10000000ull /* ns without a drop after which the next is an event again */

/* Why a packet was dropped. */
enum rl_drop {
	RL_DROP_LIMIT, /* the egress queue was at its limit */
	RL_DROP_SHARED, /* lossy: the priority group was at its share of the pool */
	RL_DROP_HEADROOM, /* lossless: the priority group's headroom was full */
	RL_DROP_SLOTS, /* the port held as many packets as it can, whatever their size */
	RL_DROP_WATCHDOG, /* the PFC watchdog drops what a storm holds up */
	RL_DROP_FLUSH, /* the link went down, or the port was taken off, with packets queued */
	RL_DROPS
};

/* What sets the rates of QPs. */
enum rl_cc_algorithm {
	RL_CC_DCQCN,
	RL_CC_TIMELY,
	RL_CC_NONE, /* of a limiter: its NIC no longer has the algorithm that it was started with */
};

/* What the minimum time between two CNPs applies to. */
enum rl_cnp_moderation {
	RL_CNP_PER_QP,
	RL_CNP_PER_DESTINATION, /* the address that the CNP is sent to */
	RL_CNP_PER_PORT,
};

enum rl_event_kind {
	RL_EVENT_XOFF_SENT, /* index: priority group */
	RL_EVENT_XON_SENT,
	RL_EVENT_PAUSED, /* index: priority; value: quanta */
	RL_EVENT_RESUMED,
	RL_EVENT_STORM, /* index: queue; value: bytes held up */
	RL_EVENT_RESTORED,
	RL_EVENT_EXPIRED, /* a pause ran out; index: priority */
	RL_EVENT_GROUP_DROPS, /* dropped for want of room where it came in; index: priority group, value: egress port */
	RL_EVENT_QUEUE_DROPS, /* dropped where it was to leave; index: queue, value: why */
};

struct rl_queue_config {
	__u64 pmax; /* marking probability at kmax, in 1/2^32 */
	__u32 kmin; /* bytes; marking is off when kmax is 0 */
	__u32 kmax;
	__u32 limit; /* bytes at which packets of lossy priorities are dropped; 0: none */
	__u32 weight; /* of DWRR; 0: strict priority, the higher queue first */
};

struct rl_group_config {
	__u32 reserved; /* bytes that are the group's own */
	__u32 xoff; /* static threshold in bytes, where alpha is 0 */
	__u32 xon; /* bytes at which it resumes */
	__u32 headroom; /* bytes for what arrives after XOFF */
	__u32 alpha; /* dynamic threshold: reserved + alpha/256 of what is free of the pool */
	__u32 lossless;
};

/* Congestion control of a NIC: NVIDIA's registers by their names, and TIMELY's parameters by the paper's. */
struct rl_cc_config {
	__u64 min_time_between_cnps; /* ns */
	__u64 rpg_time_reset; /* ns between two increases of the timer */
	__u64 rpg_byte_reset; /* bytes between two increases of the byte counter; 0: there is none */
	__u64 rpg_ai_rate, rpg_hai_rate, rpg_min_rate; /* bit/s */
	__u64 rate_to_set_on_first_cnp; /* bit/s; 0: the rate stays */
	__u64 dce_tcp_rtt; /* ns between two updates of alpha */
	__u64 rate_reduce_monitor_period; /* ns between two looks for CNPs; 0: each CNP cuts */
	__u64 timely_t_low, timely_t_high, timely_min_rtt; /* ns */
	__u64 timely_add_step, timely_initial_rate; /* bit/s; an initial rate of 0 is the line's */
	__u32 timely_alpha, timely_beta; /* of RL_FRACTION_ONE */
	__u32 timely_hai_threshold; /* RTTs in a row without growth from which on steps are ... */
	__u32 timely_hai_factor; /* ... so many times as large */
	__u32 rpg_threshold; /* stages of fast recovery */
	__u32 rpg_gd; /* a cut is rate * alpha / 2^rpg_gd ... */
	__u32 rpg_min_dec_fac; /* ... and leaves so many percent of it at least */
	__u32 dce_tcp_g; /* what an update leaves of alpha, of 1024 */
	__u32 initial_alpha_value; /* of 1024 */
	__u32 nic; /* number of the NIC, among those of all hosts */
	__u8 clamp_tgt_rate; /* every cut sets the target */
	__u8 clamp_tgt_rate_after_time_inc; /* one after an increase by the timer does */
	__u8 react; /* the NIC is a reaction point */
	__u8 notify; /* the NIC is a notification point */
	__u8 moderation; /* enum rl_cnp_moderation */
	__u8 cnp_dscp;
	__u8 cnp_802p_prio; /* PCP of a CNP in a tagged frame */
	__u8 algorithm; /* enum rl_cc_algorithm */
};

struct rl_config {
	__u64 rate; /* of the link; 0: not shaped */
	__u64 delay_ns; /* of the cable, one way */
	__u64 watchdog_detect_ns; /* 0: no watchdog */
	__u64 watchdog_restore_ns;
	__u32 watchdog_forward; /* send through the pause instead of dropping */
	__u32 node; /* key of `nodes` */
	__u32 index; /* of the port's interface, in its namespace */
	__u16 pause_quanta;
	__u8 trust_pcp;
	__u8 pfc_tx; /* priorities that are paused at the peer, one bit each */
	__u8 pfc_rx; /* priorities whose pause is honoured */
	__u8 lossless; /* priorities that are never dropped for a queue's limit */
	__u8 mac[6];
	__u8 dscp_to_priority[RL_DSCPS];
	__u8 pcp_to_priority[RL_CLASSES];
	__u8 priority_to_queue[RL_CLASSES];
	__u8 priority_to_group[RL_CLASSES];
	struct rl_queue_config queue[RL_CLASSES];
	struct rl_group_config group[RL_CLASSES];
	struct rl_cc_config cc;
};

struct rl_priority_counters {
	__u64 rx_packets, rx_bytes, tx_packets, tx_bytes;
	__u64 rx_pause, rx_resume; /* PFC frames that set, or cleared, this priority's timer */
	__u64 rx_pause_ignored; /* ... while pfc_rx says not to */
	__u64 tx_pause, tx_resume;
	__u64 paused_ns; /* up to paused_from; since then it is paused until paused_until */
	__u64 paused_from, paused_until;
};

struct rl_queue_counters {
	__u64 depth_bytes, depth_packets, watermark_bytes;
	__u64 offered_packets, offered_bytes;
	__u64 sent_packets, sent_bytes;
	__u64 ecn_marked, not_ect; /* of those that the curve chose: marked, and not ECN-capable */
	__u64 ecn_failed; /* ... and ECN-capable, but could not be written */
	__u64 drop_packets[RL_DROPS], drop_bytes[RL_DROPS];
	__u64 storms, restored;
};

struct rl_group_counters {
	__u64 bytes, watermark_bytes;
	__u64 headroom_bytes, headroom_watermark_bytes;
	__u64 xoff, xon; /* transitions */
	__u64 drop_packets, drop_bytes;
};

struct rl_counters {
	struct rl_priority_counters priority[RL_CLASSES];
	struct rl_queue_counters queue[RL_CLASSES];
	struct rl_group_counters group[RL_CLASSES];
	__u64 rx_pfc, rx_pfc_invalid, rx_global_pause;
	__u64 tx_pfc, tx_pfc_bytes;
	__u64 tx_pfc_failed; /* frames that could not be made for want of memory */
	__u64 other_packets; /* of the clock on `lo`: what is not its token */
	__u64 late_ns; /* how late the shaper woke at most: the emulation's own error */
	__u64 rx_cnp; /* RoCEv2 congestion notifications that came in */
	__u64 rx_ack_out_of_order; /* acknowledgements that came in after a newer one of the same queue pair */
	__u64 tx_ack_out_of_order; /* ... that were sent after it */
	__u64 np_ecn_marked_roce_packets; /* CE-marked RoCEv2 packets that came in, where the NIC is a notification point */
	__u64 np_cnp_sent;
	__u64 np_cnp_suppressed; /* CNPs not sent because the last one was too recent */
	__u64 np_cnp_no_qp; /* ... because the marked packet belongs to no connected QP */
	__u64 np_cnp_failed; /* ... for want of memory */
	__u64 rp_cnp_handled; /* CNPs that came in for a QP of this NIC, which obeys them */
	__u64 rp_cnp_ignored; /* ... for no QP of this NIC, or one that cannot be limited */
	__u64 rp_cnp_failed; /* ... that could not be handed to the qdisc, for want of memory */
	__u64 rp_cnp_icrc_error; /* ... whose ICRC is wrong: forged or damaged, and not obeyed */
	__u64 rp_rtt_handled; /* RTTs that a QP's rate was set by */
	__u64 rp_rtt_ignored; /* acknowledgements for no QP of this NIC, or one that cannot be limited */
	__u64 rp_rtt_failed; /* RTTs that could not be handed to the qdisc, for want of memory */
};

/* One switch or host: the buffer that its ports share, and the clock that ends and refreshes its pauses. */
struct rl_node {
	__u64 pool_bytes; /* what groups share: all buffer but reserves and headroom */
	__u64 pool_used, pool_watermark;
	__u64 drain_rate; /* sum of its ports' rates: a group cannot drain faster */
	__u64 tick_at; /* when the clock's token is due */
	__u64 ticks;
	__u64 revived; /* times that the token was lost, and another put in its place */
	__u64 busy; /* words of busy_ports with a bit, one bit each */
	__u64 busy_ports[RL_NODE_WORDS]; /* ports with a priority group in XOFF, one bit each: those that a tick looks at */
	__u32 paused; /* priority groups in XOFF */
	__u32 ticking; /* whether the clock's token is under way */
	__u32 generation; /* of the token */
	__u32 first_port; /* ids are dealt out node by node; the first is the clock, those of a host's NICs follow */
	__u32 nics; /* of a host; 0: it is a switch */
	__u32 first_nic; /* number of the first of them */
	__u32 limiters; /* that have been given to QPs so far; beyond RL_LIMITERS from the first on again */
};

struct rl_event {
	__u64 ns;
	__u64 value;
	__u32 port;
	__u16 kind;
	__u16 index;
	__u64 sequence; /* number of the event from 1 on; written last, when all else is in place */
};

#endif
