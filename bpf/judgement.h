/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a cycle comes to: signals booked to the cycle that their packets belong to, the question two cycles later
 * whether the window has shrunk, the vote, and the queue that the flow has earned (paper section III-B).
 */
#ifndef WEIR_JUDGEMENT_H
#define WEIR_JUDGEMENT_H

#include "judge.h"

/* The exact time, where cycles end; otherwise a coarse clock does, and on some machines costs a third of the packet. */
#ifndef WEIR_EXACT_NOW
#define WEIR_EXACT_NOW(now) (now)
#endif

WEIR_INLINE void weir_flow_init(struct weir_flow *flow)
{
	*flow = (struct weir_flow){ .cycle = 0 };
}

WEIR_INLINE u8 weir_law_class(const struct weir_flow *flow)
{
	return (u8)(3 * flow->verdict[WEIR_MARK] + flow->verdict[WEIR_LOSS]);
}

/* The queue that the flow has earned, by the main signal alone; by both, an answer to marks is worth more than one to
 * losses, for a queue that marks can do without losses. */
WEIR_INLINE u8 weir_law_choice(const struct weir_law_params *params, const struct weir_flow *flow)
{
	u32 kind = params->main_signal & 1;

#ifndef __bpf__
	if (params->main_signal == WEIR_BOTH_SIGNALS && flow->verdict[WEIR_MARK] == WEIR_RESPONSIVE)
		return WEIR_ECN_RESPONSIVE_QUEUE;
#endif
	/* Packets of a flow that is Not-ECT are dropped where others are marked (RFC 3168 section 5). */
	if (kind == WEIR_MARK && params->loss_without_ecn && !flow->verdict[WEIR_MARK] && !(flow->state & WEIR_IS_ECT))
		kind = WEIR_LOSS;
	return flow->verdict[kind] == WEIR_RESPONSIVE ? WEIR_RESPONSIVE_QUEUE : WEIR_STANDARD_QUEUE;
}

WEIR_INLINE u16 weir_add_count(u16 count, u32 by)
{
	u32 sum = count + by;

	return (u16)(sum > 0xffff ? 0xffff : sum);
}

WEIR_INLINE u32 weir_signals(const struct weir_law_params *params, const struct weir_flow *flow, u32 kind, u32 age)
{
	if (params->byte_counters)
		return (kind == WEIR_MARK ? flow->mark_register : flow->loss_register) >> (8 * age) & 0xff;
	return kind == WEIR_MARK ? flow->mark[age] : flow->loss[age];
}

/*
 * Books signals of together `weight` to the packets that arrived in `cycle`. Returns 1, or 0 (and counts one as late)
 * where that cycle can no longer be judged: it has left the history, or a queue switch or a new connection has cut the
 * history off behind it.
 */
WEIR_INLINE u32 weir_law_book(const struct weir_law_params *params, struct weir_flow *flow, u32 kind, u32 cycle,
			      u32 weight)
{
	u32 age = params->book_by_packet ? flow->cycle - cycle : 0;

	if (age > 2 || (params->book_by_packet && (s32)(cycle - flow->signal_floor) < 0)) {
		flow->late_signals = weir_add_count(flow->late_signals, 1);
		return 0;
	}
	if (params->byte_counters) {
		u32 shift = 8 * age;

		if (kind == WEIR_MARK) {
			u32 count = flow->mark_register >> shift & 0xff;
			u32 sum = count + weight > 0xff ? 0xff : count + weight;

			flow->mark_register += (sum - count) << shift;
		} else {
			flow->loss_register += weight << shift; /* carries into the byte of the cycle before */
		}
	} else if (kind == WEIR_MARK) {
		/* Constant indices: a variable one into a map's value is more than the verifier follows well. */
		if (age == 0)
			flow->mark[0] = weir_add_count(flow->mark[0], weight);
		else if (age == 1)
			flow->mark[1] = weir_add_count(flow->mark[1], weight);
		else
			flow->mark[2] = weir_add_count(flow->mark[2], weight);
	} else {
		if (age == 0)
			flow->loss[0] = weir_add_count(flow->loss[0], weight);
		else if (age == 1)
			flow->loss[1] = weir_add_count(flow->loss[1], weight);
		else
			flow->loss[2] = weir_add_count(flow->loss[2], weight);
	}
	return 1;
}

/* What a signal on a packet of `segments` segments weighs. */
WEIR_INLINE u32 weir_law_weight(const struct weir_law_params *params, u32 segments)
{
	return params->count_segments ? segments : segments != 0;
}

/* Books a loss or mark of one packet, which arrived in `cycle` and had `segments` segments. Returns 0 where it is
 * late. */
WEIR_INLINE u32 weir_law_signal(const struct weir_law_params *params, struct weir_flow *flow, u32 kind, u32 cycle,
				u32 segments)
{
	return weir_law_book(params, flow, kind, cycle, weir_law_weight(params, segments));
}

/* The counters of both settings share their place, so this forgets the one in use. */
WEIR_INLINE void weir_forget_signals(struct weir_flow *flow)
{
	int i;

	for (i = 0; i < WEIR_HISTORY; i++) {
		flow->loss[i] = 0;
		flow->mark[i] = 0;
	}
}

/* Counts a vote. Where the sum grows beyond what is kept, both counts are halved: the past fades, and nobody can save up
 * more than so many votes. */
WEIR_INLINE void weir_count_vote(const struct weir_law_params *params, struct weir_flow *flow, u32 kind, u32 responsive,
				 struct weir_assessment *out)
{
	u16 *votes = flow->votes[kind];
	u32 kept = params->votes_kept ? params->votes_kept : 0xffff;

	votes[!responsive]++;
	out->vote[kind] = responsive ? WEIR_RESPONSIVE : WEIR_UNRESPONSIVE;
	if ((u32)votes[0] + votes[1] > kept && (u32)votes[0] + votes[1] > 2) {
		votes[0] >>= 1;
		votes[1] >>= 1;
	}
}

/* Casts the vote of one signal kind and lets the majority decide. */
WEIR_INLINE void weir_vote(const struct weir_law_params *params, struct weir_flow *flow, u32 kind, u32 responsive,
			   struct weir_assessment *out)
{
	const u16 *votes = flow->votes[kind];
	u32 lead = votes[0] + responsive, lag = votes[1] + !responsive;

	if (lead > lag)
		flow->verdict[kind] = WEIR_RESPONSIVE;
	else if (lead < lag)
		flow->verdict[kind] = WEIR_UNRESPONSIVE;
	else if (params->tie)
		flow->verdict[kind] = params->tie;
	weir_count_vote(params, flow, kind, responsive, out);
	WEIR_REREAD; /* the verifier would follow each verdict apart */
}

/*
 * What the judge finds is one verdict for both kinds of signals: a flow that is asked by losses and by marks has one
 * window to answer with. That for marks it has where it got some, or where marks choose.
 */
WEIR_INLINE void weir_conclude(const struct weir_law_params *params, struct weir_flow *flow, struct weir_assessment *out)
{
	s32 score = weir_judge(flow);
	u32 verdict = weir_verdict(&flow->conduct, flow->verdict[WEIR_LOSS], score), responsive = score > 0;

	flow->verdict[WEIR_LOSS] = (u8)verdict;
	weir_count_vote(params, flow, WEIR_LOSS, responsive, out);
	if (flow->conduct.marks || params->main_signal == WEIR_MARK) {
		flow->verdict[WEIR_MARK] = (u8)verdict;
		weir_count_vote(params, flow, WEIR_MARK, responsive, out);
	}
	WEIR_REREAD;
}

/* Judges at the end of cycle n, before the history moves on (paper section III-A.1, "Responsiveness criteria"). */
WEIR_INLINE void weir_assess(const struct weir_law_params *params, struct weir_flow *flow, struct weir_assessment *out)
{
	u32 limit = params->mss * params->min_window_segments;
	u32 tested = params->min_window_on_signalled ? flow->window[2] : flow->window[0];
	u32 responsive, news;
	int i;

	out->cycle = flow->cycle;
	out->window = flow->window[0];
	out->window_between = flow->window[1];
	out->window_signalled = flow->window[2];
	out->signals[WEIR_LOSS] = weir_signals(params, flow, WEIR_LOSS, 2);
	out->signals[WEIR_MARK] = weir_signals(params, flow, WEIR_MARK, 2);
	out->class_before = weir_law_class(flow);
	out->choice_before = weir_law_choice(params, flow);
	news = params->whole_conduct ? flow->conduct.news : out->signals[WEIR_LOSS] | out->signals[WEIR_MARK];
	if (!news) {
		out->judgement = WEIR_NO_SIGNAL;
	} else if (params->skip_first_cycle && flow->cycle - flow->first_cycle < 3) {
		out->judgement = WEIR_PARTIAL_CYCLE;
		flow->withheld = weir_add_count(flow->withheld, 1);
	} else if (params->whole_conduct) {
		out->judgement = WEIR_VOTED;
		weir_conclude(params, flow, out);
	} else if (params->min_window_inclusive ? tested < limit : tested <= limit) {
		out->judgement = WEIR_SMALL_WINDOW;
		flow->withheld = weir_add_count(flow->withheld, 1);
	} else {
		out->judgement = WEIR_VOTED;
		if (params->wide_arithmetic)
			responsive = (u64)params->response_numerator * flow->window[2] >=
				     (u64)params->response_denominator * flow->window[0];
		else
			responsive = params->response_numerator * flow->window[2] >=
				     params->response_denominator * flow->window[0];
		if (out->signals[WEIR_LOSS])
			weir_vote(params, flow, WEIR_LOSS, responsive, out);
		if (out->signals[WEIR_MARK])
			weir_vote(params, flow, WEIR_MARK, responsive, out);
	}
	for (i = 0; i < 2; i++) {
		out->votes[i][0] = flow->votes[i][0];
		out->votes[i][1] = flow->votes[i][1];
	}
	out->class_after = weir_law_class(flow);
	out->choice_after = weir_law_choice(params, flow);
}

WEIR_INLINE u32 weir_law_length(u64 started, u64 now)
{
	u64 length = now > started ? now - started : 0;

	return length > 0xffffffffu ? 0xffffffffu : (u32)length;
}

/* Ticks that count as a round trip of activity, at most one second. Not less than 17 ms: a round trip shorter than that
 * grows many times over when somebody else fills the queue. Where its length is not known, twice as many with each
 * look. */
WEIR_INLINE u32 weir_look_after(const struct weir_flow *flow)
{
	u32 ticks = flow->last_rtt >> WEIR_TICK_SHIFT;

	if (!flow->last_rtt)
		return 32u << (flow->looks < 5 ? flow->looks : 5);
	return ticks < 16 ? 16 : ticks > 1024 ? 1024 : ticks + 1;
}

/* Counts a flow's activity from here. */
WEIR_INLINE void weir_watch(struct weir_flow *flow, u64 now)
{
	flow->looks = 0;
	flow->next_look = (u32)(now >> WEIR_TICK_SHIFT) + weir_look_after(flow);
}

/* Cycles begin anew, as those of a flow that is first seen mid-connection. */
WEIR_INLINE void weir_begin_anew(struct weir_flow *flow)
{
	int i;

	flow->cycle++;
	flow->first_cycle = flow->cycle;
	flow->signal_floor = flow->cycle;
	flow->cycle_packets = 0;
	for (i = 0; i < WEIR_HISTORY; i++)
		flow->window[i] = 0;
	weir_forget_signals(flow);
	weir_break_off(&flow->conduct);
	flow->state &= WEIR_SHOWN;
	flow->spin_run = 0; /* for TCP a part of an edge, which the state no longer says is there */
	flow->shortest = 0;
}

/*
 * For the verifier, as weir_blur: or it follows what comes behind once for each judgement. By way of two words, so that
 * the twelve take two places of the stack: counts of signals have at most 16 bits.
 */
WEIR_INLINE void weir_blur_outcome(struct weir_outcome *out, u32 unknown)
{
#ifdef __bpf__
	struct weir_assessment *at = &out->assessed;
	u64 word = (u32)(at->vote[0] | at->vote[1] << 8 | at->class_before << 16) | (u32)at->class_after << 24;
	u64 counts = out->end.losses | out->end.marks << 16;

	word |= (u64)(u32)(at->choice_before | at->choice_after << 8 | at->judgement << 16 | out->end.first << 24) << 32;
	counts |= (u64)(at->signals[0] | at->signals[1] << 16) << 32;
	word ^= weir_blur(0, unknown);
	asm volatile("" : "+r"(word), "+r"(counts));
	at->vote[0] = (u8)word;
	at->vote[1] = (u8)(word >> 8);
	at->class_before = (u8)(word >> 16);
	at->class_after = (u8)(word >> 24);
	at->choice_before = (u8)(word >> 32);
	at->choice_after = (u8)(word >> 40);
	at->judgement = (u8)(word >> 48);
	out->end.first = (u32)(word >> 56);
	out->end.losses = (u16)counts;
	out->end.marks = (u16)(counts >> 16);
	at->signals[0] = (u16)(counts >> 32);
	at->signals[1] = (u16)(counts >> 48);
#else
	(void)out;
	(void)unknown;
#endif
}

/* A length in an octet: four bits of it and how far they are shifted, in units of 4.1 us. A step is 3 to 6 %. */
WEIR_INLINE u32 weir_step_of(u32 length)
{
	u32 units = length >> 12, shift = 0;

	if (units >= 16u << 8) {
		units >>= 8;
		shift = 8;
	}
	if (units >= 16u << 4) {
		units >>= 4;
		shift += 4;
	}
	if (units >= 16u << 2) {
		units >>= 2;
		shift += 2;
	}
	if (units >= 16u << 1) {
		units >>= 1;
		shift += 1;
	}
	return units < 16 ? 0 : shift << 4 | (units & 15);
}

/* The length that is kept so. */
WEIR_INLINE u32 weir_length_of(u32 step)
{
	return step ? (16 + (step & 15)) << (step >> 4) << 12 : 0;
}

/*
 * Whether a cycle would be too short to be a round trip: a path's round trips differ by what waits in its queues, but
 * not below half of what the flow's short ones took so far. Whoever ends cycles early, by forged acknowledgements or
 * true ones of what has not arrived, makes them no shorter than that, and half as long again only after dozens of them.
 */
WEIR_INLINE u32 weir_is_too_short(const struct weir_law_params *params, const struct weir_flow *flow, u64 now)
{
	u32 step = flow->shortest < WEIR_GUARD_MOST ? flow->shortest : WEIR_GUARD_MOST, least;

	if (!params->cycle_guard || flow->cycle - flow->first_cycle < WEIR_GUARD_LEARNS)
		return 0;
	least = weir_length_of(step) / 2;
	return weir_law_length(flow->cycle_started, now) < least &&
	       weir_law_length(flow->cycle_started, WEIR_EXACT_NOW(now)) < least;
}

/* Learns from a cycle of this length. */
WEIR_INLINE void weir_learn_length(struct weir_flow *flow, u32 length)
{
	u32 step = weir_step_of(length), turn = flow->cycle * 0x9e3779b1u; /* whose upper bits no pattern of lengths follows */

	if (step > WEIR_GUARD_MOST)
		step = WEIR_GUARD_MOST;
	if (!flow->shortest) {
		flow->shortest = (u8)step;
	} else if (step < flow->shortest) {
		if (flow->cycle - flow->first_cycle < WEIR_GUARD_LEARNS)
			flow->shortest = (u8)step;
		else if (!(turn >> (32 - WEIR_GUARD_DOWN)))
			flow->shortest--;
	} else if (step > flow->shortest && !(turn >> (32 - WEIR_GUARD_UP))) {
		flow->shortest++;
	}
}

/* Ends the current cycle and opens the next, which the packet at hand is the first of. */
WEIR_INLINE void weir_end_cycle(const struct weir_law_params *params, struct weir_flow *flow, u64 now,
				struct weir_outcome *out)
{
	int i;

	out->ended = 1;
	out->end = (struct weir_cycle_end){
		.started = flow->cycle_started,
		.ended = now,
		.cycle = flow->cycle,
		.window = flow->window[0],
		.packets = flow->cycle_packets,
		.losses = weir_signals(params, flow, WEIR_LOSS, 0),
		.marks = weir_signals(params, flow, WEIR_MARK, 0),
		.first = flow->cycle == flow->first_cycle,
	};
	if (params->whole_conduct)
		weir_judge_cycle(flow, now);
	weir_assess(params, flow, &out->assessed);
	weir_blur_outcome(out, flow->cycle);
	if (flow->cycle != flow->first_cycle || !params->skip_first_cycle) {
		flow->last_rtt = weir_law_length(flow->cycle_started, now);
		if (params->cycle_guard)
			weir_learn_length(flow, flow->last_rtt);
	}
	for (i = WEIR_HISTORY - 1; i > 0; i--)
		flow->window[i] = flow->window[i - 1];
	flow->window[0] = 0;
	if (params->byte_counters) {
		flow->loss_register <<= 8;
		flow->mark_register <<= 8;
	} else {
		for (i = WEIR_HISTORY - 1; i > 0; i--) {
			flow->loss[i] = flow->loss[i - 1];
			flow->mark[i] = flow->mark[i - 1];
		}
		flow->loss[0] = 0;
		flow->mark[0] = 0;
	}
	flow->cycle++;
	flow->cycle_packets = 0;
	flow->cycle_started = now;
	/* Two whole cycles in the new queue must pass before the next verdict (paper section III-B.3). Signals of packets
	 * that still wait in the old queue would undo that, hence the floor. */
	if (params->reset_on_switch && out->assessed.choice_before != out->assessed.choice_after) {
		weir_forget_signals(flow);
		weir_break_off(&flow->conduct);
		flow->signal_floor = flow->cycle;
		flow->shortest = 0; /* another queue, and so another round trip */
	}
}

#endif /* WEIR_JUDGEMENT_H */
