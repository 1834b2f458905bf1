//! The crate's error: which verb failed, on what, and why.

use std::{borrow::Cow, fmt, io, sync::Arc};

/// What the crate's fallible calls return.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of failure an [`Error`] is, for programs that decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The device or its driver lacks the operation: `EOPNOTSUPP` or `ENOSYS`, and nothing else.
    Unsupported,
    /// No device of that name, or the device has gone (`ENODEV`, `EIO`).
    NoSuchDevice,
    /// An argument is out of range or does not fit the object (`EINVAL`, or refused before the call).
    InvalidInput,
    /// The object is still in use (`EBUSY`, or our own children hold it).
    Busy,
    /// `EACCES` or `EPERM`.
    PermissionDenied,
    /// `ENOMEM`: the device or the machine has no more, or the limit on locked memory is too low.
    OutOfMemory,
    /// `EMFILE` or `ENFILE`.
    TooManyOpenFiles,
    /// A file, or a domain behind a file, that is not there and may not be created.
    NotFound,
    /// A domain asked for exclusively that somebody has open already.
    AlreadyExists,
    /// A descriptor that is no open file (`EBADF`).
    BadDescriptor,
    /// Objects of two devices, or of two openings of one device, in one call.
    DeviceMismatch,
    /// A queue does not fit its completion queue, or a work request its queue.
    CapacityExceeded,
    /// The queue pair is not in the state that the call needs.
    NotConnected,
    /// The object is a parent process's, and this one was forked from it.
    Forked,
    /// Anything else; the source has the operating system's number.
    Other,
}

/// A failed call: the verb, the device, the object, the operating system's reason.
///
/// The text names all of them; [`source`](std::error::Error::source) is the [`io::Error`] with errno,
/// where the operating system gave one.
pub struct Error(Box<Inner>);

struct Inner {
    verb: &'static str,
    kind: ErrorKind,
    device: Option<Arc<str>>,
    object: Option<Cow<'static, str>>,
    detail: Option<Cow<'static, str>>,
    source: Option<io::Error>,
}

impl Error {
    /// A call that the operating system refused.
    pub(crate) fn os(verb: &'static str, source: io::Error) -> Self {
        Self::make(verb, kind_of(&source), Some(source))
    }

    /// A call that the crate refused before it reached the operating system.
    pub(crate) fn refused(verb: &'static str, kind: ErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::make(verb, kind, None).detail(detail)
    }

    fn make(verb: &'static str, kind: ErrorKind, source: Option<io::Error>) -> Self {
        Self(Box::new(Inner { verb, kind, device: None, object: None, detail: None, source }))
    }

    pub(crate) fn device(mut self, name: &Arc<str>) -> Self {
        self.0.device = Some(Arc::clone(name));
        self
    }

    /// The object concerned, as the message shows it: `port 1`, `QP 0x41`, a path.
    pub(crate) fn object(mut self, object: impl Into<Cow<'static, str>>) -> Self {
        self.0.object = Some(object.into());
        self
    }

    pub(crate) fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The same error, with what went wrong while putting things back.
    pub(crate) fn and(self, second: &Self) -> Self {
        let first = self.0.detail.as_deref().unwrap_or("failed").to_owned();
        self.detail(format!("{first}; and then {second}"))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The verb, or the call of this crate, that failed.
    pub fn verb(&self) -> &'static str {
        self.0.verb
    }

    /// The device concerned, where one is.
    pub fn device_name(&self) -> Option<&str> {
        self.0.device.as_deref()
    }

    /// The operating system's number, where it gave one.
    pub fn errno(&self) -> Option<i32> {
        self.0.source.as_ref().and_then(io::Error::raw_os_error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { verb, device, object, detail, source, .. } = &*self.0;
        write!(f, "{verb}")?;
        match (device, object) {
            (Some(device), Some(object)) => write!(f, " on {device}, {object}")?,
            (Some(device), None) => write!(f, " on {device}")?,
            (None, Some(object)) => write!(f, " on {object}")?,
            (None, None) => {}
        }
        match (detail, source) {
            (Some(detail), Some(source)) => write!(f, ": {detail} ({source})"),
            (Some(detail), None) => write!(f, ": {detail}"),
            (None, Some(source)) => write!(f, ": {source}"),
            (None, None) => write!(f, ": failed"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

/// The kind by errno alone; calls in which a number means something of its own override it.
fn kind_of(source: &io::Error) -> ErrorKind {
    match source.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => ErrorKind::Unsupported,
        Some(libc::ENODEV | libc::EIO | libc::ENXIO) => ErrorKind::NoSuchDevice,
        Some(libc::EINVAL) => ErrorKind::InvalidInput,
        Some(libc::EBUSY) => ErrorKind::Busy,
        Some(libc::EACCES | libc::EPERM) => ErrorKind::PermissionDenied,
        Some(libc::ENOMEM) => ErrorKind::OutOfMemory,
        Some(libc::EMFILE | libc::ENFILE) => ErrorKind::TooManyOpenFiles,
        Some(libc::ENOENT) => ErrorKind::NotFound,
        Some(libc::EEXIST) => ErrorKind::AlreadyExists,
        Some(libc::EBADF) => ErrorKind::BadDescriptor,
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn only_two_numbers_mean_unsupported() {
        let unsupported: Vec<i32> = (1..=133)
            .filter(|&errno| kind_of(&io::Error::from_raw_os_error(errno)) == ErrorKind::Unsupported)
            .collect();
        assert_eq!(unsupported, [libc::ENOSYS, libc::EOPNOTSUPP]);
    }

    #[test]
    fn the_text_names_verb_device_object_reason_and_errno() {
        let error = Error::os("ibv_modify_qp", io::Error::from_raw_os_error(libc::EINVAL))
            .device(&Arc::from("mlx5_0"))
            .object("QP 0x41")
            .detail("TIMEOUT is missing");
        let text = error.to_string();
        for part in ["ibv_modify_qp", "mlx5_0", "QP 0x41", "TIMEOUT is missing", "Invalid argument"] {
            assert!(text.contains(part), "{text:?} lacks {part:?}");
        }
        assert_eq!(error.errno(), Some(22));
        assert!(error.source().is_some());
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn an_error_of_our_own_has_no_source() {
        let error = Error::refused("connect", ErrorKind::InvalidInput, "LID 0 and no GID");
        assert!(error.source().is_none());
        assert_eq!(error.errno(), None);
        assert_eq!(error.to_string(), "connect: LID 0 and no GID");
    }
}
