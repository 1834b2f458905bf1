#!/bin/sh
# Runs in the guest, once, before any command: loads the mlx5 drivers and brings up IPoIB.
#   mlx5.sh KERNEL_ROOT SELF_ADDR SELF_RDMA_ADDR ethernet|lo
set -eu
root=$1
self=$2
rdma=$3
carrier=$4
ln -s "$root" /run/rdma-xrc-kernel

load() {
    # MODPROBE_OPTIONS says that they are behind the link, and nothing of the host's own configuration.
    modprobe -a "$@"
}
load mlx5_core ib_uverbs rdma_ucm ib_umad ib_ipoib mlx5_ib

ip link set lo up
wait_for() {
    what=$1
    shift
    n=0
    until "$@" >/dev/null 2>&1; do
        n=$((n + 1))
        if [ "$n" -gt 600 ]; then
            echo "mlx5: $what did not come up" >&2
            exit 1
        fi
        sleep 0.05
    done
}
interface() {
    name=
    for path in /sys/class/net/"$1"*; do
        [ -e "$path" ] && name=${path##*/}
    done
    [ -n "$name" ]
}
if [ "$carrier" = ethernet ]; then
    load virtio_net
    wait_for 'an Ethernet interface' interface eth
    ip addr add "$self/24" dev "$name"
    ip link set "$name" up
    wait_for "$name's link" grep -qs up "/sys/class/net/$name/operstate"
else
    ip addr add "$self/32" dev lo
fi
wait_for 'the uverbs device' test -c /dev/infiniband/uverbs0
wait_for 'an IPoIB interface' interface ib
ip addr add "$rdma/24" dev "$name"
ip link set "$name" up
# The carrier follows the multicast join, so it shows that subnet administration answers as well.
wait_for "$name's carrier" grep -qs 1 "/sys/class/net/$name/carrier"
# Some drivers (Linux 6.12) make a QP and a CQ of their own at the first registration of memory, and keep them. They shall
# be there from the start: what appears later is a test's. This one registers, then finds nobody to talk to.
ibv_rc_pingpong -d mlx5_0 127.0.0.1 >/dev/null 2>&1 || true
