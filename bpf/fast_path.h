/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The way that nearly every packet takes: header prediction (Van Jacobson, "4BSD header prediction", 1990) for the
 * parser, the table and the law. Each part either does exactly what its full counterpart does, or declines before it
 * has changed anything; then the full one comes. In a router little of any program is in the caches when its turn
 * comes, and what a packet costs goes by how many instructions there are more than by what they do.
 *
 * Plain integer C as law.h. Tests run both ways beside each other, natively and in the kernel.
 */
#ifndef WEIR_FAST_PATH_H
#define WEIR_FAST_PATH_H

#include "table.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WEIR_WIRE16(value) ((u16)((value) >> 8 | ((value) & 0xff) << 8))
#else
#define WEIR_WIRE16(value) ((u16)(value))
#endif

/* What is to be done with a packet that has been read: 1 if it was, 0 to decline. `with` is the caller's. */
typedef u32 (*weir_deal)(const struct weir_packet *packet, void *with);

/* Whether `n` bytes are readable at `at`, in which any offset is one constant. */
WEIR_INLINE u32 weir_is_within(const u8 *at, const u8 *end, u32 n)
{
#ifdef __bpf__
	return at + n <= end;
#else
	return (u64)(end - at) >= n;
#endif
}

WEIR_INLINE const u8 *weir_behind(const u8 *at, u32 offset)
{
	at += offset;
#ifdef __bpf__
	/* Keep the check and what it guards on one register. */
	asm volatile("" : "+r"(at));
#endif
	return at;
}

/*
 * The options of a TCP header: timestamps in the place that RFC 7323 (appendix A) recommends, or none. Others, and those
 * that follow, are left unread, which is noted.
 */
WEIR_INLINE void weir_glance_options(const u8 *at, const u8 *end, u32 header, struct weir_packet *out)
{
	if (header == 20)
		return;
	out->tcp_options = header == 32 ? 0 : WEIR_UNREAD;
	if (header < 32 || !weir_is_within(at, end, 32) || WEIR_LOAD(u32, at + 20) != WEIR_STAMPS_FIRST) {
		out->tcp_options = WEIR_UNREAD;
		return;
	}
	out->tcp_options |= WEIR_HAS_TS;
	out->tsval = weir_be32(at + 24);
	out->tsecr = weir_be32(at + 28);
}

WEIR_INLINE u32 weir_glance_tcp(const u8 *at, const u8 *end, u32 l4_bytes, struct weir_packet *out)
{
	u32 header = (u32)(at[12] >> 4) * 4;

	if (header < 20 || header > l4_bytes || (at[13] & (WEIR_SYN | WEIR_FIN | WEIR_RST)))
		return 0;
	weir_read_tcp(at, header, l4_bytes, out);
	if (WEIR_READ_TCP_OPTIONS)
		weir_glance_options(at, end, header, out);
	out->kind = WEIR_TCP;
	/* As it is; this tells the compiler what follows from the line above. */
	out->tcp_flags &= (u8)~(WEIR_SYN | WEIR_FIN | WEIR_RST);
	return 1;
}

/* What is in an IP packet. Each kind is dealt with in a place of its own, where the compiler knows it. */
WEIR_INLINE u32 weir_glance_transport(const u8 *at, const u8 *end, u32 l4_bytes, struct weir_packet *out,
				      weir_deal deal,
				      void *with)
{
	if (out->protocol == 6)
		return weir_is_within(at, end, 20) && weir_glance_tcp(at, end, l4_bytes, out) && deal(out, with);
	if (out->protocol == 17) {
		/* A length of zero stands for a jumbogram; what is between contradicts itself. */
		if (!weir_is_within(at, end, 9) || l4_bytes < 9 || (u32)(weir_be16(at + 4) - 1) < 7 ||
		    (at[8] & 0xc0) == 0xc0)
			return 0;
		weir_read_udp(at, l4_bytes, out);
		if (weir_is_short(at[8]))
			weir_quic_short(out, at[8], out->payload_bytes);
		if (!(at[8] & 0x40))
			return deal(out, with);
		out->kind = WEIR_QUIC;
		return deal(out, with);
	}
	out->kind = WEIR_OTHER;
	return deal(out, with);
}

/*
 * Reads a frame as weir_parse() does, but of TCP's options only timestamps in front, and has it dealt with if it is of
 * the usual kind: Ethernet without tags or bare IP; without IP options, fragments and jumbograms, and as long as its IP
 * header says; TCP that neither opens nor closes, UDP without a long header, any other transport, or no IP at all.
 * Returns 0 for what is not, for what has to be made linear first, and where `deal` does.
 */
WEIR_INLINE u32 weir_glance(const u8 *data, const u8 *end, u32 frame_bytes, u32 start, struct weir_packet *out,
			    weir_deal deal,
			    void *with)
{
	u32 offset = 0, version, l4_bytes;
	const u8 *at = weir_behind(data, 0);

	*out = (struct weir_packet){ .frame_bytes = frame_bytes };
	if (start == WEIR_START_IP) {
		if (!weir_is_within(at, end, 1))
			return 0;
		version = at[0] >> 4;
	} else {
		u16 type;

		if (!weir_is_within(at, end, 14))
			return 0;
		type = WEIR_LOAD(u16, at + 12);
		version = type == WEIR_WIRE16(0x0800) ? 4 : type == WEIR_WIRE16(0x86dd) ? 6 : 0;
		/* Tags and PPPoE sessions take a longer look. */
		if (!version && (type == WEIR_WIRE16(0x8100) || type == WEIR_WIRE16(0x88a8) ||
				 type == WEIR_WIRE16(0x9100) || type == WEIR_WIRE16(0x8864)))
			return 0;
		offset = 14;
	}
	at = weir_behind(data, offset);
	if (version == 4) {
		if (!weir_is_within(at, end, 20) || at[0] != 0x45 || (WEIR_LOAD(u16, at + 6) & WEIR_WIRE16(0x3fff)))
			return 0;
		weir_read_ipv4(at, offset, out);
		out->l4_offset = (u16)(offset + 20);
		l4_bytes = out->ip_bytes - 20;
		return out->ip_bytes >= 20 && out->ip_bytes + offset <= frame_bytes &&
		       weir_glance_transport(weir_behind(at, 20), end, l4_bytes, out, deal, with);
	}
	if (version == 6) {
		if (!weir_is_within(at, end, 40) || at[0] >> 4 != 6 || weir_is_ipv6_extension(at[6]))
			return 0;
		weir_read_ipv6(at, offset, out);
		out->l4_offset = (u16)(offset + 40);
		l4_bytes = weir_be16(at + 4);
		out->ip_bytes = l4_bytes + 40;
		return l4_bytes && out->ip_bytes + offset <= frame_bytes &&
		       weir_glance_transport(weir_behind(at, 40), end, l4_bytes, out, deal, with);
	}
	return deal(out, with);
}

/*
 * Whether the settings are those that the rest of this file knows: the paper's, except for numbers, for which signal
 * counts, and for what only the judgement at a cycle's end asks. User space passes the answer to the programs, which
 * would otherwise read all settings for each packet.
 */
WEIR_INLINE u32 weir_fast_applies(const struct weir_law_params *law)
{
	return law->spin_from_accepted && law->long_header_counts && !law->quic_needs_initial && law->full_cycles &&
	       law->modular_sequence && law->marker_needs_data && law->second_marker_on_match &&
	       law->first_bytes_count && law->wide_arithmetic && !law->count_arriving_ce && !law->udp_bytes_from_frame &&
	       law->reset_on_open && law->full_parser && law->key_has_protocol && law->plausible_sequence &&
	       law->lapse_round_trips;
}

/* These settings as constants to the compiler, but for those that presets with a fast path differ in. */
WEIR_INLINE void weir_fast_params(const struct weir_law_params *law, struct weir_law_params *fast)
{
	weir_law_paper(fast);
	fast->main_signal = law->main_signal;
	fast->ignore_optimistic_acks = law->ignore_optimistic_acks;
	fast->loss_without_ecn = law->loss_without_ecn;
	fast->sack_completes_half = law->sack_completes_half;
	fast->timestamp_cycles = law->timestamp_cycles;
}

/* Whether a packet whose timestamps were not read may complete the second half. */
WEIR_INLINE u32 weir_fast_may_answer(const struct weir_law_params *fast, const struct weir_flow *flow,
				     const struct weir_packet *packet)
{
	const u16 waits = WEIR_HALF_DONE | WEIR_IS_STAMP;

	return fast->timestamp_cycles && (packet->tcp_options & (WEIR_UNREAD | WEIR_HAS_TS)) == WEIR_UNREAD &&
	       (flow->state & waits) == waits;
}

/* Runs the law on a forward packet that opens nothing and ends no cycle, or declines. */
WEIR_INLINE u32 weir_fast_law(const struct weir_law_params *fast, struct weir_flow *flow,
			      const struct weir_packet *packet,
			      u32 tick)
{
	if ((s32)(tick - flow->next_look) >= 0 || (packet->ecn && !(flow->state & WEIR_IS_ECT)))
		return 0;
	if (packet->kind == WEIR_TCP) {
		const u16 known = WEIR_SEEN_FORWARD | WEIR_HAS_MARKER | WEIR_HAS_EDGE;
		u32 end = packet->tcp_seq + packet->payload_bytes, met = flow->state & WEIR_HAS_ACK;
		u32 low = met ? flow->highest_ack : flow->marker, flight;

		if ((flow->state & known) != known || (packet->tcp_flags & (WEIR_SYN | WEIR_FIN | WEIR_RST)))
			return 0;
		/* weir_tcp_fits() where there are edges. */
		flight = flow->right_edge - low + WEIR_SEQUENCE_SLACK;
		if (packet->tcp_seq - low + WEIR_SEQUENCE_SLACK > flight + WEIR_SEQUENCE_SLACK || flight > WEIR_MAX_FLIGHT)
			return 0;
		if ((s32)(end - flow->right_edge) > 0) {
			if (packet->payload_bytes && met && (weir_fast_may_answer(fast, flow, packet) ||
							     weir_tcp_complete(fast, flow, packet)))
				return 0;
			flow->right_edge = end;
		}
	} else {
		const u16 known = WEIR_SEEN_FORWARD | WEIR_SHORT_FORWARD | WEIR_HAS_SPIN;

		if ((flow->state & known) != known ||
		    (packet->quic_flags & ~WEIR_QUIC_SPIN) != WEIR_QUIC_SHORT ||
		    ((packet->quic_flags & WEIR_QUIC_SPIN) != 0) != flow->spin)
			return 0;
		flow->spin_run = 0;
	}
	flow->window[0] = weir_add_bytes(fast, flow->window[0], packet->payload_bytes);
	weir_law_count(flow, packet);
	return 1;
}

/* Key and hash of a packet with ports, or 0 to decline. */
WEIR_INLINE u32 weir_fast_key(const struct weir_table_params *params, const struct weir_packet *packet,
			      struct weir_key *key,
			      u32 *hash)
{
	/* Declines flows whose ends differ only in their ports; the compiler then knows that all others differ in address. */
	if (packet->ip_version == 4 && packet->src_words[1] == packet->dst_words[1])
		return 0;
	weir_key_of(packet, 1, key);
	*hash = packet->ip_version == 4 ? weir_hash_ipv4(params, key) : weir_hash(params, key);
	return 1;
}

/* An entry and what its bucket keeps of it. */
struct weir_seat {
	struct weir_entry *entry;
	u32 *seen;
	u8 *flags;
};

/* The seat at a way. */
WEIR_INLINE struct weir_seat weir_fast_at(struct weir_bucket *bucket, u32 way)
{
	struct weir_seat seat;

#ifdef __bpf__
	/* The verifier sees the bound here, and from here on pointers, which it does not lose on the stack. */
	asm volatile("" : "+r"(way));
#endif
	way &= WEIR_WAYS - 1;
	seat = (struct weir_seat){ &bucket->way[way], &bucket->seen[way], &bucket->flags[way] };
#ifdef __bpf__
	asm volatile("" : "+r"(seat.entry), "+r"(seat.seen), "+r"(seat.flags));
#endif
	return seat;
}

/*
 * Finds the seat to look at: the key's home, else the first whose tag it is. Returns 0 where it has none. What is read
 * here is read in full once the bucket is taken; this early it is for the caches: the entry's lines come while the
 * bucket's are waited for.
 */
WEIR_INLINE u32 weir_fast_seat(struct weir_bucket *bucket, const struct weir_key *key, u32 hash, struct weir_seat *seat)
{
	const struct weir_key *home;
	u32 way = 0;
	u64 lanes;

	*seat = weir_fast_at(bucket, weir_home_of(hash));
	home = &seat->entry->key;
	if (!((home->words[1] ^ key->words[1]) | (home->words[3] ^ key->words[3])))
		return 1;
	lanes = weir_lanes(bucket->tags[0], weir_tag_of(hash));
	if (!lanes) {
		lanes = weir_lanes(bucket->tags[1], weir_tag_of(hash));
		way = 4;
		if (!lanes)
			return 0;
	}
	/* One bit of 15, 31, 47 and 63 is left, and the product's upper two tell which. */
	lanes &= -lanes;
	*seat = weir_fast_at(bucket, way + (u32)((lanes >> 15) * (1ull << 46 | 2ull << 30 | 3ull << 14) >> 62));
	return 1;
}

/* Whether the entry is the packet's and nothing has to be done to it first. */
WEIR_INLINE u32 weir_fast_fits(const struct weir_table_params *params, const struct weir_seat *seat,
			       const struct weir_packet *packet, const struct weir_key *key, u32 tick)
{
	const struct weir_entry *entry = seat->entry;
	u32 kind = packet->kind == WEIR_TCP ? WEIR_TCP : WEIR_QUIC; /* the flow's, if this is its packet */
	u32 idle = kind == WEIR_QUIC ? params->idle_udp : params->idle_tcp, silent = tick - *seat->seen;

	/* Kind and law lie beside each other. */
	return WEIR_LOAD(u16, &entry->flow.kind) == WEIR_WIRE16((u16)kind << 8 | (u8)params->law) &&
	       weir_same_key(&entry->key, key) && (silent <= idle || !weir_age(tick, *seat->seen)) &&
	       !(*(volatile u64 *)&entry->pending[WEIR_LOSS] | *(volatile u64 *)&entry->pending[WEIR_MARK]);
}

/* weir_law_choice() with one signal. */
WEIR_INLINE u32 weir_fast_choice(const struct weir_law_params *law, const struct weir_flow *flow)
{
	_Static_assert(WEIR_UNRESPONSIVE == 2 && WEIR_RESPONSIVE == 1 && WEIR_RESPONSIVE_QUEUE == 1 &&
			       WEIR_STANDARD_QUEUE == 0,
		       "the lowest bit of a verdict is its queue");
	if (law->main_signal == WEIR_MARK && law->loss_without_ecn && !flow->verdict[WEIR_MARK] &&
	    !(flow->state & WEIR_IS_ECT))
		return flow->verdict[WEIR_LOSS] & 1;
	return flow->verdict[law->main_signal & 1] & 1;
}

/* weir_table_forward() for a packet of the entry at a seat, or 0. `cycle` and `choice` are what weir_outcome says. */
WEIR_INLINE u32 weir_fast_forward(const struct weir_law_params *law, const struct weir_table_params *params,
				  const struct weir_seat *seat, const struct weir_packet *packet, const struct weir_key *key,
				  u32 tick, u32 *cycle, u32 *choice)
{
	struct weir_flow *flow = &seat->entry->flow;
	struct weir_law_params fast;

	weir_fast_params(law, &fast);
	if (!weir_fast_fits(params, seat, packet, key, tick) || !weir_fast_law(&fast, flow, packet, tick))
		return 0;
	*cycle = flow->cycle;
	*choice = weir_fast_choice(&fast, flow);
	weir_note(seat->seen, seat->flags, packet, tick);
	return 1;
}

/* Whether what was not read of a reverse packet's options may matter: timestamps always, SACK blocks until the first half
 * is complete. */
WEIR_INLINE u32 weir_fast_misses(const struct weir_law_params *fast, const struct weir_flow *flow,
				 const struct weir_packet *packet)
{
	const u16 done = WEIR_HALF_DONE | WEIR_HAS_ACK;

	return (fast->timestamp_cycles && !(packet->tcp_options & WEIR_HAS_TS)) ||
	       (fast->sack_completes_half && (flow->state & done) != done);
}

/* weir_table_reverse() for a packet of the entry at a seat, or 0. */
WEIR_INLINE u32 weir_fast_reverse(const struct weir_law_params *law, const struct weir_table_params *params,
				  const struct weir_seat *seat, const struct weir_packet *packet, const struct weir_key *key,
				  u32 tick)
{
	struct weir_law_params fast;

	weir_fast_params(law, &fast);
	if (!weir_fast_fits(params, seat, packet, key, tick) ||
	    (packet->kind == WEIR_TCP ? (packet->tcp_flags & (WEIR_SYN | WEIR_FIN | WEIR_RST)) != 0 :
					(packet->quic_flags & ~WEIR_QUIC_SPIN) != WEIR_QUIC_SHORT))
		return 0;
	if (packet->kind == WEIR_TCP && (packet->tcp_options & WEIR_UNREAD) &&
	    weir_fast_misses(&fast, &seat->entry->flow, packet))
		return 0;
	weir_law_reverse(&fast, &seat->entry->flow, packet);
	weir_note(seat->seen, seat->flags, packet, tick);
	return 1;
}

#endif /* WEIR_FAST_PATH_H */
