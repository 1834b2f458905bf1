//! What the crate was built with.

/// The release of rdma-core whose headers the crate was built with, such as `44.0`. Programs show it
/// beside a device's firmware version; the library that runs may be newer.
pub const RDMA_CORE: &str = env!("RDMA_CORE_VERSION");

/// Whether the bindings are those checked in with the crate (feature `bindgen` off) rather than generated
/// from the installed headers.
pub const CHECKED_IN_BINDINGS: bool = cfg!(checked_in_bindings);
