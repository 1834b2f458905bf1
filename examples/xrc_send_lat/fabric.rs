//! From a device's name to queues that are connected.

use rdma_xrc::{
    CompletionQueue, ConnectOptions, Context, Endpoint, ErrorKind, Initiator, LinkLayer, LocalPort, Mtu,
    Pool, PortAttributes, PortState, ProtectionDomain, Target, XrcSrq, XrcSupport,
};

use crate::failure::Failure;
use crate::options::{DEFAULT_INLINE, DEFAULT_RX_DEPTH, Options};
use crate::pingpong::PingPong;

/// A message is posted when the one before it has completed.
pub const TX_DEPTH: u32 = 1;

/// Memory that the default number of receives may take. A depth that the user
/// gave is taken as it is.
const DEFAULT_ROOM: u32 = 4 << 20;
/// Tried in turn when the default is refused: some devices have less room for
/// inline data, and refuse a queue pair rather than grant what they have.
const SMALLER_INLINES: [u32; 4] = [128, 64, 32, 0];

/// A device that can do XRC, and its port that is up.
#[derive(Debug)]
pub struct Fabric {
    context: Context,
    port: u8,
    attributes: PortAttributes,
    local: LocalPort,
    gid_index: Option<u8>,
}

/// One side's queues, not yet connected.
#[derive(Debug)]
pub struct Queues {
    /// What the other side must know.
    pub endpoint: Endpoint,
    depth: u32,
    pool: Pool,
    send_cq: CompletionQueue,
    receive_cq: CompletionQueue,
    srq: XrcSrq,
    target: Target,
    initiator: Initiator,
    max_inline: u32,
}

impl Fabric {
    /// Find the device and see that it and its port can be used.
    pub fn open(options: &Options) -> Result<Fabric, Failure> {
        let devices = match rdma_xrc::devices() {
            // What a kernel without ib_uverbs answers.
            Err(error) if error.kind() == ErrorKind::Unsupported => return Err(Failure::NoDevice),
            devices => devices?,
        };
        if devices.is_empty() {
            return Err(Failure::NoDevice);
        }
        let device = match &options.device {
            Some(name) => devices.find(name)?,
            None => devices.iter().next().cloned().ok_or(Failure::NoDevice)?,
        };
        let context = device.open()?;
        let name = context.device_name().to_owned();
        match context.xrc_support() {
            XrcSupport::Yes => {}
            XrcSupport::No { reason } => return Err(Failure::NoXrc { device: name, reason }),
            // Opening the domain will tell.
            _ => {}
        }
        let port = options.ib_port;
        let attributes = context.port(port)?;
        if attributes.state != PortState::Active {
            return Err(Failure::PortDown { device: name, port, state: attributes.state });
        }
        let (size, most) = (options.largest_size(), attributes.max_message);
        if size > most {
            return Err(Failure::MessageTooLong { device: name, port, size, most });
        }
        // Packets on Ethernet are addressed by GID; there is no other way.
        let ethernet = attributes.link_layer == LinkLayer::Ethernet;
        let gid_index = options.gid_index.or(ethernet.then_some(0));
        let local = LocalPort::query(&context, port)?;
        let local = match gid_index {
            Some(index) => local.gid_index(index)?,
            None => local,
        };
        Ok(Fabric { context, port, attributes, local, gid_index })
    }

    pub fn device_name(&self) -> &str {
        self.context.device_name()
    }

    /// "IB" or "Ethernet", as ib_send_lat writes it.
    pub fn link_type(&self) -> String {
        match self.attributes.link_layer {
            LinkLayer::InfiniBand => "IB".to_owned(),
            other => format!("{other:?}"),
        }
    }

    pub fn gid_index(&self) -> Option<u8> {
        self.gid_index
    }

    /// Create everything that has to exist before the other side can be told
    /// where it is. `mtu`: what the users want, `None` for the port's own.
    pub fn create_queues(&self, options: &Options, mtu: Option<Mtu>) -> Result<Queues, Failure> {
        let size = options.largest_size();
        let depth = receive_depth(options.rx_depth, options.iters, size);
        let pd = self.context.create_pd()?;
        let pool = pd.pool(depth + 1, size as usize)?;
        let send_cq = self.context.create_cq(TX_DEPTH)?;
        let receive_cq = self.context.create_cq(depth)?;
        let domain = self.context.create_xrc_domain()?;
        let srq = domain.create_srq(&pd, &receive_cq).max_wr(depth).pool(&pool).build()?;
        let target = domain.create_target()?;
        let initiator = create_initiator(&pd, &send_cq, &pool, options.inline_size)?;
        // A device may grant more than it was asked for; the user's number decides, and 0 turns inline off.
        let max_inline =
            options.inline_size.map_or(initiator.max_inline(), |asked| asked.min(initiator.max_inline()));
        let endpoint = self.local.endpoint(&initiator, &target, &srq)?;
        let endpoint = Endpoint { mtu: self.mtu(mtu), ..endpoint };
        Ok(Queues { endpoint, depth, pool, send_cq, receive_cq, srq, target, initiator, max_inline })
    }

    /// The wanted MTU, or the port's when that is less.
    fn mtu(&self, wanted: Option<Mtu>) -> Mtu {
        let active = self.attributes.active_mtu;
        match wanted {
            Some(wanted) if wanted > active => {
                eprintln!(
                    "Requested mtu {wanted} is higher than the active mtu of port {} of {}: taking {active}",
                    self.port,
                    self.device_name()
                );
                active
            }
            Some(wanted) => wanted,
            None => active,
        }
    }

    /// Join the two sides' queues, and post the receives.
    pub fn connect(&self, queues: Queues, remote: &Endpoint, is_server: bool) -> Result<PingPong, Failure> {
        let Queues { depth, pool, send_cq, receive_cq, srq, mut target, mut initiator, endpoint, max_inline } =
            queues;
        let options = ConnectOptions::default().mtu(path_mtu(&endpoint, remote));
        target.connect(&self.local, remote, &options)?;
        initiator.connect(&self.local, remote, &options)?;
        let to = remote.srq;
        let mut ends =
            PingPong { initiator, srq, send_cq, receive_cq, pool, target, to, depth, is_server, max_inline };
        ends.post_receives()?;
        Ok(ends)
    }
}

impl Queues {
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Messages up to this many bytes go inline.
    pub fn max_inline(&self) -> u32 {
        self.max_inline
    }
}

/// What both sides can carry.
pub fn path_mtu(here: &Endpoint, there: &Endpoint) -> Mtu {
    here.mtu.min(there.mtu)
}

/// How many receives to keep posted: never more than will be used.
fn receive_depth(wanted: Option<u32>, iters: u32, size: u32) -> u32 {
    // Two are enough for a ping-pong to run without waiting.
    let default = || DEFAULT_RX_DEPTH.min(DEFAULT_ROOM / size).max(2);
    wanted.unwrap_or_else(default).min(iters)
}

/// With the inline size that the user wants, or else the most that works.
fn create_initiator(
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    pool: &Pool,
    inline: Option<u32>,
) -> Result<Initiator, Failure> {
    let create = |inline| pd.create_initiator(cq).max_send_wr(TX_DEPTH).max_inline(inline).pool(pool).build();
    if let Some(size) = inline {
        return create(size).map_err(|source| match source.kind() {
            ErrorKind::InvalidInput if size > 0 => Failure::Inline { size, source },
            _ => source.into(),
        });
    }
    let mut last = create(DEFAULT_INLINE);
    for inline in SMALLER_INLINES {
        match &last {
            Err(error) if error.kind() == ErrorKind::InvalidInput => last = create(inline),
            _ => break,
        }
    }
    Ok(last?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_is_what_was_asked_for_or_what_fits() {
        assert_eq!(receive_depth(None, 1000, 2), 512);
        assert_eq!(receive_depth(None, 100, 2), 100);
        assert_eq!(receive_depth(None, 1000, 65536), 64);
        assert_eq!(receive_depth(None, 1000, 8 << 20), 2);
        assert_eq!(receive_depth(Some(512), 1000, 65536), 512);
        assert_eq!(receive_depth(Some(1), 1000, 2), 1);
    }
}
