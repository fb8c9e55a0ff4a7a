// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Books the congestion signals that the queue disciplines of one device give: packets that they drop (skb:kfree_skb)
 * and packets that leave with CE but came without it (qdisc:qdisc_dequeue). A packet carries the cycle it came in as
 * its stamp (crq.bpf.c); signals wait in the mailbox of the flow's entry until its next packet, since programs on
 * tracepoints may take no lock.
 *
 * The packet is read from the first bytes of the sk_buff, the same that the classifier saw.
 */
#define WEIR_FROM_BUFFER 256
#define WEIR_READ_TCP_OPTIONS 0

#define WEIR_NO_JUDGE

#include "core.h"
#include "crq_maps.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* Longest single read of the parser beyond WEIR_FROM_BUFFER. */
#define LONGEST_READ 64

/* Packets that one dequeue may chain behind the first. The kernel bounds them by bytes (net/sched/sch_generic.c). */
#define MOST_CHAINED 1024

struct headers {
	u8 bytes[WEIR_FROM_BUFFER + LONGEST_READ];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct headers);
} buffer SEC(".maps");

/* How far the queue's count of packets that the driver gave back has been followed. */
struct requeued {
	u32 known;
	u32 requeues;
	u32 held;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct requeued);
} returned SEC(".maps");

/* Parses the first `length` bytes of a packet, which are in the buffer. A function of its own to the verifier. */
__attribute__((noinline)) int parse(struct weir_packet *packet, u32 length, u32 frame_bytes)
{
	u32 zero = 0;
	const struct headers *headers = bpf_map_lookup_elem(&buffer, &zero);

	if (!packet || !headers)
		return 0;
	weir_parse(headers->bytes, headers->bytes + length, frame_bytes, config.start, packet);
	return 0;
}

/* Books one signal of a packet whose first `length` bytes are in the buffer. */
static __always_inline void book(u32 length, u32 frame_bytes, u32 kind, u32 stamp, u32 segment_bytes, u32 segments)
{
	const struct weir_law_params *law = SETTING(law);
	struct weir_packet packet = {};
	struct weir_key key;
	struct weir_bucket *bucket;
	struct weir_counters *count;
	struct weir_local *local;
	u32 index = 0, way = WEIR_WAYS;
	u32 hash;

	local = bpf_map_lookup_elem(&counters, &index);
	if (!local)
		return;
	count = &local->counters;
	parse(&packet, length, frame_bytes);
	/* A super-packet from elsewhere can come without its number of segments (SKB_GSO_DODGY). */
	if (!segments)
		segments = segment_bytes ? (packet.payload_bytes + segment_bytes - 1) / segment_bytes : 1;
	if (!segments)
		segments = 1;
	weir_count_signal(count, kind, segments);
	if (weir_table_wants(law, &packet, 1)) {
		weir_key_of(&packet, law->key_has_protocol, &key);
		hash = weir_hash(SETTING(table), &key);
		index = weir_bucket_of(SETTING(table), hash);
		bucket = bpf_map_lookup_elem(&flows, &index);
		if (!bucket)
			return;
		/* Without the bucket's lock: at worst a flow that takes over the place just now gets one signal too many. */
		way = weir_way_of(bucket, &key, weir_tag_of(hash));
		if (way < WEIR_WAYS)
			weir_book(law, &bucket->way[way & (WEIR_WAYS - 1)], kind, stamp & WEIR_STAMP_CYCLE,
				  weir_law_weight(law, segments), count);
	}
	if (way == WEIR_WAYS)
		count->unowned_signals++;
}

__attribute__((noinline)) int book_skb(u64 address, u32 kind)
{
	const struct sk_buff *skb = (const struct sk_buff *)address;
	const struct skb_shared_info *shared;
	struct headers *headers;
	u32 zero = 0, length, frame_bytes;

	headers = bpf_map_lookup_elem(&buffer, &zero);
	if (!headers)
		return 0;
	frame_bytes = BPF_CORE_READ(skb, len);
	length = frame_bytes - BPF_CORE_READ(skb, data_len);
	if (length > WEIR_FROM_BUFFER)
		length = WEIR_FROM_BUFFER;
	if (bpf_probe_read_kernel(headers->bytes, length, BPF_CORE_READ(skb, data)))
		length = 0;
	shared = (const struct skb_shared_info *)(BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, end));
	book(length, frame_bytes, kind, BPF_CORE_READ(skb, tc_index), BPF_CORE_READ(shared, gso_size),
	     BPF_CORE_READ(shared, gso_segs));
	return 0;
}

static __always_inline u32 is_ours(const struct net_device *device)
{
	return device && (u32)device->ifindex == config.ifindex && device->nd_net.net->ns.inum == config.netns;
}

/*
 * Frees what the disciplines have put on a list of drops, each packet for the reason in its control buffer (since 7.0,
 * net/sched/sch_generic.c). tbf cuts super-packets up, which writes over that place: its drops of segments come without
 * a reason, but from here.
 */
extern const void __tcf_kfree_skb_list __ksym __weak;

/* More than the bytes of that function. */
#define FREES_LIST_BYTES 512

enum skb_drop_reason___named { SKB_DROP_REASON_NOT_SPECIFIED = 2 };

static __always_inline u32 comes_from_list(u64 reason, u64 location)
{
	return reason == bpf_core_enum_value(enum skb_drop_reason___named, SKB_DROP_REASON_NOT_SPECIFIED) &&
	       &__tcf_kfree_skb_list && location - (u64)&__tcf_kfree_skb_list < FREES_LIST_BYTES;
}

static __always_inline u32 is_a_queues(u64 reason)
{
	if (reason < sizeof(config.reasons))
		return config.reasons[reason];
	if (reason >> 16 == config.reason_subsystem && (reason & 0xffff) < sizeof(config.reasons_of_subsystem))
		return config.reasons_of_subsystem[reason & 0xffff];
	return 0;
}

/* include/trace/events/skb.h: kfree_skb(skb, location, reason), since 6.11 with the receiving socket behind. */
SEC("tp_btf/kfree_skb")
int lost(u64 *context)
{
	const struct sk_buff *skb = (const struct sk_buff *)context[0];
	u64 address = 0;
	u64 reason = (u32)context[2];

	/* In one register of 64 bits, or verifiers do not see that it is compared before it is an index. */
	barrier_var(reason);
	if (!is_a_queues(reason) && !comes_from_list(reason, context[1]))
		return 0;
	if (skb->priority >> 16 != config.major || !is_ours(skb->dev))
		return 0;
	/* The verifier hands numbers, not the kernel's pointers, to a function of its own. */
	bpf_probe_read_kernel(&address, sizeof(address), &context[0]);
	book_skb(address, WEIR_LOSS);
	return 0;
}

/* Books a packet that leaves if it was marked here, and returns the one behind it. */
__attribute__((noinline)) u64 look_at(u64 address)
{
	const struct sk_buff *skb = (const struct sk_buff *)address;
	u64 next = (u64)BPF_CORE_READ(skb, next);
	u8 start[2];

	if (BPF_CORE_READ(skb, priority) >> 16 != config.major ||
	    (BPF_CORE_READ(skb, tc_index) & WEIR_STAMP_ARRIVED_CE))
		return next;
	/* Where the queue disciplines set CE (include/net/inet_ecn.h, INET_ECN_set_ce). */
	if (bpf_probe_read_kernel(start, sizeof(start),
				  BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, network_header)))
		return next;
	if ((start[0] >> 4 == 4 && (start[1] & 0x03) == 0x03) || (start[0] >> 4 == 6 && (start[1] & 0x30) == 0x30))
		book_skb(address, WEIR_MARK);
	return next;
}

/*
 * What the driver did not take is queued in front (dev_requeue_skb) and dequeued again, before anything else and one by
 * one. Each such packet moved the queue's count of requeues by one. Returns 1 for a packet that was here before.
 */
static __always_inline u32 came_back(const struct Qdisc *qdisc)
{
	u32 zero = 0, moved, back;
	struct requeued *state = bpf_map_lookup_elem(&returned, &zero);

	if (!state)
		return 0;
	moved = qdisc->qstats.requeues - state->requeues;
	back = state->known && state->held + moved != 0;
	state->known = 1;
	state->requeues += moved;
	state->held = qdisc->gso_skb.qlen;
	return back;
}

/* include/trace/events/qdisc.h: qdisc_dequeue(qdisc, txq, packets, skb); the skb is the first of a chain, or null. */
SEC("tp_btf/qdisc_dequeue")
int left(u64 *context)
{
	const struct Qdisc *qdisc = (const struct Qdisc *)context[0];
	const struct netdev_queue *queue = (const struct netdev_queue *)context[1];
	const struct sk_buff *skb = (const struct sk_buff *)context[3];
	u32 packets = (u32)context[2], i;
	u64 address = 0;

	if (!skb || !is_ours(queue->dev) || came_back(qdisc))
		return 0;
	bpf_probe_read_kernel(&address, sizeof(address), &context[3]);
	for (i = 0; i < MOST_CHAINED && i < packets && address; i++)
		address = look_at(address);
	return 0;
}

/* For tests (BPF_PROG_TEST_RUN): books the packet at hand. skb->mark holds the stamp, in its upper half the kind. */
SEC("tc")
int told(struct __sk_buff *skb)
{
	struct headers *headers;
	u32 zero = 0, length = skb->len;

	headers = bpf_map_lookup_elem(&buffer, &zero);
	if (!headers)
		return -1;
	if (length > WEIR_FROM_BUFFER)
		length = WEIR_FROM_BUFFER;
	length = ((length - 1) & (WEIR_FROM_BUFFER - 1)) + 1; /* for the verifier: not nothing */
	if (bpf_skb_load_bytes(skb, 0, headers->bytes, length))
		return -1;
	book(length, skb->len, skb->mark >> 16 & 1, skb->mark & 0xffff, skb->gso_size, skb->gso_segs);
	return -1;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
