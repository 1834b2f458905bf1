//! Safe Rust over the XRC verbs of rdma-core.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod attributes;
mod bookkeeping;
mod buf;
pub mod build_info;
mod completion;
mod connect;
mod context;
mod cq;
mod device;
mod domain;
mod endpoint;
mod error;
mod gid;
mod initiator;
mod numbers;
mod pd;
mod pool;
mod port;
mod post;
mod srq;
mod target;
#[cfg(test)]
mod tests;
#[allow(unsafe_code)]
mod verbs;

pub use attributes::QpState;
pub use buf::Buf;
pub use completion::{Completion, CompletionKind, WcError, WcStatus};
pub use connect::ConnectOptions;
pub use context::{Context, DeviceAttributes, XrcSupport};
pub use cq::CompletionQueue;
pub use device::{Device, DeviceList, Transport, devices};
pub use domain::{XrcDomain, XrcDomainOptions};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{Error, ErrorKind, Result};
pub use gid::{Gid, GidEntry, GidType, Guid};
pub use initiator::{Initiator, InitiatorBuilder, SendOptions};
pub use numbers::{Lid, Mtu, NumberError, Psn, QpNumber, SrqNumber};
pub use pd::ProtectionDomain;
pub use pool::Pool;
pub use port::{LinkLayer, LocalPort, PortAttributes, PortState};
pub use post::{PostError, PostErrorReason};
pub use srq::{XrcSrq, XrcSrqBuilder};
pub use target::Target;
