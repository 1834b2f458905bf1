//! Why a work request was not posted.

use crate::{Buf, Error, ErrorKind};
use std::{fmt, io};
use thiserror::Error as ThisError;

/// A work request that was not posted: the reason, and the buffer.
pub struct PostError {
    /// Why.
    pub reason: PostErrorReason,
    /// The buffer that was to be posted; None for an inline send.
    pub buf: Option<Buf>,
}

/// Why a work request was not posted.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum PostErrorReason {
    /// As many are in flight as the queue holds. Poll the completion queue.
    #[error("the queue is full: {depth} are in flight")]
    QueueFull {
        /// The queue's depth.
        depth: u32,
    },
    /// The initiator is not connected.
    #[error("the initiator is not connected")]
    NotConnected,
    /// The queue is a parent process's, and this one was forked from it.
    #[error("the queue is the parent's of this forked process")]
    Forked,
    /// The buffer's pool was not attached to the queue when it was built.
    #[error("the buffer is of a pool that is not attached to the queue")]
    PoolNotAttached,
    /// More bytes than the device granted for inline sends.
    #[error("{len} bytes inline, and the device granted {max}")]
    InlineTooLong {
        /// How many bytes there were.
        len: usize,
        /// How many may be sent inline.
        max: u32,
    },
    /// More bytes than the longest message of the port that the initiator is connected by.
    #[error("{len} bytes, and the port's longest message has {max}")]
    MessageTooLong {
        /// How many bytes there were.
        len: usize,
        /// How many a message may have.
        max: u32,
    },
    /// The provider's reason.
    #[error("the provider refused it: {0}")]
    Os(#[source] io::Error),
}

impl PostError {
    pub(crate) fn new(reason: PostErrorReason, buf: Option<Buf>) -> Self {
        Self { reason, buf }
    }
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not posted: {}", self.reason)
    }
}

impl fmt::Debug for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostError").field("reason", &self.reason).field("buf", &self.buf).finish()
    }
}

impl std::error::Error for PostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.reason.source()
    }
}

/// Drops the buffer, which returns to its pool.
impl From<PostError> for Error {
    fn from(error: PostError) -> Self {
        const CALL: &str = "post";
        let detail = error.reason.to_string();
        match error.reason {
            PostErrorReason::Os(source) => Self::os(CALL, source),
            PostErrorReason::QueueFull { .. } => Self::refused(CALL, ErrorKind::CapacityExceeded, detail),
            PostErrorReason::NotConnected => Self::refused(CALL, ErrorKind::NotConnected, detail),
            PostErrorReason::Forked => Self::refused(CALL, ErrorKind::Forked, detail),
            PostErrorReason::PoolNotAttached
            | PostErrorReason::InlineTooLong { .. }
            | PostErrorReason::MessageTooLong { .. } => Self::refused(CALL, ErrorKind::InvalidInput, detail),
        }
    }
}
