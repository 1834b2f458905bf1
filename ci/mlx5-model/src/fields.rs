//! The fields that the model reads or writes: structure, name, place and meaning, as data.
//!
//! The names are those of the kernel's `mlx5_ifc.h`, so that `tests/field_table.rs` can compare every place with
//! a kernel tree; structures marked "not in mlx5_ifc.h" (entries of queues) have their own headers there.

use crate::bits::Field;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The structure, without the kernel's prefix and suffix.
    pub structure: &'static str,
    /// The field, in upper case; nested structures are joined by two underscores.
    pub field: &'static str,
    /// Where it lies.
    pub at: Field,
    /// What it says.
    pub meaning: &'static str,
}

macro_rules! layout {
    ($(#[$doc:meta])* $module:ident, $bytes:literal: $($field:ident $bit:literal $width:literal $meaning:literal)*) => {
        $(#[$doc])*
        pub mod $module {
            use super::{Entry, Field};
            /// Size in bytes, as far as the model looks.
            pub const BYTES: usize = $bytes;
            $(#[doc = $meaning] pub const $field: Field = Field::new($bit, $width);)*
            /// The rows of this structure.
            pub const TABLE: &[Entry] = &[$(Entry {
                structure: stringify!($module), field: stringify!($field), at: $field, meaning: $meaning,
            }),*];
        }
    };
}

layout! {
    /// The head of every command's input.
    command_in, 16:
    OPCODE 0x0 16 "The command."
    OP_MOD 0x30 16 "Its variant."
    OBJECT 0x48 24 "Number of the object it is about (qpn, cqn, srqn, pd …)."
    INDEX 0x70 16 "Table index (GID, P_Key) or SRQ limit."
}
layout! {
    /// The head of every command's output.
    command_out, 16:
    STATUS 0x0 8 "0 or why the command was refused."
    SYNDROME 0x20 32 "The precise reason, of the firmware's own choosing."
    OBJECT 0x48 24 "Number of the object that was created."
    COUNT 0x40 32 "MANAGE_PAGES: how many pages come back."
    NUM_PAGES 0x60 32 "QUERY_PAGES: how many pages the device wants."
}
layout! {
    /// MANAGE_PAGES.
    manage_pages_in, 16:
    FUNCTION_ID 0x50 16 "0: this function."
    INPUT_NUM_ENTRIES 0x60 32 "Pages given, or how many are asked back."
}
layout! {
    /// QUERY_ISSI.
    query_issi_out, 112:
    CURRENT_ISSI 0x50 16 "The interface step in force."
    SUPPORTED_ISSI_DW0 0x360 32 "Bit n: step n is supported."
}
layout! {
    /// SET_ISSI.
    set_issi_in, 16:
    CURRENT_ISSI 0x50 16 "The step that the driver chose."
}
layout! {
    /// ACCESS_REG.
    access_register_in, 16:
    REGISTER_ID 0x50 16 "Which register."
    ARGUMENT 0x60 32 "Its argument."
}
layout! {
    /// CREATE_EQ.
    create_eq_in, 272:
    EVENT_BITMASK 0x2c0 64 "Bit n: events of type n come to this queue."
}
layout! {
    /// CREATE_MKEY.
    create_mkey_in, 272:
    TRANSLATIONS_OCTWORD_ACTUAL_SIZE 0x300 32 "Length of the page list in units of 16 bytes."
}
layout! {
    /// The head of the commands that move a QP from state to state.
    rst2init_qp_in, 272:
    QPN 0x48 24 "The queue pair."
    OPT_PARAM_MASK 0x80 32 "Which optional attributes are meant."
}
layout! {
    /// MODIFY_CQ.
    modify_cq_in, 272:
    SELECT 0x60 32 "Which fields of the context are meant; the two variants have bits of their own."
}
layout! {
    /// MODIFY_RMP.
    modify_rmp_in, 272:
    RMPN 0x48 24 "The shared receive queue."
}

layout! {
    /// General capabilities.
    cmd_hca_cap, 4096:
    LOG_MAX_SRQ_SZ 0x80 8 "Log of the most entries of an SRQ."
    LOG_MAX_QP_SZ 0x88 8 "Log of the most entries of a QP's queue."
    LOG_MAX_QP 0x9b 5 "Log of the most QPs."
    LOG_MAX_SRQ 0xab 5 "Log of the most SRQs."
    LOG_MAX_CQ_SZ 0xc8 8 "Log of the most entries of a CQ."
    LOG_MAX_CQ 0xdb 5 "Log of the most CQs."
    LOG_MAX_EQ_SZ 0xe0 8 "Log of the most entries of an EQ."
    LOG_MAX_MKEY 0xea 6 "Log of the most memory keys."
    LOG_MAX_EQ 0xfc 4 "Log of the most EQs."
    MAX_INDIRECTION 0x100 8 "How deep keys of keys may nest."
    LOG_MAX_MRW_SZ 0x109 7 "Log of the longest memory region."
    UMR_EXTENDED_TRANSLATION_OFFSET 0x118 1 "Lists beyond 2^16 entries can be written by work request."
    LOG_MAX_KLM_LIST_SIZE 0x11a 6 "Log of the longest list of a key."
    LOG_MAX_RA_REQ_QP 0x14a 6 "Log of the most reads and atomics in flight, requester."
    LOG_MAX_RA_RES_QP 0x15a 6 "Log of the most reads and atomics in flight, responder."
    GID_TABLE_SIZE 0x170 16 "Code of the GID table's length."
    PKEY_TABLE_SIZE 0x190 16 "Code of the P_Key table's length."
    IB_VIRT 0x1a2 1 "Port, GIDs and P_Keys come by vport commands instead of SMPs."
    LOCAL_CA_ACK_DELAY 0x1ab 5 "How long an ACK may take."
    PORT_TYPE 0x1b6 2 "0: InfiniBand."
    NUM_PORTS 0x1b8 8 "Ports."
    LOG_MAX_MSG 0x1c3 5 "Log of the longest message."
    CQE_VERSION 0x1fc 4 "1: completions carry the user's index."
    REPEATED_BLOCK_DISABLED 0x206 1 "No woven lists of keys."
    UMR_MODIFY_ENTITY_SIZE_DISABLED 0x207 1 "Memory is registered by command, not by work request."
    CQ_RESIZE 0x221 1 "CQs can change their size."
    CQ_MODERATION 0x222 1 "Events of CQs can be made rarer."
    IMAICL 0x231 1 "Memory windows."
    ATOMIC 0x21e 1 "Atomics."
    XRC 0x23c 1 "XRC."
    UD 0x23d 1 "UD."
    UC 0x23e 1 "UC."
    RC 0x23f 1 "RC."
    LOG_PG_SZ 0x258 8 "Log of the smallest page."
    BF 0x260 1 "Doorbells through write-combining."
    LOG_BF_REG_SIZE 0x26b 5 "Log of the size of a doorbell register."
    MAX_WQE_SZ_SQ 0x290 16 "Longest send work request, bytes."
    MAX_WQE_SZ_RQ 0x2b0 16 "Longest receive work request, bytes."
    MAX_QP_MCG 0x2e7 25 "Most QPs of a multicast group."
    LOG_MAX_MCG 0x318 8 "Log of the most multicast groups."
    LOG_MAX_TRANSPORT_DOMAIN 0x323 5 "Log of the most transport domains."
    LOG_MAX_PD 0x32b 5 "Log of the most protection domains."
    LOG_MAX_XRCD 0x33b 5 "Log of the most XRC domains."
    LOG_MAX_RMP 0x383 5 "Log of the most basic SRQs."
    DEVICE_FREQUENCY_KHZ 0x4e0 32 "Frequency of the clock."
}
layout! {
    /// Capabilities of atomics.
    atomic_caps, 4096:
    ATOMIC_REQ_8B_ENDIANNESS_MODE 0x40 2 "1: memory operands are in the host's byte order."
    SUPPORTED_ATOMIC_REQ_8B_ENDIANNESS_MODE_1 0x46 1 "That mode exists."
    ATOMIC_OPERATIONS 0x90 16 "Bit 0 compare and swap, bit 1 fetch and add."
    ATOMIC_SIZE_QP 0xb0 16 "Operand sizes, bytes, one bit each."
}
layout! {
    /// Port, GUIDs and LID of a virtual port.
    hca_vport_context, 512:
    FIELD_SELECT 0x0 32 "What a modification changes."
    HAS_SMI 0x101 1 "QP0 exists."
    PORT_PHYSICAL_STATE 0x110 4 "5: link up, 2: polling for one."
    PORT_STATE 0x118 4 "4: active, 1: down."
    VPORT_STATE 0x11c 4 "4: active, 1: down."
    SYSTEM_IMAGE_GUID 0x140 64 "Of the machine."
    PORT_GUID 0x180 64 "Of the port."
    NODE_GUID 0x1c0 64 "Of the adapter."
    CAP_MASK1 0x200 32 "The port's CapabilityMask."
    CAP_MASK1_FIELD_SELECT 0x220 32 "Which of its bits the driver may change."
    LID 0x300 16 "Local identifier."
    SUBNET_TIMEOUT 0x31b 5 "How long a MAD may travel."
    SM_LID 0x320 16 "Where the subnet manager is."
}
layout! {
    /// Event queue.
    eqc, 64:
    LOG_EQ_SIZE 0x63 5 "Log of its entries."
    UAR_PAGE 0x68 24 "The page through which it is armed."
    INTR 0xb4 12 "Its interrupt vector."
    LOG_PAGE_SIZE 0xc3 5 "Log of its page size over 4 KiB."
    CONSUMER_COUNTER 0x148 24 "How far the driver has read."
    PRODUCER_COUNTER 0x168 24 "How far the device has written."
}
layout! {
    /// Completion queue.
    cqc, 64:
    STATUS 0x0 4 "0 fine, 9 overflowed, 10 write error."
    CQE_SZ 0x8 3 "0: entries of 64 bytes, 1: of 128."
    OI 0xe 1 "Do not look for overruns."
    ST 0x14 4 "9 armed, 10 fired."
    PAGE_OFFSET 0x54 6 "Where it begins in its first page, in 64ths of the page."
    LOG_CQ_SIZE 0x63 5 "Log of its entries."
    UAR_PAGE 0x68 24 "The page through which it is armed."
    CQ_PERIOD 0x84 12 "Moderation: how long an event may wait, in microseconds; 0: no matter."
    CQ_MAX_COUNT 0x90 16 "Moderation: completions that an event may wait for; 0: no matter."
    C_EQN_OR_APU_ELEMENT 0xa0 32 "Its event queue."
    LOG_PAGE_SIZE 0xc3 5 "Log of its page size over 4 KiB."
    LAST_NOTIFIED_INDEX 0x108 24 "Producer counter at the last event."
    LAST_SOLICIT_INDEX 0x128 24 "Producer counter behind the last solicited completion."
    CONSUMER_COUNTER 0x148 24 "How far the program has read."
    PRODUCER_COUNTER 0x168 24 "How far the device has written."
    DBR_ADDR 0x1c0 64 "Its doorbell record."
}
layout! {
    /// Queue pair.
    qpc, 232:
    STATE 0x0 4 "Its state."
    ST 0x8 8 "Its service."
    PM_STATE 0x13 2 "Path migration."
    PD 0x28 24 "Protection domain."
    MTU 0x40 3 "Path MTU, coded as in InfiniBand."
    LOG_MSG_MAX 0x43 5 "Log of the longest message."
    LOG_RQ_SIZE 0x49 4 "Log of the receive queue's entries."
    LOG_RQ_STRIDE 0x4d 3 "Log of their size over 16 bytes."
    NO_SQ 0x50 1 "No send queue: an XRC target."
    LOG_SQ_SIZE 0x51 4 "Log of the send queue's 64-byte blocks."
    UAR_PAGE 0x68 24 "The page through which sends are rung."
    USER_INDEX 0x88 24 "What completions call this QP."
    LOG_PAGE_SIZE 0xa3 5 "Log of its page size over 4 KiB."
    REMOTE_QPN 0xa8 24 "The QP at the other end."
    PRIMARY_ADDRESS_PATH__PKEY_INDEX 0xd0 16 "Index of the P_Key."
    PRIMARY_ADDRESS_PATH__RLID 0xf0 16 "LID of the other end."
    PRIMARY_ADDRESS_PATH__ACK_TIMEOUT 0x100 5 "Coded time after which a request is repeated."
    PRIMARY_ADDRESS_PATH__SL 0x1e4 4 "Service level."
    PRIMARY_ADDRESS_PATH__VHCA_PORT_NUM 0x1e8 8 "Port."
    LOG_SRA_MAX 0x388 3 "Log of reads and atomics it may have in flight."
    RETRY_COUNT 0x38d 3 "How often a request without answer is repeated."
    RNR_RETRY 0x390 3 "How often one that finds no receive is repeated; 7: for ever."
    NEXT_SEND_PSN 0x3c8 24 "Sequence number of the next request."
    CQN_SND 0x3e8 24 "Where sends complete."
    LOG_RRA_MAX 0x488 3 "Log of reads and atomics it accepts in flight."
    ATOMIC_MODE 0x48c 4 "Which atomics it accepts."
    RRE 0x490 1 "Accepts remote reads."
    RWE 0x491 1 "Accepts remote writes."
    RAE 0x492 1 "Accepts remote atomics."
    PAGE_OFFSET 0x494 6 "Where its buffer begins in the first page, in 64ths of the page."
    MIN_RNR_NAK 0x4a3 5 "Coded time it tells a requester to wait for a receive."
    NEXT_RCV_PSN 0x4a8 24 "Sequence number it expects."
    XRCD 0x4c8 24 "XRC domain."
    CQN_RCV 0x4e8 24 "Where receives complete."
    DBR_ADDR 0x500 64 "Doorbell record: receive counter, then send counter."
    Q_KEY 0x540 32 "Q_Key of a datagram QP."
    RQ_TYPE 0x565 3 "What it receives from."
    SRQN_RMPN_XRQN 0x568 24 "The shared receive queue."
    HW_SQ_WQEBB_COUNTER 0x5a0 16 "Send blocks executed."
    HW_RQ_COUNTER 0x5c0 32 "Receives consumed."
}
layout! {
    /// Shared receive queue of the old kind.
    srqc, 64:
    STATE 0x0 4 "0 fine, 1 error."
    LOG_SRQ_SIZE 0x4 4 "Log of its entries."
    LOG_RQ_STRIDE 0x25 3 "Log of their size over 16 bytes."
    PAGE_OFFSET 0x40 6 "Where it begins in its first page, in 64ths of the page."
    CQN 0x48 24 "Unused."
    LOG_PAGE_SIZE 0x82 6 "Log of its page size over 4 KiB."
    PD 0xc8 24 "Protection domain."
    LWM 0xe0 16 "Limit below which an event is raised."
    WQE_CNT 0xf0 16 "Receives that are posted."
    DBR_ADDR 0x140 64 "Doorbell record."
}
layout! {
    /// XRC shared receive queue.
    xrc_srqc, 64:
    STATE 0x0 4 "0 fine, 1 error."
    LOG_XRC_SRQ_SIZE 0x4 4 "Log of its entries."
    LOG_RQ_STRIDE 0x25 3 "Log of their size over 16 bytes."
    XRCD 0x28 24 "XRC domain."
    PAGE_OFFSET 0x40 6 "Where it begins in its first page, in 64ths of the page."
    CQN 0x48 24 "Where its receives complete."
    LOG_PAGE_SIZE 0x82 6 "Log of its page size over 4 KiB."
    USER_INDEX 0x88 24 "What completions call it."
    PD 0xc8 24 "Protection domain: of its buffers, and of all that requests naming it touch."
    LWM 0xe0 16 "Limit below which an event is raised."
    WQE_CNT 0xf0 16 "Receives that are posted."
    DB_RECORD_ADDR_H 0x140 32 "Doorbell record, upper half of its address."
    DB_RECORD_ADDR_L 0x160 30 "Lower half, in units of 4 bytes."
}
layout! {
    /// Receive memory pool: a basic shared receive queue.
    rmpc, 240:
    STATE 0x8 4 "1: ready."
    WQ__PAGE_OFFSET 0x1ab 5 "Where it begins in its first page, in 64ths of the page."
    WQ__LWM 0x1b0 16 "Limit below which an event is raised."
    WQ__PD 0x1c8 24 "Protection domain."
    WQ__DBR_ADDR 0x200 64 "Doorbell record."
    WQ__LOG_WQ_STRIDE 0x28c 4 "Log of the size of its entries."
    WQ__LOG_WQ_PG_SZ 0x293 5 "Log of its page size over 4 KiB."
    WQ__LOG_WQ_SZ 0x29b 5 "Log of its entries."
}
layout! {
    /// Memory key.
    mkc, 64:
    FREE 0x1 1 "Not usable yet."
    ACCESS_MODE_4_2 0x3 3 "Upper bits of the access mode."
    UMR_EN 0x10 1 "Work requests may change it."
    A 0x11 1 "Remote atomics."
    RW 0x12 1 "Remote writes."
    RR 0x13 1 "Remote reads."
    LW 0x14 1 "Local writes."
    LR 0x15 1 "Local reads."
    ACCESS_MODE_1_0 0x16 2 "0: physical addresses, 1: a list of pages."
    QPN 0x20 24 "The one QP that may use it; all ones: any."
    MKEY_7_0 0x38 8 "Lowest byte of the key, of the driver's choosing."
    LENGTH64 0x60 1 "All of the address space."
    BSF_EN 0x61 1 "With signatures."
    EN_RINVAL 0x67 1 "A peer may make it free."
    PD 0x68 24 "Protection domain."
    START_ADDR 0x80 64 "First virtual address."
    LEN 0xc0 64 "Bytes."
    TRANSLATIONS_OCTWORD_SIZE 0x1a0 32 "Room for the list of pages, in units of 16 bytes."
    LOG_PAGE_SIZE 0x1db 5 "Log of its page size."
}
layout! {
    /// QUERY_ADAPTER.
    query_adapter_param_block, 256:
    IEEE_VENDOR_ID 0xc8 24 "OUI of the vendor."
    VSD_CONTD_PSID 0x780 8 "First byte of the board's name."
}
layout! {
    /// Link speed and width.
    ptys_reg, 64:
    LOCAL_PORT 0x8 8 "Port."
    PROTO_MASK 0x1d 3 "Which protocol is asked for."
    IB_LINK_WIDTH_CAPABILITY 0x80 16 "Widths it can."
    IB_PROTO_CAPABILITY 0x90 16 "Speeds it can."
    IB_LINK_WIDTH_OPER 0x140 16 "Width in use."
    IB_PROTO_OPER 0x150 16 "Speed in use."
}
layout! {
    /// MTU of the port, in bytes.
    pmtu_reg, 16:
    LOCAL_PORT 0x8 8 "Port."
    MAX_MTU 0x20 16 "The largest possible."
    ADMIN_MTU 0x40 16 "The largest allowed."
    OPER_MTU 0x60 16 "In use."
}
layout! {
    /// Virtual lanes of the port.
    pvlc_reg, 16:
    LOCAL_PORT 0x8 8 "Port."
    VL_HW_CAP 0x3c 4 "Code of how many there are."
    VL_ADMIN 0x5c 4 "Code of how many are allowed."
    VL_OPERATIONAL 0x7c 4 "Code of how many are in use."
}
layout! {
    /// Entry of the command queue (not in mlx5_ifc.h).
    command_entry, 64:
    INPUT_LENGTH 0x20 32 "Bytes of input, the 16 here included."
    INPUT_MAILBOX 0x40 64 "First mailbox of the rest of the input."
    OUTPUT_MAILBOX 0x180 64 "First mailbox of the rest of the output."
    OUTPUT_LENGTH 0x1c0 32 "Bytes of output, the 16 here included."
    TOKEN 0x1e0 8 "Must be the mailboxes' token."
    DELIVERY 0x1f8 7 "What the device thinks of the entry itself."
    OWNER 0x1ff 1 "1: the device's."
}
layout! {
    /// Mailbox of a command (not in mlx5_ifc.h).
    mailbox, 576:
    NEXT 0x1180 64 "The next one."
    BLOCK_NUMBER 0x11c0 32 "Counts from 0."
    TOKEN 0x11e8 8 "The command's."
}
layout! {
    /// Entry of an event queue (not in mlx5_ifc.h).
    eqe, 64:
    TYPE 0x8 8 "What happened."
    SUB_TYPE 0x18 8 "More of it."
    COMMAND_VECTOR 0x100 32 "Commands that are done, one bit a slot."
    PORT 0x140 4 "The port that changed."
    CQ_ERROR_CQN 0x108 24 "The CQ in error."
    CQ_ERROR_SYNDROME 0x158 8 "1: overrun, 2: access violation."
    COMPLETION_CQN 0x1c8 24 "The CQ with something new."
    RESOURCE_TYPE 0x1a0 8 "0: a QP."
    RESOURCE 0x1c8 24 "The QP or SRQ."
    OWNER 0x1ff 1 "Parity of the round."
}
layout! {
    /// Completion (not in mlx5_ifc.h).
    cqe, 64:
    SLID 0xb0 16 "LID of a datagram's sender."
    GRH 0xc2 2 "A datagram came with a global route header."
    SL 0xc4 4 "A datagram's service level."
    SOURCE_QPN 0xc8 24 "QP of a datagram's sender."
    USER_INDEX 0x108 24 "The user's index of the QP or SRQ."
    IMMEDIATE 0x120 32 "Immediate data; for QP1 the P_Key."
    BYTE_COUNT 0x160 32 "Bytes transferred."
    TIMESTAMP 0x180 64 "When, by the device's clock; not on errors."
    VENDOR_SYNDROME 0x1b0 8 "On error: the vendor's code for it."
    SYNDROME 0x1b8 8 "On error: why."
    WQE_OPCODE 0x1c0 8 "Requester: what the work request asked for."
    QPN 0x1c8 24 "The QP."
    WQE_COUNTER 0x1e0 16 "The work request: block number, SRQ entry or receive counter."
    OPCODE 0x1f8 4 "What kind of completion."
    SOLICITED 0x1fe 1 "The sender asked for an event."
    OWNER 0x1ff 1 "Parity of the round."
}
layout! {
    /// First segment of a send work request (not in mlx5_ifc.h).
    wqe_control, 16:
    OPCODE 0x18 8 "What to do."
    INDEX 0x8 16 "Block number."
    QPN 0x20 24 "The QP."
    DS 0x3a 6 "Length in units of 16 bytes."
    FENCE 0x58 3 "What must be done before."
    COMPLETE 0x5c 2 "2: always make a completion."
    SOLICITED 0x5e 1 "The receiver shall have an event."
    IMMEDIATE 0x60 32 "Immediate data."
}
layout! {
    /// Segment of a send work request that names the receiver's SRQ (not in mlx5_ifc.h).
    wqe_xrc, 16:
    SRQN 0x8 24 "The receiver's SRQ."
}
layout! {
    /// Segment with the remote address (not in mlx5_ifc.h).
    wqe_remote, 16:
    ADDRESS 0x0 64 "Remote virtual address."
    KEY 0x40 32 "Remote key."
}
layout! {
    /// Segment of an atomic (not in mlx5_ifc.h).
    wqe_atomic, 16:
    SWAP_OR_ADD 0x0 64 "What to store or add."
    COMPARE 0x40 64 "What must be there."
}
layout! {
    /// Segment with the way of a datagram (not in mlx5_ifc.h).
    wqe_address, 48:
    Q_KEY 0x0 32 "Q_Key; with the top bit set the QP's own is meant."
    QPN 0x48 24 "Receiver."
    SL 0x64 4 "Service level."
    RLID 0x70 16 "LID of the receiver."
    TRAFFIC_CLASS 0xd0 8 "For the global route header."
    HOP_LIMIT 0xd8 8 "For the global route header."
    GRH 0xe1 1 "With a global route header."
    FLOW_LABEL 0xec 20 "For the global route header."
    GID 0x100 64 "First half of the receiver's GID."
}
layout! {
    /// Data segment (not in mlx5_ifc.h).
    wqe_data, 16:
    INLINE 0x0 1 "Data follow."
    BYTE_COUNT 0x1 31 "Length."
    KEY 0x20 32 "Local key."
    ADDRESS 0x40 64 "Local virtual address."
}
layout! {
    /// Second segment of a work request that changes a memory key; the key's context follows (not in mlx5_ifc.h).
    wqe_umr, 48:
    INLINE 0x0 1 "The list is in the work request, not behind a data segment."
    CHECK_FREE 0x1 1 "Fails if the key is free."
    CHECK_NOT_FREE 0x2 1 "Fails if the key is not free."
    TRANSLATION_OFFSET 0x3 1 "The list begins at an offset."
    CHECK_QPN 0x4 1 "Fails if the key is another QP's."
    TRANSLATION_OCTWORDS 0x20 16 "Length of the list in units of 16 bytes."
    OFFSET_15_0 0x30 16 "Where it goes, in the same units."
    MASK 0x40 64 "What changes in the context."
    OFFSET_47_16 0x80 32 "Upper bits of where the list goes."
}
layout! {
    /// Entry of a list of keys (not in mlx5_ifc.h).
    klm, 16:
    BYTE_COUNT 0x0 32 "Bytes of it; 0: none."
    KEY 0x20 32 "Of which key."
    ADDRESS 0x40 64 "Where it begins."
}
layout! {
    /// First entry of a list of keys that are woven together (not in mlx5_ifc.h).
    weave, 16:
    ROUND 0x0 32 "Bytes of one round."
    OPERATION 0x20 32 "0x400: the list is a woven one."
    REPEATS 0x40 32 "Rounds."
    ENTRIES 0x70 16 "Strands that follow."
}
layout! {
    /// The other entries of such a list (not in mlx5_ifc.h).
    strand, 16:
    STRIDE 0x0 16 "From one round to the next, bytes."
    BYTE_COUNT 0x10 16 "Bytes of it in each round."
    KEY 0x20 32 "Of which key."
    ADDRESS 0x40 64 "Where it begins."
}
layout! {
    /// First segment of an entry of a shared receive queue (not in mlx5_ifc.h).
    srq_next, 16:
    NEXT_INDEX 0x10 16 "The entry to use after this one."
}

/// The whole table.
pub const TABLES: &[&[Entry]] = &[
    command_in::TABLE,
    command_out::TABLE,
    manage_pages_in::TABLE,
    query_issi_out::TABLE,
    set_issi_in::TABLE,
    access_register_in::TABLE,
    create_eq_in::TABLE,
    create_mkey_in::TABLE,
    rst2init_qp_in::TABLE,
    modify_cq_in::TABLE,
    modify_rmp_in::TABLE,
    cmd_hca_cap::TABLE,
    atomic_caps::TABLE,
    hca_vport_context::TABLE,
    eqc::TABLE,
    cqc::TABLE,
    qpc::TABLE,
    srqc::TABLE,
    xrc_srqc::TABLE,
    rmpc::TABLE,
    mkc::TABLE,
    query_adapter_param_block::TABLE,
    ptys_reg::TABLE,
    pmtu_reg::TABLE,
    pvlc_reg::TABLE,
    command_entry::TABLE,
    mailbox::TABLE,
    eqe::TABLE,
    cqe::TABLE,
    wqe_control::TABLE,
    wqe_xrc::TABLE,
    wqe_remote::TABLE,
    wqe_atomic::TABLE,
    wqe_address::TABLE,
    wqe_data::TABLE,
    wqe_umr::TABLE,
    klm::TABLE,
    weave::TABLE,
    strand::TABLE,
    srq_next::TABLE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_lies_inside_its_structure() {
        for (bytes, table) in [
            (qpc::BYTES, qpc::TABLE),
            (cqc::BYTES, cqc::TABLE),
            (eqc::BYTES, eqc::TABLE),
            (mkc::BYTES, mkc::TABLE),
            (rmpc::BYTES, rmpc::TABLE),
            (xrc_srqc::BYTES, xrc_srqc::TABLE),
            (command_entry::BYTES, command_entry::TABLE),
            (mailbox::BYTES, mailbox::TABLE),
            (eqe::BYTES, eqe::TABLE),
            (cqe::BYTES, cqe::TABLE),
            (wqe_address::BYTES, wqe_address::TABLE),
        ] {
            for e in table {
                assert!(e.at.bit() + e.at.width() <= bytes * 8, "{}.{}", e.structure, e.field);
            }
        }
    }

    #[test]
    fn every_field_has_a_name_of_its_own_and_a_meaning() {
        for table in TABLES {
            for (i, e) in table.iter().enumerate() {
                assert!(!e.meaning.is_empty());
                assert!(!table[..i].iter().any(|f| f.field == e.field), "{}.{}", e.structure, e.field);
            }
        }
    }
}
