//! `mlx5-model SOCKET…`: serves a software mlx5 to each QEMU that connects to a socket of its own, and ends with them.

use std::{
    fmt::Display,
    io,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    thread,
};

use clap::{ArgAction, Parser};
use mlx5_model::{
    control_socket,
    device::Device,
    guest::MAX_GUESTS,
    log::{self, Limit},
    server::{self, Shared},
};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// A software mlx5 for up to 8 guests on one InfiniBand subnet.
///
/// Listens at each SOCKET for a QEMU's vfio-user-pci; the nth is node n. A QEMU that goes leaves the others alone;
/// the end is when that of every socket came and went, or on SIGTERM. Exit status: 0; 1 if a socket failed or a
/// QEMU's conversation was given up; killed by SIGABRT if the model itself failed.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Unix sockets to listen at, 1 to 8; stale ones are removed.
    #[arg(value_name = "SOCKET", required_unless_present = "named")]
    sockets: Vec<PathBuf>,
    /// The same, by name; can be given several times.
    #[arg(id = "named", long = "socket", value_name = "SOCKET", conflicts_with = "sockets")]
    named: Vec<PathBuf>,
    /// Unix socket at which to answer and obey, one JSON object a line; a stale one is removed.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// JSON report of what the guests did and hold, written at the start, when a driver or a guest goes and at the
    /// end.
    #[arg(long, value_name = "FILE")]
    leak_report: Option<PathBuf>,
    /// Say more: once for every command, twice for every message.
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

impl Options {
    /// The guests' sockets, in their order.
    fn guests(&self) -> &[PathBuf] {
        if self.named.is_empty() { &self.sockets } else { &self.named }
    }

    /// All sockets.
    fn all(&self) -> Vec<PathBuf> {
        self.guests().iter().chain(&self.control).cloned().collect()
    }

    fn check(&self) -> Result<(), String> {
        let guests = self.guests().len();
        if guests > MAX_GUESTS {
            return Err(format!("{guests} sockets are too many: the model serves up to {MAX_GUESTS} guests"));
        }
        let all = self.all();
        match all.iter().enumerate().find(|(n, path)| all[..*n].contains(path)) {
            Some((_, twice)) => Err(format!("the socket {} is named twice", twice.display())),
            None => Ok(()),
        }
    }
}

fn remove_stale(socket: &Path) {
    if std::fs::symlink_metadata(socket).is_ok_and(|m| m.file_type().is_socket()) {
        // If it cannot be removed, binding says so.
        let _ = std::fs::remove_file(socket);
    }
}

fn finish(shared: &Shared, limit: &Limit, state: &'static str) {
    let report = shared.lock().finish(state);
    for g in &report.guests {
        tracing::info!(
            "guest {}: {} commands, {} work requests, {} completions, {} removals of the driver; held: {:?}",
            g.guest,
            g.activity.commands,
            g.activity.work_requests,
            g.activity.completions,
            g.activity.driver_removal_count,
            g.held
        );
    }
    if limit.left_out() > 0 {
        tracing::info!("{} messages more of kinds that were shown were left out", limit.left_out());
    }
}

/// Opens a socket; what fails is said with its name.
fn open<T, E: Display>(socket: &Path, listen: impl FnOnce(&Path) -> Result<T, E>) -> Result<T, String> {
    remove_stale(socket);
    listen(socket).map_err(|e| format!("cannot listen at {}: {e}", socket.display()))
}

fn run(options: &Options, limit: &Limit) -> Result<ExitCode, String> {
    options.check()?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| format!("cannot catch signals: {e}"))?;
    // The report is there as soon as a socket is.
    let mut device = Device::new(options.guests().len());
    if let Some(file) = &options.leak_report {
        device.report_to(file.clone());
    }
    let mut servers = Vec::new();
    for socket in options.guests() {
        servers.push(open(socket, server::listen)?);
    }
    let control =
        options.control.as_deref().map(|socket| open(socket, control_socket::listen)).transpose()?;
    let shared = Shared::new(device);
    let (ended, ended_limit, sockets) = (Arc::clone(&shared), limit.clone(), options.all());
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            finish(&ended, &ended_limit, "ended by a signal");
            sockets.iter().for_each(|socket| remove_stale(socket));
            std::process::exit(0);
        }
    });
    let worker = Arc::clone(&shared);
    thread::spawn(move || worker.work());
    if let Some(listener) = control {
        let shared = Arc::clone(&shared);
        thread::spawn(move || control_socket::serve(&listener, &shared));
    }

    let guests: Vec<_> = servers
        .into_iter()
        .enumerate()
        .map(|(guest, server)| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || match server::serve(&server, &shared, guest) {
                Ok(()) => {
                    tracing::info!("guest {}: its QEMU is gone", guest + 1);
                    true
                }
                Err(e) => {
                    tracing::error!("guest {}: vfio-user: {e}; it is given up", guest + 1);
                    false
                }
            })
        })
        .collect();
    // No thread of a guest's panics: what does not abort is caught.
    let broken = guests.into_iter().filter_map(|guest| guest.join().ok()).filter(|well| !well).count();
    finish(&shared, limit, if broken == 0 { "disconnected" } else { "protocol error" });
    if let Some(socket) = &options.control {
        remove_stale(socket);
    }
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn main() -> ExitCode {
    let options = Options::parse();
    let level = match options.verbose {
        0 => LevelFilter::INFO,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let limit = Limit::default();
    log::subscriber(level, limit.clone(), io::stderr).init();
    server::abort_on_panic();
    run(&options, &limit).unwrap_or_else(|why| {
        tracing::error!("{why}");
        ExitCode::FAILURE
    })
}
