// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Listens to the queues of one device from outside: which packet came, was taken, dropped or sent, and when. The queues
 * need not know of it, and it works for every queue discipline: the kernel's core announces each step (tracepoints
 * net:net_dev_queue, qdisc:qdisc_enqueue, qdisc:qdisc_dequeue, skb:kfree_skb; include/trace/events).
 *
 * A packet is known by the address of its sk_buff from the moment it is offered to the queue until it leaves or is
 * freed. That distinguishes the drops of this queue from all others without looking at drop reasons, which differ
 * between kernels: what is freed while it is offered was refused, what is freed while it is queued was dropped by the
 * AQM. A packet that the driver gave back and that is dequeued again is not known any more, and so is not counted
 * twice.
 */
#include "core.h"

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "measure.h"

/* Packets that one dequeue may chain; the kernel bounds a chain by bytes, this by number. */
#define MOST_CHAINED 64

/* The device, and the other one whose packets are captured, 0 for none. Interfaces of different namespaces share
 * numbers. */
const volatile __u32 device = 0;
const volatile __u32 captured_device = 0;
const volatile __u32 net_inode = 0;

/* Records that found the ring full; packets that could not be followed; dequeues of a packet that was given back. */
__u64 lost = 0;
__u64 untracked = 0;
__u64 requeued = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} records SEC(".maps");

/* What is known of a waiting packet: whether it was taken, and the codepoint that it was offered with. Some disciplines
 * mark a packet before the kernel reports that they have taken it. */
#define OFFERED 0
#define QUEUED 1
#define CODEPOINT_SHIFT 8

/* Packets between offer and departure, by the address of their sk_buff. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 17);
	__type(key, __u64);
	__type(value, __u32);
} waiting SEC(".maps");

static __always_inline int is_on(struct sk_buff *skb, __u32 ifindex)
{
	struct net_device *dev = skb->dev;

	return dev && ifindex && (__u32)dev->ifindex == ifindex && dev->nd_net.net->ns.inum == net_inode;
}

static __always_inline __u8 codepoint(struct sk_buff *skb)
{
	__u8 first[2] = {};

	bpf_probe_read_kernel(first, sizeof(first), skb->head + skb->network_header);
	return (first[0] >> 4) == 6 ? (first[1] >> 4) & 3 : first[1] & 3;
}

static __always_inline void describe(struct weir_measured *record, struct sk_buff *skb, __u8 kind, __u8 ecn)
{
	struct skb_shared_info *info = (void *)(skb->head + skb->end);

	record->time = bpf_ktime_get_ns();
	record->id = (__u64)skb;
	record->length = skb->len;
	record->kept = 0;
	record->segments = BPF_CORE_READ(info, gso_segs);
	record->minor = skb->priority & 0xffff;
	record->kind = kind;
	record->ecn = ecn;
	record->reserved = 0;
}

static __always_inline void tell(struct sk_buff *skb, __u8 kind, __u8 ecn)
{
	struct weir_measured *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	__u32 linear = skb->len - skb->data_len;

	if (!record) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	describe(record, skb, kind, ecn);
	/* Always so many bytes, for the verifier's sake. The buffer is longer: skb_shared_info lies behind its end. */
	if (!bpf_probe_read_kernel(record->headers, WEIR_MEASURED_HEADERS, skb->data))
		record->kept = linear < WEIR_MEASURED_HEADERS ? linear : WEIR_MEASURED_HEADERS;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(offered, struct sk_buff *skb)
{
	__u64 key = (__u64)skb;
	__u32 state;

	if (is_on(skb, device)) {
		state = OFFERED | (__u32)codepoint(skb) << CODEPOINT_SHIFT;
		if (bpf_map_update_elem(&waiting, &key, &state, BPF_ANY))
			__sync_fetch_and_add(&untracked, 1);
	} else if (is_on(skb, captured_device)) {
		tell(skb, WEIR_MEASURED_OTHER, codepoint(skb));
	}
	return 0;
}

SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(enqueued, struct Qdisc *qdisc, const struct netdev_queue *txq, struct sk_buff *skb)
{
	__u64 key = (__u64)skb;
	__u32 *state = bpf_map_lookup_elem(&waiting, &key);

	if (!state)
		return 0;
	*state |= QUEUED;
	tell(skb, WEIR_MEASURED_ENQUEUE, *state >> CODEPOINT_SHIFT);
	return 0;
}

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(dequeued, struct Qdisc *qdisc, const struct netdev_queue *txq, int packets, struct sk_buff *skb)
{
	int i;

	if (!skb || !is_on(skb, device))
		return 0;
	for (i = 0; i < MOST_CHAINED; i++) {
		__u64 key = (__u64)skb;

		if (i >= packets || !skb)
			break;
		if (bpf_map_delete_elem(&waiting, &key))
			__sync_fetch_and_add(&requeued, 1);
		else
			tell(skb, WEIR_MEASURED_DEQUEUE, codepoint(skb));
		skb = skb->next;
	}
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(freed, struct sk_buff *skb, void *location)
{
	__u64 key = (__u64)skb;
	__u32 *state = bpf_map_lookup_elem(&waiting, &key);
	__u8 kind, ecn;

	if (!state)
		return 0;
	kind = *state & QUEUED ? WEIR_MEASURED_DROP : WEIR_MEASURED_REFUSE;
	ecn = *state >> CODEPOINT_SHIFT;
	bpf_map_delete_elem(&waiting, &key);
	/* Elsewhere by now: its departure went unheard. */
	if (!is_on(skb, device))
		return 0;
	tell(skb, kind, ecn);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
