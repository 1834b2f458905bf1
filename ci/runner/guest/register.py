"""Registers a page of memory once: some drivers make a QP and a CQ of their own for that, and keep them."""

import ctypes

verbs = ctypes.CDLL('libibverbs.so.1')
for name in ('ibv_get_device_list', 'ibv_open_device', 'ibv_alloc_pd', 'ibv_reg_mr'):
    getattr(verbs, name).restype = ctypes.c_void_p
page = ctypes.create_string_buffer(4096)
devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
context = verbs.ibv_open_device(ctypes.c_void_p(devices[0]))
domain = verbs.ibv_alloc_pd(ctypes.c_void_p(context))
# IBV_ACCESS_LOCAL_WRITE
region = verbs.ibv_reg_mr(ctypes.c_void_p(domain), page, ctypes.c_size_t(4096), 1)
raise SystemExit(0 if region else 'no memory can be registered')
