/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Opens a target by its number and closes it as any C program would, through
 * the provider. Usage: close-opened DEVICE. On a provider that is whole it
 * prints "closed" and ends with 0; mlx5's of rdma-core 40 and later dies by
 * SIGSEGV after "opened". Any other trouble is status 1 and said.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static struct ibv_context *device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	need(list != NULL, "ibv_get_device_list");
	for (; *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return ibv_open_device(*list);
	fprintf(stderr, "no device %s\n", name);
	exit(1);
}

int main(int argc, char **argv)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};
	struct ibv_qp_open_attr open = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_context *context;
	struct ibv_qp *created, *opened;
	size_t before;

	if (argc != 2) {
		fprintf(stderr, "usage: %s DEVICE\n", argv[0]);
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	context = device(argv[1]);
	need(context != NULL, "ibv_open_device");
	target.xrcd = open.xrcd = ibv_open_xrcd(context, &domain);
	need(open.xrcd != NULL, "ibv_open_xrcd");
	created = ibv_create_qp_ex(context, &target);
	need(created != NULL, "ibv_create_qp_ex");
	open.qp_num = created->qp_num;

	before = mallinfo2().uordblks;
	opened = ibv_open_qp(context, &open);
	need(opened != NULL, "ibv_open_qp");
	/* What a program loses that closes it without the provider. */
	printf("opened, %zu bytes\n", mallinfo2().uordblks - before);

	errno = ibv_destroy_qp(opened);
	need(errno == 0, "ibv_destroy_qp of what was opened");
	printf("closed\n");
	errno = ibv_destroy_qp(created);
	need(errno == 0, "ibv_destroy_qp of what was created");
	errno = ibv_close_xrcd(open.xrcd);
	need(errno == 0, "ibv_close_xrcd");
	return 0;
}
