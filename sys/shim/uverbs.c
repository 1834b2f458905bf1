/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Destroying a QP by the kernel's own interface, past the provider, which must
 * then not be asked to destroy it as well: the handle may be another object's
 * by that time. Both forms are public kernel ABI. The kernel answers with the
 * number of events read, for whoever frees the QP's structure: nobody does.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The Rust side writes the number out (src/lib.rs). */
_Static_assert(RDMA_DRIVER_MLX5 == 1, "driver id");

enum { HANDLE, RESPONSE, ATTRS };

int rdma_xrc_uverbs_destroy_qp_ioctl(struct ibv_context *context,
				     uint32_t handle, uint32_t driver_id)
{
	struct ib_uverbs_destroy_qp_resp response = {};
	union {
		struct ib_uverbs_ioctl_hdr header;
		/* The header ends in an array of no length of its own. */
		char room[sizeof(struct ib_uverbs_ioctl_hdr) +
			  ATTRS * sizeof(struct ib_uverbs_attr)];
	} command;
	struct ib_uverbs_attr *attrs = command.header.attrs;

	_Static_assert(sizeof(command) == 24 + 2 * 16, "a header and two attributes");
	/* An initialiser would be for the first member alone. */
	memset(&command, 0, sizeof(command));
	command.header.length = sizeof(command);
	command.header.object_id = UVERBS_OBJECT_QP;
	command.header.method_id = UVERBS_METHOD_QP_DESTROY;
	command.header.num_attrs = ATTRS;
	command.header.driver_id = driver_id;
	attrs[HANDLE].attr_id = UVERBS_ATTR_DESTROY_QP_HANDLE;
	attrs[HANDLE].flags = UVERBS_ATTR_F_MANDATORY;
	attrs[HANDLE].data = handle;
	attrs[RESPONSE].attr_id = UVERBS_ATTR_DESTROY_QP_RESP;
	attrs[RESPONSE].flags = UVERBS_ATTR_F_MANDATORY;
	attrs[RESPONSE].len = sizeof(response);
	attrs[RESPONSE].data = (uintptr_t)&response;

	if (ioctl(context->cmd_fd, RDMA_VERBS_IOCTL, &command))
		return errno;
	return 0;
}

int rdma_xrc_uverbs_destroy_qp_write(struct ibv_context *context,
				     uint32_t handle)
{
	struct ib_uverbs_destroy_qp_resp response = {};
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_destroy_qp body;
	} command = {
		.header.command = IB_USER_VERBS_CMD_DESTROY_QP,
		/* Both lengths are in words of four bytes. */
		.header.in_words = sizeof(command) / 4,
		.header.out_words = sizeof(response) / 4,
		.body.response = (uintptr_t)&response,
		.body.qp_handle = handle,
	};
	ssize_t written = write(context->cmd_fd, &command, sizeof(command));

	if (written < 0)
		return errno;
	if (written != sizeof(command))
		return EIO;
	return 0;
}
