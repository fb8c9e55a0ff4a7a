// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Congestion-responsive queuing on a live interface: `forward` stands before the queue, runs the responsiveness law on
 * every packet and chooses one of two HTB classes for it; `reverse` sees the other direction; `redirect` hands received
 * packets to the device that queues them. crq_signals.bpf.c books what the queues then drop or mark.
 *
 * Thin glue: parser, law and flow table are packet.h, law.h and table.h, the same lines that run natively. Here are
 * only the kernel's maps, the lock of a bucket, the clock and the fields of the sk_buff.
 *
 * What nearly every packet goes through is inline and calls nothing, helpers least of all: under the usual mitigations
 * a return costs more than most of what a function here would do (README.md).
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

typedef unsigned long long nanoseconds;

/* For weir_table_forward(), where a cycle ends. */
static inline __attribute__((always_inline)) nanoseconds exact_now(nanoseconds coarse);
#define WEIR_EXACT_NOW(coarse) exact_now(coarse)

/* For weir_parse() and weir_glance(): of TCP's options the law knows SACK and timestamps, and these in some settings. */
static inline __attribute__((always_inline)) int reads_tcp_options(void);
#define WEIR_READ_TCP_OPTIONS reads_tcp_options()

#include "crq_maps.h"
#include "fast_path.h"

/* Bytes that a datagram with a long header is made linear for: several packets can share it. */
#define COALESCED_BYTES 2048

static __always_inline int reads_tcp_options(void)
{
	return config.law.sack_completes_half | config.law.timestamp_cycles;
}

/*
 * A cycle's borders need the exact time, all else a clock that the kernel's tick moves on. Both count alike
 * (CLOCK_MONOTONIC). Even the latter is asked for once a tick and processor: the number of ticks is read in place, the
 * clock by a call, which where returns are guarded costs as much as half of the rest. The kernel counts a tick before
 * it moves the clock on, so the time can lag by a second tick. A test's clock is never remembered, and so asked each
 * time.
 */
static __always_inline u64 coarse_now(const struct __sk_buff *skb, struct weir_clock *clock)
{
	u64 ticks = bpf_jiffies64(), now;

	if (__builtin_expect(clock->ticks != ticks, 0)) {
		if (config.test_clock) {
			now = skb->tstamp;
			/* Otherwise both branches end in one load, and the verifier cannot know whether it reads the context. */
			asm volatile("" : "+r"(now));
		} else {
			clock->ticks = ticks;
			now = bpf_ktime_get_coarse_ns();
		}
		clock->now = now;
	}
	return clock->now;
}

static __always_inline nanoseconds exact_now(nanoseconds coarse)
{
	return config.test_clock ? coarse : bpf_ktime_get_ns();
}

/* Reads the packet's headers. Not inline: the verifier looks at such a function once and by itself, whatever it is
 * called with, and follows what comes behind once and not for each way through the headers. */
__attribute__((noinline)) int parse(struct __sk_buff *skb, struct weir_packet *packet)
{
	if (!packet)
		return 0;
	weir_parse((const u8 *)(long)skb->data, (const u8 *)(long)skb->data_end, skb->len, config.start, packet);
	return 0;
}

/* How many bytes have to be linear for a parse that finds more than this one did, or 0. */
static __always_inline u32 missing(const struct __sk_buff *skb, const struct weir_packet *packet)
{
	u32 linear = (u32)(skb->data_end - skb->data), want = 0;

	if (linear >= skb->len)
		return 0;
	if (packet->kind == WEIR_TRUNCATED)
		want = linear + 128;
	else if (packet->kind == WEIR_UDP && packet->payload_bytes && linear < packet->l4_offset + 9u)
		want = packet->l4_offset + 9u; /* the octet with QUIC's fixed bit; drivers often leave it in a page */
	else if (packet->quic_flags & WEIR_QUIC_LONG)
		want = COALESCED_BYTES;
	if (want > skb->len)
		want = skb->len;
	return want > linear ? want : 0;
}

/* How often a bucket that another processor holds is looked at again before the packet goes on without its flow. Nobody
 * holds one for longer than a packet takes, except where the kernel or a hypervisor takes the processor away
 * meanwhile. */
#define PATIENCE 512

/* Takes a bucket: even to odd. One branch and one way back, or clang lays the loop out in an order that the verifiers
 * before 6.3 refuse. */
static __always_inline u32 take(struct weir_bucket *bucket)
{
	u32 tries = PATIENCE, even;

	do {
		even = *(volatile u32 *)&bucket->version & ~1u;
		if (__sync_val_compare_and_swap(&bucket->version, even, even + 1) == even)
			return 1;
	} while (--tries);
	return 0;
}

/* Gives it back. Nobody else writes an odd version, so on a machine whose stores keep their order one store does;
 * elsewhere only the form of the addition that returns something is ordered. */
static __always_inline void give_back(struct weir_bucket *bucket)
{
#ifdef __TARGET_ARCH_x86
	volatile u32 *version = &bucket->version;

	asm volatile("" : : : "memory");
	*version = *version + 1;
#else
	u32 before = __sync_fetch_and_add(&bucket->version, 1);

	asm volatile("" : : "r"(before));
#endif
}

/* What a packet of either direction needs first. Returns 0 for one that no flow of the table can have. */
static __always_inline u32 know(struct __sk_buff *skb, struct weir_packet *packet, struct weir_counters *count,
				u32 reverse)
{
	u32 want;

	parse(skb, packet);
	/* Headers are linear nearly always, and for local TCP they have to be: pulling would copy what a clone shares. */
	want = missing(skb, packet);
	if (want && !bpf_skb_pull_data(skb, want))
		parse(skb, packet);
	weir_count(count, packet, skb->len);
	return weir_table_wants(SETTING(law), packet, reverse);
}

/* Where a flow's entry is looked for: its key and what that leads to. */
struct place {
	struct weir_key key;
	u32 hash;
	u32 ascending;
	struct weir_bucket *bucket;
	struct weir_waiting *line;
	struct weir_filter *filter;
};

/* The packet's place with its bucket taken. Returns 0 where it is of no flow for sure, and where the bucket stays taken
 * by another for too long. */
static __always_inline u32 find(struct place *place, const struct weir_packet *packet, struct weir_counters *count)
{
	u32 index = 0;

	place->filter = bpf_map_lookup_elem(&filter, &index);
	if (!place->filter || !weir_filter_passes(place->filter, packet))
		return 0;
	place->ascending = weir_key_of(packet, SETTING(law)->key_has_protocol, &place->key);
	place->hash = weir_hash(SETTING(table), &place->key);
	index = weir_bucket_of(SETTING(table), place->hash);
	place->bucket = bpf_map_lookup_elem(&flows, &index);
	if (!place->bucket || !weir_may_be_known(place->bucket, packet, place->hash))
		return 0;
	index = weir_waiting_of(SETTING(table), place->hash);
	place->line = bpf_map_lookup_elem(&waiting, &index);
	if (!place->line)
		return 0;
	if (take(place->bucket))
		return 1;
	__sync_fetch_and_add(&place->bucket->contended, 1);
	count->contended++;
	return 0;
}

static __always_inline void tell(const struct weir_key *key, u32 ascending, const struct weir_outcome *outcome)
{
	struct weir_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return;
	event->time = outcome->end.ended;
	event->key = *key;
	event->ascending = ascending;
	event->reserved = 0;
	event->outcome = *outcome;
	bpf_ringbuf_submit(event, 0);
}

/* Runs the law on a forward packet. Returns its queue in the lowest bit and above it its cycle. */
static __always_inline u64 judge(struct __sk_buff *skb, const struct weir_packet *packet, struct weir_local *local)
{
	struct weir_counters *count = &local->counters;
	struct weir_outcome outcome;
	struct place place;

	if (!find(&place, packet, count))
		return WEIR_STANDARD_QUEUE;
	weir_table_forward(SETTING(law), SETTING(table), place.bucket, place.line, place.filter, packet, &place.key,
			   place.hash, place.ascending, coarse_now(skb, &local->clock), count, &outcome);
	give_back(place.bucket);
	if (config.emit_events && outcome.ended)
		tell(&place.key, place.ascending, &outcome);
	return (u64)outcome.cycle << 1 | (outcome.choice & 1);
}

/* Runs the law on a packet of the other direction. */
static __always_inline void note(struct __sk_buff *skb, const struct weir_packet *packet, struct weir_local *local)
{
	struct weir_counters *count = &local->counters;
	struct place place;

	if (!find(&place, packet, count))
		return;
	weir_table_reverse(SETTING(law), SETTING(table), place.bucket, place.line, place.filter, packet, &place.key,
			   place.hash, place.ascending, coarse_now(skb, &local->clock), count);
	give_back(place.bucket);
}

/* Sends a forward packet to the class that was chosen for it. */
static __always_inline void send(struct __sk_buff *skb, struct weir_local *local, u32 ecn, u32 cycle, u32 choice)
{
	/* Of the four codepoints only CE, 3, has a successor with this bit. */
	u32 stamp = (cycle & WEIR_STAMP_CYCLE) | ((ecn + 1) & 4) * (WEIR_STAMP_ARRIVED_CE / 4);

	_Static_assert(WEIR_STANDARD_MINOR - WEIR_STANDARD_QUEUE == WEIR_STANDARD_MINOR &&
			       WEIR_STANDARD_MINOR - WEIR_RESPONSIVE_QUEUE == WEIR_RESPONSIVE_MINOR,
		       "minors go down as choices go up");
	weir_count_choice(&local->counters, choice, skb->len);
	skb->tc_index = stamp;
	skb->priority = ((u32)config.major << 16 | WEIR_STANDARD_MINOR) - (choice & 1);
}

/* A packet of either direction, and who deals with it. */
struct arrival {
	struct __sk_buff *skb;
	struct weir_local *local;
	u32 reverse;
};

/* Runs the law on a packet of an entry that nothing rare befalls (fast_path.h), or returns 0. */
static __always_inline u32 judge_fast(const struct arrival *arrival, const struct weir_packet *packet, u32 *cycle,
				      u32 *choice)
{
	/* One register for both. */
	const struct weir_crq_config *settings = SETTINGS;
	struct weir_bucket *bucket;
	struct weir_key key;
	struct weir_seat seat;
	u32 hash, index, tick, even, found, done;

	if (!weir_fast_key(&settings->table, packet, &key, &hash))
		return 0;
	index = weir_bucket_of(&settings->table, hash);
	bucket = bpf_map_lookup_elem(&flows, &index);
	if (!bucket || !weir_fast_seat(bucket, &key, hash, &seat))
		return 0;
	tick = (u32)(coarse_now(arrival->skb, &arrival->local->clock) >> WEIR_TICK_SHIFT);
	even = *(volatile u32 *)&bucket->version & ~1u;
	found = __sync_val_compare_and_swap(&bucket->version, even, even + 1);
	/* Or what is to be returned is made up first, and looked at again behind. */
	asm volatile("" : "+r"(found));
	if (found != even)
		return 0;
	if (arrival->reverse)
		done = weir_fast_reverse(&settings->law, &settings->table, &seat, packet, &key, tick);
	else
		done = weir_fast_forward(&settings->law, &settings->table, &seat, packet, &key, tick, cycle, choice);
	give_back(bucket);
	if (!done)
		return 0;
	return 1;
}

static __always_inline u32 deal_fast(const struct weir_packet *packet, void *with)
{
	const struct arrival *arrival = with;
	struct weir_local *local = arrival->local;
	u32 zero = 0, cycle = 0, choice = WEIR_STANDARD_QUEUE;
	u32 judged = packet->kind == WEIR_TCP || packet->kind == WEIR_QUIC;

	if (packet->kind == WEIR_UDP) {
		struct weir_filter *ports = bpf_map_lookup_elem(&filter, &zero);

		if (!ports)
			return 0;
		judged = weir_filter_passes(ports, packet);
	}
	if (judged) {
		if (!judge_fast(arrival, packet, &cycle, &choice))
			return 0;
		/* Or all that follows from it becomes branches. */
		asm volatile("" : "+r"(choice));
	}
	weir_count(&local->counters, packet, arrival->skb->len);
	if (!arrival->reverse)
		send(arrival->skb, local, packet->ecn, cycle, choice);
	return 1;
}

/* Handles a packet of the usual kind that fast_path.h describes; returns 0 for any other. */
static __always_inline u32 is_fast(struct __sk_buff *skb, struct weir_local *local, u32 reverse)
{
	struct arrival arrival = { .skb = skb, .local = local, .reverse = reverse };
	struct weir_packet packet;

	return config.fast && weir_glance((const u8 *)(long)skb->data, (const u8 *)(long)skb->data_end, skb->len,
					  config.start, &packet, deal_fast, &arrival);
}

SEC("tc")
int forward(struct __sk_buff *skb)
{
	u32 zero = 0;
	u64 judged = WEIR_STANDARD_QUEUE;
	struct weir_local *local = bpf_map_lookup_elem(&counters, &zero);

	if (!local || is_fast(skb, local, 0))
		return TC_ACT_UNSPEC;
	if (know(skb, &local->packet, &local->counters, 0))
		judged = judge(skb, &local->packet, local);
	send(skb, local, local->packet.ecn, (u32)(judged >> 1), judged & 1);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int reverse(struct __sk_buff *skb)
{
	u32 zero = 0;
	struct weir_local *local = bpf_map_lookup_elem(&counters, &zero);

	if (local && !is_fast(skb, local, 1) && know(skb, &local->packet, &local->counters, 1))
		note(skb, &local->packet, local);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int redirect(struct __sk_buff *skb __attribute__((unused)))
{
	return (int)bpf_redirect(config.redirect_to, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
