/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The flow table's memory, what bounds it, and what is counted (table.h). */
#ifndef WEIR_TABLE_STATE_H
#define WEIR_TABLE_STATE_H

#include "law_state.h"

#define WEIR_WAYS 8
#define WEIR_CANDIDATES 4
#define WEIR_SEED_WORDS 11
#define WEIR_FILTER 16384 /* counts; a power of two */

/* weir_bucket.flags */
#define WEIR_ENTRY_ASCENDING 0x01 /* forward goes from the key's low end to its high end */
#define WEIR_ENTRY_CLOSING 0x02   /* FIN or RST was seen, and no data since */

/* weir_candidate.bytes */
#define WEIR_CANDIDATE_REVERSE 0x80000000 /* a packet of the other direction was seen */

/* weir_waiting.challenge */
#define WEIR_CHALLENGE_SHIFT 28
#define WEIR_CHALLENGE_TICK ((1u << WEIR_CHALLENGE_SHIFT) - 1)
#define WEIR_CHALLENGE_UNIT 16 /* bytes; so that a flow of 54 Gbit/s does not wrap within candidate_idle */

struct weir_entry {
	u64 pending[2]; /* mailbox [enum weir_signal]: lanes of 16 bits by the two lowest bits of the packet's cycle */
	struct weir_key key;
	struct weir_flow flow;
};

struct weir_bucket {
	u32 version;  /* odd while somebody writes; counts up by two with each writer */
	u32 contended; /* packets that went on without waiting longer */
	union {
		u16 tag[WEIR_WAYS]; /* of the key's hash; 0 for a free way */
		u64 tags[WEIR_WAYS / 4];
	};
	u32 seen[WEIR_WAYS]; /* ticks, last packet of either direction */
	u8 flags[WEIR_WAYS];
	struct weir_entry way[WEIR_WAYS];
};

struct weir_candidate {
	u32 tag;   /* 0 for none */
	u32 bytes; /* forward payload so far, and the bit above */
	u32 until; /* ticks; as long as this its payload keeps the place */
};

struct weir_waiting {
	struct weir_candidate way[WEIR_CANDIDATES];
	/* The entry without a verdict whose place fit flows want (weir_challenge). */
	u32 challenge; /* since when, ticks, and above WEIR_CHALLENGE_SHIFT the entry's way + 1; 0 for none */
	u32 mark;      /* what its bytes have to reach, in WEIR_CHALLENGE_UNIT */
};

/*
 * How many entries have a pair of ports, by a mix of the two: the entries to which plain UDP can belong. Most such
 * packets belong to no flow, and this shows it without a key and without touching a bucket.
 */
struct weir_filter {
	u32 entries[WEIR_FILTER];
};

struct weir_table_params {
	u64 seed[WEIR_SEED_WORDS]; /* secret, drawn at load */
	u64 ipv4_sum;          /* what of the hash is the same for all IPv4 addresses (weir_hash_prepare) */
	u32 bucket_mask;       /* number of buckets - 1; a power of two less one, as the next */
	u32 waiting_mask;
	u32 admit_bytes;       /* forward payload before a flow gets an entry */
	u32 admit_reverse;     /* 1: and only if the other direction was seen */
	u32 idle_tcp;          /* ticks after which an entry may go */
	u32 idle_udp;
	u32 linger;            /* the same after FIN or RST */
	u32 candidate_idle;    /* ticks after which a candidate may go... */
	u32 candidate_reverse_idle; /* ...and one that has seen both directions */
	u32 law;               /* number of the present law among those of the table's life, modulo 256 */
};

/* Kept per processor. */
struct weir_counters {
	u64 packets[8];          /* by enum weir_kind, both directions */
	u64 bytes[8];
	u64 queue_packets[2];    /* [enum weir_choice], forward */
	u64 queue_bytes[2];
	u64 signal_packets[2];   /* [enum weir_signal], of packets that this bottleneck dropped or marked */
	u64 signal_segments[2];
	u64 unowned_signals;     /* on packets of flows without an entry */
	u64 arrived_ce;          /* came with CE */
	u64 contended;           /* the bucket stayed taken; the packet was not judged */
	u64 admitted;
	u64 expired;             /* entries that were found idle by a packet of their own key, and began anew */
	u64 evicted;             /* entries that made room, idle or closed */
	u64 full;                /* packets of flows fit for an entry that found none */
	u64 waiting_full;        /* packets of flows that found no place to wait */
	u64 reopened;            /* connections that began on the entry of an earlier one */
	u64 switched;            /* changes of queue by a judgement */
	u64 lapsed;              /* verdicts that ended for want of cycles */
	u64 late_signals;        /* whose cycle can no longer be judged; those that wait together count once */
	u64 ambiguous;           /* fragments, first ones too */
};

/*
 * Whether the packet is a piece of one. Only the first has ports; it goes with the others, by the standard queue and
 * unjudged, or the pieces of one packet would wait in two queues.
 */
WEIR_INLINE u32 weir_is_fragment(const struct weir_packet *packet)
{
	return packet->kind == WEIR_FRAGMENT || (packet->layers & WEIR_FIRST_FRAGMENT);
}

/* An arriving packet of either direction. */
WEIR_INLINE void weir_count(struct weir_counters *counters, const struct weir_packet *packet, u32 bytes)
{
	counters->packets[packet->kind & 7]++;
	counters->bytes[packet->kind & 7] += bytes;
	if (weir_is_fragment(packet))
		counters->ambiguous++;
	if (packet->ecn == 3)
		counters->arrived_ce++;
}

/* The queue that a forward packet goes to. */
WEIR_INLINE void weir_count_choice(struct weir_counters *counters, u32 choice, u32 bytes)
{
	counters->queue_packets[choice & 1]++;
	counters->queue_bytes[choice & 1] += bytes;
}

WEIR_INLINE void weir_count_signal(struct weir_counters *counters, u32 kind, u32 segments)
{
	counters->signal_packets[kind & 1]++;
	counters->signal_segments[kind & 1] += segments;
}

/* How long ago `then` was. Processors read the clock before they take the bucket, so `then` may be a little ahead. */
WEIR_INLINE u32 weir_age(u32 tick, u32 then)
{
	u32 age = tick - then;

	return age > 0xffff0000u ? 0 : age;
}

#endif /* WEIR_TABLE_STATE_H */
