//! The guest as QEMU's command line describes it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use anyhow::Result;

use crate::device::{Device, Node};
use crate::host::Ground;
use crate::paths::{FILES, RunDir};
use crate::proc::Process;
use crate::protocol::PORT;

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

const MEMORY: &str = "1G";
const CPUS: &str = "2";

/// Starts a guest. All that it names lies in the run's folder, which is its working directory: so no path is too long
/// for a socket and none needs QEMU's quoting.
pub fn start(ground: &Ground, device: Device, run: &RunDir, node: Node) -> Result<Process> {
    let mut qemu = ground.qemu.command();
    qemu.args(ground.accel.arguments()).args(["-smp", CPUS, "-m", MEMORY]);
    // The device model maps the guest's memory, so it must be shared.
    qemu.arg("-object").arg(format!("memory-backend-memfd,id=memory,size={MEMORY},share=on"));
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

    qemu.args(["-fsdev", "local,id=root,path=/,security_model=none,multidevs=remap,readonly=on"]);
    qemu.args(["-device", "virtio-9p-pci,fsdev=root,mount_tag=hostroot"]);
    qemu.arg("-fsdev").arg(format!("local,id=run,path={FILES},security_model=none,multidevs=remap"));
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
