/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a flow earns its entry in the table: as a candidate of 12 bytes in the waiting line of its bucket, and in a
 * full bucket by sending more than an entry that has no verdict.
 *
 * A place is paid for in payload, which is what no attacker has for nothing: packets can be small, and addresses and
 * answers forged. Twice `admit_bytes` pay for `candidate_idle`, less for as much less, and nobody is ahead by more.
 * Where places are short the payload of a newcomer counts against who has paid for the least time (weighted frequent
 * items: Misra and Gries, "Finding repeated elements", with a drain). So a flow is kept out by others only that send
 * as much as it does into its own line; and which line that is, nobody knows.
 */
#ifndef WEIR_WAITING_H
#define WEIR_WAITING_H

#include "table_state.h"

/* For how many ticks so much payload keeps a place. */
WEIR_INLINE u32 weir_worth(const struct weir_table_params *params, u32 payload)
{
	if (payload / 2 >= params->admit_bytes)
		return params->candidate_idle;
	return (u32)((u64)payload * params->candidate_idle / (2 * (u64)params->admit_bytes));
}

/* For how many more ticks a candidate has paid. Processors read the clock before they take the bucket, hence the
 * room. */
WEIR_INLINE u32 weir_paid(const struct weir_table_params *params, const struct weir_candidate *candidate, u32 tick)
{
	u32 left = candidate->until - tick;

	return left <= params->candidate_idle + 0xffff ? left : 0;
}

/* Whether a candidate has been silent for so long beyond what it paid for that it begins anew. */
WEIR_INLINE u32 weir_is_over(const struct weir_table_params *params, const struct weir_candidate *candidate, u32 tick)
{
	u32 limit = candidate->bytes & WEIR_CANDIDATE_REVERSE ? params->candidate_reverse_idle : params->candidate_idle;

	return !weir_paid(params, candidate, tick) && tick - candidate->until > limit;
}

/* A candidate's bytes with more payload: up to 2^31-1, and its flag stays. */
WEIR_INLINE u32 weir_add_payload(u32 bytes, u32 payload)
{
	u32 sum = bytes & ~WEIR_CANDIDATE_REVERSE, room = ~WEIR_CANDIDATE_REVERSE - sum;

	sum += payload < room ? payload : room;
	return (bytes & WEIR_CANDIDATE_REVERSE) | sum;
}

/* The order in which candidates lose their places to newcomers, the first lowest: none or one past its time, who has
 * not paid any more, longest first, and those that have, shortest first, the answered ones last. */
WEIR_INLINE u32 weir_rank(const struct weir_table_params *params, const struct weir_candidate *candidate, u32 tag,
			  u32 tick)
{
	u32 left = weir_paid(params, candidate, tick), lapsed = tick - candidate->until;

	if (candidate->tag == tag)
		return 0;
	if (!candidate->tag || weir_is_over(params, candidate, tick))
		return 1;
	if (!left)
		return 0x3fffffff - (lapsed < 0x3ffffff0 ? lapsed : 0x3ffffff0);
	if (left > 0x3fffffff)
		left = 0x3fffffff;
	return (candidate->bytes & WEIR_CANDIDATE_REVERSE ? 0x80000000 : 0x40000000) + left;
}

/*
 * Notes the packet of a flow without an entry; returns 1 once the flow is fit for one. It goes on waiting until
 * weir_leave().
 *
 * Only forward payload makes a candidate, so floods of SYNs and of bare ACKs leave no trace in either direction. What
 * an outsider alone can send is never answered, and counts against an answered candidate only in a line of nothing
 * else.
 */
WEIR_INLINE u32 weir_wait(const struct weir_table_params *params, struct weir_waiting *waiting, u32 tag,
			  const struct weir_packet *packet, u32 reverse, u32 tick, struct weir_counters *counters)
{
	u32 i, at = WEIR_CANDIDATES, worth, left;
	struct weir_candidate *candidate;

	if (!params->admit_reverse && !params->admit_bytes)
		return 1;
	/* SYN-ACK and reset answer anything, also to a forged address. */
	if (reverse ? packet->kind == WEIR_TCP && (packet->tcp_flags & (WEIR_SYN | WEIR_RST)) : !packet->payload_bytes)
		return 0;
	for (i = 0; i < WEIR_CANDIDATES; i++) {
		if (waiting->way[i].tag == tag && !weir_is_over(params, &waiting->way[i], tick))
			at = i;
	}
	if (at == WEIR_CANDIDATES && reverse)
		return 0;
	worth = reverse ? 0 : weir_worth(params, packet->payload_bytes);
	if (at == WEIR_CANDIDATES) {
		u32 least = 0xffffffff;

		at = 0;
		WEIR_UNROLL
		for (i = 0; i < WEIR_CANDIDATES; i++) {
			u32 rank = weir_rank(params, &waiting->way[i], tag, tick);

			if (rank < least) {
				least = rank;
				at = i;
			}
			at = weir_forget(at, packet);
		}
		candidate = &waiting->way[at & (WEIR_CANDIDATES - 1)];
		left = least < 0x40000000 ? 0 : weir_paid(params, candidate, tick);
		if (worth < left) {
			candidate->until -= worth;
			counters->waiting_full++;
			return 0;
		}
		*candidate = (struct weir_candidate){ .tag = tag, .until = tick };
		worth -= left;
	} else {
		candidate = &waiting->way[at & (WEIR_CANDIDATES - 1)];
	}
	left = weir_paid(params, candidate, tick) + worth;
	candidate->until = tick + (left < params->candidate_idle ? left : params->candidate_idle);
	if (reverse)
		candidate->bytes |= WEIR_CANDIDATE_REVERSE;
	else
		candidate->bytes = weir_add_payload(candidate->bytes, packet->payload_bytes);
	if (params->admit_reverse && !(candidate->bytes & WEIR_CANDIDATE_REVERSE))
		return 0;
	return (candidate->bytes & ~WEIR_CANDIDATE_REVERSE) >= params->admit_bytes;
}

/* Ends a candidate's wait. */
WEIR_INLINE void weir_leave(struct weir_waiting *waiting, u32 tag)
{
	u32 i;

	for (i = 0; i < WEIR_CANDIDATES; i++) {
		if (waiting->way[i].tag == tag)
			waiting->way[i].tag = 0;
	}
}

/* Whether an entry has a verdict to lose. */
WEIR_INLINE u32 weir_is_judged(const struct weir_flow *flow)
{
	return (flow->verdict[WEIR_LOSS] | flow->verdict[WEIR_MARK]) != 0;
}

/* Forward payload of an entry in the units of weir_waiting.mark. */
WEIR_INLINE u32 weir_sent(const struct weir_bucket *bucket, u32 way)
{
	return (u32)(bucket->way[way & (WEIR_WAYS - 1)].flow.bytes / WEIR_CHALLENGE_UNIT);
}

/*
 * A fit flow has found its bucket full, with `payload` more. One entry without a verdict at a time, which has been
 * silent for the longest, has to send as much as all that want its place: once it is behind by `admit_bytes`, its way
 * is returned. Not within a sixteenth of `candidate_idle`, unless it was silent for that: who sends a window at once
 * is not ahead of who has just sent his. Once it is ahead, or after `candidate_idle`, it is the next one's turn.
 */
WEIR_INLINE u32 weir_challenge(const struct weir_table_params *params, const struct weir_bucket *bucket,
			       struct weir_waiting *waiting, u32 payload, u32 tick)
{
	u32 way = (waiting->challenge >> WEIR_CHALLENGE_SHIFT) - 1, age = (tick - waiting->challenge) & WEIR_CHALLENGE_TICK;
	u32 i, rest = 0, soon = params->candidate_idle / 16;
	s32 behind;

	if (!payload || !params->admit_bytes)
		return WEIR_WAYS;
	if (age > WEIR_CHALLENGE_TICK - 0xffff)
		age = 0; /* as in weir_age() */
	if (way >= WEIR_WAYS || age > params->candidate_idle || weir_is_judged(&bucket->way[way & (WEIR_WAYS - 1)].flow)) {
		way = WEIR_WAYS;
		for (i = 0; i < WEIR_WAYS; i++) {
			u32 silent = weir_age(tick, bucket->seen[i]) + 1;

			if (!weir_is_judged(&bucket->way[i].flow) && silent > rest) {
				rest = silent;
				way = i;
			}
			rest = weir_blur(rest, bucket->version);
			way = weir_blur(way, bucket->version);
		}
		if (way == WEIR_WAYS)
			return way;
		waiting->challenge = (way + 1) << WEIR_CHALLENGE_SHIFT | (tick & WEIR_CHALLENGE_TICK);
		waiting->mark = weir_sent(bucket, way);
		age = 0;
	}
	waiting->mark += payload / WEIR_CHALLENGE_UNIT;
	behind = (s32)(waiting->mark - weir_sent(bucket, way));
	if (age < soon && weir_age(tick, bucket->seen[way & (WEIR_WAYS - 1)]) < soon)
		return WEIR_WAYS;
	if (behind > 0 && (u32)behind < params->admit_bytes / WEIR_CHALLENGE_UNIT)
		return WEIR_WAYS;
	waiting->challenge = 0;
	return behind > 0 ? way : WEIR_WAYS;
}

#endif /* WEIR_WAITING_H */
