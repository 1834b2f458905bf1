//! An XRC domain: targets and SRQs of one domain work together.

use crate::{
    CompletionQueue, Context, Error, ErrorKind, OpenedTarget, ProtectionDomain, QpNumber, Result, Target,
    XrcSrqBuilder,
    verbs::{self, domain::Domain},
};
use std::{
    fmt,
    fs::{File, OpenOptions},
    io,
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// An XRC domain. A message that arrives at one of its targets may name any of its SRQs.
///
/// A domain of a file is shared by all processes that have it open: a target that one of them makes
/// reaches the SRQs of all. The kernel knows it by the file's inode, so it outlives the file's name, and
/// it ends with its last holder.
#[doc(alias("ibv_xrcd", "XRCD"))]
pub struct XrcDomain {
    domain: Arc<Domain>,
    path: Option<Arc<Path>>,
}

impl XrcDomain {
    pub(crate) fn new(domain: Arc<Domain>) -> Self {
        Self { domain, path: None }
    }

    /// Creates an SRQ of this domain, whose memory is of `pd` and which completes to `cq`.
    pub fn create_srq(&self, pd: &ProtectionDomain, cq: &CompletionQueue) -> XrcSrqBuilder {
        XrcSrqBuilder::new(Arc::clone(&self.domain), Arc::clone(pd.verbs()), Arc::clone(cq.verbs()))
    }

    /// Creates a target of this domain, not connected.
    ///
    /// Verb: [`ibv_create_qp_ex`](https://man7.org/linux/man-pages/man3/ibv_create_qp_ex.3.html) with type
    /// `XRC_RECV`.
    ///
    /// # Errors
    /// The driver's reason.
    #[doc(alias("ibv_create_qp_ex", "IBV_QPT_XRC_RECV"))]
    pub fn create_target(&self) -> Result<Target> {
        verbs::target::Target::create(&self.domain).map(Target::new)
    }

    /// Opens a target of this domain that exists already, by its number: one more holder, who keeps it
    /// alive.
    ///
    /// Verb: [`ibv_open_qp`](https://man7.org/linux/man-pages/man3/ibv_open_qp.3.html).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the domain has no target of this number (`EINVAL`): it never had, it is
    /// another domain's, or its last holder has let go. [`ErrorKind::Unsupported`] if the provider opens no
    /// targets, as qedr, or if sysfs does not say which driver the device has, which decides how a handle
    /// is closed.
    #[doc(alias("ibv_open_qp", "ibv_qp_open_attr"))]
    pub fn open_target(&self, number: QpNumber) -> Result<OpenedTarget> {
        let opened = verbs::opened::Opened::open(&self.domain, number);
        opened.map(OpenedTarget::new).map_err(|error| match &self.path {
            Some(path) => error.object(format!("target QP {number} of {}", path.display())),
            None => error,
        })
    }

    /// Closes it.
    ///
    /// Verb: [`ibv_close_xrcd`](https://man7.org/linux/man-pages/man3/ibv_open_xrcd.3.html). Dropping does
    /// the same, later: when its SRQs and targets in this process are gone too.
    ///
    /// # Errors
    /// The domain comes back with the reason: [`ErrorKind::Busy`] while SRQs, targets or builders of it live. For
    /// those of this process the crate says so without a system call.
    #[doc(alias = "ibv_close_xrcd")]
    pub fn close(self) -> std::result::Result<(), (Self, Error)> {
        let Self { domain, path } = self;
        let (domain, error) = match Arc::try_unwrap(domain) {
            Err(domain) => {
                let error = Error::refused(
                    "ibv_close_xrcd",
                    ErrorKind::Busy,
                    "SRQs, targets or builders of it live in this process",
                )
                .device(domain.context().name());
                (domain, error)
            }
            Ok(mut domain) => match domain.destroy() {
                Ok(()) => return Ok(()),
                Err(error) => (Arc::new(domain), error),
            },
        };
        let error = match &path {
            Some(path) => error.object(path.display().to_string()),
            None => error,
        };
        Err((Self { domain, path }, error))
    }
}

impl fmt::Debug for XrcDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XrcDomain")
            .field("device", self.domain.context().name())
            .field("path", &self.path)
            .finish()
    }
}

/// How to open the XRC domain of a file; see [`Context::open_xrc_domain`].
///
/// | the file's domain | neither | `create` | `exclusive` |
/// |---|---|---|---|
/// | no process has it open | [`NotFound`](ErrorKind::NotFound) | created | with `create`: created |
/// | a process has it open | shared | shared | [`AlreadyExists`](ErrorKind::AlreadyExists) |
///
/// With `create`, the file itself is created too where it is missing. The file is opened for reading and
/// closed again; nothing is written to it.
///
/// The kernel knows a file by its inode in memory, so the file must lie where every opener gets the same
/// one: a tmpfs or a disk of the machine (`/dev/shm`, `/run`, `/tmp`). A file system that makes an inode for
/// each open (9p, some network and FUSE file systems) gives each opener a domain of its own, or none.
///
/// **Whoever can open the file can join the domain**: make targets of their own that reach every SRQ in
/// it. The default mode, 0600, lets the file's owner and nobody else.
#[derive(Debug)]
pub struct XrcDomainOptions<'a> {
    context: &'a Context,
    path: PathBuf,
    create: bool,
    exclusive: bool,
    mode: u32,
}

impl<'a> XrcDomainOptions<'a> {
    pub(crate) fn new(context: &'a Context, path: &Path) -> Self {
        Self { context, path: path.to_owned(), create: false, exclusive: false, mode: 0o600 }
    }

    /// Whether to create the domain, and its file, where there is none. Default false.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether to refuse a domain that somebody has open already. Default false.
    pub fn exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// The permissions of a file that is created, less the umask. Default 0600.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Opens it.
    ///
    /// Verb: [`ibv_open_xrcd`](https://man7.org/linux/man-pages/man3/ibv_open_xrcd.3.html).
    ///
    /// # Errors
    /// Those of the table; [`ErrorKind::PermissionDenied`] if the file may not be opened;
    /// [`ErrorKind::InvalidInput`] if it is no regular file, or, with `create`, a symbolic link;
    /// [`ErrorKind::Unsupported`] if the device has no XRC. Each names the path.
    #[doc(alias = "ibv_open_xrcd")]
    pub fn open(self) -> Result<XrcDomain> {
        let at =
            |error: Error| error.device(self.context.verbs().name()).object(self.path.display().to_string());
        let file = self.open_file().map_err(|source| {
            let link = source.raw_os_error() == Some(libc::ELOOP);
            let error = at(Error::os("open", source));
            match error.kind() {
                ErrorKind::PermissionDenied => error.detail("the file must be readable to join its domain"),
                _ if link => error
                    .with_kind(ErrorKind::InvalidInput)
                    .detail("with `create`, the path must not end in a symbolic link"),
                _ => error,
            }
        })?;
        let regular = file.metadata().map_err(|source| at(Error::os("fstat", source)))?.is_file();
        if !regular {
            return Err(at(Error::refused("open", ErrorKind::InvalidInput, "it is no regular file")));
        }
        let domain = Domain::open(self.context.verbs(), Some(file.as_fd()), self.create, self.exclusive)
            .map_err(at)?;
        Ok(XrcDomain { domain, path: Some(self.path.into()) })
    }

    fn open_file(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        // Whatever the path names, opening it neither waits (a FIFO) nor gives this process a terminal.
        let mut flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        if self.create {
            // The standard library creates only what it opens for writing. A link that somebody else put
            // there does not choose the place.
            flags |= libc::O_CREAT | libc::O_NOFOLLOW;
            options.mode(self.mode);
        }
        options.read(true).custom_flags(flags).open(&self.path)
    }
}
