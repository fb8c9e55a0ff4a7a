/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is known of a frame once its headers are read, and how its octets are reached: every read goes through
 * weir_at(), which is the bounds check that the verifier asks for and that sanitizers accept.
 */
#ifndef WEIR_PACKET_STATE_H
#define WEIR_PACKET_STATE_H

/* The kernel's own names; repeating an identical typedef beside vmlinux.h is allowed since C11. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed short s16;
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
	WEIR_UDP = 4,       /* UDP whose payload lacks QUIC's fixed bit: not QUIC, or a packet that greases it (RFC 9287) */
	WEIR_QUIC = 5,      /* UDP whose payload has that bit */
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
#define WEIR_UNREAD 0x80 /* there are more options than were read */

/* weir_packet.tcp_flags, as on the wire (RFC 9293 section 3.1) */
#define WEIR_FIN 0x01
#define WEIR_SYN 0x02
#define WEIR_RST 0x04
#define WEIR_ACK 0x10

/* weir_packet.quic_flags */
#define WEIR_QUIC_LONG 0x01    /* the datagram opens with a long header */
#define WEIR_QUIC_SHORT 0x02   /* a short header was seen, alone or after long ones; in WEIR_UDP, what may be one */
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
	u32 ip_bytes;         /* IP header and payload, by its lengths as far as the frame has as much */
	u32 payload_bytes;    /* after the TCP or UDP header, the same */
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
/* Two octets of padding, then timestamps: how an option list begins (RFC 7323 appendix A), as it lies in memory. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WEIR_STAMPS_FIRST 0x0a080101u
#else
#define WEIR_STAMPS_FIRST 0x0101080au
#endif
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
 * Makes the verifier forget what it knows of an offset, so that it finds states that differ in the offset alone to be
 * the same and looks at each loop round once: by adding an unknown number that is zero. Nothing natively.
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
 * The same for any value: the verifier forgets which of its constants it is. Before 6.4 it distinguishes states by
 * every constant that is still in use. `unknown` is whatever comes from memory that the verifier does not follow.
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
 * Numbers in the order of the wire. Where the machine reads them from any address at once, the eBPF compiler has to be
 * told: it does not know the machine and would put them together from octets. A verifier that minds unaligned reads
 * refuses to load the programs.
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

#endif /* WEIR_PACKET_STATE_H */
