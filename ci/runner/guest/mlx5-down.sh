#!/bin/sh
# Runs in the guest, last: takes the mlx5 drivers away, so that all they hold must come back to the device.
set -eu
for module in ib_ipoib rdma_ucm ib_umad mlx5_ib mlx5_core; do
    rmmod "$module"
done
