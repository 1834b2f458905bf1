//! `mlx5-model SOCKET`: serves a software mlx5 to the QEMU that connects to the socket, and ends with it.

use std::{
    io::{self, Write as _},
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    thread,
};

use clap::{ArgAction, Parser};
use mlx5_model::{
    device::Device,
    log::{self, Limit},
    server::{self, Shared},
};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// A software mlx5 for one guest.
///
/// Listens at SOCKET for QEMU's vfio-user-pci, serves it, and ends when it goes away or on SIGTERM.
/// Exit status: 0; 1 if the socket or the protocol failed; killed by SIGABRT if the model itself did.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Unix socket to listen at; a stale one is removed.
    #[arg(required_unless_present = "socket")]
    path: Option<PathBuf>,
    /// The same, by name.
    #[arg(long, value_name = "SOCKET", conflicts_with = "path")]
    socket: Option<PathBuf>,
    /// JSON report of what the guest did and holds, written at the start, at every removal of the driver and at
    /// the end.
    #[arg(long, value_name = "FILE")]
    leak_report: Option<PathBuf>,
    /// Say more: once for every command, twice for every message.
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

/// A panic anywhere ends the process at once, with the message: half a device would be worse than none.
fn abort_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Without a log there is still an end.
        let _ = writeln!(io::stderr(), "mlx5-model: PANIC");
        say(info);
        std::process::abort();
    }));
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

fn main() -> ExitCode {
    let options = Options::parse();
    let level = match options.verbose {
        0 => LevelFilter::INFO,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let limit = Limit::default();
    log::subscriber(level, limit.clone(), io::stderr).init();
    abort_on_panic();
    let Some(socket) = options.socket.or(options.path) else { return ExitCode::FAILURE };

    let mut device = Device::new(1);
    if let Some(file) = options.leak_report {
        device.report_to(file);
    }
    let shared = Shared::new(device);

    let mut signals = match Signals::new([SIGTERM, SIGINT]) {
        Ok(signals) => signals,
        Err(e) => {
            tracing::error!("cannot catch signals: {e}");
            return ExitCode::FAILURE;
        }
    };
    remove_stale(&socket);
    let server = match server::listen(&socket) {
        Ok(server) => server,
        Err(e) => {
            tracing::error!("cannot listen at {}: {e}", socket.display());
            return ExitCode::FAILURE;
        }
    };
    let (ended, ended_limit, path) = (Arc::clone(&shared), limit.clone(), socket);
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            finish(&ended, &ended_limit, "ended by a signal");
            remove_stale(&path);
            std::process::exit(0);
        }
    });
    let worker = Arc::clone(&shared);
    thread::spawn(move || worker.work());

    match server::serve(&server, Arc::clone(&shared), 0) {
        Ok(()) => {
            finish(&shared, &limit, "disconnected");
            ExitCode::SUCCESS
        }
        Err(e) => {
            tracing::error!("vfio-user: {e}");
            finish(&shared, &limit, "protocol error");
            ExitCode::FAILURE
        }
    }
}
