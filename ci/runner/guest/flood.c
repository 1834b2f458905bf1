/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Floods an Ethernet with frames of noise, most of them for all or for nobody,
 * until the end of standard input. Usage: flood INTERFACE SEED.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static uint64_t state;

static void need(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

/* xorshift64* */
static uint64_t noise(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	struct pollfd input = { .fd = 0, .events = POLLIN };
	uint64_t words[(ETH_FRAME_LEN + 7) / 8];
	uint8_t *frame = (uint8_t *)words;
	unsigned long sent = 0;
	int fd;

	if (argc != 3 || !(state = strtoull(argv[2], NULL, 0))) {
		fprintf(stderr, "usage: %s INTERFACE SEED\n", argv[0]);
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	to.sll_ifindex = if_nametoindex(argv[1]);
	need(to.sll_ifindex != 0, argv[1]);
	fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
	need(fd >= 0, "a packet socket");

	printf("begun with seed %s\n", argv[2]);
	while (poll(&input, 1, 0) == 0) {
		size_t length = ETH_HLEN + noise() % (ETH_FRAME_LEN - ETH_HLEN + 1);

		for (size_t n = 0; n < sizeof(words) / sizeof(*words); n++)
			words[n] = noise();
		if (noise() % 2)
			memset(frame, 0xff, ETH_ALEN);
		if (sendto(fd, frame, length, 0, (struct sockaddr *)&to, sizeof(to)) >= 0)
			sent++;
		else
			need(errno == ENOBUFS, "sending");
	}
	printf("sent %lu frames\n", sent);
	return 0;
}
