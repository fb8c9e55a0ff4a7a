/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Native entry points of bpf/packet.h, bpf/law.h and bpf/table.h for src/ffi.rs, and the layout of every structure that crosses the
 * border, so that a test can compare it with the Rust mirrors.
 */
#include <stddef.h>

#include "fast_path.h"

void weir_native_parse(const u8 *data, size_t length, u32 frame_bytes, u32 start, struct weir_packet *out);
u32 weir_native_key(const struct weir_packet *packet, u32 with_protocol, struct weir_key *key);
void weir_native_paper(struct weir_law_params *params);
void weir_native_comsys(struct weir_law_params *params);
void weir_native_robust(struct weir_law_params *params);
u32 weir_native_fast_applies(const struct weir_law_params *params);
u32 weir_native_opens(const struct weir_law_params *params, const struct weir_packet *packet, u32 reverse);
void weir_native_forward(const struct weir_law_params *params, struct weir_flow *flow, const struct weir_packet *packet,
			 u64 now, struct weir_outcome *out);
u32 weir_native_reverse(const struct weir_law_params *params, struct weir_flow *flow, const struct weir_packet *packet);
u32 weir_native_signal(const struct weir_law_params *params, struct weir_flow *flow, u32 kind, u32 cycle, u32 segments);
u32 weir_native_choice(const struct weir_law_params *params, const struct weir_flow *flow);
u32 weir_native_counted(const struct weir_law_params *params, const struct weir_flow *flow, u32 kind, u32 age);
void weir_native_take_over(struct weir_flow *flow, u32 law);
u32 weir_native_wants(const struct weir_law_params *law, const struct weir_packet *packet, u32 reverse);
u32 weir_native_hash(const struct weir_table_params *params, const struct weir_key *key);
u32 weir_native_hash_ipv4(const struct weir_table_params *params, const struct weir_key *key);
void weir_native_hash_prepare(struct weir_table_params *params);
u32 weir_native_filter_of(u32 one_port, u32 other_port);
u32 weir_native_is_filtered(const struct weir_key *key);
u32 weir_native_filter_passes(const struct weir_filter *filter, const struct weir_packet *packet);
u32 weir_native_bucket_of(const struct weir_table_params *params, u32 hash);
u32 weir_native_tag_of(u32 hash);
u32 weir_native_way_of(const struct weir_bucket *bucket, const struct weir_key *key, u32 hash);
u32 weir_native_may_go(const struct weir_table_params *params, const struct weir_bucket *bucket, u32 way, u32 tick);
void weir_native_book(const struct weir_law_params *law, struct weir_entry *entry, u32 kind, u32 cycle, u32 segments,
		      struct weir_counters *counters);
u32 weir_native_table_forward(const struct weir_law_params *law, const struct weir_table_params *params,
			      struct weir_bucket *bucket, struct weir_waiting *waiting, struct weir_filter *filter,
			      const struct weir_packet *packet, const struct weir_key *key, u32 hash, u32 ascending,
			      u64 now, struct weir_counters *counters, struct weir_outcome *out);
u32 weir_native_table_reverse(const struct weir_law_params *law, const struct weir_table_params *params,
			      struct weir_bucket *bucket, struct weir_waiting *waiting, struct weir_filter *filter,
			      const struct weir_packet *packet, const struct weir_key *key, u32 hash, u32 ascending,
			      u64 now, struct weir_counters *counters);
void weir_native_count(struct weir_counters *counters, const struct weir_packet *packet, u32 bytes);
void weir_native_count_choice(struct weir_counters *counters, u32 choice, u32 bytes);
void weir_native_count_signal(struct weir_counters *counters, u32 kind, u32 segments);
u32 weir_native_glance(const u8 *data, size_t length, u32 frame_bytes, u32 start, struct weir_packet *out);
u32 weir_native_short_cut(const struct weir_law_params *law, const struct weir_table_params *params,
			  struct weir_bucket *bucket, const struct weir_packet *packet, const struct weir_key *key,
			  u32 hash, u32 reverse, u64 now, u32 *cycle, u32 *choice);
extern const u32 weir_entry_layout[4];
extern const u32 weir_bucket_layout[7];
extern const u32 weir_candidate_layout[4];
extern const u32 weir_waiting_layout[4];
extern const u32 weir_table_params_layout[13];
extern const u32 weir_counters_layout[2];
extern const u32 weir_filter_layout[1];
extern const u32 weir_packet_layout[28];
extern const u32 weir_key_layout[7];
extern const u32 weir_law_params_layout[43];
extern const u32 weir_flow_layout[31];
extern const u32 weir_cycle_end_layout[9];
extern const u32 weir_assessment_layout[14];
extern const u32 weir_outcome_layout[8];

void weir_native_parse(const u8 *data, size_t length, u32 frame_bytes, u32 start, struct weir_packet *out)
{
	weir_parse(data, data + length, frame_bytes, start, out);
}

u32 weir_native_key(const struct weir_packet *packet, u32 with_protocol, struct weir_key *key)
{
	return weir_key_of(packet, with_protocol, key);
}

void weir_native_paper(struct weir_law_params *params)
{
	weir_law_paper(params);
}

void weir_native_comsys(struct weir_law_params *params)
{
	weir_law_comsys(params);
}

void weir_native_robust(struct weir_law_params *params)
{
	weir_law_robust(params);
}

u32 weir_native_fast_applies(const struct weir_law_params *params)
{
	return weir_fast_applies(params);
}

u32 weir_native_opens(const struct weir_law_params *params, const struct weir_packet *packet, u32 reverse)
{
	return weir_law_opens(params, packet, reverse);
}

void weir_native_forward(const struct weir_law_params *params, struct weir_flow *flow, const struct weir_packet *packet,
			 u64 now, struct weir_outcome *out)
{
	weir_law_forward(params, flow, packet, now, out);
}

u32 weir_native_reverse(const struct weir_law_params *params, struct weir_flow *flow, const struct weir_packet *packet)
{
	return weir_law_reverse(params, flow, packet);
}

u32 weir_native_signal(const struct weir_law_params *params, struct weir_flow *flow, u32 kind, u32 cycle, u32 segments)
{
	return weir_law_signal(params, flow, kind, cycle, segments);
}

u32 weir_native_choice(const struct weir_law_params *params, const struct weir_flow *flow)
{
	return weir_law_choice(params, flow);
}

u32 weir_native_counted(const struct weir_law_params *params, const struct weir_flow *flow, u32 kind, u32 age)
{
	return age < WEIR_HISTORY ? weir_signals(params, flow, kind, age) : 0;
}

void weir_native_take_over(struct weir_flow *flow, u32 law)
{
	weir_take_over(flow, law);
}

u32 weir_native_wants(const struct weir_law_params *law, const struct weir_packet *packet, u32 reverse)
{
	return weir_table_wants(law, packet, reverse);
}

void weir_native_hash_prepare(struct weir_table_params *params)
{
	weir_hash_prepare(params);
}

u32 weir_native_hash_ipv4(const struct weir_table_params *params, const struct weir_key *key)
{
	return weir_hash_ipv4(params, key);
}

u32 weir_native_hash(const struct weir_table_params *params, const struct weir_key *key)
{
	return weir_hash(params, key);
}

u32 weir_native_filter_of(u32 one_port, u32 other_port)
{
	return weir_filter_of(one_port, other_port);
}

u32 weir_native_is_filtered(const struct weir_key *key)
{
	return weir_is_filtered(key);
}

u32 weir_native_filter_passes(const struct weir_filter *filter, const struct weir_packet *packet)
{
	return weir_filter_passes(filter, packet) != 0;
}

u32 weir_native_bucket_of(const struct weir_table_params *params, u32 hash)
{
	return weir_bucket_of(params, hash);
}

u32 weir_native_tag_of(u32 hash)
{
	return weir_tag_of(hash);
}

u32 weir_native_way_of(const struct weir_bucket *bucket, const struct weir_key *key, u32 hash)
{
	return weir_way_of(bucket, key, weir_tag_of(hash));
}

u32 weir_native_may_go(const struct weir_table_params *params, const struct weir_bucket *bucket, u32 way, u32 tick)
{
	return weir_may_go(params, bucket, way & (WEIR_WAYS - 1), tick);
}

void weir_native_book(const struct weir_law_params *law, struct weir_entry *entry, u32 kind, u32 cycle, u32 segments,
		      struct weir_counters *counters)
{
	weir_book(law, entry, kind, cycle, weir_law_weight(law, segments), counters);
}

u32 weir_native_table_forward(const struct weir_law_params *law, const struct weir_table_params *params,
			      struct weir_bucket *bucket, struct weir_waiting *waiting, struct weir_filter *filter,
			      const struct weir_packet *packet, const struct weir_key *key, u32 hash, u32 ascending,
			      u64 now, struct weir_counters *counters, struct weir_outcome *out)
{
	return weir_table_forward(law, params, bucket, waiting, filter, packet, key, hash, ascending, now, counters, out);
}

void weir_native_count(struct weir_counters *counters, const struct weir_packet *packet, u32 bytes)
{
	weir_count(counters, packet, bytes);
}

void weir_native_count_choice(struct weir_counters *counters, u32 choice, u32 bytes)
{
	weir_count_choice(counters, choice, bytes);
}

void weir_native_count_signal(struct weir_counters *counters, u32 kind, u32 segments)
{
	weir_count_signal(counters, kind, segments);
}

u32 weir_native_table_reverse(const struct weir_law_params *law, const struct weir_table_params *params,
			      struct weir_bucket *bucket, struct weir_waiting *waiting, struct weir_filter *filter,
			      const struct weir_packet *packet, const struct weir_key *key, u32 hash, u32 ascending,
			      u64 now, struct weir_counters *counters)
{
	return weir_table_reverse(law, params, bucket, waiting, filter, packet, key, hash, ascending, now, counters);
}

static u32 keep(const struct weir_packet *packet, void *with)
{
	*(struct weir_packet *)with = *packet;
	return 1;
}

/* What the fast path reads of a frame; 0 where it declines. */
u32 weir_native_glance(const u8 *data, size_t length, u32 frame_bytes, u32 start, struct weir_packet *out)
{
	struct weir_packet packet;

	return weir_glance(data, data + length, frame_bytes, start, &packet, keep, out);
}

/* Runs a packet with this key and hash on a bucket the fast way. Returns its way, or WEIR_WAYS where the fast path
 * declines; one more where it has another key or hash. */
u32 weir_native_short_cut(const struct weir_law_params *law, const struct weir_table_params *params,
			  struct weir_bucket *bucket, const struct weir_packet *packet, const struct weir_key *key,
			  u32 hash, u32 reverse, u64 now, u32 *cycle, u32 *choice)
{
	u32 tick = (u32)(now >> WEIR_TICK_SHIFT), same_hash, done;
	struct weir_key same;
	struct weir_seat seat;

	if (!weir_fast_applies(law) || !weir_fast_key(params, packet, &same, &same_hash))
		return WEIR_WAYS;
	if (same_hash != hash || !weir_same_key(&same, key))
		return WEIR_WAYS + 1;
	if (!weir_fast_seat(bucket, key, hash, &seat))
		return WEIR_WAYS;
	done = reverse ? weir_fast_reverse(law, params, &seat, packet, key, tick) :
			 weir_fast_forward(law, params, &seat, packet, key, tick, cycle, choice);
	return done ? (u32)(seat.entry - bucket->way) : WEIR_WAYS;
}

/* Size of a structure, then the offset of each field in order. */
#define AT(type, field) (u32)offsetof(struct type, field)

const u32 weir_packet_layout[28] = {
	sizeof(struct weir_packet), AT(weir_packet, src), AT(weir_packet, dst), AT(weir_packet, tcp_seq),
	AT(weir_packet, tcp_ack), AT(weir_packet, tsval), AT(weir_packet, tsecr), AT(weir_packet, sack_right),
	AT(weir_packet, ip_bytes), AT(weir_packet, payload_bytes), AT(weir_packet, frame_bytes), AT(weir_packet,
	quic_short_bytes), AT(weir_packet, src_port), AT(weir_packet, dst_port), AT(weir_packet, tcp_window),
	AT(weir_packet, l3_offset), AT(weir_packet, l4_offset), AT(weir_packet, ecn_offset), AT(weir_packet, kind),
	AT(weir_packet, protocol), AT(weir_packet, ip_version), AT(weir_packet, ecn), AT(weir_packet, tcp_flags),
	AT(weir_packet, tcp_options), AT(weir_packet, quic_flags), AT(weir_packet, quic_first), AT(weir_packet,
	layers), AT(weir_packet, reserved)
};

const u32 weir_key_layout[7] = {
	sizeof(struct weir_key), AT(weir_key, low), AT(weir_key, high), AT(weir_key, low_port), AT(weir_key,
	high_port), AT(weir_key, protocol), AT(weir_key, reserved)
};

const u32 weir_law_params_layout[43] = {
	sizeof(struct weir_law_params), AT(weir_law_params, mss), AT(weir_law_params, min_window_segments),
	AT(weir_law_params, response_numerator), AT(weir_law_params, response_denominator), AT(weir_law_params,
	main_signal), AT(weir_law_params, tie), AT(weir_law_params, spin_debounce), AT(weir_law_params,
	spin_from_accepted), AT(weir_law_params, first_spin_counts), AT(weir_law_params, coalesced_spin),
	AT(weir_law_params, long_header_counts), AT(weir_law_params, quic_needs_initial), AT(weir_law_params,
	full_cycles), AT(weir_law_params, modular_sequence), AT(weir_law_params, marker_needs_data),
	AT(weir_law_params, second_marker_on_match), AT(weir_law_params, sack_completes_half), AT(weir_law_params,
	first_bytes_count), AT(weir_law_params, skip_first_cycle), AT(weir_law_params, min_window_on_signalled),
	AT(weir_law_params, min_window_inclusive), AT(weir_law_params, wide_arithmetic), AT(weir_law_params,
	book_by_packet), AT(weir_law_params, byte_counters), AT(weir_law_params, count_segments),
	AT(weir_law_params, count_arriving_ce), AT(weir_law_params, udp_bytes_from_frame), AT(weir_law_params,
	reset_on_switch), AT(weir_law_params, reset_on_open), AT(weir_law_params, full_parser), AT(weir_law_params,
	key_has_protocol), AT(weir_law_params, ignore_optimistic_acks), AT(weir_law_params, plausible_sequence),
	AT(weir_law_params, lapse_round_trips), AT(weir_law_params, verdict_lapses), AT(weir_law_params, votes_kept),
	AT(weir_law_params, spin_needs_reverse), AT(weir_law_params, loss_without_ecn),
	AT(weir_law_params, timestamp_cycles), AT(weir_law_params, cycle_guard),
	AT(weir_law_params, whole_conduct), AT(weir_law_params, unused)
};

const u32 weir_flow_layout[31] = {
	sizeof(struct weir_flow), AT(weir_flow, cycle_started), AT(weir_flow, bytes), AT(weir_flow, packets),
	AT(weir_flow, cycle), AT(weir_flow, first_cycle), AT(weir_flow, signal_floor), AT(weir_flow, cycle_packets),
	AT(weir_flow, window), AT(weir_flow, loss), AT(weir_flow, mark), AT(weir_flow, votes), AT(weir_flow, marker),
	AT(weir_flow, right_edge), AT(weir_flow, highest_ack), AT(weir_flow, second_marker), AT(weir_flow,
	isn), AT(weir_flow, syn), AT(weir_flow, next_look), AT(weir_flow, looks), AT(weir_flow, last_rtt), AT(weir_flow, late_signals),
	AT(weir_flow, withheld), AT(weir_flow, state), AT(weir_flow, verdict), AT(weir_flow, kind), AT(weir_flow,
	law), AT(weir_flow, shortest), AT(weir_flow, newest), AT(weir_flow, conduct), AT(weir_flow, spin)
};

const u32 weir_cycle_end_layout[9] = {
	sizeof(struct weir_cycle_end), AT(weir_cycle_end, started), AT(weir_cycle_end, ended), AT(weir_cycle_end,
	cycle), AT(weir_cycle_end, window), AT(weir_cycle_end, packets), AT(weir_cycle_end, losses),
	AT(weir_cycle_end, marks), AT(weir_cycle_end, first)
};

const u32 weir_assessment_layout[14] = {
	sizeof(struct weir_assessment), AT(weir_assessment, cycle), AT(weir_assessment, window), AT(weir_assessment,
	window_between), AT(weir_assessment, window_signalled), AT(weir_assessment, signals), AT(weir_assessment,
	votes), AT(weir_assessment, vote), AT(weir_assessment, class_before), AT(weir_assessment, class_after),
	AT(weir_assessment, choice_before), AT(weir_assessment, choice_after), AT(weir_assessment, judgement),
	AT(weir_assessment, reserved)
};

const u32 weir_outcome_layout[8] = {
	sizeof(struct weir_outcome), AT(weir_outcome, end), AT(weir_outcome, assessed), AT(weir_outcome, cycle),
	AT(weir_outcome, ended), AT(weir_outcome, choice), AT(weir_outcome, reset), AT(weir_outcome, lapsed)
};

const u32 weir_entry_layout[4] = {
	sizeof(struct weir_entry), AT(weir_entry, key), AT(weir_entry, flow), AT(weir_entry, pending)
};

const u32 weir_bucket_layout[7] = {
	sizeof(struct weir_bucket), AT(weir_bucket, version), AT(weir_bucket, contended), AT(weir_bucket, tag),
	AT(weir_bucket, seen), AT(weir_bucket, flags), AT(weir_bucket, way)
};

const u32 weir_candidate_layout[4] = {
	sizeof(struct weir_candidate), AT(weir_candidate, tag), AT(weir_candidate, bytes), AT(weir_candidate, until)
};

const u32 weir_waiting_layout[4] = {
	sizeof(struct weir_waiting), AT(weir_waiting, way), AT(weir_waiting, challenge), AT(weir_waiting, mark)
};

const u32 weir_table_params_layout[13] = {
	sizeof(struct weir_table_params), AT(weir_table_params, seed), AT(weir_table_params, ipv4_sum),
	AT(weir_table_params, bucket_mask),
	AT(weir_table_params, waiting_mask), AT(weir_table_params, admit_bytes), AT(weir_table_params,
	admit_reverse), AT(weir_table_params, idle_tcp), AT(weir_table_params, idle_udp), AT(weir_table_params,
	linger), AT(weir_table_params, candidate_idle), AT(weir_table_params, candidate_reverse_idle),
	AT(weir_table_params, law)
};

const u32 weir_filter_layout[1] = { sizeof(struct weir_filter) };

/* Words only: the size and the last one's place are enough. */
const u32 weir_counters_layout[2] = { sizeof(struct weir_counters), AT(weir_counters, ambiguous) };
