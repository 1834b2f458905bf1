//! Numbers that the device and its drivers agree on: states, services, events, completions, work requests.

macro_rules! numbers {
    ($(#[$doc:meta])* $type:ident: $($name:ident $value:literal $meaning:literal)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $(#[doc = $meaning] $name = $value,)* }

        impl $type {
            /// The one with that number.
            pub fn from_number(n: u64) -> Option<Self> {
                match n {
                    $($value => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

numbers! {
    /// State of a queue pair.
    QpState:
    Reset 0 "New or reset."
    Init 1 "May post receives."
    ReadyToReceive 2 "Answers requests."
    ReadyToSend 3 "Sends as well."
    SendError 4 "A datagram QP whose send failed; it still receives."
    SendDrained 5 "Sends nothing for now."
    Error 6 "Everything posted is flushed."
}
numbers! {
    /// Service of a queue pair.
    Service:
    Rc 0 "Reliable connection."
    Uc 1 "Unreliable connection."
    Ud 2 "Datagrams."
    Xrc 3 "XRC initiator or target."
    Smi 7 "QP0."
    Gsi 8 "QP1."
    Umr 12 "The driver's own, for memory registration."
}
numbers! {
    /// What a queue pair receives from.
    ReceiveQueueType:
    Own 0 "Its own receive queue."
    Shared 1 "A shared receive queue."
    Cyclic 2 "A cyclic queue (not in the model)."
    Absent 3 "It does not receive."
}
numbers! {
    /// Type of an event.
    EventType:
    Completion 0x00 "A completion queue has something new."
    PathMigrated 0x01 "A QP uses its alternate path."
    CommunicationEstablished 0x02 "First request to a QP that is ready to receive."
    SendQueueDrained 0x03 "Nothing in flight any more."
    CqError 0x04 "A completion queue overflowed or cannot be written."
    WqCatastrophic 0x05 "A QP's own queue cannot be read."
    PortChange 0x09 "The port came up or went down."
    Command 0x0a "Commands are done."
    PageRequest 0x0b "The device wants pages or gives them back."
    WqInvalidRequest 0x10 "The peer sent a QP something invalid."
    WqAccess 0x11 "The peer may not do that with the QP's memory."
    SrqCatastrophic 0x12 "A shared receive queue cannot be read."
    SrqLastWqe 0x13 "A QP in error takes no more from its SRQ."
    SrqLimit 0x14 "Fewer receives than the limit."
}
numbers! {
    /// What happened to a port: the subtype of its event.
    PortChange:
    Down 1 "It went down."
    Active 4 "It came up, and the subnet manager made it active."
}
numbers! {
    /// Kind of a completion.
    CompletionOpcode:
    Requester 0x0 "A send work request is done."
    WriteImmediate 0x1 "An RDMA write with immediate data came."
    Send 0x2 "A message came."
    SendInvalidate 0x4 "A message that made a key free came."
    SendImmediate 0x3 "A message with immediate data came."
    Resize 0x5 "The CQ goes on in its new memory."
    RequesterError 0xd "A send work request failed."
    ResponderError 0xe "A receive failed."
    Invalid 0xf "Not written yet."
}
numbers! {
    /// Why a work request failed.
    WqeSyndrome:
    LocalLength 0x01 "The message does not fit."
    LocalQpOperation 0x02 "The work request makes no sense for this QP."
    LocalProtection 0x04 "The local key does not allow it."
    Flushed 0x05 "The QP is in error."
    MemoryWindowBind 0x06 "The memory key cannot be changed like that."
    BadResponse 0x10 "The answer makes no sense."
    LocalAccess 0x11 "Local access fault."
    RemoteInvalidRequest 0x12 "The peer says: invalid request."
    RemoteAccess 0x13 "The peer says: its key does not allow it."
    RemoteOperation 0x14 "The peer cannot complete it."
    RetryExceeded 0x15 "The peer does not answer."
    RnrRetryExceeded 0x16 "The peer never has a receive."
}
numbers! {
    /// What a send work request asks for.
    WqeOpcode:
    Nop 0x00 "Nothing."
    SendInvalidate 0x01 "Message that makes a key of the receiver's free."
    Write 0x08 "RDMA write."
    WriteImmediate 0x09 "RDMA write with immediate data."
    Send 0x0a "Message."
    SendImmediate 0x0b "Message with immediate data."
    Read 0x10 "RDMA read."
    CompareSwap 0x11 "Atomic compare and swap."
    FetchAdd 0x12 "Atomic fetch and add."
    Umr 0x25 "Changes a memory key."
}
numbers! {
    /// How a memory key translates.
    AccessMode:
    Physical 0 "Addresses are the guest's physical ones."
    PageList 1 "By a list of pages."
    KeyList 2 "By a list of keys."
    FixedKeyList 3 "By a list of keys of one size (not in the model)."
}

impl WqeSyndrome {
    /// The vendor's own code beside it, in the completion of a send and in that of a receive. `ERRORS.md` says which
    /// of them logs of real adapters show; those from 0xe0 are numbers of the model's own.
    pub fn vendor_code(self, of_receive: bool) -> u8 {
        match (self, of_receive) {
            (Self::LocalLength, false) => 0xe0,
            (Self::LocalLength, true) => 0xe1,
            (Self::LocalQpOperation, false) => 0xe2,
            (Self::LocalQpOperation, true) => 0xd6,
            (Self::LocalProtection, false) => 0x51,
            (Self::LocalProtection, true) => 0xe3,
            (Self::Flushed, _) => 0xf9,
            (Self::MemoryWindowBind, _) => 0xe6,
            (Self::BadResponse, _) => 0xe4,
            (Self::LocalAccess, _) => 0xe5,
            (Self::RemoteInvalidRequest, _) => 0x8a,
            (Self::RemoteAccess, _) => 0x88,
            (Self::RemoteOperation, _) => 0x89,
            (Self::RetryExceeded, _) => 0x81,
            (Self::RnrRetryExceeded, _) => 0x87,
        }
    }
}

/// State of a CQ context: the queue overflowed.
pub const CQ_STATUS_OVERFLOW: u64 = 9;
/// State of a CQ context: the queue cannot be written.
pub const CQ_STATUS_WRITE_FAULT: u64 = 10;
/// Syndrome of a CQ error event: overrun.
pub const CQ_ERROR_OVERRUN: u64 = 1;
/// Syndrome of a CQ error event: the entry cannot be written.
pub const CQ_ERROR_ACCESS: u64 = 2;
/// Size of an entry of an event queue, and of the part of a completion that the device writes.
pub const QUEUE_ENTRY_BYTES: usize = 64;
/// The block in which send work requests are counted.
pub const SEND_BLOCK_BYTES: usize = 64;
/// The unit of a work request's length.
pub const SEGMENT_BYTES: usize = 16;
/// Longest send work request: its length field has 6 bits.
pub const MAX_WQE_BYTES: usize = 63 * SEGMENT_BYTES;
/// A local key that with length 0 ends a receive's scatter list.
pub const TERMINATING_KEY: u32 = 0x100;
/// QP number of a work request or key field that means "any".
pub const ANY_QPN: u32 = 0xff_ffff;
/// Destination of multicast datagrams.
pub const MULTICAST_QPN: u32 = 0xff_ffff;
/// The subnet management QP.
pub const QP0: u32 = 0;
/// The general services QP.
pub const QP1: u32 = 1;
/// Q_Key of every QP1.
pub const QP1_QKEY: u32 = 0x8001_0000;
/// A Q_Key with this bit means "the sending QP's own".
pub const QKEY_PRIVILEGED: u32 = 0x8000_0000;
/// The one P_Key of the fabric: full membership of the default partition.
pub const DEFAULT_PKEY: u16 = 0xffff;
/// Length of the global route header, which datagram receives always leave room for.
pub const GRH_BYTES: usize = 40;
/// The longest datagram: the MTU.
pub const MAX_DATAGRAM: usize = 4096;
/// The smallest page of the device.
pub const PAGE_SHIFT: u32 = 12;
/// Its size.
pub const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;
/// Log of the longest message.
pub const LOG_MAX_MESSAGE: u32 = 30;
