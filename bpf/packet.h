/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the headers of one frame: Ethernet with up to two VLAN tags and PPPoE, or bare IP; IPv4 and IPv6; TCP, UDP and
 * the version-independent part of QUIC (RFC 8999) with the spin bit (RFC 9000 section 17.4).
 *
 * Plain integer C without helpers or libc, compiled for the kernel's eBPF machine and natively from the same lines.
 * Every read goes through weir_at(), which is the bounds check that the verifier asks for and that sanitizers accept.
 * A header that is cut short gives WEIR_TRUNCATED; lengths that contradict each other give WEIR_MALFORMED. Lengths come
 * from the IP header, not from the bytes at hand, so that frames cut by a capture's snap length count in full.
 */
#ifndef WEIR_PACKET_H
#define WEIR_PACKET_H

/* The kernel's own names; repeating an identical typedef beside vmlinux.h is allowed since C11. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;

#define WEIR_INLINE static inline __attribute__((always_inline, unused))

/* Before a loop of a few rounds: laid out flat for eBPF. Verifiers before 6.3 refuse the order that clang gives some
 * loops (a way back without a jump). */
#ifdef __bpf__
#define WEIR_UNROLL _Pragma("unroll")
#else
#define WEIR_UNROLL
#endif

/* What a frame turned out to be. */
enum weir_kind {
	WEIR_NOT_IP = 0,
	WEIR_TRUNCATED = 1, /* a header is cut short */
	WEIR_FRAGMENT = 2,  /* not the first fragment: no ports */
	WEIR_TCP = 3,
	WEIR_UDP = 4,       /* UDP whose payload does not look like QUIC */
	WEIR_QUIC = 5,      /* UDP whose payload has QUIC's fixed bit */
	WEIR_OTHER = 6,     /* IP with another transport */
	WEIR_MALFORMED = 7, /* lengths or versions that contradict each other */
};

enum weir_start {
	WEIR_START_ETHERNET = 0,
	WEIR_START_IP = 1,
};

/* weir_packet.layers */
#define WEIR_TAGGED 0x01         /* a VLAN tag or PPPoE stands before IP */
#define WEIR_IP_OPTIONS 0x02     /* IPv4 options or IPv6 extension headers */
#define WEIR_FIRST_FRAGMENT 0x04 /* more fragments follow */

/* weir_packet.tcp_options */
#define WEIR_HAS_TS 0x01
#define WEIR_HAS_SACK 0x02

/* weir_packet.tcp_flags, as on the wire (RFC 9293 section 3.1) */
#define WEIR_FIN 0x01
#define WEIR_SYN 0x02
#define WEIR_RST 0x04
#define WEIR_ACK 0x10

/* weir_packet.quic_flags */
#define WEIR_QUIC_LONG 0x01    /* the datagram opens with a long header */
#define WEIR_QUIC_SHORT 0x02   /* a short header was seen, alone or after long ones */
#define WEIR_QUIC_SPIN 0x04    /* the spin bit of that short header */
#define WEIR_QUIC_INITIAL 0x08 /* an Initial packet of version 1 or 2 is inside */

struct weir_packet {
	union {
		u8 src[16]; /* IPv6, or IPv4 mapped (::ffff:a.b.c.d) */
		u64 src_words[2]; /* the same, in the order of the wire */
	};
	union {
		u8 dst[16];
		u64 dst_words[2];
	};
	u32 tcp_seq;
	u32 tcp_ack;
	u32 tsval;
	u32 tsecr;
	u32 sack_right;       /* the SACK right edge that lies furthest beyond tcp_ack */
	u32 ip_bytes;         /* IP header and payload */
	u32 payload_bytes;    /* after the TCP or UDP header, by the IP header's lengths */
	u32 frame_bytes;      /* what the caller said the frame has on the wire */
	u32 quic_short_bytes; /* from the short header to the end of the datagram */
	u16 src_port;
	u16 dst_port;
	u16 tcp_window;       /* unscaled */
	u16 l3_offset;
	u16 l4_offset;
	u16 ecn_offset;       /* of the octet that holds the ECN field: bits 1..0 in IPv4, 5..4 in IPv6 */
	u8 kind;
	u8 protocol;
	u8 ip_version;        /* 4, 6, or 0 where no IP header was read */
	u8 ecn;               /* codepoint, 0..3 */
	u8 tcp_flags;
	u8 tcp_options;
	u8 quic_flags;
	u8 quic_first;        /* first octet of the short header, where one was seen */
	u8 layers;
	u8 reserved[7];
};

#define WEIR_MAX_IPV6_HEADERS 6
#define WEIR_MAX_TCP_OPTIONS 24
#ifndef WEIR_FROM_BUFFER
#define WEIR_MAX_QUIC_PACKETS 4
#else /* who reads a copy wants to know whose packet it is, and how much it carries */
#define WEIR_MAX_QUIC_PACKETS 0
#endif
#define WEIR_MAX_SACK_BLOCKS 4
/* Who has no use for TCP's options leaves them. */
#ifndef WEIR_READ_TCP_OPTIONS
#define WEIR_READ_TCP_OPTIONS 1
#endif
/* Offsets beyond this are not followed; the verifier keeps packet pointers below 2^16. */
#define WEIR_MAX_OFFSET 0x7fff

/* The address of `n` readable bytes at `offset`, or null. `n` is a compile-time constant at every call. */
WEIR_INLINE const u8 *weir_at(const u8 *data, const u8 *end, u32 offset, u32 n)
{
	if (offset > WEIR_MAX_OFFSET)
		return 0;
#if defined(WEIR_FROM_BUFFER)
	/* For programs that see no packet pointers: `data` is a map's value that holds the first bytes of the packet. Only the
	 * offset's bound counts for the verifier; the value is longer than WEIR_FROM_BUFFER by the longest read. */
	asm volatile("" : "+r"(offset));
	if (offset >= WEIR_FROM_BUFFER || (u64)(end - data) < (u64)offset + n)
		return 0;
	return data + (offset & (WEIR_FROM_BUFFER - 1));
#elif defined(__bpf__)
	{
		const u8 *at;

		/* Keep each check and what it guards on one register. */
		asm volatile("" : "+r"(offset));
		at = data + (offset & WEIR_MAX_OFFSET);
		asm volatile("" : "+r"(at));
		if (at + n > end)
			return 0;
		return at;
	}
#else
	if ((u64)(end - data) < (u64)offset + n)
		return 0;
	return data + offset;
#endif
}

/*
 * Makes the verifier forget what it knows of an offset, so that it finds states that differ in the offset alone to be the
 * same and looks at each loop round once: by adding an unknown number that is zero. Nothing natively.
 */
WEIR_INLINE u32 weir_forget(u32 offset, const struct weir_packet *out)
{
#ifdef __bpf__
	u32 unknown = out->frame_bytes, same = unknown;

	asm volatile("%0 ^= %1" : "+r"(unknown) : "r"(same));
	offset = (offset + unknown) & WEIR_MAX_OFFSET;
	asm volatile("" : "+r"(offset));
#else
	(void)out;
#endif
	return offset;
}

/* What memory holds is read again from here on: a value just written is known to the verifier, one read is not. */
#ifdef __bpf__
#define WEIR_REREAD asm volatile("" : : : "memory")
#else
#define WEIR_REREAD ((void)0)
#endif

/*
 * The same for any value: the verifier forgets which of its constants it is. Before 6.4 it tells states apart by every
 * constant that is still in use. `unknown` is whatever comes from memory that the verifier does not follow.
 */
WEIR_INLINE u32 weir_blur(u32 value, u32 unknown)
{
#ifdef __bpf__
	u32 same = unknown;

	asm volatile("%0 ^= %1" : "+r"(unknown) : "r"(same));
	value ^= unknown;
	asm volatile("" : "+r"(value));
#else
	(void)unknown;
#endif
	return value;
}

/*
 * Numbers in the order of the wire. Where the machine reads them from any address at once, eBPF has to be told so: its
 * compiler knows of no machine behind and would put them together from octets. A verifier that minds refuses to load them.
 */
#if defined(__bpf__) && (defined(__TARGET_ARCH_x86) || defined(__TARGET_ARCH_arm64))
#define WEIR_LOAD(type, at) (*(const type *)(const void *)(at))
#else
#define WEIR_LOAD(type, at)                                \
	({                                                 \
		type loaded;                               \
		__builtin_memcpy(&loaded, (at), sizeof(type)); \
		loaded;                                    \
	})
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WEIR_TURN16(value) __builtin_bswap16(value)
#define WEIR_TURN32(value) __builtin_bswap32(value)
#define WEIR_TURN64(value) __builtin_bswap64(value)
#else
#define WEIR_TURN16(value) (value)
#define WEIR_TURN32(value) (value)
#define WEIR_TURN64(value) (value)
#endif

WEIR_INLINE u16 weir_be16(const u8 *at)
{
	return WEIR_TURN16(WEIR_LOAD(u16, at));
}

WEIR_INLINE u32 weir_be32(const u8 *at)
{
	return WEIR_TURN32(WEIR_LOAD(u32, at));
}

/* Reads a QUIC variable-length integer (RFC 9000 section 16). Returns its length in bytes, or 0 where it is cut short
 * or too large to be a length inside a datagram. */
WEIR_INLINE u32 weir_quic_varint(const u8 *data, const u8 *end, u32 offset, u32 *value)
{
	const u8 *at = weir_at(data, end, offset, 1);
	u8 first;

	if (!at)
		return 0;
	first = at[0];
	if (first < 0x40) {
		*value = first;
		return 1;
	}
	if (first < 0x80) {
		at = weir_at(data, end, offset, 2);
		if (!at)
			return 0;
		*value = (u32)weir_be16(at) & 0x3fff;
		return 2;
	}
	if (first < 0xc0) {
		at = weir_at(data, end, offset, 4);
		if (!at)
			return 0;
		*value = weir_be32(at) & 0x3fffffff;
		return *value > 0xffff ? 0 : 4;
	}
	at = weir_at(data, end, offset, 8);
	if (!at || weir_be32(at) != 0xc0000000)
		return 0;
	*value = weir_be32(at + 4);
	return *value > 0xffff ? 0 : 8;
}

WEIR_INLINE void weir_quic_short(struct weir_packet *out, u8 first, u32 bytes)
{
	out->quic_flags |= WEIR_QUIC_SHORT;
	if (first & 0x20)
		out->quic_flags |= WEIR_QUIC_SPIN;
	out->quic_first = first;
	out->quic_short_bytes = bytes;
}

/* Walks one long header at `*offset`, moves past its packet and returns 1, or returns 0 where the walk has to stop: an
 * unknown version hides its lengths, Retry and Version Negotiation fill their datagram. */
WEIR_INLINE int weir_quic_long(const u8 *data, const u8 *end, u32 *offset, u32 datagram_end, struct weir_packet *out)
{
	const u8 *at = weir_at(data, end, *offset, 6);
	u32 version, next, length = 0, read;
	u8 type;

	if (!at)
		return 0;
	version = weir_be32(at + 1);
	type = (at[0] >> 4) & 3;
	if (version == 0x6b3343cf) /* QUIC v2, RFC 9369: types are turned by one */
		type = (type + 3) & 3;
	else if (version != 1)
		return 0;
	if (type == 0)
		out->quic_flags |= WEIR_QUIC_INITIAL;
	if (type == 3 || at[5] > 20) /* Retry; connection IDs have at most 20 bytes */
		return 0;
	next = *offset + 6 + at[5];
	at = weir_at(data, end, next, 1);
	if (!at || at[0] > 20)
		return 0;
	next += 1 + (u32)at[0];
	if (type == 0) {
		read = weir_quic_varint(data, end, next, &length);
		if (!read)
			return 0;
		next += read + length;
	}
	read = weir_quic_varint(data, end, next, &length);
	if (!read)
		return 0;
	next += read + length;
	if (next >= datagram_end || next > WEIR_MAX_OFFSET)
		return 0;
	*offset = next;
	return 1;
}

WEIR_INLINE void weir_parse_quic(const u8 *data, const u8 *end, u32 offset, struct weir_packet *out)
{
	u32 datagram_end = offset + out->payload_bytes;
	const u8 *at;
	int i;

	if (!out->payload_bytes)
		return;
	at = weir_at(data, end, offset, 1);
	if (!at || !(at[0] & 0x40))
		return;
	out->kind = WEIR_QUIC;
	for (i = 0; i < WEIR_MAX_QUIC_PACKETS; i++) {
		offset = weir_forget(offset, out);
		at = weir_at(data, end, offset, 1);
		if (!at || !(at[0] & 0x40))
			return;
		if (!(at[0] & 0x80)) {
			weir_quic_short(out, at[0], datagram_end - offset);
			return;
		}
		out->quic_flags |= WEIR_QUIC_LONG;
		if (!weir_quic_long(data, end, &offset, datagram_end, out))
			return;
	}
}

WEIR_INLINE void weir_parse_sack(const u8 *data, const u8 *end, u32 offset, u32 length, struct weir_packet *out)
{
	u32 i;

	for (i = 0; i < WEIR_MAX_SACK_BLOCKS; i++) {
		const u8 *at;
		u32 right;

		if (2 + 8 * (i + 1) > length)
			return;
		at = weir_at(data, end, offset + 2 + 8 * i, 8);
		if (!at)
			return;
		right = weir_be32(at + 4);
		if (!(out->tcp_options & WEIR_HAS_SACK) ||
		    (s32)(right - out->tcp_ack) > (s32)(out->sack_right - out->tcp_ack)) {
			out->sack_right = right;
			out->tcp_options |= WEIR_HAS_SACK;
		}
	}
}

/* Timestamps (RFC 7323) and SACK (RFC 2018); an option that runs past the header ends the list. */
WEIR_INLINE void weir_parse_tcp_options(const u8 *data, const u8 *end, u32 offset, u32 limit, struct weir_packet *out)
{
	int i;

	for (i = 0; i < WEIR_MAX_TCP_OPTIONS; i++) {
		const u8 *at;
		u32 length;
		u8 option;

		if (offset >= limit)
			return;
		offset = weir_forget(offset, out);
		at = weir_at(data, end, offset, 1);
		if (!at || at[0] == 0)
			return;
		option = at[0];
		if (option == 1) {
			offset++;
			continue;
		}
		at = weir_at(data, end, offset, 2);
		if (!at)
			return;
		length = at[1];
		if (length < 2 || offset + length > limit)
			return;
		if (option == 8 && length == 10) {
			at = weir_at(data, end, offset, 10);
			if (!at)
				return;
			out->tsval = weir_be32(at + 2);
			out->tsecr = weir_be32(at + 6);
			out->tcp_options |= WEIR_HAS_TS;
		} else if (option == 5) {
			weir_parse_sack(data, end, offset, length, out);
		}
		offset += length;
	}
}

/* The fixed part of a TCP header of `header` octets. The kind is left to the caller: the verifier would carry it through the
 * options. */
WEIR_INLINE void weir_read_tcp(const u8 *at, u32 header, u32 l4_bytes, struct weir_packet *out)
{
	out->src_port = weir_be16(at);
	out->dst_port = weir_be16(at + 2);
	out->tcp_seq = weir_be32(at + 4);
	out->tcp_ack = weir_be32(at + 8);
	out->tcp_flags = at[13];
	out->tcp_window = weir_be16(at + 14);
	out->payload_bytes = l4_bytes - header;
}

WEIR_INLINE void weir_parse_tcp(const u8 *data, const u8 *end, u32 offset, u32 l4_bytes, struct weir_packet *out)
{
	const u8 *at;
	u32 header;

	if (l4_bytes < 20) {
		out->kind = WEIR_MALFORMED;
		return;
	}
	at = weir_at(data, end, offset, 20);
	if (!at) {
		out->kind = WEIR_TRUNCATED;
		return;
	}
	header = (u32)(at[12] >> 4) * 4;
	if (header < 20 || header > l4_bytes) {
		out->kind = WEIR_MALFORMED;
		return;
	}
	weir_read_tcp(at, header, l4_bytes, out);
	/* Options cut by a snap length lose timestamps and SACK, not the segment. */
	if (WEIR_READ_TCP_OPTIONS)
		weir_parse_tcp_options(data, end, offset + 20, offset + header, out);
	out->kind = WEIR_TCP;
}

WEIR_INLINE void weir_read_udp(const u8 *at, u32 l4_bytes, struct weir_packet *out)
{
	out->src_port = weir_be16(at);
	out->dst_port = weir_be16(at + 2);
	out->payload_bytes = l4_bytes - 8;
	out->kind = WEIR_UDP;
}

WEIR_INLINE void weir_parse_udp(const u8 *data, const u8 *end, u32 offset, u32 l4_bytes, struct weir_packet *out)
{
	const u8 *at;
	u32 length;

	if (l4_bytes < 8) {
		out->kind = WEIR_MALFORMED;
		return;
	}
	at = weir_at(data, end, offset, 8);
	if (!at) {
		out->kind = WEIR_TRUNCATED;
		return;
	}
	length = weir_be16(at + 4);
	if (length && length < 8) { /* zero stands for a jumbogram (RFC 2675 section 4) */
		out->kind = WEIR_MALFORMED;
		return;
	}
	weir_read_udp(at, l4_bytes, out);
	weir_parse_quic(data, end, offset + 8, out);
}

WEIR_INLINE void weir_parse_transport(const u8 *data, const u8 *end, u32 offset, u32 l4_bytes, struct weir_packet *out)
{
	offset = weir_forget(offset, out);
	out->l4_offset = (u16)offset;
	if (out->protocol == 6)
		weir_parse_tcp(data, end, offset, l4_bytes, out);
	else if (out->protocol == 17)
		weir_parse_udp(data, end, offset, l4_bytes, out);
	else
		out->kind = WEIR_OTHER;
}

/* Bytes on the wire from the IP header on: what a super-packet of 64 kB or more (BIG TCP) has instead of a length. */
WEIR_INLINE u32 weir_rest(const struct weir_packet *out, u32 offset)
{
	return out->frame_bytes > offset ? out->frame_bytes - offset : 0;
}

/* The last eight octets of an IPv4 address as IPv6 writes it, in the order of the wire. */
WEIR_INLINE u64 weir_mapped(const u8 *at)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (u64)WEIR_LOAD(u32, at) << 32 | 0xffff0000u;
#else
	return 0xffff00000000ull | WEIR_LOAD(u32, at);
#endif
}

/* What all IPv4 headers have. Addresses as whole words, which the key takes again: what is put together from parts has to
 * reach the cache before it can be read at once. */
WEIR_INLINE void weir_read_ipv4(const u8 *at, u32 offset, struct weir_packet *out)
{
	out->ip_version = 4;
	out->l3_offset = (u16)offset;
	out->ecn_offset = (u16)(offset + 1);
	out->ecn = at[1] & 3;
	out->protocol = at[9];
	out->src_words[1] = weir_mapped(at + 12);
	out->dst_words[1] = weir_mapped(at + 16);
	out->ip_bytes = weir_be16(at + 2);
}

/* Returns where the transport header begins, or 0 where there is none to read and `kind` says why. */
WEIR_INLINE u32 weir_parse_ipv4(const u8 *data, const u8 *end, u32 offset, struct weir_packet *out)
{
	const u8 *at = weir_at(data, end, offset, 20);
	u32 header, fragment;

	if (!at) {
		out->kind = WEIR_TRUNCATED;
		return 0;
	}
	header = (u32)(at[0] & 0x0f) * 4;
	if (at[0] >> 4 != 4 || header < 20) {
		out->kind = WEIR_MALFORMED;
		return 0;
	}
	weir_read_ipv4(at, offset, out);
	if (!out->ip_bytes)
		out->ip_bytes = weir_rest(out, offset);
	if (out->ip_bytes < header) {
		out->kind = WEIR_MALFORMED;
		return 0;
	}
	if (header > 20)
		out->layers |= WEIR_IP_OPTIONS;
	fragment = weir_be16(at + 6);
	if (fragment & 0x1fff) {
		out->kind = WEIR_FRAGMENT;
		return 0;
	}
	if (fragment & 0x2000)
		out->layers |= WEIR_FIRST_FRAGMENT;
	return offset + header;
}

/* The header itself but for its length; `protocol` is what comes next, be it an extension. */
WEIR_INLINE void weir_read_ipv6(const u8 *at, u32 offset, struct weir_packet *out)
{
	out->ip_version = 6;
	out->l3_offset = (u16)offset;
	out->ecn_offset = (u16)(offset + 1);
	out->ecn = (at[1] >> 4) & 3;
	out->protocol = at[6];
	out->src_words[0] = WEIR_LOAD(u64, at + 8);
	out->src_words[1] = WEIR_LOAD(u64, at + 16);
	out->dst_words[0] = WEIR_LOAD(u64, at + 24);
	out->dst_words[1] = WEIR_LOAD(u64, at + 32);
}

/* Hop-by-hop, routing, destination options and fragment headers (RFC 8200 section 4). */
WEIR_INLINE u32 weir_is_ipv6_extension(u32 type)
{
	return type == 0 || type == 43 || type == 60 || type == 44;
}

WEIR_INLINE u32 weir_parse_ipv6(const u8 *data, const u8 *end, u32 offset, struct weir_packet *out)
{
	const u8 *at = weir_at(data, end, offset, 40);
	u32 next = offset + 40, total;
	int i;

	if (!at) {
		out->kind = WEIR_TRUNCATED;
		return 0;
	}
	if (at[0] >> 4 != 6) {
		out->kind = WEIR_MALFORMED;
		return 0;
	}
	weir_read_ipv6(at, offset, out);
	total = weir_be16(at + 4);
	total = total ? total + 40 : weir_rest(out, offset); /* zero: jumbogram or BIG TCP */
	out->ip_bytes = total;
	if (total < 40) {
		out->kind = WEIR_MALFORMED;
		return 0;
	}
	for (i = 0; i < WEIR_MAX_IPV6_HEADERS; i++) {
		u32 length = 8;
		u8 type = out->protocol;

		next = weir_forget(next, out);
		if (!weir_is_ipv6_extension(type))
			return next;
		out->layers |= WEIR_IP_OPTIONS;
		at = weir_at(data, end, next, 8);
		if (!at) {
			out->kind = WEIR_TRUNCATED;
			return 0;
		}
		if (type == 44) {
			if (weir_be16(at + 2) & 0xfff8) {
				out->protocol = at[0];
				out->kind = WEIR_FRAGMENT;
				return 0;
			}
			if (at[3] & 1)
				out->layers |= WEIR_FIRST_FRAGMENT;
		} else {
			length = ((u32)at[1] + 1) * 8;
		}
		out->protocol = at[0];
		next += length;
		if (next - offset > total) {
			out->kind = WEIR_MALFORMED;
			return 0;
		}
	}
	out->kind = WEIR_OTHER;
	return 0;
}

/*
 * Reads the frame between `data` and `end`. `frame_bytes` is its length on the wire, which is more than what is at hand
 * where a capture cut it or a socket buffer is not linear. `start` says which header comes first. `out` is written whole.
 */
WEIR_INLINE void weir_parse(const u8 *data, const u8 *end, u32 frame_bytes, u32 start, struct weir_packet *out)
{
	u32 offset = 0, transport = 0, type;
	const u8 *at;
	int i;

	*out = (struct weir_packet){ .frame_bytes = frame_bytes };
	if (start == WEIR_START_IP) {
		at = weir_at(data, end, 0, 1);
		if (!at) {
			out->kind = WEIR_TRUNCATED;
			return;
		}
		type = at[0] >> 4 == 4 ? 0x0800 : at[0] >> 4 == 6 ? 0x86dd : 0;
	} else {
		at = weir_at(data, end, 0, 14);
		if (!at) {
			out->kind = WEIR_TRUNCATED;
			return;
		}
		type = weir_be16(at + 12);
		offset = 14;
		/* 802.1Q, 802.1ad and the older QinQ type */
		for (i = 0; i < 2 && (type == 0x8100 || type == 0x88a8 || type == 0x9100); i++) {
			at = weir_at(data, end, offset, 4);
			if (!at) {
				out->kind = WEIR_TRUNCATED;
				return;
			}
			type = weir_be16(at + 2);
			offset += 4;
			out->layers |= WEIR_TAGGED;
		}
		if (type == 0x8864) { /* PPPoE session (RFC 2516): version and type 1, code 0, then the PPP protocol */
			at = weir_at(data, end, offset, 8);
			if (!at) {
				out->kind = WEIR_TRUNCATED;
				return;
			}
			type = 0;
			if (at[0] == 0x11 && at[1] == 0)
				type = weir_be16(at + 6) == 0x0021 ? 0x0800 : weir_be16(at + 6) == 0x0057 ? 0x86dd : 0;
			offset += 8;
			out->layers |= WEIR_TAGGED;
		}
	}
	offset = weir_forget(offset, out);
	if (type == 0x0800)
		transport = weir_parse_ipv4(data, end, offset, out);
	else if (type == 0x86dd)
		transport = weir_parse_ipv6(data, end, offset, out);
	if (transport)
		weir_parse_transport(data, end, transport, out->ip_bytes - (transport - offset), out);
}

#endif /* WEIR_PACKET_H */
