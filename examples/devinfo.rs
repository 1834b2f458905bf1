//! Lists RDMA devices: ports, addresses, driver, and whether XRC works.
//!
//! ```text
//! devinfo              # every device
//! devinfo -d mlx5_0    # one
//! devinfo -l           # names only
//! devinfo -v           # limits and partition keys too
//! ```
//!
//! The first line of each device can be read by scripts:
//!
//! ```text
//! mlx5_0  driver mlx5_core  XRC: yes
//! rxe0  driver rdma_rxe  XRC: no (ibv_open_xrcd on rxe0: Operation not supported (os error 95))
//! ```
//!
//! "yes" means that a domain was opened just now: the capability flag alone
//! says what the driver claims. Exit status: 0, 1 when there is no device or
//! one could not be read, 2 when the command line is wrong.

#![forbid(unsafe_code)]

use std::fmt::{self, Display, Write as _};
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;
use rdma_xrc::{
    Context, Device, DeviceAttributes, ErrorKind, GidEntry, GidType, LinkLayer, PortAttributes, XrcSupport,
};

/// RDMA devices, their ports, and whether XRC works on them.
#[derive(Debug, Parser)]
#[command(name = "devinfo", version, max_term_width = 100)]
struct Options {
    /// Use IB device <dev> (default all devices found)
    #[arg(short = 'd', long = "ib-dev", value_name = "dev")]
    device: Option<String>,

    /// Use port <port> of IB device (default all ports)
    #[arg(short = 'i', long = "ib-port", value_name = "port", value_parser = clap::value_parser!(u8).range(1..))]
    port: Option<u8>,

    /// Print only the IB devices' names
    #[arg(short, long)]
    list: bool,

    /// Print limits and partition keys too
    #[arg(short, long)]
    verbose: bool,
}

const NO_DEVICES: &str =
    "no IB devices found: are ib_uverbs and a device's driver loaded? (`rdma link` shows the devices)";

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("devinfo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything that was asked for could be read.
fn run(options: &Options) -> Result<bool, Box<dyn std::error::Error>> {
    let list = match rdma_xrc::devices() {
        // What a kernel without ib_uverbs answers.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Err(NO_DEVICES.into()),
        list => list?,
    };
    if list.is_empty() {
        return Err(NO_DEVICES.into());
    }
    let chosen: Vec<Device> = match &options.device {
        Some(name) => vec![list.find(name)?],
        None => list.iter().cloned().collect(),
    };
    let mut out = io::stdout().lock();
    let mut all_read = true;
    for device in &chosen {
        if options.list {
            writeln!(out, "{}", device.name())?;
            continue;
        }
        match Description::of(device, options) {
            Ok(description) => writeln!(out, "{description}")?,
            Err(error) => {
                all_read = false;
                writeln!(out, "{}", summary(device, &format_args!("no ({error})")))?;
            }
        }
    }
    Ok(all_read)
}

/// The line for scripts.
fn summary(device: &Device, xrc: &dyn Display) -> String {
    let driver = device.driver();
    format!("{}  driver {}  XRC: {xrc}", device.name(), driver.as_deref().unwrap_or("unknown"))
}

/// Everything there is to say of one device, as lines.
struct Description {
    text: String,
}

impl Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Description {
    fn of(device: &Device, options: &Options) -> rdma_xrc::Result<Description> {
        let context = device.open()?;
        let attributes = context.attributes()?;
        let mut description = Description { text: String::new() };
        let first = match context.xrc_support() {
            XrcSupport::Yes => summary(device, &"yes"),
            XrcSupport::No { reason } | XrcSupport::Unknown { reason } => {
                summary(device, &format_args!("no ({reason})"))
            }
            // The enum may grow.
            other => summary(device, &format_args!("no ({other:?})")),
        };
        description.line(0, first);
        description.device(attributes, options.verbose);
        let ports = match options.port {
            Some(port) => port..=port,
            None => 1..=attributes.ports,
        };
        for number in ports {
            let port = context.port(number)?;
            description.port(&context, number, &port, options.verbose)?;
        }
        Ok(description)
    }

    fn line(&mut self, depth: usize, text: impl Display) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.text, "{:1$}{text}", "", depth * 4);
    }

    fn value(&mut self, depth: usize, name: &str, value: impl Display) {
        let width = 32 - depth * 4;
        self.line(depth, format_args!("{:<width$}{value}", format!("{name}:")));
    }

    fn device(&mut self, attributes: &DeviceAttributes, verbose: bool) {
        self.value(1, "firmware", &attributes.firmware);
        self.value(1, "node GUID", attributes.node_guid);
        self.value(1, "system image GUID", attributes.system_image_guid);
        let (vendor, part) = (attributes.vendor_id, attributes.vendor_part_id);
        self.value(1, "vendor, part", format_args!("{vendor:#06x}, {part}"));
        self.value(1, "hardware version", format_args!("{:#x}", attributes.hardware_version));
        self.value(1, "ports", attributes.ports);
        if !verbose {
            return;
        }
        self.value(1, "XRC capability flag", if attributes.xrc_flag { "set" } else { "not set" });
        for (name, limit) in [
            ("max QPs", attributes.max_qp),
            ("max WRs of a QP", attributes.max_qp_wr),
            ("max SGEs of a WR", attributes.max_sge),
            ("max CQs", attributes.max_cq),
            ("max CQEs", attributes.max_cqe),
            ("max SRQs", attributes.max_srq),
            ("max WRs of an SRQ", attributes.max_srq_wr),
            ("max SGEs of an SRQ's WR", attributes.max_srq_sge),
            ("max PDs", attributes.max_pd),
            ("max MRs", attributes.max_mr),
            ("max reads as target", attributes.max_qp_rd_atom),
            ("max reads as initiator", attributes.max_qp_init_rd_atom),
        ] {
            self.value(1, name, limit);
        }
        self.value(1, "max MR size", format_args!("{:#x}", attributes.max_mr_size));
        self.value(1, "max partition keys", attributes.max_pkeys);
    }

    fn port(
        &mut self,
        context: &Context,
        number: u8,
        port: &PortAttributes,
        verbose: bool,
    ) -> rdma_xrc::Result<()> {
        self.line(1, format_args!("port {number}:"));
        self.value(2, "state", format_args!("{:?}", port.state));
        self.value(2, "link layer", format_args!("{:?}", port.link_layer));
        if port.link_layer != LinkLayer::Ethernet {
            self.value(2, "LID", port.lid);
            self.value(2, "SM LID", port.sm_lid);
        }
        self.value(2, "MTU", format_args!("{} (at most {})", port.active_mtu, port.max_mtu));
        for GidEntry { index, gid_type, gid, .. } in context.gids(number)? {
            self.value(2, &format!("GID {index}"), format_args!("{gid} ({})", gid_words(gid_type)));
        }
        if !verbose {
            return Ok(());
        }
        self.value(2, "max message", port.max_message);
        self.value(2, "LMC", port.lmc);
        self.value(2, "link width", width_words(port.active_width));
        self.value(2, "link speed", speed_words(port.active_speed));
        self.value(2, "GID table", port.gid_table_len);
        for index in 0..port.pkey_table_len {
            // Most of a table is zeros: no partition there.
            match context.pkey(number, index)? {
                0 => {}
                key => self.value(2, &format!("partition key {index}"), format_args!("{key:#06x}")),
            }
        }
        Ok(())
    }
}

fn gid_words(gid_type: GidType) -> String {
    match gid_type {
        GidType::InfiniBand => "IB".to_owned(),
        GidType::RoceV1 => "RoCE v1".to_owned(),
        GidType::RoceV2 => "RoCE v2".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The width field's one-hot code, in lanes.
fn width_words(code: u8) -> String {
    match code {
        1 => "1X".to_owned(),
        2 => "4X".to_owned(),
        4 => "8X".to_owned(),
        8 => "12X".to_owned(),
        16 => "2X".to_owned(),
        other => format!("code {other}"),
    }
}

/// The speed field's one-hot code, per lane.
fn speed_words(code: u8) -> String {
    match code {
        1 => "2.5 Gbit/s (SDR)".to_owned(),
        2 => "5 Gbit/s (DDR)".to_owned(),
        4 | 8 => "10 Gbit/s (QDR, FDR10)".to_owned(),
        16 => "14 Gbit/s (FDR)".to_owned(),
        32 => "25 Gbit/s (EDR)".to_owned(),
        64 => "50 Gbit/s (HDR)".to_owned(),
        128 => "100 Gbit/s (NDR)".to_owned(),
        other => format!("code {other}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
        let status = |line: [&str; 3]| Options::try_parse_from(line).map_err(|e| e.exit_code()).map(drop);
        assert_eq!(status(["devinfo", "-i", "0"]), Err(2));
        assert_eq!(status(["devinfo", "-i", "255"]), Ok(()));
    }

    #[test]
    fn values_stand_in_one_column() {
        let mut description = Description { text: String::new() };
        description.value(1, "LID", 7);
        description.value(2, "LID", 7);
        let columns: Vec<_> = description.text.lines().map(|line| line.find('7')).collect();
        assert_eq!(columns, [Some(32), Some(32)]);
    }

    #[test]
    fn unknown_codes_are_shown_as_they_are() {
        assert_eq!(width_words(3), "code 3");
        assert_eq!(speed_words(0), "code 0");
        assert_eq!(gid_words(GidType::Unknown(9)), "Unknown(9)");
    }
}
