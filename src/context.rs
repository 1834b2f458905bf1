//! An open device: what it can do, and what is made from it.

use crate::{
    CompletionQueue, Error, ErrorKind, Gid, GidEntry, Guid, PortAttributes, ProtectionDomain, Result,
    XrcDomain, XrcDomainOptions,
    verbs::{self, domain::Domain},
};
use std::{fmt, path::Path, sync::Arc};

/// An open device. What is made from it keeps it open, so it may be dropped at any time.
pub struct Context(Arc<verbs::context::Context>);

/// What a device says of itself, fixed while it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceAttributes {
    /// Firmware version.
    pub firmware: String,
    /// GUID of the node.
    pub node_guid: Guid,
    /// GUID of the system image.
    pub system_image_guid: Guid,
    /// The vendor's IEEE id.
    pub vendor_id: u32,
    /// The vendor's number for the part.
    pub vendor_part_id: u32,
    /// Hardware version.
    pub hardware_version: u32,
    /// How many ports it has; they are numbered from 1.
    pub ports: u8,
    /// Whether the device claims XRC. [`Context::xrc_support`] tries it.
    pub xrc_flag: bool,
    /// Most queue pairs.
    pub max_qp: u32,
    /// Most work requests of a queue.
    pub max_qp_wr: u32,
    /// Most scatter entries of a work request.
    pub max_sge: u32,
    /// Most completion queues.
    pub max_cq: u32,
    /// Most completions of a completion queue.
    pub max_cqe: u32,
    /// Most memory regions.
    pub max_mr: u32,
    /// Largest memory region in bytes.
    pub max_mr_size: u64,
    /// Most protection domains.
    pub max_pd: u32,
    /// Most SRQs.
    pub max_srq: u32,
    /// Most receives of an SRQ.
    pub max_srq_wr: u32,
    /// Most scatter entries of an SRQ's receive.
    pub max_srq_sge: u32,
    /// Most RDMA reads and atomics that a queue pair answers at a time.
    pub max_qp_rd_atom: u32,
    /// Most RDMA reads and atomics that a queue pair has outstanding.
    pub max_qp_init_rd_atom: u32,
    /// Length of the partition key tables.
    pub max_pkeys: u16,
}

/// Whether XRC works on a device.
#[derive(Debug)]
#[non_exhaustive]
pub enum XrcSupport {
    /// A domain could be opened.
    Yes,
    /// The device or its driver lacks it.
    No {
        /// The failure of opening a domain, of kind [`ErrorKind::Unsupported`].
        reason: Error,
    },
    /// Opening a domain failed for a reason that says nothing of XRC, such as a lack of memory.
    Unknown {
        /// The failure.
        reason: Error,
    },
}

impl Context {
    pub(crate) fn new(context: Arc<verbs::context::Context>) -> Self {
        Self(context)
    }

    pub(crate) fn verbs(&self) -> &Arc<verbs::context::Context> {
        &self.0
    }

    /// The device's name.
    pub fn device_name(&self) -> &str {
        self.0.name()
    }

    /// What the device says of itself.
    ///
    /// Verb: [`ibv_query_device`](https://man7.org/linux/man-pages/man3/ibv_query_device.3.html), once.
    ///
    /// # Errors
    /// The driver's reason.
    #[doc(alias = "ibv_query_device")]
    pub fn attributes(&self) -> Result<&DeviceAttributes> {
        self.0.attributes()
    }

    /// What a port says of itself. Ports are numbered from 1.
    ///
    /// Verb: [`ibv_query_port`](https://man7.org/linux/man-pages/man3/ibv_query_port.3.html).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if there is no such port.
    #[doc(alias = "ibv_query_port")]
    pub fn port(&self, port: u8) -> Result<PortAttributes> {
        self.check_port("ibv_query_port", port)?;
        verbs::port::query(&self.0, port)
    }

    /// One entry of a port's GID table, which may be zero.
    ///
    /// # Errors
    /// If there is no such port or no such index.
    #[doc(alias = "ibv_query_gid")]
    pub fn gid(&self, port: u8, index: u32) -> Result<Gid> {
        self.check_port("ibv_query_gid", port)?;
        verbs::port::gid(&self.0, port, index)
    }

    /// A port's GIDs with their types, those that are set.
    ///
    /// # Errors
    /// If there is no such port, or the driver's reason.
    #[doc(alias = "ibv_query_gid_table")]
    pub fn gids(&self, port: u8) -> Result<Vec<GidEntry>> {
        self.check_port("ibv_query_gid_table", port)?;
        verbs::port::gids(&self.0, port)
    }

    /// One entry of a port's partition key table.
    ///
    /// # Errors
    /// If there is no such port or no such index.
    #[doc(alias = "ibv_query_pkey")]
    pub fn pkey(&self, port: u8, index: u16) -> Result<u16> {
        self.check_port("ibv_query_pkey", port)?;
        verbs::port::pkey(&self.0, port, index)
    }

    /// Whether XRC works here: opens a private domain and closes it, rather than trust the device's flag.
    pub fn xrc_support(&self) -> XrcSupport {
        match Domain::open(&self.0, None, false, false) {
            Ok(_) => XrcSupport::Yes,
            Err(reason) if reason.kind() == ErrorKind::Unsupported => XrcSupport::No { reason },
            Err(reason) => XrcSupport::Unknown { reason },
        }
    }

    /// Creates a protection domain.
    ///
    /// Verb: [`ibv_alloc_pd`](https://man7.org/linux/man-pages/man3/ibv_alloc_pd.3.html).
    ///
    /// # Errors
    /// The driver's reason.
    #[doc(alias = "ibv_alloc_pd")]
    pub fn create_pd(&self) -> Result<ProtectionDomain> {
        verbs::pd::Pd::alloc(&self.0).map(ProtectionDomain::new)
    }

    /// Creates a completion queue for at least `depth` completions; [`CompletionQueue::capacity`] is what
    /// the device granted.
    ///
    /// Verb: [`ibv_create_cq`](https://man7.org/linux/man-pages/man3/ibv_create_cq.3.html).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a depth of 0 or above the device's
    /// [`max_cqe`](DeviceAttributes::max_cqe).
    #[doc(alias = "ibv_create_cq")]
    pub fn create_cq(&self, depth: u32) -> Result<CompletionQueue> {
        verbs::cq::Cq::create(&self.0, depth).map(CompletionQueue::new)
    }

    /// Creates a private XRC domain, which no other process can open.
    ///
    /// Verb: [`ibv_open_xrcd`](https://man7.org/linux/man-pages/man3/ibv_open_xrcd.3.html) with fd -1.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the device has no XRC.
    #[doc(alias = "ibv_open_xrcd")]
    pub fn create_xrc_domain(&self) -> Result<XrcDomain> {
        Domain::open(&self.0, None, true, false).map(XrcDomain::new)
    }

    /// Opens the XRC domain of a file, shared with every process that opens it on the same device.
    ///
    /// See [`XrcDomainOptions`] for what is created when, and for what sharing means.
    #[doc(alias = "ibv_open_xrcd")]
    pub fn open_xrc_domain(&self, path: impl AsRef<Path>) -> XrcDomainOptions<'_> {
        XrcDomainOptions::new(self, path.as_ref())
    }

    /// The system calls behind the queries would answer for a port that is not there in ways of their
    /// own; port 0 is a switch's.
    fn check_port(&self, verb: &'static str, port: u8) -> Result<()> {
        let ports = self.attributes()?.ports;
        if port == 0 || port > ports {
            let detail = format!("no port {port}; the device has ports 1 to {ports}");
            return Err(Error::refused(verb, ErrorKind::InvalidInput, detail).device(self.0.name()));
        }
        Ok(())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("device", &self.device_name()).finish()
    }
}
