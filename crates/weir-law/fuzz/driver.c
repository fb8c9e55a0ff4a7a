/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hostile input for bpf/packet.h, bpf/law.h, bpf/table.h and bpf/fast_path.h, built with the address and undefined-behaviour sanitizers by
 * tests/hostile.rs. Deterministic: `driver PACKETS SEED`. Each round mutates a valid frame, parses it from a heap block of
 * exactly its length, so that one byte read too far is caught, and drives the law with what was read and with a packet of
 * random fields; every other round that packet also goes through a flow table of few places and short times. The fast path has to do
 * what the whole one does or nothing. Prints one line of counts, which the test checks so that no case goes untried unnoticed.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fast_path.h"

#define FLOWS 16
#define SETTINGS 8
#define MAX_FRAME 400

static u64 state[4];

static u64 turned(u64 value, int by)
{
	return (value << by) | (value >> (64 - by));
}

/* xoshiro256** (Blackman and Vigna), seeded by splitmix64. */
static u64 draw(void)
{
	u64 result = turned(state[1] * 5, 7) * 9, shifted = state[1] << 17;

	state[2] ^= state[0];
	state[3] ^= state[1];
	state[1] ^= state[2];
	state[0] ^= state[3];
	state[2] ^= shifted;
	state[3] = turned(state[3], 45);
	return result;
}

static void seed(u64 value)
{
	int i;

	for (i = 0; i < 4; i++) {
		u64 z = value += 0x9e3779b97f4a7c15ull;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
		state[i] = z ^ (z >> 31);
	}
}

static u32 below(u32 limit)
{
	return (u32)((draw() >> 32) * limit >> 32);
}

static void fail(const char *what)
{
	fprintf(stderr, "broken: %s\n", what);
	exit(1);
}

static u32 put16(u8 *at, u32 value)
{
	at[0] = (u8)(value >> 8);
	at[1] = (u8)value;
	return 2;
}

/* A valid frame of a random shape; returns its length. */
static u32 make_frame(u8 *out, u32 start)
{
	static const u8 options[] = { 1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 5, 1, 1, 5, 18, 0, 0, 1, 0,
				      0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0 };
	u8 body[256];
	u32 length = 0, at = 0, i, extra, chain, payload, ip;
	u32 tcp = below(2), v6 = below(3) == 0;

	memset(out, 0, MAX_FRAME);
	memset(body, 0, sizeof(body));
	put16(body, 443);
	put16(body + 2, 50000);
	if (tcp) {
		/* None, lone timestamps, or all. */
		extra = below(3) * 12;
		extra = extra > 12 ? sizeof(options) : extra;
		for (i = 4; i < 12; i++)
			body[i] = (u8)draw();
		body[12] = (u8)((20 + extra) / 4 << 4);
		body[13] = 0x10 | (below(8) ? 0 : (u8)draw());
		memcpy(body + 20, options, extra);
		length = 20 + extra + below(100);
	} else {
		length = 8;
		for (i = below(4); i; i--) {
			u32 type = below(4), version = below(8) ? below(2) : 2;

			body[length++] = (u8)(0xc0 | type << 4);
			length += put16(body + length, version == 0 ? 0x6b33 : 0);
			length += put16(body + length, version == 0 ? 0x43cf : version == 1 ? 1 : 0xface);
			body[length++] = 4;
			length += 4;
			body[length++] = 3;
			length += 3;
			if (type == (version == 0 ? 1 : 0))
				length += 1; /* empty token */
			payload = below(24);
			length += put16(body + length, 0x4000 | payload);
			length += payload;
		}
		if (below(4))
			body[length] = (u8)(0x40 | below(64));
		length += 1 + below(40);
		put16(body + 4, length);
	}
	if (start == WEIR_START_ETHERNET) {
		at = 12;
		for (i = below(3); i; i--) {
			at += put16(out + at, below(2) ? 0x8100 : 0x88a8);
			at += put16(out + at, below(4096));
		}
		if (below(4) == 0) {
			at += put16(out + at, 0x8864);
			at += put16(out + at, 0x1100);
			at += 4;
			at += put16(out + at, v6 ? 0x0057 : 0x0021);
		} else {
			at += put16(out + at, v6 ? 0x86dd : 0x0800);
		}
	}
	ip = at;
	if (v6) {
		static const u8 kinds[] = { 0, 43, 44, 60 };
		u8 *next = out + ip + 6;

		out[ip] = 0x60;
		out[ip + 1] = (u8)draw();
		at += 40;
		for (chain = below(8); chain; chain--) {
			*next = kinds[below(4)];
			next = out + at;
			at += 8;
		}
		*next = tcp ? 6 : 17;
		put16(out + ip + 4, below(8) ? at - ip - 40 + length : 0);
	} else {
		extra = below(4) ? 0 : below(11) * 4;
		out[ip] = (u8)(0x45 + extra / 4);
		out[ip + 1] = (u8)draw();
		put16(out + ip + 2, below(8) ? 20 + extra + length : 0);
		put16(out + ip + 6, below(8) ? 0x4000 : draw() & 0x3fff);
		out[ip + 9] = tcp ? 6 : 17;
		at += 20 + extra;
	}
	memcpy(out + at, body, length);
	return at + length;
}

static void check_packet(const struct weir_packet *packet, u32 length)
{
	if (packet->kind > WEIR_MALFORMED)
		fail("kind");
	if (packet->ip_version && (packet->ecn_offset >= length || packet->l3_offset + 20u > length))
		fail("offset outside the frame");
	if (packet->kind >= WEIR_TCP && packet->kind <= WEIR_QUIC && packet->l4_offset + 8u > length)
		fail("transport outside the frame");
	if (packet->payload_bytes > packet->ip_bytes || packet->quic_short_bytes > packet->payload_bytes)
		fail("lengths");
	if (packet->ip_bytes && packet->ip_bytes + packet->l3_offset > packet->frame_bytes)
		fail("longer than the frame");
	if (packet->payload_bytes && packet->payload_bytes + packet->l4_offset > packet->frame_bytes)
		fail("more payload than the frame has");
	if (packet->ecn > 3)
		fail("codepoint");
}

static void random_settings(struct weir_law_params *params)
{
	u8 *at = (u8 *)params;
	u32 i, change = below(3);

	if (!change || below(2))
		(below(2) ? weir_law_paper : weir_law_robust)(params);
	else
		weir_law_comsys(params);
	for (i = offsetof(struct weir_law_params, spin_debounce); i < sizeof(*params); i++) {
		if (change && below(3) == 0)
			at[i] = (u8)below(2);
	}
	if (below(3) == 0)
		params->spin_debounce = (u8)draw();
	params->main_signal = (u8)below(2);
	params->tie = (u8)below(3);
	if (below(3) == 0)
		params->mss = (u32)draw();
}

static u64 votes, ended, late, glanced, fast, stamped;

static u32 keep(const struct weir_packet *packet, void *with)
{
	*(struct weir_packet *)with = *packet;
	return 1;
}

/* Reads a frame the fast way too: either it declines or it reads the same, TCP's options apart where it says so. */
static void check_glance(const u8 *data, u32 length, u32 frame_bytes, u32 start, const struct weir_packet *whole)
{
	struct weir_packet packet, kept, same = *whole;

	if (!weir_glance(data, data + length, frame_bytes, start, &packet, keep, &kept))
		return;
	glanced++;
	if (kept.tcp_options & WEIR_UNREAD) {
		if (!(kept.tcp_options & WEIR_HAS_TS))
			same.tsval = same.tsecr = 0;
		same.sack_right = 0;
		same.tcp_options = kept.tcp_options;
	}
	stamped += (kept.tcp_options & WEIR_HAS_TS) != 0;
	if (memcmp(&kept, &same, sizeof(same)))
		fail("the fast path reads otherwise");
}

static void check_flow(const struct weir_law_params *params, const struct weir_flow *flow)
{
	int i;

	if (weir_law_class(flow) > 8 || weir_law_choice(params, flow) > 1)
		fail("class");
	for (i = 0; i < 2; i++) {
		u32 cast = flow->votes[i][0] | flow->votes[i][1];

		/* The judge wants to be sure first. */
		if (flow->verdict[i] == WEIR_UNCLASSIFIED ? cast && !params->whole_conduct : !cast)
			fail("verdict without a vote");
	}
}

static void drive(const struct weir_law_params *params, struct weir_flow *flow, const struct weir_packet *packet, u64 now)
{
	struct weir_outcome outcome;
	u32 before = flow->cycle;

	if (below(3) == 0) {
		weir_law_reverse(params, flow, packet);
	} else {
		weir_law_forward(params, flow, packet, now, &outcome);
		if (outcome.cycle != flow->cycle && outcome.cycle != flow->cycle - WEIR_UNBOOKED)
			fail("stamp");
		ended += outcome.ended;
		votes += outcome.ended && outcome.assessed.judgement == WEIR_VOTED;
		if (outcome.ended && outcome.assessed.judgement == WEIR_NO_SIGNAL &&
		    (outcome.assessed.vote[0] || outcome.assessed.vote[1]))
			fail("vote without a signal");
	}
	if (flow->cycle - before > 2)
		fail("cycles");
	if (below(4) == 0) {
		/* One draw per statement: compilers differ in the order of arguments. */
		u32 kind = below(2), back = below(5), segments = below(3) ? 1 : below(0x10000);

		late += !weir_law_signal(params, flow, kind, flow->cycle - back, segments);
	}
	check_flow(params, flow);
}

/* A packet as no parser would give it: the law must stand it all the same. */
static void random_packet(struct weir_packet *packet)
{
	u8 *at = (u8 *)packet;
	u32 i, kind = below(8) ? WEIR_TCP + below(3) : below(8);

	for (i = 0; i < sizeof(*packet); i += 8) {
		u64 word = draw();
		u32 left = sizeof(*packet) - i;

		memcpy(at + i, &word, left < 8 ? left : 8);
	}
	packet->kind = (u8)kind;
	packet->ecn &= 3;
	if (below(2)) { /* a plausible flow: small sequence numbers around a wrap */
		packet->tcp_seq = below(20000) - 10000;
		packet->tcp_ack = below(20000) - 10000;
		packet->payload_bytes = below(10000);
		packet->tcp_flags = 0x10;
		packet->sack_right = below(20000) - 10000;
		packet->tsval = below(16) - 8;
		packet->tsecr = below(16) - 8;
		if (below(4))
			packet->tcp_options = below(8) ? WEIR_HAS_TS : WEIR_HAS_TS | WEIR_HAS_SACK;
		packet->quic_flags &= WEIR_QUIC_SPIN;
		packet->quic_flags |= WEIR_QUIC_SHORT;
	}
}

#define BUCKETS 2

static struct weir_bucket *buckets;
static struct weir_waiting *lines;
static struct weir_filter *filter;
static struct weir_counters counters;
static u64 known, booked;

static void clear_table(struct weir_table_params *table)
{
	u32 i;

	memset(buckets, 0, BUCKETS * sizeof(*buckets));
	memset(lines, 0, BUCKETS * sizeof(*lines));
	memset(filter, 0, sizeof(*filter));
	memset(&counters, 0, sizeof(counters));
	*table = (struct weir_table_params){
		.bucket_mask = BUCKETS - 1,
		.waiting_mask = BUCKETS - 1,
		.admit_bytes = below(3) ? below(20000) : 0,
		.admit_reverse = below(4) != 0,
	};
	for (i = 0; i < WEIR_SEED_WORDS; i++)
		table->seed[i] = draw();
	weir_hash_prepare(table);
	for (i = 0; i < 5; i++)
		(&table->idle_tcp)[i] = below(4) ? below(60) : (u32)draw();
}

static void check_table(const struct weir_law_params *params, u32 at)
{
	const struct weir_bucket *bucket = &buckets[at];
	u32 i, j;
	u64 taken = 0, filtered = 0;

	for (i = 0; i < WEIR_WAYS; i++) {
		if (!bucket->tag[i])
			continue;
		if (weir_way_of(bucket, &bucket->way[i].key, bucket->tag[i]) != i)
			fail("two entries of one key");
		check_flow(params, &bucket->way[i].flow);
	}
	for (i = 0; i < WEIR_CANDIDATES; i++) {
		for (j = 0; j < i; j++) {
			if (lines[at].way[i].tag && lines[at].way[i].tag == lines[at].way[j].tag)
				fail("two candidates of one flow");
		}
	}
	for (i = 0; i < BUCKETS * WEIR_WAYS; i++)
		taken += buckets[i / WEIR_WAYS].tag[i % WEIR_WAYS] != 0;
	if (taken != counters.admitted - counters.evicted)
		fail("entries");
	/* All flows have ports within 64 of one pair. */
	for (i = 0; i < BUCKETS * WEIR_WAYS; i++)
		filtered += buckets[i / WEIR_WAYS].tag[i % WEIR_WAYS] && weir_is_filtered(&buckets[i / WEIR_WAYS].way[i % WEIR_WAYS].key);
	for (i = 0; i < 64; i++)
		filtered -= filter->entries[weir_filter_of(443, i)];
	if (filtered)
		fail("filter");
	if (bucket->version)
		fail("the version is the caller's");
}

/* What a packet does to a bucket the fast way, or nothing. */
struct short_cut {
	struct weir_bucket bucket;
	u32 way; /* WEIR_WAYS where it declined */
	u32 cycle;
	u32 choice;
};

static void take_short_cut(const struct weir_law_params *params, const struct weir_table_params *table, u32 at,
			   const struct weir_packet *packet, const struct weir_key *key, u32 hash, u32 tick, u32 reverse,
			   struct short_cut *out)
{
	struct weir_key same;
	struct weir_seat seat;
	u32 done;

	out->bucket = buckets[at];
	out->way = WEIR_WAYS;
	if (!weir_fast_applies(params) || !weir_fast_key(table, packet, &same, &done))
		return;
	if (done != hash || memcmp(&same, key, sizeof(same)))
		fail("the fast path has another key");
	if (!weir_fast_seat(&out->bucket, key, hash, &seat))
		return;
	out->way = (u32)(seat.entry - out->bucket.way);
	done = reverse ? weir_fast_reverse(params, table, &seat, packet, key, tick) :
			 weir_fast_forward(params, table, &seat, packet, key, tick, &out->cycle, &out->choice);
	if (done)
		return;
	if (memcmp(&out->bucket, &buckets[at], sizeof(out->bucket)))
		fail("the fast path declines, and has changed something");
	out->way = WEIR_WAYS;
}

/* A packet of one of some sixty flows, more than the table has places for. */
static void drive_table(const struct weir_law_params *params, const struct weir_table_params *table,
			struct weir_packet *packet, u64 now)
{
	static u32 reverse, flow;
	u32 ascending, at, way;
	struct weir_counters counted;
	struct weir_outcome outcome;
	struct short_cut quick;
	struct weir_key key;
	u32 hash;

	if (below(4) == 0) { /* flows come in trains */
		reverse = below(3) == 0;
		flow = below(64);
	}
	memset(packet->src, 0, sizeof(packet->src));
	memset(packet->dst, 0, sizeof(packet->dst));
	packet->src[15] = reverse;
	packet->dst[15] = !reverse;
	packet->src_port = reverse ? (u16)flow : 443;
	packet->dst_port = reverse ? 443 : (u16)flow;
	packet->protocol = packet->kind == WEIR_TCP ? 6 : 17;
	weir_count(&counters, packet, packet->frame_bytes);
	ascending = weir_key_of(packet, params->key_has_protocol, &key);
	hash = weir_hash(table, &key);
	at = weir_bucket_of(table, hash);
	if (weir_table_wants(params, packet, reverse)) {
		take_short_cut(params, table, at, packet, &key, hash, (u32)(now >> WEIR_TICK_SHIFT), reverse, &quick);
		counted = counters;
		if (reverse) {
			way = weir_table_reverse(params, table, &buckets[at], &lines[at], filter, packet, &key, hash, ascending, now,
						 &counters);
		} else {
			way = weir_table_forward(params, table, &buckets[at], &lines[at], filter, packet, &key, hash, ascending, now,
						 &counters, &outcome);
			if (quick.way < WEIR_WAYS && (outcome.ended || outcome.reset || outcome.cycle != quick.cycle ||
						      outcome.choice != quick.choice))
				fail("the fast path has another outcome");
			if (quick.way < WEIR_WAYS && memcmp(&counted, &counters, sizeof(counted)))
				fail("the fast path counts otherwise");
			weir_count_choice(&counters, outcome.choice, packet->frame_bytes);
			if (way < WEIR_WAYS && outcome.cycle != buckets[at].way[way].flow.cycle &&
			    outcome.cycle != buckets[at].way[way].flow.cycle - WEIR_UNBOOKED)
				fail("stamp from the table");
		}
		if (quick.way < WEIR_WAYS && (way != quick.way || memcmp(&quick.bucket, &buckets[at], sizeof(quick.bucket))))
			fail("the fast path leaves another bucket");
		fast += quick.way < WEIR_WAYS;
		if (way > WEIR_WAYS || (way < WEIR_WAYS && weir_way_of(&buckets[at], &key, weir_tag_of(hash)) != way))
			fail("way");
		known += way < WEIR_WAYS;
		if (way < WEIR_WAYS && !weir_filter_passes(filter, packet))
			fail("a packet of a known flow does not pass the filter");
	}
	if (below(3) == 0) {
		way = weir_way_of(&buckets[at], &key, weir_tag_of(hash));
		if (way < WEIR_WAYS) {
			u32 cycle = buckets[at].way[way].flow.cycle - (below(8) ? below(6) : (u32)draw());
			u32 kind = below(2), weight = below(3) ? 1 : (u32)draw();

			if (below(2))
				cycle &= 0x7fff;
			weir_book(params, &buckets[at].way[way], kind, cycle, weight, &counters);
			weir_count_signal(&counters, kind, weight);
			booked++;
		}
	}
	check_table(params, at);
}

int main(int argc, char **argv)
{
	static struct weir_law_params settings[SETTINGS];
	static struct weir_flow flows[FLOWS];
	static struct weir_table_params table;
	static u8 frame[MAX_FRAME];
	u64 packets = argc > 1 ? strtoull(argv[1], 0, 10) : 1000, kinds[8] = { 0 }, round, since = 0;
	u32 i;

	buckets = malloc(BUCKETS * sizeof(*buckets));
	lines = malloc(BUCKETS * sizeof(*lines));
	filter = malloc(sizeof(*filter));
	if (!buckets || !lines || !filter)
		fail("out of memory");
	seed(argc > 2 ? strtoull(argv[2], 0, 10) : 1);
	for (round = 0; round < packets; round++) {
		u32 start = below(4) ? WEIR_START_ETHERNET : WEIR_START_IP;
		u32 length = make_frame(frame, start), changes = below(4) ? below(8) : 0, frame_bytes;
		struct weir_packet packet;
		struct weir_key key;
		u8 *block;

		for (i = 0; i < changes; i++)
			frame[below(length)] = below(4) ? (u8)draw() : (u8)(below(2) ? 0xff : 0);
		if (below(8) == 0)
			length = below(length + 1);
		block = malloc(length);
		if (!block && length)
			fail("out of memory");
		if (length)
			memcpy(block, frame, length);
		frame_bytes = below(4) ? length : (u32)draw();
		weir_parse(block, block + length, frame_bytes, start, &packet);
		check_glance(block, length, frame_bytes, start, &packet);
		free(block);
		check_packet(&packet, length);
		kinds[packet.kind]++;
		weir_key_of(&packet, below(2), &key);

		if (round % 4096 == 0) {
			for (i = 0; i < SETTINGS; i++)
				random_settings(&settings[i]);
			for (i = 0; i < FLOWS; i++)
				weir_flow_init(&flows[i]);
			clear_table(&table);
			since = draw();
		}
		i = below(FLOWS);
		if (weir_law_opens(&settings[i % SETTINGS], &packet, 0))
			drive(&settings[i % SETTINGS], &flows[i], &packet, round * 1000);
		random_packet(&packet);
		i = below(FLOWS);
		drive(&settings[i % SETTINGS], &flows[i], &packet, round * 1000);
		if (round % 2) {
			since += (u64)below(4) << WEIR_TICK_SHIFT;
			for (i = 1 + below(4); i; i--) {
				drive_table(&settings[0], &table, &packet, since);
				packet.tcp_seq += packet.payload_bytes;
			}
		}
	}
	printf("packets %llu", packets);
	for (i = 0; i < 8; i++)
		printf(" kind%u %llu", i, kinds[i]);
	printf(" ended %llu votes %llu late %llu known %llu booked %llu", ended, votes, late, known, booked);
	printf(" glanced %llu fast %llu stamped %llu\n", glanced, fast, stamped);
	free(buckets);
	free(lines);
	free(filter);
	return 0;
}
