/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The judge of bpf/judge.h for tools/fit-judge.py: what it knows of a flow at some moments, and what it says meanwhile. */
#include <string.h>

#include "judge.h"

/* A cycle as `law_cycles` writes it: start and length in ns, payload bytes, packets, losses, marks, and whether its
 * beginning was not seen. */
enum { STARTED, TOOK, WINDOW, PACKETS, LOSSES, MARKS, FIRST, COLUMNS };

int features_of(const s64 *cycles, int count, const int *after, int moments, s16 *out);
void verdicts_of(const s64 *cycles, int count, int right, s64 *out);
void scores_of(const s64 *cycles, int count, s32 *out);

static u16 most(s64 count)
{
	return count > 0xffff ? 0xffff : (u16)count;
}

/* Puts a flow where it is when cycle `at` ends. */
static void place(struct weir_flow *flow, const s64 *cycles, int at)
{
	int age;

	for (age = 0; age < WEIR_HISTORY; age++) {
		const s64 *cycle = cycles + COLUMNS * (at - age);

		flow->window[age] = at >= age ? (u32)cycle[WINDOW] : 0;
		flow->loss[age] = at >= age ? most(cycle[LOSSES]) : 0;
		flow->mark[age] = at >= age ? most(cycle[MARKS]) : 0;
	}
	flow->cycle_packets = (u32)cycles[COLUMNS * at + PACKETS];
	flow->cycle = 1; /* not the first one */
}

/* Writes the features so many cycles after the first that counts as signalled, or at the end where that comes before. */
int features_of(const s64 *cycles, int count, const int *after, int moments, s16 *out)
{
	struct weir_flow flow;
	int at, first = -1, done = 0;

	memset(&flow, 0, sizeof(flow));
	for (at = 0; at < count; at++) {
		if (cycles[COLUMNS * at + FIRST])
			continue;
		place(&flow, cycles, at);
		weir_judge_cycle(&flow, (u64)cycles[COLUMNS * at + TOOK]);
		if (first < 0 && flow.conduct.signals)
			first = at;
		for (; done < moments && first >= 0 && at >= first + after[done]; done++)
			weir_features(&flow.conduct, out + WEIR_FEATURES * done);
	}
	for (; done < moments; done++)
		weir_features(&flow.conduct, out + WEIR_FEATURES * done);
	return first;
}

/* Writes the last verdict, ns from the first signal to the first right verdict (-1 for never), ns with a right verdict
 * and with any, and how often it changed. */
void verdicts_of(const s64 *cycles, int count, int right, s64 *out)
{
	struct weir_flow flow;
	s64 first = -1;
	int at;

	memset(&flow, 0, sizeof(flow));
	memset(out, 0, 5 * sizeof(*out));
	out[1] = -1;
	for (at = 0; at < count; at++) {
		const s64 *cycle = cycles + COLUMNS * at;
		u32 verdict;

		if (out[0]) {
			out[3] += cycle[TOOK];
			out[2] += out[0] == right ? cycle[TOOK] : 0;
		}
		if (first < 0 && cycle[LOSSES] + cycle[MARKS])
			first = cycle[STARTED];
		if (cycle[FIRST])
			continue;
		place(&flow, cycles, at);
		weir_judge_cycle(&flow, (u64)cycle[TOOK]);
		if (!flow.conduct.news)
			continue;
		verdict = weir_verdict(&flow.conduct, (u32)out[0], weir_judge(&flow));
		out[4] += out[0] && verdict != (u32)out[0];
		out[0] = verdict;
		if (out[0] == right && out[1] < 0)
			out[1] = cycle[STARTED] + cycle[TOOK] - first;
	}
}

/* Writes the score after each cycle. */
void scores_of(const s64 *cycles, int count, s32 *out)
{
	struct weir_flow flow;
	int at;

	memset(&flow, 0, sizeof(flow));
	for (at = 0; at < count; at++) {
		if (!cycles[COLUMNS * at + FIRST]) {
			place(&flow, cycles, at);
			weir_judge_cycle(&flow, (u64)cycles[COLUMNS * at + TOOK]);
		}
		out[at] = weir_judge(&flow);
	}
}
