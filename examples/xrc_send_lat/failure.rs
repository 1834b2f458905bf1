//! Every way in which the test can end early, in words for the person who
//! started it.

use std::io;
use std::path::PathBuf;

use rdma_xrc::{EndpointError, PortState, PostErrorReason, WcError};

use crate::exchange::ExchangeError;

/// Which kind of work was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Send,
    Receive,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Send => "send",
            Work::Receive => "receive",
        }
    }
}

/// Why the test ended.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(
        "no IB devices found: are ib_uverbs and a device's driver loaded? (`rdma link` shows the devices)"
    )]
    NoDevice,

    #[error("{device} has no XRC, take another device or driver: {reason}")]
    NoXrc { device: String, reason: rdma_xrc::Error },

    #[error(
        "port {port} of {device} is {state:?}, not Active: is it cabled, and (on InfiniBand) does a \
         subnet manager run? (`ibstat` shows it)"
    )]
    PortDown { device: String, port: u8, state: PortState },

    #[error("a message of {size} bytes is too long: port {port} of {device} takes at most {most}")]
    MessageTooLong { device: String, port: u8, size: u32, most: u32 },

    #[error("-I {size} is more than the device has, give a smaller one: {source}")]
    Inline { size: u32, source: rdma_xrc::Error },

    #[error("{0}")]
    Verbs(#[from] rdma_xrc::Error),

    #[error("{0}")]
    Exchange(#[from] ExchangeError),

    #[error("the other side's endpoint is refused: {0}")]
    Endpoint(#[from] EndpointError),

    #[error("cannot post {} {number} of {size} bytes: {reason}", .work.name())]
    Post { work: Work, number: u64, size: u32, reason: PostErrorReason },

    #[error("{} {number} of {size} bytes failed on this side: {error}{}", .work.name(), besides(.peer))]
    Completion { work: Work, number: u64, size: u32, error: WcError, peer: Option<ExchangeError> },

    #[error(
        "no {} completion for {seconds} s, at message {number} of {size} bytes, with {states}: \
         the other side or the fabric between is stuck", .work.name()
    )]
    Stalled { work: Work, number: u64, size: u32, seconds: u64, states: String },

    #[error("message {number} arrived with {got} bytes, not {size}")]
    Length { number: u64, size: u32, got: u32 },

    #[error("message {number} of {size} bytes was due, another one arrived")]
    Number { number: u64, size: u32 },

    #[error(
        "the last message of {size} bytes arrived with other contents than were sent, first at byte {at}"
    )]
    Contents { size: u32, at: usize },

    #[error("no buffer where one must be, at message {number} of {size} bytes: please report this")]
    NoBuffer { number: u64, size: u32 },

    #[error("{iters} messages are too few to report on")]
    TooFew { iters: u32 },

    #[error("cannot write the report: {0}")]
    Output(#[from] io::Error),

    #[error("cannot write {path}: {source}", path = .path.display())]
    Json { path: PathBuf, source: io::Error },
}

/// What is known of the other side, after the error of this one.
fn besides(peer: &Option<ExchangeError>) -> String {
    peer.as_ref().map_or_else(String::new, |error| format!("; besides, {error}"))
}
