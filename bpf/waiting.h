/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a flow earns its entry in the table: as a candidate of 12 bytes in the waiting line of its bucket. */
#ifndef WEIR_WAITING_H
#define WEIR_WAITING_H

#include "table_state.h"

WEIR_INLINE u32 weir_is_over(const struct weir_table_params *params, const struct weir_candidate *candidate, u32 tick)
{
	u32 limit = candidate->bytes & WEIR_CANDIDATE_REVERSE ? params->candidate_reverse_idle : params->candidate_idle;

	return weir_age(tick, candidate->seen) > limit;
}

/* A candidate's bytes with more payload: up to 2^31-1, and its flag stays. */
WEIR_INLINE u32 weir_add_payload(u32 bytes, u32 payload)
{
	u32 sum = bytes & ~WEIR_CANDIDATE_REVERSE, room = ~WEIR_CANDIDATE_REVERSE - sum;

	sum += payload < room ? payload : room;
	return (bytes & WEIR_CANDIDATE_REVERSE) | sum;
}

/*
 * Notes the packet of a flow without an entry; returns 1 once the flow is fit for one. It goes on waiting until
 * weir_leave().
 *
 * Only forward payload makes a candidate, so floods of SYNs and of bare ACKs leave no trace in either direction. Only the
 * other direction makes it last: what an outsider alone can send pushes out nothing but its like.
 */
WEIR_INLINE u32 weir_wait(const struct weir_table_params *params, struct weir_waiting *waiting, u32 tag,
			  const struct weir_packet *packet, u32 reverse, u32 tick, struct weir_counters *counters)
{
	u32 i, at = WEIR_CANDIDATES, worst = 0;
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
	if (at == WEIR_CANDIDATES) {
		if (reverse)
			return 0;
		/* The place to take: a free one, else one past its time, else the oldest that nobody answered, else one that
		 * was answered and has rested for as long as those may. */
		WEIR_UNROLL
		for (i = 0; i < WEIR_CANDIDATES; i++) {
			const struct weir_candidate *other = &waiting->way[i];
			u32 age = weir_age(tick, other->seen), rank;

			if (age > 0x0fffffff)
				age = 0x0fffffff;
			if (other->tag == tag)
				rank = 0x80000000; /* its own, past its time */
			else if (!other->tag || weir_is_over(params, other, tick))
				rank = 0x40000000;
			else if (!(other->bytes & WEIR_CANDIDATE_REVERSE))
				rank = 0x20000000 + age;
			else
				rank = age > params->candidate_idle ? age : 0;
			if (rank > worst) {
				worst = rank;
				at = i;
			}
			at = weir_forget(at, packet);
		}
		if (at == WEIR_CANDIDATES) {
			counters->waiting_full++;
			return 0;
		}
		candidate = &waiting->way[at & (WEIR_CANDIDATES - 1)];
		*candidate = (struct weir_candidate){ .tag = tag };
	} else {
		candidate = &waiting->way[at & (WEIR_CANDIDATES - 1)];
	}
	candidate->seen = tick;
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

#endif /* WEIR_WAITING_H */
