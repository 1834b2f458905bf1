//! The guest as QEMU's command line describes it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use anyhow::Result;

use crate::device::{Device, Node};
use crate::ethernet::Mac;
use crate::host::Ground;
use crate::paths::{RunDir, files};
use crate::proc::Process;
use crate::protocol::{CONTROL_PORT, PORT};

/// The agent's end on the host, in the run's folder.
pub fn agent_socket(node: Node) -> String {
    format!("agent-{}.sock", node.number)
}

/// The guest's console, in the run's folder.
pub fn console_log(node: Node) -> String {
    format!("console-{}.log", node.number)
}

/// What QEMU itself had to say, in the run's folder.
pub fn qemu_log(node: Node) -> String {
    format!("qemu-{}.log", node.number)
}

/// What bringing the device up had to say, in the run's folder.
pub fn bring_up_log(node: Node) -> String {
    format!("bring-up-{}.log", node.number)
}

/// The host's end of the guest's control port, in the run's folder.
pub fn control_socket(node: Node) -> String {
    format!("control-{}.sock", node.number)
}

/// The host's end of the guest's Ethernet, in the run's folder.
pub fn ethernet_socket(node: Node) -> String {
    format!("ethernet-{}.sock", node.number)
}

/// The guest's first file system, in the run's folder.
pub fn initramfs(node: Node) -> String {
    format!("initramfs-{}", node.number)
}

/// The kernel's command line.
///
/// All that the kernel logs goes to the console, whatever level a command in the guest sets: the run is judged by it.
/// An oops ends the guest at once, so that a run fails at its cause and not at a time limit. Under emulation on a busy
/// machine a virtual CPU may well stand still for many seconds: the watchdogs are given longer than the kernel's own
/// defaults, the one for tasks that hang in the kernel is not.
///
/// Under emulation the kernel mistrusts the TSC and takes the HPET, each reading of which leaves the guest: 4 µs that a
/// latency test would measure instead of its messages.
const KERNEL: &str = "console=ttyS0 edd=off ignore_loglevel panic=-1 oops=panic mitigations=off nmi_watchdog=0 \
                      watchdog_thresh=60 tsc=reliable clocksource=tsc \
                      rcupdate.rcu_cpu_stall_timeout=120 sysctl.kernel.hung_task_timeout_secs=60 random.trust_cpu=on";

/// Memory and processors of a guest. One that is alone has what a program on a small machine may expect. Where there
/// are many, a processor that the host can't give only takes time from the others.
fn size(node: Node) -> (&'static str, &'static str) {
    if !node.has_peers() {
        return ("1G", "2");
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ("512M", if cores >= 2 * usize::from(node.count) { "2" } else { "1" })
}

/// Starts a guest. All that it names lies in the run's folder, which is its working directory: so no path is too long
/// for a socket and none needs QEMU's quoting.
pub fn start(ground: &Ground, device: Device, run: &RunDir, node: Node) -> Result<Process> {
    let mut qemu = ground.qemu.command();
    let (memory, cpus) = size(node);
    qemu.args(ground.accel.arguments()).args(["-smp", cpus, "-m", memory]);
    // The device model maps the guest's memory, so it must be shared.
    qemu.arg("-object").arg(format!("memory-backend-memfd,id=memory,size={memory},share=on"));
    qemu.args(["-machine", "pc,memory-backend=memory", "-nodefaults", "-display", "none", "-no-reboot"]);
    qemu.arg("-kernel")
        .arg(&ground.kernel.image)
        .arg("-initrd")
        .arg(initramfs(node))
        .args(["-append", KERNEL]);

    qemu.arg("-chardev").arg(format!("file,id=console,path={}", console_log(node)));
    qemu.args(["-serial", "chardev:console"]);
    qemu.arg("-chardev").arg(format!("socket,id=agent,path={},server=on,wait=off", agent_socket(node)));
    qemu.args(["-device", "virtio-serial-pci"]);
    qemu.arg("-device").arg(format!("virtserialport,chardev=agent,name={PORT}"));
    qemu.arg("-chardev").arg(format!("socket,id=control,path={},server=on,wait=off", control_socket(node)));
    qemu.arg("-device").arg(format!("virtserialport,chardev=control,name={CONTROL_PORT}"));
    if node.has_peers() {
        let socket = ethernet_socket(node);
        qemu.arg("-netdev").arg(format!("stream,id=ethernet,server=off,addr.type=unix,addr.path={socket}"));
        // Nothing is booted from it, so it needs no ROM.
        let mac = Mac::of(node);
        qemu.arg("-device").arg(format!("virtio-net-pci,netdev=ethernet,romfile=,mac={mac}"));
    }

    qemu.args(["-fsdev", "local,id=root,path=/,security_model=none,multidevs=remap,readonly=on"]);
    qemu.args(["-device", "virtio-9p-pci,fsdev=root,mount_tag=hostroot"]);
    qemu.arg("-fsdev").arg(format!("local,id=run,path={},security_model=none,multidevs=remap", files(node)));
    qemu.args(["-device", "virtio-9p-pci,fsdev=run,mount_tag=run"]);
    if let Some(name) = ground.rdma_core.root.as_deref().and_then(Path::file_name).and_then(OsStr::to_str) {
        // Seen from the run's folder, as the paths above are.
        qemu.arg("-fsdev")
            .arg(format!("local,id=layer,path=../../{name},security_model=none,multidevs=remap,readonly=on"));
        qemu.args(["-device", "virtio-9p-pci,fsdev=layer,mount_tag=layer"]);
    }
    device.attach(&mut qemu, node);

    let log = run.log(&qemu_log(node))?;
    qemu.current_dir(&run.path).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut process = Process::spawn(&mut qemu)?;
    process.name = "QEMU".to_owned();
    Ok(process)
}
