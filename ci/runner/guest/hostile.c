/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Writes noise into a PCI function that has no driver: its BAR 0 and its
 * configuration space, until the end of standard input.
 * Usage: hostile FOLDER SEED, where FOLDER is the function's in sysfs.
 *
 * Two things are no noise, for the sake of this guest, which must live on. A
 * command queue may be a page of this program's own or lie beyond all memory,
 * and nowhere else: the device answers in the queue, so a wrong address has it
 * write over whatever is there. (With the address left to chance programs die:
 * the byte of an answer falls on the uppermost of a page table's entry, where
 * it is a protection key.) And BAR 0 moves only to above 4 GiB, for below it
 * would cover the guest's other devices.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	/* Registers of BAR 0. */
	QUEUE_HIGH = 0x10,
	QUEUE_LOW = 0x14,
	RING = 0x18,
	/* The pages of doorbells begin here. */
	DOORBELLS = 64 * PAGE,
	/* The command queue: entries, bytes of each, where their owner is. */
	SLOTS = 32,
	SLOT_BYTES = 64,
	OWNER = SLOT_BYTES - 1,
	/* Registers of the configuration space. */
	COMMAND = 0x04,
	MEMORY_AND_MASTER = 0x06,
	BAR0 = 0x10,
	CONFIG_BYTES = 256,
};

static uint64_t state;
static volatile uint8_t *bar;
static size_t bar_bytes;
static int config;
static uint8_t bar_was[8];
static unsigned long to_bar, to_config, answered;

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

static uint64_t below(uint64_t end)
{
	return noise() % end;
}

/* An access of 1, 2, 4 or 8 bytes at its natural boundary. */
static void access_bar(size_t at, unsigned int width)
{
	uint64_t value = noise();

	at &= ~(size_t)(width - 1);
	if (at < RING && at + width > QUEUE_HIGH)
		return;
	if (below(8) == 0) {
		switch (width) {
		case 1: (void)*(bar + at); break;
		case 2: (void)*(volatile uint16_t *)(bar + at); break;
		case 4: (void)*(volatile uint32_t *)(bar + at); break;
		default: (void)*(volatile uint64_t *)(bar + at); break;
		}
		return;
	}
	switch (width) {
	case 1: *(bar + at) = value; break;
	case 2: *(volatile uint16_t *)(bar + at) = value; break;
	case 4: *(volatile uint32_t *)(bar + at) = value; break;
	default: *(volatile uint64_t *)(bar + at) = value; break;
	}
	to_bar++;
}

/* Where a page of this program is, which the kernel may change. */
static uint64_t physical(const void *page)
{
	static int map = -1;
	uint64_t entry;

	if (map < 0)
		map = open("/proc/self/pagemap", O_RDONLY);
	need(map >= 0, "/proc/self/pagemap");
	need(pread(map, &entry, 8, (uintptr_t)page / PAGE * 8) == 8,
	     "reading /proc/self/pagemap");
	need(entry >> 63, "a page that is not there");
	return (entry & ((1ULL << 55) - 1)) * PAGE;
}

static void queue_at(uint64_t address)
{
	*(volatile uint32_t *)(bar + QUEUE_HIGH) = htobe32(address >> 32);
	*(volatile uint32_t *)(bar + QUEUE_LOW) = htobe32((uint32_t)address);
	to_bar += 2;
}

/* Commands of noise, in a queue that is there; then in one that is not. */
static void ring(uint8_t *page)
{
	uint8_t before[SLOTS];
	int slot;

	for (int at = 0; at < PAGE; at += 8) {
		uint64_t value = noise();

		memcpy(page + at, &value, 8);
	}
	for (slot = 0; slot < SLOTS; slot++) {
		/* No delivery status: an answer shows. */
		page[slot * SLOT_BYTES + OWNER] |= 0x80;
		before[slot] = page[slot * SLOT_BYTES + OWNER];
	}
	queue_at(physical(page));
	*(volatile uint32_t *)(bar + RING) = noise();
	__sync_synchronize();
	for (slot = 0; slot < SLOTS; slot++)
		answered += ((volatile uint8_t *)page)[slot * SLOT_BYTES + OWNER] != before[slot];
	queue_at(noise() | 1ULL << 32);
	*(volatile uint32_t *)(bar + RING) = noise();
	to_bar += 2;
}

static void put_config(const void *bytes, size_t count, off_t at)
{
	need(pwrite(config, bytes, count, at) == (ssize_t)count,
	     "writing the configuration space");
	to_config++;
}

static void configure(void)
{
	const uint8_t command[2] = { MEMORY_AND_MASTER, 0 };
	uint64_t value;
	int n;

	for (n = 0; n < 16; n++) {
		size_t width = 1u << below(3);
		off_t at = below(CONFIG_BYTES) & ~(width - 1);

		value = noise();
		if (at + width > BAR0 && at < BAR0 + 8)
			continue;
		put_config(&value, width, at);
	}
	value = noise() | 1ULL << 32;
	/* The upper half first: the other order would come by below 4 GiB. */
	put_config((uint8_t *)&value + 4, 4, BAR0 + 4);
	put_config(&value, 4, BAR0);
	for (n = 0; n < 16; n++)
		access_bar(below(bar_bytes), 8);
	put_config(bar_was, 4, BAR0);
	put_config(bar_was + 4, 4, BAR0 + 4);
	put_config(command, 2, COMMAND);
}

static int file(const char *folder, const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDWR);
	need(fd >= 0, path);
	return fd;
}

int main(int argc, char **argv)
{
	const uint8_t command[2] = { MEMORY_AND_MASTER, 0 };
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct stat about;
	uint8_t *page;
	int fd;

	if (argc != 3 || !(state = strtoull(argv[2], NULL, 0))) {
		fprintf(stderr, "usage: %s FOLDER SEED\n", argv[0]);
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	config = file(argv[1], "config");
	need(pread(config, bar_was, 8, BAR0) == 8, "reading BAR 0's address");
	put_config(command, 2, COMMAND);
	fd = file(argv[1], "resource0");
	need(fstat(fd, &about) == 0, "resource0");
	bar_bytes = about.st_size;
	bar = mmap(NULL, bar_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	need(bar != MAP_FAILED, "mapping resource0");
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
	need(page != MAP_FAILED, "a page");

	printf("begun with seed %s\n", argv[2]);
	for (;;) {
		int n;

		for (n = 0; n < 64; n++)
			access_bar(DOORBELLS + below(bar_bytes - DOORBELLS), 1u << below(4));
		for (n = 0; n < 32; n++)
			access_bar(below(DOORBELLS), 1u << below(4));
		for (n = 0; n < 16; n++)
			access_bar(below(PAGE / 8), 1u << below(4));
		ring(page);
		if (below(8) == 0)
			configure();
		if (poll(&input, 1, 0) == 1)
			break;
	}
	printf("wrote %lu times to BAR 0 and %lu times to the configuration space; the device answered %lu commands\n",
	       to_bar, to_config, answered);
	return 0;
}
