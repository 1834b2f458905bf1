//! The agent: takes orders from the host over the virtio-serial port and runs commands.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::job::Job;
use crate::control::GUEST_PATH;
use crate::protocol::{self, CONTROL_PORT, JobId, PORT, ToGuest, ToHost};

/// The argument that makes this program the agent.
pub const AGENT_WORD: &str = "guest-agent";

/// Messages to the host, from all jobs. Bounded: a host that does not read holds the commands up.
pub type Answers = SyncSender<(JobId, ToHost)>;

/// Serves until the host closes the port.
pub fn agent() -> Result<()> {
    let path = port(PORT).context("looking for the port to the host")?;
    name_control_port().context("naming the control port")?;
    let mut from_host = OpenOptions::new().read(true).write(true).open(&path)?;
    let to_host = from_host.try_clone()?;
    let (answers, queue) = sync_channel::<(JobId, ToHost)>(4);
    thread::spawn(move || {
        let mut to_host: File = to_host;
        for (job, answer) in queue {
            if let Err(error) = protocol::send(&mut to_host, job, &answer) {
                // Nobody is left to tell but the console; without its agent the guest switches off.
                eprintln!("rdma-xrc: the host is gone: {error}");
                std::process::exit(1);
            }
        }
    });
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    answers.send((0, ToHost::Hello(release)))?;

    let mut jobs: HashMap<JobId, Job> = HashMap::new();
    while let Some((id, order)) = protocol::receive::<ToGuest>(&mut from_host)? {
        match order {
            ToGuest::Start(start) => {
                jobs.retain(|_, job| !job.is_over());
                if let Some(job) = Job::start(id, start, &answers) {
                    jobs.insert(id, job);
                }
            }
            ToGuest::Sync => {
                rustix::fs::sync();
                answers.send((id, ToHost::Synced))?;
            }
            other => match jobs.get_mut(&id) {
                Some(job) => job.order(other),
                // The command ended while the order was on its way; input must still be accounted for.
                None => {
                    if let ToGuest::Input(bytes) = other {
                        answers.send((id, ToHost::Taken(bytes.len() as u32)))?;
                    }
                }
            },
        }
    }
    Ok(())
}

/// Gives the control port the name under which udev would show it.
fn name_control_port() -> Result<()> {
    let device = port(CONTROL_PORT)?;
    let path = Path::new(GUEST_PATH);
    fs::create_dir_all(path.parent().context("no folder")?)?;
    Ok(symlink(device, path)?)
}

/// Finds a port by name; the driver may take a moment to announce it.
fn port(wanted: &str) -> Result<PathBuf> {
    for _ in 0..100 {
        for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten() {
            let entry = entry?;
            if fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == wanted) {
                let path = PathBuf::from("/dev").join(entry.file_name());
                if path.exists() {
                    return Ok(path);
                }
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("no virtio port is named {wanted}")
}
