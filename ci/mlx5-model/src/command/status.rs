//! How a command ends.

/// First byte of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Done.
    Ok = 0x00,
    /// The device does not know the command.
    BadOperation = 0x02,
    /// A value makes no sense.
    BadParameter = 0x03,
    /// Not now: the device is not (or already) initialised.
    BadSystemState = 0x04,
    /// No such object, or another guest's.
    BadResource = 0x05,
    /// As many as there can be.
    LimitExceeded = 0x08,
    /// The object is in use.
    BadResourceState = 0x09,
    /// No such table entry.
    BadIndex = 0x0a,
    /// The transition does not start from the QP's state.
    BadQpState = 0x10,
    /// The datagram is malformed.
    BadPacket = 0x30,
    /// The CQ holds more completions than would fit.
    TooManyCompletions = 0x40,
    /// The input is too short.
    BadInputLength = 0x50,
    /// There is no room for the output.
    BadOutputLength = 0x51,
}

/// What the device thinks of the command queue entry itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Fine.
    Ok = 0x00,
    /// A mailbox bears another token.
    TokenError = 0x02,
    /// A mailbox is out of sequence.
    BadBlockNumber = 0x03,
    /// The output mailboxes cannot be reached.
    OutputPointerError = 0x04,
    /// The input mailboxes cannot be reached.
    InputPointerError = 0x05,
    /// The input length is impossible.
    InputLengthError = 0x07,
    /// The output length is impossible.
    OutputLengthError = 0x08,
    /// The entry makes no sense.
    DescriptorError = 0x10,
}

/// Why, precisely. Real firmware has its own numbers; these are the model's, so that a line in the guest's log
/// can be looked up here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// No reason.
    None = 0,
    /// Unknown command number.
    UnknownCommand = 0x5c_0001,
    /// Unknown variant of a known command.
    UnknownVariant = 0x5c_0002,
    /// Input shorter than the command needs.
    ShortInput = 0x5c_0003,
    /// Output shorter than the answer.
    ShortOutput = 0x5c_0004,
    /// ENABLE_HCA, INIT_HCA and their counterparts in the wrong order.
    WrongPhase = 0x5c_0005,
    /// A page address is not on a page boundary, or was given before.
    BadPage = 0x5c_0010,
    /// The page list is too short for the queue or region.
    ShortPageList = 0x5c_0011,
    /// A logarithm is beyond what the capabilities say.
    SizeBeyondCapability = 0x5c_0012,
    /// The page size is impossible.
    BadPageSize = 0x5c_0013,
    /// As many objects of that kind as the capabilities say.
    TooManyObjects = 0x5c_0014,
    /// No such event queue.
    NoSuchEq = 0x5c_0020,
    /// No such completion queue.
    NoSuchCq = 0x5c_0021,
    /// No such queue pair.
    NoSuchQp = 0x5c_0022,
    /// No such shared receive queue.
    NoSuchSrq = 0x5c_0023,
    /// No such memory key.
    NoSuchMkey = 0x5c_0024,
    /// No such protection domain.
    NoSuchPd = 0x5c_0025,
    /// No such XRC domain.
    NoSuchXrcd = 0x5c_0026,
    /// No such page of doorbells.
    NoSuchUar = 0x5c_0027,
    /// No such transport domain.
    NoSuchTransportDomain = 0x5c_0028,
    /// The QP is not attached to that group.
    NotAttached = 0x5c_0029,
    /// The CQ holds more completions than would fit.
    CompletionsLeft = 0x5c_0031,
    /// The CQ is in error.
    DeadCq = 0x5c_0032,
    /// Others still use the object.
    InUse = 0x5c_0030,
    /// The transition does not start from the QP's state.
    WrongQpState = 0x5c_0040,
    /// A service that the model does not have.
    UnknownService = 0x5c_0041,
    /// The QP's parts do not fit its service.
    BadQpShape = 0x5c_0042,
    /// The attribute is out of range.
    BadAttribute = 0x5c_0043,
    /// A kind of memory key that the model does not have.
    BadAccessMode = 0x5c_0050,
    /// The region is empty, too long, or wraps.
    BadRegion = 0x5c_0051,
    /// The interrupt vector does not exist.
    BadVector = 0x5c_0052,
    /// No such register.
    UnknownRegister = 0x5c_0060,
    /// Beyond the end of the table.
    BadTableIndex = 0x5c_0061,
    /// Not a multicast GID.
    BadGid = 0x5c_0062,
    /// The datagram is not one that the agent answers.
    BadMad = 0x5c_0063,
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The class of the reason.
    pub status: Status,
    /// The reason.
    pub syndrome: Syndrome,
}

impl Refusal {
    /// A refusal.
    pub const fn new(status: Status, syndrome: Syndrome) -> Self {
        Self { status, syndrome }
    }

    /// A value makes no sense.
    pub const fn parameter(syndrome: Syndrome) -> Self {
        Self::new(Status::BadParameter, syndrome)
    }

    /// The object does not exist.
    pub const fn missing(syndrome: Syndrome) -> Self {
        Self::new(Status::BadResource, syndrome)
    }

    /// The object is in use.
    pub const fn in_use() -> Self {
        Self::new(Status::BadResourceState, Syndrome::InUse)
    }
}
