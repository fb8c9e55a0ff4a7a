/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow table of a live link: a fixed number of entries in buckets of eight, one entry for both directions of a
 * flow.
 *
 * Others choose the keys here, so the table is bounded and slow to believe. A flow first waits as a candidate of 12
 * bytes; it gets an entry once packets of the other direction and enough payload have been seen. When a bucket is full,
 * new flows wait and those that have an entry keep it. Entries end by idleness, looked at only when somebody wants
 * their place, so nothing has to sweep.
 *
 * Plain integer C as law.h. The caller finds bucket and waiting line by the indices from the hash, and holds the
 * bucket. Signals come from elsewhere without the bucket: they go to the entry's mailbox, which the flow's next packet
 * empties.
 */
#ifndef WEIR_TABLE_H
#define WEIR_TABLE_H

#include "law.h"
#include "waiting.h"

/*
 * Multilinear-HM (Lemire and Kaser, "Strongly universal string hashing is fast"): the key's ten words of 32 bits in
 * five pairs, each word plus a secret number of 64 bits, the products summed up modulo 2^64. Of the sum the upper 32
 * bits count.
 *
 * For any two different keys these are uniform and independent over the secret: the keys agree in b given bits of the
 * 32 with probability 2^-b, whatever they were chosen to be. For say they differ in the first word of a pair, by d,
 * which is less than 2^32 and so 2^k times an odd number with k < 32. With all other secrets given, the difference of
 * the sums is d times the secret of the pair's other word, and a constant: uniform over the numbers that agree with the
 * constant in the lowest k bits, hence in its upper 32 bits whatever its lower ones are. And the secret that is added
 * alone makes one of the sums uniform by itself.
 *
 * What follows is a permutation of the 32 bits, which leaves all that as it is. It is for the many: keys in steps, as
 * the ports of one client, have sums in steps, and one secret in a hundred would heap them into few buckets.
 *
 * It is not a pseudorandom function: whoever knew which keys share a place could compute others that do. Nobody does:
 * the table shows no hashes, and a shared bucket does not show from outside before eight flows in it have earned an
 * entry.
 */
WEIR_INLINE u64 weir_hash_pair(const struct weir_table_params *params, const struct weir_key *key, u32 i)
{
	return (params->seed[2 * i] + (u32)key->words[i]) * (params->seed[2 * i + 1] + (key->words[i] >> 32));
}

WEIR_INLINE u32 weir_hash_permuted(u64 sum)
{
	u32 hash = (u32)(sum >> 32);

	hash = (hash ^ hash >> 15) * 0x9e3779b1u;
	return hash ^ hash >> 12;
}

WEIR_INLINE u32 weir_hash(const struct weir_table_params *params, const struct weir_key *key)
{
	u64 sum = params->seed[WEIR_SEED_WORDS - 1];
	int i;

	for (i = 0; i < 5; i++)
		sum += weir_hash_pair(params, key, i);
	return weir_hash_permuted(sum);
}

/* The part of a sum that words 0 and 2 make: of IPv4 addresses they are zero. */
WEIR_INLINE void weir_hash_prepare(struct weir_table_params *params)
{
	const u64 *seed = params->seed;

	params->ipv4_sum = seed[WEIR_SEED_WORDS - 1] + seed[0] * seed[1] + seed[4] * seed[5];
}

/* weir_hash() of a key with IPv4 addresses. */
WEIR_INLINE u32 weir_hash_ipv4(const struct weir_table_params *params, const struct weir_key *key)
{
	return weir_hash_permuted(params->ipv4_sum + weir_hash_pair(params, key, 1) + weir_hash_pair(params, key, 3) +
				  weir_hash_pair(params, key, 4));
}

WEIR_INLINE u32 weir_bucket_of(const struct weir_table_params *params, u32 hash)
{
	return hash & params->bucket_mask;
}

WEIR_INLINE u32 weir_waiting_of(const struct weir_table_params *params, u32 hash)
{
	return hash & params->waiting_mask;
}

/* Tags come from bits that no index uses in tables of up to 2^16 buckets; larger ones have some bits in common. */
WEIR_INLINE u16 weir_tag_of(u32 hash)
{
	u16 tag = (u16)(hash >> 16);

	return tag ? tag : 1;
}

/* The way that an entry takes if it is free: who looks there first need not wait for the tags. The tag has these bits
 * too. */
WEIR_INLINE u32 weir_home_of(u32 hash)
{
	return hash >> 29;
}

/* Two flows have line and tag in common with probability 2^-32, since the line's bits are among the tag's. */
WEIR_INLINE u32 weir_candidate_tag_of(u32 hash)
{
	return hash ? hash : 1;
}

/* The place of a pair of ports in the filter: the same for both directions. */
WEIR_INLINE u32 weir_filter_of(u32 one_port, u32 other_port)
{
	return (one_port ^ other_port) & (WEIR_FILTER - 1);
}

/* Whether packets of UDP without QUIC's fixed bit can be of the entry. In some settings keys have no protocol. */
WEIR_INLINE u32 weir_is_filtered(const struct weir_key *key)
{
	return key->protocol != 6;
}

/* Counts an entry that comes. Under the lock of its bucket; others hold other buckets meanwhile, hence atomic. */
WEIR_INLINE void weir_filter_in(struct weir_filter *filter, const struct weir_key *key)
{
	if (weir_is_filtered(key))
		__sync_fetch_and_add(&filter->entries[weir_filter_of(key->low_port, key->high_port)], 1);
}

/* And one that goes. */
WEIR_INLINE void weir_filter_out(struct weir_filter *filter, const struct weir_key *key)
{
	if (weir_is_filtered(key))
		__sync_fetch_and_add(&filter->entries[weir_filter_of(key->low_port, key->high_port)], -1);
}

/*
 * Whether the packet is worth a key and a bucket. A QUIC flow may grease the fixed bit (RFC 9287): UDP without it can
 * be one of a flow that has an entry, but never makes one. Where no entry has its ports it is of no flow. Needs no
 * lock.
 */
WEIR_INLINE u32 weir_filter_passes(const struct weir_filter *filter, const struct weir_packet *packet)
{
	return packet->kind != WEIR_UDP || filter->entries[weir_filter_of(packet->src_port, packet->dst_port)];
}

/*
 * Whether the packet can belong to a flow that the law judges. All else goes by the standard queue and leaves no trace.
 * In the reverse direction every packet of a flow counts, if only to show that it has two directions.
 */
WEIR_INLINE u32 weir_table_wants(const struct weir_law_params *law, const struct weir_packet *packet, u32 reverse)
{
	if (packet->kind < WEIR_TCP || packet->kind > WEIR_QUIC || weir_is_fragment(packet))
		return 0;
	if (reverse)
		return law->full_parser || packet->ip_version == 4;
	return weir_law_opens(law, packet, 0);
}

WEIR_INLINE u32 weir_same_key(const struct weir_key *a, const struct weir_key *b)
{
	return !((a->words[0] ^ b->words[0]) | (a->words[1] ^ b->words[1]) | (a->words[2] ^ b->words[2]) |
		 (a->words[3] ^ b->words[3]) | (a->words[4] ^ b->words[4]));
}

/* The way that holds the key, or WEIR_WAYS. */
WEIR_INLINE u32 weir_way_of(const struct weir_bucket *bucket, const struct weir_key *key, u16 tag)
{
	u32 i;

	for (i = 0; i < WEIR_WAYS; i++) {
		if (bucket->tag[i] == tag && weir_same_key(&bucket->way[i].key, key))
			return i;
	}
	return WEIR_WAYS;
}

/* Whether the flow has been silent for so long that it begins anew. */
WEIR_INLINE u32 weir_is_idle(const struct weir_table_params *params, const struct weir_bucket *bucket, u32 way,
			     u32 tick)
{
	/* Not by the key, which has no protocol in some settings. */
	u32 limit = bucket->way[way].flow.kind == WEIR_QUIC ? params->idle_udp : params->idle_tcp;

	return weir_age(tick, bucket->seen[way]) > limit;
}

/* Which of four tags are this one: a lane of the result is zero but for its top bit, which is set where they agree. */
WEIR_INLINE u64 weir_lanes(u64 tags, u32 tag)
{
	u64 low = 0x7fff7fff7fff7fffull, differ = tags ^ tag * 0x0001000100010001ull;

	return ~(((differ & low) + low) | differ | low);
}

/* Whether the packet's bucket is worth taking: plain UDP that passed the filter mostly is of no flow all the same.
 * Needs no lock. */
WEIR_INLINE u32 weir_may_be_known(const struct weir_bucket *bucket, const struct weir_packet *packet, u32 hash)
{
	u32 tag = weir_tag_of(hash);

	return packet->kind != WEIR_UDP || (weir_lanes(bucket->tags[0], tag) | weir_lanes(bucket->tags[1], tag)) != 0;
}

/* Whether another flow may have its place in any case. One that seems closed still is itself to its own packets: a
 * forged reset takes no verdict away. */
WEIR_INLINE u32 weir_may_go(const struct weir_table_params *params, const struct weir_bucket *bucket, u32 way, u32 tick)
{
	return weir_is_idle(params, bucket, way, tick) ||
	       ((bucket->flags[way] & WEIR_ENTRY_CLOSING) && weir_age(tick, bucket->seen[way]) > params->linger);
}

/*
 * A place for a new entry: a free way, else one that may go, else one that has no verdict to lose and rests for longer
 * than a candidate may; WEIR_WAYS if the bucket is full. Home comes before all if nobody is at it whom this would take
 * anything from.
 */
WEIR_INLINE u32 weir_place(const struct weir_table_params *params, const struct weir_bucket *bucket, u32 home, u32 tick)
{
	u32 i, best = 0, place = WEIR_WAYS;

	home &= WEIR_WAYS - 1;
	if (!bucket->tag[home] || weir_may_go(params, bucket, home, tick))
		return home;
	for (i = 0; i < WEIR_WAYS; i++) {
		const struct weir_flow *flow = &bucket->way[i].flow;
		u32 rank = 0;

		if (!bucket->tag[i])
			rank = 3;
		else if (weir_may_go(params, bucket, i, tick))
			rank = 2;
		else if (!weir_is_judged(flow) && weir_age(tick, bucket->seen[i]) > params->candidate_idle)
			rank = 1;
		if (rank > best) {
			best = rank;
			place = i;
		}
		best = weir_blur(best, bucket->version);
		place = weir_blur(place, bucket->version);
	}
	return place;
}

WEIR_INLINE void weir_settle(const struct weir_table_params *params, struct weir_bucket *bucket, u32 way,
			     const struct weir_key *key, u16 tag, u32 ascending)
{
	struct weir_entry *entry = &bucket->way[way & (WEIR_WAYS - 1)];

	bucket->tag[way & (WEIR_WAYS - 1)] = tag;
	bucket->flags[way & (WEIR_WAYS - 1)] = ascending ? WEIR_ENTRY_ASCENDING : 0;
	entry->key = *key;
	weir_flow_init(&entry->flow);
	entry->flow.law = (u8)params->law;
	entry->pending[WEIR_LOSS] = 0;
	entry->pending[WEIR_MARK] = 0;
}

/* An entry lives on after FIN or RST for as long as data flow: forged ones end no transfer. */
WEIR_INLINE void weir_note(u32 *seen, u8 *flags, const struct weir_packet *packet, u32 tick)
{
	*seen = tick;
	if (packet->kind == WEIR_TCP && (packet->tcp_flags & (WEIR_FIN | WEIR_RST)))
		*flags |= WEIR_ENTRY_CLOSING;
	else if (packet->payload_bytes || (packet->kind == WEIR_TCP && (packet->tcp_flags & WEIR_SYN)))
		*flags &= (u8)~WEIR_ENTRY_CLOSING;
}

/*
 * Puts a signal into the mailbox. Needs no lock: lanes only grow here and are taken out whole. A lane that is half full
 * takes no more, so that it does not run over into the next, not even from eight processors at once.
 *
 * `cycle` is the packet's stamp, of which 15 bits may be all there is. What is too old to be judged is counted as late
 * and put nowhere: the lane of cycle n-3 is that of n+1, which may begin at this very moment on another processor. For
 * the others one cycle may end meanwhile; they are then as old as they would have been a moment later.
 */
WEIR_INLINE void weir_book(const struct weir_law_params *law, struct weir_entry *entry, u32 kind, u32 cycle, u32 weight,
			   struct weir_counters *counters)
{
	u32 now = *(volatile u32 *)&entry->flow.cycle, age = (now - cycle) & 0x7fff, shift;
	u64 *box = &entry->pending[kind & 1];

	if (!weight)
		return;
	if (!law->book_by_packet)
		age = 0; /* to the cycle current when the mailbox is emptied, whichever that is */
	if (age > 2) {
		/* Without the lock: where two count at once, one may be missing from the flow's number. */
		entry->flow.late_signals = weir_add_count(entry->flow.late_signals, 1);
		counters->late_signals++;
		return;
	}
	shift = 16 * ((now - age) & 3);
	if (weight > 0x0fff)
		weight = 0x0fff;
	if ((*(volatile u64 *)box >> shift & 0xffff) < 0x8000)
		__sync_fetch_and_add(box, (u64)weight << shift);
}

/* Empties one mailbox into the law. */
WEIR_INLINE void weir_drain_kind(const struct weir_law_params *law, struct weir_entry *entry, u32 kind,
				 struct weir_counters *counters)
{
	u64 box = *(volatile u64 *)&entry->pending[kind];
	u32 i;

	if (!box)
		return;
	box = __sync_lock_test_and_set(&entry->pending[kind], 0);
	for (i = 0; i < 4; i++) {
		u32 cycle = entry->flow.cycle - i, weight = (u32)(box >> 16 * (cycle & 3)) & 0xffff;

		if (weight && !weir_law_book(law, &entry->flow, kind, cycle, weight))
			counters->late_signals++;
	}
}

WEIR_INLINE void weir_drain(const struct weir_law_params *law, struct weir_entry *entry, struct weir_counters *counters)
{
	weir_drain_kind(law, entry, WEIR_LOSS, counters);
	weir_drain_kind(law, entry, WEIR_MARK, counters);
}

/* The entry's way for this packet, made if the flow is fit for it; WEIR_WAYS where there is none. */
WEIR_INLINE u32 weir_lookup(const struct weir_table_params *params, struct weir_bucket *bucket,
			    struct weir_waiting *waiting, struct weir_filter *filter,
			    const struct weir_packet *packet, const struct weir_key *key, u32 hash, u32 ascending,
			    u32 reverse, u32 tick, struct weir_counters *counters)
{
	u16 tag = weir_tag_of(hash);
	u32 way = weir_blur(weir_way_of(bucket, key, tag), packet->frame_bytes);

	if (way < WEIR_WAYS) {
		struct weir_entry *entry = &bucket->way[way & (WEIR_WAYS - 1)];

		if (weir_is_idle(params, bucket, way & (WEIR_WAYS - 1), tick)) {
			/* Cycles count on, so that no signal of old is taken for one of the new connection's. */
			weir_reopen(&entry->flow);
			entry->pending[WEIR_LOSS] = 0;
			entry->pending[WEIR_MARK] = 0;
			counters->expired++;
		}
		return way;
	}
	if (packet->kind == WEIR_UDP)
		return WEIR_WAYS;
	if (!weir_wait(params, waiting, weir_candidate_tag_of(hash), packet, reverse, tick, counters))
		return WEIR_WAYS;
	way = weir_place(params, bucket, weir_home_of(hash), tick);
	if (way == WEIR_WAYS)
		way = weir_challenge(params, bucket, waiting, reverse ? 0 : packet->payload_bytes, tick);
	if (way == WEIR_WAYS) {
		counters->full++; /* it goes on waiting, and need not earn its entry again */
		return way;
	}
	weir_leave(waiting, weir_candidate_tag_of(hash));
	/* Who wanted the place of the one that goes has nothing against the one that comes. */
	if (waiting->challenge >> WEIR_CHALLENGE_SHIFT == way + 1)
		waiting->challenge = 0;
	if (bucket->tag[way & (WEIR_WAYS - 1)]) {
		weir_filter_out(filter, &bucket->way[way & (WEIR_WAYS - 1)].key);
		counters->evicted++;
	}
	weir_filter_in(filter, key);
	counters->admitted++;
	weir_settle(params, bucket, way, key, tag, reverse ? !ascending : ascending);
	return way;
}

/*
 * A packet of the direction that is queued: finds the flow's entry, or lets it wait for one, and runs the law. The
 * caller holds the bucket. Returns the way, or WEIR_WAYS where the flow has no entry: standard queue, stamp 0.
 */
WEIR_INLINE u32 weir_table_forward(const struct weir_law_params *law, const struct weir_table_params *params,
				   struct weir_bucket *bucket, struct weir_waiting *waiting,
				   struct weir_filter *filter, const struct weir_packet *packet,
				   const struct weir_key *key, u32 hash, u32 ascending, u64 now, struct weir_counters *counters,
				   struct weir_outcome *out)
{
	u32 tick = (u32)(now >> WEIR_TICK_SHIFT);
	u32 found = weir_lookup(params, bucket, waiting, filter, packet, key, hash, ascending, 0, tick, counters);
	u32 way = weir_forget(found, packet); /* or the verifier follows all that comes once for each way */
	struct weir_entry *entry;

	if (way == WEIR_WAYS) {
		out->ended = 0;
		out->cycle = 0;
		out->choice = WEIR_STANDARD_QUEUE;
		return way;
	}
	entry = &bucket->way[way & (WEIR_WAYS - 1)];
	weir_drain(law, entry, counters);
	weir_take_over(&entry->flow, params->law);
	weir_law_forward(law, &entry->flow, packet, now, out);
	if (out->ended && out->assessed.choice_before != out->assessed.choice_after)
		counters->switched++;
	if (out->reset)
		counters->reopened++;
	if (out->lapsed)
		counters->lapsed++;
	way &= WEIR_WAYS - 1;
	weir_note(&bucket->seen[way], &bucket->flags[way], packet, tick);
	return way;
}

/* A packet of the other direction. Returns the way as above. */
WEIR_INLINE u32 weir_table_reverse(const struct weir_law_params *law, const struct weir_table_params *params,
				   struct weir_bucket *bucket, struct weir_waiting *waiting,
				   struct weir_filter *filter, const struct weir_packet *packet,
				   const struct weir_key *key, u32 hash, u32 ascending, u64 now, struct weir_counters *counters)
{
	u32 tick = (u32)(now >> WEIR_TICK_SHIFT);
	u32 found = weir_lookup(params, bucket, waiting, filter, packet, key, hash, ascending, 1, tick, counters);
	u32 way = weir_forget(found, packet);
	struct weir_entry *entry;

	if (way == WEIR_WAYS)
		return way;
	entry = &bucket->way[way & (WEIR_WAYS - 1)];
	weir_drain(law, entry, counters);
	weir_take_over(&entry->flow, params->law);
	if (weir_law_reverse(law, &entry->flow, packet))
		counters->reopened++;
	way &= WEIR_WAYS - 1;
	weir_note(&bucket->seen[way], &bucket->flags[way], packet, tick);
	return way;
}

#endif /* WEIR_TABLE_H */
