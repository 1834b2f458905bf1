/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The control verbs that verbs.h has only as static inlines. Each is called
 * through a function of ours with an ordinary symbol; the data path is not
 * here, it goes through the operation tables from Rust.
 */
#include <errno.h>
#include <infiniband/verbs.h>

/* The enum has no name, so the Rust side writes its values out (src/lib.rs). */
_Static_assert(IBV_LINK_LAYER_UNSPECIFIED == 0, "link layer");
_Static_assert(IBV_LINK_LAYER_INFINIBAND == 1, "link layer");
_Static_assert(IBV_LINK_LAYER_ETHERNET == 2, "link layer");

struct ibv_xrcd *rdma_xrc_open_xrcd(struct ibv_context *context,
				    struct ibv_xrcd_init_attr *attr)
{
	return ibv_open_xrcd(context, attr);
}

/* The header's own version calls the operation unseen. */
int rdma_xrc_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct verbs_context *vctx = verbs_get_ctx_op(xrcd->context, close_xrcd);

	return vctx ? vctx->close_xrcd(xrcd) : EOPNOTSUPP;
}

struct ibv_srq *rdma_xrc_create_srq_ex(struct ibv_context *context,
				       struct ibv_srq_init_attr_ex *attr)
{
	return ibv_create_srq_ex(context, attr);
}

int rdma_xrc_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	return ibv_get_srq_num(srq, number);
}

struct ibv_qp *rdma_xrc_create_qp_ex(struct ibv_context *context,
				     struct ibv_qp_init_attr_ex *attr)
{
	return ibv_create_qp_ex(context, attr);
}

struct ibv_qp *rdma_xrc_open_qp(struct ibv_context *context,
				struct ibv_qp_open_attr *attr)
{
	return ibv_open_qp(context, attr);
}

/* The plain exported symbol fills the short, older form of the structure. */
int rdma_xrc_query_port(struct ibv_context *context, uint8_t port,
			struct ibv_port_attr *attr)
{
	return ibv_query_port(context, port, attr);
}

ssize_t rdma_xrc_query_gid_table(struct ibv_context *context,
				 struct ibv_gid_entry *entries,
				 size_t max_entries, uint32_t flags)
{
	return ibv_query_gid_table(context, entries, max_entries, flags);
}
