/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The judge of preset `robust`: whether a flow gives way, from all of its cycles and not from one comparison of two
 * windows. struct weir_conduct holds running means of what its cycles have in common; this file keeps them, makes
 * numbers of them that do not depend on the link (features), and adds up what each of a number of small trees says of
 * these (judge_trees.h, which tools/fit-judge.py writes). docs/model/judge.md explains it with pictures.
 *
 * Logs are of base 2 in units of 1/256: a halving is -256, a drop to nine tenths -39.
 */
#ifndef WEIR_JUDGE_H
#define WEIR_JUDGE_H

#include "law_state.h"

/* The numbers that the trees ask, in the order of weir_features(). */
enum weir_feature {
	WEIR_F_SPREAD_WINDOW,
	WEIR_F_SPREAD_RATE,
	WEIR_F_RANGE,
	WEIR_F_BLOCKS_FELL,
	WEIR_F_AFTER_SIGNALS,
	WEIR_F_AFTER_QUIET,
	WEIR_F_LATER_WINDOW,
	WEIR_F_LATER_RATE,
	WEIR_F_JUMP_WINDOW,
	WEIR_F_JUMP_RATE,
	WEIR_F_GAVE_WINDOW,
	WEIR_F_GAVE_RATE,
	WEIR_F_GAVE_BY_JUMP,
	WEIR_F_GAVE_RATE_BY_JUMP,
	WEIR_F_ANSWERED,
	WEIR_F_FELL_ALONE,
	WEIR_F_CONTRAST,
	WEIR_F_LASTED,
	WEIR_F_GREW,
	WEIR_F_SIGNALLED,
	WEIR_F_LOSSES,
	WEIR_F_MARKS,
	WEIR_F_SIZE,
	WEIR_F_SIGNAL_RATE,
	WEIR_F_SIZE_BY_SIGNALLED,
	WEIR_F_MARK_RATE,
	WEIR_F_BEYOND_FRIENDLY,
	WEIR_F_LENGTH,
	WEIR_F_CYCLES,
	WEIR_F_SIGNALS,
	WEIR_F_QUIET,
	WEIR_F_SUM,
	WEIR_FEATURES,
};

#include "judge_trees.h"

/* -256 log2(9/10): less than this is no answer (paper section III-A.1). */
#define WEIR_ANSWER 39

/* Changes beyond a factor of sixteen count as that. */
#define WEIR_MOST_CHANGE 1024

/* A cycle nearly six times as long as usual is a pause. */
#define WEIR_PAUSE 640

/* Added to logs of rates, bytes by ns, to keep them above zero. */
#define WEIR_RATE_BIAS 12000

/* A verdict changes where the score is beyond this on the other side: it takes more to win the better verdict than to lose
 * it. The first verdict takes this much while there were few signals, and any score after that. */
#define WEIR_SURE_TO_PROMOTE 288
#define WEIR_SURE_TO_DEMOTE 144
#define WEIR_SURE_AT_FIRST 384
#define WEIR_FEW_SIGNALS 6

/*
 * In eBPF a function of its own, which the verifier looks at once and for itself (as at parse() of crq.bpf.c), and of
 * whose result it knows nothing: so it follows no branch of it through what comes behind. Programs that end no cycles
 * do without them all (WEIR_NO_JUDGE).
 */
#ifdef __bpf__
#define WEIR_APART __attribute__((noinline))
#else
#define WEIR_APART static inline __attribute__((unused))
#endif

/* weir_conduct.flags */
#define WEIR_PHASE 0x07    /* cycles since the signal whose answer is awaited, less one; 0 for none */
#define WEIR_ANSWERED 0x08 /* window and rate have both fallen since */
#define WEIR_BLOCK_SIGNALLED 0x10
#define WEIR_BLOCK_BEFORE_SIGNALLED 0x20

/* weir_conduct.places */
#define WEIR_BLOCK_PLACE 0x07
#define WEIR_WHOLE 0x18    /* cycles in a row that can be compared, up to 2 */
#define WEIR_ONE_WHOLE 0x08
#define WEIR_PAUSES 0x60   /* pauses, up to 3; a complete block takes one back */
#define WEIR_ONE_PAUSE 0x20

/* Signals so far are of another queue or connection: what is awaited and compared begins anew; what is known stays. */
WEIR_INLINE void weir_break_off(struct weir_conduct *c)
{
	c->places &= (u8)~WEIR_WHOLE;
	c->flags &= (u8) ~(WEIR_PHASE | WEIR_ANSWERED);
}

/* The verdict on a flow that had `verdict` until now and comes to this score. */
WEIR_INLINE u32 weir_verdict(const struct weir_conduct *c, u32 verdict, s32 score)
{
	s32 at_first = c->signals < WEIR_FEW_SIGNALS ? WEIR_SURE_AT_FIRST : 0;

	if (score > (verdict ? WEIR_SURE_TO_PROMOTE : at_first))
		return WEIR_RESPONSIVE;
	return score < -(verdict ? WEIR_SURE_TO_DEMOTE : at_first) ? WEIR_UNRESPONSIVE : verdict;
}

/* Where the features are written: programs have little stack left. */
#ifndef WEIR_FEATURES_AT
#define WEIR_FEATURES_AT(name) s16 of_all[WEIR_FEATURES], *name = of_all
#endif

#ifdef WEIR_NO_JUDGE
int weir_judge_cycle(struct weir_flow *flow, u64 now);
int weir_judge(struct weir_flow *flow);
#else

/* 256 log2(value), with 0 taken for 1: log2(1 + f) = f + 0.344 f (1 - f), right to 3.1 units. */
WEIR_APART int weir_log(u64 value)
{
	u64 rest = value | !value;
	u32 whole = 0, part;

	if (rest >> 32) {
		whole += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		whole += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		whole += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		whole += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		whole += 2;
		rest >>= 2;
	}
	whole += (u32)(rest >> 1);
	part = (u32)((value | !value) << (63 - whole) >> 47) & 0xffff;
	part += (part * (0x10000 - part) >> 16) * 88 >> 8;
	return (s32)(whole * 256 + (part >> 8));
}

WEIR_APART int weir_clip(s32 value, s32 most)
{
	return value > most ? most : value < -most ? -most : value;
}

WEIR_APART int weir_magnitude(s32 value)
{
	return value < 0 ? -value : value;
}

/* A count that stops at the top of its byte. */
WEIR_INLINE u8 weir_tally(u8 count)
{
	return (u8)(count + (count < 255));
}

/* Moves a mean of `count` values towards one more: the mean of all, and of the last 2^shift or so once there are as
 * many. */
WEIR_APART int weir_mean(s32 mean, s32 value, u32 count, u32 shift)
{
	u32 weight = count + 1 < 1u << shift ? count + 1 : 1u << shift;
	s32 change = value - mean;

	/* There is no signed division before version 4 of the instruction set. */
	return change < 0 ? mean - (s32)((u32)-change / weight) : mean + (s32)((u32)change / weight);
}

/* Means over cycles, over signals, over answers, and over blocks of eight cycles. */
#define WEIR_OF_CYCLES 6
#define WEIR_OF_SIGNALS 5
#define WEIR_OF_ANSWERS 4
#define WEIR_OF_BLOCKS 5

/* A block of eight cycles is complete. */
WEIR_INLINE void weir_end_block(struct weir_conduct *c)
{
	s32 window = (c->mean_window >> 1) + (c->block_window >> 3), rate = (c->mean_rate >> 1) + (c->block_rate >> 3);
	s32 fell_window = weir_clip(window - c->last_window, WEIR_MOST_CHANGE);
	s32 fell_rate = weir_clip(rate - c->last_rate, WEIR_MOST_CHANGE);

	if (c->blocks) {
		u32 before = c->blocks - 1u;

		c->spread_window = (u16)weir_mean(c->spread_window, 16 * weir_clip(weir_magnitude(c->block_window >> 3), 2000), before,
						  WEIR_OF_BLOCKS);
		c->spread_rate = (u16)weir_mean(c->spread_rate, 16 * weir_clip(weir_magnitude(c->block_rate >> 3), 2000), before,
						WEIR_OF_BLOCKS);
		if (c->flags & WEIR_BLOCK_BEFORE_SIGNALLED)
			c->after_signals = (s16)weir_mean(c->after_signals, 16 * fell_window, before, 4);
		else
			c->after_quiet = (s16)weir_mean(c->after_quiet, 16 * fell_window, before, 4);
		c->blocks_fell = (u8)weir_mean(c->blocks_fell, fell_window <= -WEIR_ANSWER && fell_rate <= -WEIR_ANSWER ? 250 : 0,
					       before, WEIR_OF_BLOCKS);
	}
	c->mean_window = (u16)weir_mean(c->mean_window, 2 * window, c->blocks, 4);
	c->mean_rate = (u16)weir_mean(c->mean_rate, 2 * rate, c->blocks, 4);
	if (!c->blocks || window > c->highest)
		c->highest = (u16)window;
	else
		c->highest -= (c->highest - window) >> 5;
	if (!c->blocks || window < c->lowest)
		c->lowest = (u16)window;
	else
		c->lowest += (window - c->lowest) >> 5;
	c->last_window = (u16)window;
	c->last_rate = (u16)rate;
	c->blocks = weir_tally(c->blocks);
	c->block_window = 0;
	c->block_rate = 0;
	c->flags = (u8)((c->flags & (WEIR_PHASE | WEIR_ANSWERED)) |
			(c->flags & WEIR_BLOCK_SIGNALLED ? WEIR_BLOCK_BEFORE_SIGNALLED : 0));
}

/* Follows the answer to one signal over the cycles from the second to the fifth behind it. */
WEIR_INLINE void weir_follow(struct weir_conduct *c, s32 window, s32 rate)
{
	s32 fell_window = weir_clip(window - c->reference_window, WEIR_MOST_CHANGE);
	s32 fell_rate = weir_clip(rate - c->reference_rate, WEIR_MOST_CHANGE);
	u32 phase = c->flags & WEIR_PHASE;
	s32 lesser;

	if (phase <= 2 && fell_window <= -WEIR_ANSWER && fell_rate <= -WEIR_ANSWER)
		c->flags |= WEIR_ANSWERED;
	c->sum_window += fell_window;
	c->sum_rate += fell_rate;
	if (phase < 4) {
		c->flags++;
		return;
	}
	lesser = c->sum_window > c->sum_rate ? c->sum_window : c->sum_rate;
	c->gave_window = (s16)weir_mean(c->gave_window, 4 * c->sum_window, c->answers, WEIR_OF_ANSWERS);
	c->gave_rate = (s16)weir_mean(c->gave_rate, 4 * c->sum_rate, c->answers, WEIR_OF_ANSWERS);
	c->answered = (u8)weir_mean(c->answered, c->flags & WEIR_ANSWERED ? 250 : 0, c->answers, WEIR_OF_ANSWERS);
	c->lasted = (u8)weir_mean(c->lasted, (lesser >> 2) <= -50 ? 250 : 0, c->answers, WEIR_OF_ANSWERS);
	c->answers = weir_tally(c->answers);
	c->flags &= (u8) ~(WEIR_PHASE | WEIR_ANSWERED);
}

/* Whether the cycle two before has signals. */
WEIR_INLINE u32 weir_was_signalled(const struct weir_flow *flow)
{
	return flow->loss[2] | flow->mark[2];
}

/* Takes note of the cycle n that ends, whose window and signals and those of n-1 and n-2 are still in their places. Its
 * own signals and those of n-1 may not all have been given yet. */
WEIR_INLINE void weir_note_cycle(struct weir_flow *flow, u64 took)
{
	struct weir_conduct *c = &flow->conduct;
	s32 window = weir_log(flow->window[0]), length = weir_log(took), packets = weir_log(flow->cycle_packets);
	s32 rate = window + WEIR_RATE_BIAS - length, window1, window2, fell_window, fell_rate;
	u32 whole = c->places & WEIR_WHOLE;

	if (rate < 0)
		rate = 0;
	if (!c->cycles) {
		c->mean_window = (u16)(2 * window);
		c->mean_rate = (u16)(2 * rate);
		c->size = (u16)(4 * packets);
	} else if (c->cycles >= 8 && (c->places & WEIR_PAUSES) != WEIR_PAUSES &&
		   length - ((c->mean_window >> 1) + WEIR_RATE_BIAS - (c->mean_rate >> 1)) > WEIR_PAUSE) {
		/* There is nothing to compare. But where many cycles are like that, it is how the flow is now, or how somebody
		 * wants not to be judged. */
		weir_break_off(c);
		c->places += WEIR_ONE_PAUSE;
		c->rate[1] = c->rate[0];
		c->rate[0] = (u16)rate;
		return;
	}
	window1 = weir_log(flow->window[1]);
	if (whole) {
		c->jump_window = (u16)weir_mean(c->jump_window, 16 * weir_magnitude(weir_clip(window - window1, WEIR_MOST_CHANGE)),
						c->cycles, WEIR_OF_CYCLES);
		c->jump_rate = (u16)weir_mean(c->jump_rate, 16 * weir_magnitude(weir_clip(rate - c->rate[0], WEIR_MOST_CHANGE)),
					      c->cycles, WEIR_OF_CYCLES);
	}
	c->size = (u16)weir_mean(c->size, 4 * packets, c->cycles, WEIR_OF_CYCLES);
	if (whole == 2 * WEIR_ONE_WHOLE) {
		window2 = weir_log(flow->window[2]);
		fell_window = weir_clip(window - window2, WEIR_MOST_CHANGE);
		fell_rate = weir_clip(rate - c->rate[1], WEIR_MOST_CHANGE);
		c->signalled = (u16)weir_mean(c->signalled, weir_was_signalled(flow) ? 32000 : 0, c->cycles, WEIR_OF_CYCLES);
		c->losses = (u16)weir_mean(c->losses, 16 * weir_clip(flow->loss[2], 4000), c->cycles,
					   WEIR_OF_CYCLES);
		c->marks = (u16)weir_mean(c->marks, 16 * weir_clip(flow->mark[2], 4000), c->cycles,
					  WEIR_OF_CYCLES);
		if (weir_was_signalled(flow)) {
			c->flags |= WEIR_BLOCK_SIGNALLED;
			c->later_window = (s16)weir_mean(c->later_window, 16 * fell_window, c->signals, WEIR_OF_SIGNALS);
			c->later_rate = (s16)weir_mean(c->later_rate, 16 * fell_rate, c->signals, WEIR_OF_SIGNALS);
			c->marked = (s16)weir_mean(c->marked, 8 * (flow->mark[2] ? weir_log(flow->mark[2]) - packets : -2500),
						   c->signals, WEIR_OF_SIGNALS);
			c->signals = weir_tally(c->signals);
			if (!(c->flags & WEIR_PHASE)) {
				c->flags |= 1;
				c->reference_window = (u16)window2;
				c->reference_rate = c->rate[1];
				c->sum_window = 0;
				c->sum_rate = 0;
				if (window1 - window2 <= -WEIR_ANSWER && c->rate[0] - c->rate[1] <= -WEIR_ANSWER)
					c->flags |= WEIR_ANSWERED;
			}
		} else if (!(flow->loss[0] | flow->loss[1] | flow->mark[0] | flow->mark[1])) {
			s32 both = fell_window <= -WEIR_ANSWER && fell_rate <= -WEIR_ANSWER;

			c->fell_alone = (u8)weir_mean(c->fell_alone, both ? 250 : 0, c->quiet, WEIR_OF_SIGNALS);
			c->grew = (s16)weir_mean(c->grew, 64 * weir_clip(window - window1, 128), c->quiet, WEIR_OF_SIGNALS);
			c->quiet = weir_tally(c->quiet);
		}
		if (c->flags & WEIR_PHASE)
			weir_follow(c, window, rate);
	} else {
		c->places += WEIR_ONE_WHOLE;
	}
	c->rate[1] = c->rate[0];
	c->rate[0] = (u16)rate;
	c->block_window += weir_clip(window - (c->mean_window >> 1), 4000);
	c->block_rate += weir_clip(rate - (c->mean_rate >> 1), 4000);
	if ((c->places & WEIR_BLOCK_PLACE) == 7) {
		c->places &= (u8)~WEIR_BLOCK_PLACE;
		if (c->places & WEIR_PAUSES)
			c->places -= WEIR_ONE_PAUSE;
		weir_end_block(c);
	} else {
		c->places++;
	}
	c->cycles = weir_tally(c->cycles);
}

/* The numbers that the trees ask. */
WEIR_INLINE void weir_features(const struct weir_conduct *c, s16 *of)
{
	s32 losses = weir_log(c->losses + 1u), marks = weir_log(c->marks + 1u), both = weir_log((u32)c->losses + c->marks + 1);
	s32 signalled = weir_log((c->signalled >> 5) + 1) - 2550, size = c->size >> 2;
	s32 length = (c->mean_window >> 1) + WEIR_RATE_BIAS - (c->mean_rate >> 1);
	/* Windows that Reno (1.5 / q) and Cubic (1.33 (T / q)^3, T in seconds) would have where the share q of cycles is
	 * signalled. */
	s32 reno = 150 - signalled, cubic = 105 + 3 * (length - 7654 - signalled), fair = reno > cubic ? reno : cubic;
	s32 gave_window = c->gave_window >> 4, gave_rate = c->gave_rate >> 4;

	of[WEIR_F_SPREAD_WINDOW] = (s16)(c->spread_window >> 2);
	of[WEIR_F_SPREAD_RATE] = (s16)(c->spread_rate >> 2);
	of[WEIR_F_RANGE] = (s16)(c->highest - c->lowest);
	of[WEIR_F_BLOCKS_FELL] = c->blocks_fell;
	of[WEIR_F_AFTER_SIGNALS] = (s16)(c->after_signals >> 2);
	of[WEIR_F_AFTER_QUIET] = (s16)(c->after_quiet >> 2);
	of[WEIR_F_LATER_WINDOW] = (s16)(c->later_window >> 2);
	of[WEIR_F_LATER_RATE] = (s16)(c->later_rate >> 2);
	of[WEIR_F_JUMP_WINDOW] = (s16)(c->jump_window >> 2);
	of[WEIR_F_JUMP_RATE] = (s16)(c->jump_rate >> 2);
	of[WEIR_F_GAVE_WINDOW] = (s16)gave_window;
	of[WEIR_F_GAVE_RATE] = (s16)gave_rate;
	of[WEIR_F_GAVE_BY_JUMP] =
		(s16)(weir_log((u32)(gave_window < 0 ? -gave_window : 0) + 1) - weir_log((c->jump_window >> 4) + 1));
	of[WEIR_F_GAVE_RATE_BY_JUMP] =
		(s16)(weir_log((u32)(gave_rate < 0 ? -gave_rate : 0) + 1) - weir_log((c->jump_rate >> 4) + 1));
	of[WEIR_F_ANSWERED] = c->answered;
	of[WEIR_F_FELL_ALONE] = c->fell_alone;
	of[WEIR_F_CONTRAST] = (s16)(c->answered - c->fell_alone);
	of[WEIR_F_LASTED] = c->lasted;
	of[WEIR_F_GREW] = (s16)(c->grew >> 4);
	of[WEIR_F_SIGNALLED] = (s16)signalled;
	of[WEIR_F_LOSSES] = (s16)losses;
	of[WEIR_F_MARKS] = (s16)marks;
	of[WEIR_F_SIZE] = (s16)size;
	of[WEIR_F_SIGNAL_RATE] = (s16)(both - size);
	of[WEIR_F_SIZE_BY_SIGNALLED] = (s16)(size + signalled);
	of[WEIR_F_MARK_RATE] = (s16)(c->marked >> 3);
	of[WEIR_F_BEYOND_FRIENDLY] = (s16)weir_clip(size - fair, 8000);
	of[WEIR_F_LENGTH] = (s16)length;
	of[WEIR_F_CYCLES] = c->cycles;
	of[WEIR_F_SIGNALS] = c->signals;
	of[WEIR_F_QUIET] = c->quiet;
	of[WEIR_F_SUM] = c->flags & WEIR_PHASE ? c->sum_window : 0;
}

/* 1 where the value is above the limit, without a branch: the verifier would follow each. */
WEIR_INLINE u32 weir_is_above(s32 value, s32 limit)
{
	s32 room = limit - value;

#ifdef __bpf__
	asm volatile("" : "+r"(room)); /* or the compiler makes a branch of it */
#endif
	return (u32)room >> 31;
}

/* The sum of what the trees say; above zero for a flow that gives way. The masks change nothing; the verifier sees the
 * bounds by them. */
WEIR_INLINE s32 weir_score(const s16 *of)
{
	s32 score = 0;
	u32 tree, level, at;

	for (tree = 0; tree < WEIR_TREES; tree++) {
		const struct weir_tree *t = &weir_trees[tree];

		at = 0;
		for (level = 0; level < 3; level++)
			at = 2 * at + 1 + weir_is_above(of[t->feature[at & 7] & (WEIR_FEATURES - 1)], t->limit[at & 7]);
		at -= 7;
#ifdef __bpf__
		asm volatile("" : "+r"(at)); /* or the mask goes elsewhere, and verifiers before 6.4 see no bound */
#endif
		score += t->points[at & 7];
	}
	return score;
}

/* Takes note of the cycle that ends now, but for a flow's first, whose beginning was not seen. */
WEIR_APART int weir_judge_cycle(struct weir_flow *flow, u64 now)
{
	if (!flow)
		return 0;
	flow->conduct.news = 0;
	if (flow->cycle == flow->first_cycle)
		return 0;
	weir_note_cycle(flow, now > flow->cycle_started ? now - flow->cycle_started : 1);
	if (flow->conduct.signals && (weir_was_signalled(flow) || !(flow->conduct.places & WEIR_BLOCK_PLACE)))
		flow->conduct.news = 1;
	return 0;
}

/* What the trees make of a flow's cycles: above zero if it gives way. */
WEIR_APART int weir_judge(struct weir_flow *flow)
{
	WEIR_FEATURES_AT(features);

	if (!flow || !features)
		return 0;
	weir_features(&flow->conduct, features);
	return weir_score(features);
}
#endif /* WEIR_NO_JUDGE */

#endif /* WEIR_JUDGE_H */
