/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Claims about the C of bpf/, for all values of what is handed in: symbolic.py follows every way through them. Each
 * returns REFUTED where its claim does not hold, else which case it was.
 */
#include "../../crates/weir-law/src/native.c"

enum { DECLINED = 1, TAKEN = 2, OUTSIDE = 3, REFUTED = 0xbad };

/* For whoever makes the blocks. */
const u32 size_of_entry = sizeof(struct weir_entry);
const u32 size_of_packet = sizeof(struct weir_packet);

/* What is compared when a claim has run, whole. */
struct weir_packet quick_packet, whole_packet;
/* Each on a page of its own: angr takes wrong bytes of unknown content that was copied across the end of one. */
_Alignas(4096) struct weir_bucket before;
_Alignas(4096) struct weir_bucket quick;
_Alignas(4096) struct weir_bucket whole;
struct weir_counters counters, none;
const u32 size_of_bucket = sizeof(struct weir_bucket);
const u32 size_of_counters = sizeof(struct weir_counters);

/* Of the library, which is followed in one step. */
void *memcpy(void *to, const void *from, size_t bytes);

/* Whatever the frame: the fast path declines, or reads what the whole one does, TCP's options apart where it says so. */
u32 claim_frame(const u8 *frame, size_t length, u32 wire, u32 start)
{
	if (!weir_native_glance(frame, length, wire, start, &quick_packet))
		return DECLINED;
	weir_native_parse(frame, length, wire, start, &whole_packet);
	if (quick_packet.tcp_options & WEIR_UNREAD) {
		if (!(quick_packet.tcp_options & WEIR_HAS_TS))
			whole_packet.tsval = whole_packet.tsecr = 0;
		whole_packet.sack_right = 0;
		whole_packet.tcp_options = quick_packet.tcp_options;
	}
	return TAKEN;
}

/*
 * Whatever an entry holds, and whatever the packet of its flow says: the fast path declines and has changed nothing,
 * or leaves the bucket as the whole way does, with the same cycle and queue, and counts nothing that it does not
 * count. `numbers` are the table's six times and its law's number, and which signal counts.
 */
u32 claim_entry(const struct weir_entry *entry, const struct weir_packet *any, const u32 *numbers, u32 reverse, u64 now)
{
	static struct weir_waiting waiting;
	static struct weir_filter filter;
	struct weir_table_params table = { .bucket_mask = 0 };
	struct weir_packet packet;
	struct weir_law_params law;
	struct weir_outcome outcome;
	struct weir_key key;
	u32 ascending, hash, home, way, cycle = 0, choice = 0, i;

	memcpy(&packet, any, sizeof(packet));
	/* One flow, whose key is known: what a packet says of its ends only finds the entry. */
	for (i = 0; i < 16; i++)
		packet.src[i] = packet.dst[i] = i == 10 || i == 11 ? 0xff : 0;
	packet.src[15] = reverse ? 2 : 1;
	packet.dst[15] = reverse ? 1 : 2;
	packet.src_port = reverse ? 50000 : 443;
	packet.dst_port = reverse ? 443 : 50000;
	packet.ip_version = 4;
	packet.protocol = packet.kind == WEIR_TCP ? 6 : 17;
	if (packet.kind != WEIR_TCP && packet.kind != WEIR_UDP && packet.kind != WEIR_QUIC)
		return OUTSIDE;
	for (i = 0; i < WEIR_SEED_WORDS; i++)
		table.seed[i] = 0x9e3779b97f4a7c15ull * (i + 1);
	table.admit_reverse = 1;
	table.idle_tcp = numbers[0];
	table.idle_udp = numbers[1];
	table.linger = numbers[2];
	table.candidate_idle = numbers[3];
	table.candidate_reverse_idle = numbers[4];
	table.law = numbers[5] & 0xff;
	weir_hash_prepare(&table);
	weir_law_paper(&law);
	law.main_signal = numbers[6] & 1;
	ascending = weir_native_key(&packet, law.key_has_protocol, &key);
	hash = weir_native_hash(&table, &key);
	home = weir_home_of(hash);
	memcpy(&before.way[home], entry, sizeof(*entry));
	before.way[home].key = key;
	before.tag[home] = weir_tag_of(hash);
	before.seen[home] = numbers[7];
	before.flags[home] = (u8)numbers[8];
	/* There are three verdicts. */
	if (entry->flow.verdict[0] > 2 || entry->flow.verdict[1] > 2)
		return OUTSIDE;
	if (!weir_native_wants(&law, &packet, reverse))
		return OUTSIDE;
	memcpy(&quick, &before, sizeof(before));
	way = weir_native_short_cut(&law, &table, &quick, &packet, &key, hash, reverse, now, &cycle, &choice);
	if (way > WEIR_WAYS)
		return REFUTED;
	if (way == WEIR_WAYS)
		return DECLINED;
	memcpy(&whole, &before, sizeof(before));
	if (reverse) {
		if (weir_native_table_reverse(&law, &table, &whole, &waiting, &filter, &packet, &key, hash, ascending, now,
					      &counters) != way)
			return REFUTED;
	} else {
		if (weir_native_table_forward(&law, &table, &whole, &waiting, &filter, &packet, &key, hash, ascending, now,
					      &counters, &outcome) != way)
			return REFUTED;
		if ((u32)outcome.ended | outcome.reset | (outcome.cycle ^ cycle) | (outcome.choice ^ choice))
			return REFUTED;
	}
	return TAKEN;
}
