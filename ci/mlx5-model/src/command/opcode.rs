//! The commands that the model knows.

macro_rules! opcodes {
    ($($name:ident $value:literal $meaning:literal)*) => {
        /// A command that the model knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        pub enum Opcode {
            $(#[doc = $meaning] $name = $value,)*
        }

        impl Opcode {
            /// All of them.
            pub const ALL: &[Opcode] = &[$(Opcode::$name),*];

            /// The command with that number, if the model knows it.
            pub fn from_number(n: u16) -> Option<Self> {
                match n {
                    $($value => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its name, as the drivers print it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

opcodes! {
    QUERY_HCA_CAP 0x100 "What the device can do."
    QUERY_ADAPTER 0x101 "Vendor and board."
    INIT_HCA 0x102 "Start serving objects."
    TEARDOWN_HCA 0x103 "Stop; every object ends."
    ENABLE_HCA 0x104 "First command of a driver."
    DISABLE_HCA 0x105 "Last command of a driver."
    QUERY_PAGES 0x107 "How many pages of the host's memory the device wants."
    MANAGE_PAGES 0x108 "Give them or take them back."
    SET_HCA_CAP 0x109 "Choose among the capabilities."
    QUERY_ISSI 0x10a "Which steps of the interface are supported."
    SET_ISSI 0x10b "Choose one."
    CREATE_MKEY 0x200 "Register memory."
    QUERY_MKEY 0x201 "Read a memory key's context."
    DESTROY_MKEY 0x202 "Deregister."
    CREATE_EQ 0x301 "Make an event queue."
    DESTROY_EQ 0x302 "End it."
    QUERY_EQ 0x303 "Read its context."
    CREATE_CQ 0x400 "Make a completion queue."
    DESTROY_CQ 0x401 "End it."
    QUERY_CQ 0x402 "Read its context."
    MODIFY_CQ 0x403 "Change its moderation, or move it to other memory."
    CREATE_QP 0x500 "Make a queue pair."
    DESTROY_QP 0x501 "End it."
    RST2INIT_QP 0x502 "RESET to INIT."
    INIT2RTR_QP 0x503 "INIT to ready to receive."
    RTR2RTS_QP 0x504 "Ready to receive to ready to send."
    RTS2RTS_QP 0x505 "Change a QP that is ready to send."
    SQERR2RTS_QP 0x506 "Send queue error to ready to send."
    TO_ERR_QP 0x507 "Any state to error (2ERR_QP)."
    TO_RST_QP 0x50a "Any state to RESET (2RST_QP)."
    QUERY_QP 0x50b "Read a queue pair's context."
    SQD_RTS_QP 0x50c "Send queue drained to ready to send."
    MAD_IFC 0x50d "Hand a management datagram to the device's own agent."
    INIT2INIT_QP 0x50e "Change a QP that is in INIT."
    CREATE_SRQ 0x700 "Make an SRQ of the old kind."
    DESTROY_SRQ 0x701 "End it."
    QUERY_SRQ 0x702 "Read its context."
    ARM_RQ 0x703 "Set its limit."
    CREATE_XRC_SRQ 0x705 "Make an XRC SRQ."
    DESTROY_XRC_SRQ 0x706 "End it."
    QUERY_XRC_SRQ 0x707 "Read its context."
    ARM_XRC_SRQ 0x708 "Set its limit."
    QUERY_HCA_VPORT_CONTEXT 0x762 "State, GUIDs and LID of the port."
    MODIFY_HCA_VPORT_CONTEXT 0x763 "Change what a driver may change of it."
    QUERY_HCA_VPORT_GID 0x764 "GID table."
    QUERY_HCA_VPORT_PKEY 0x765 "P_Key table."
    ALLOC_PD 0x800 "Make a protection domain."
    DEALLOC_PD 0x801 "End it."
    ALLOC_UAR 0x802 "Get a page of doorbells."
    DEALLOC_UAR 0x803 "Give it back."
    ACCESS_REG 0x805 "Read or write a register of the port or the board."
    ATTACH_TO_MCG 0x806 "A QP joins a multicast group."
    DETACH_FROM_MCG 0x807 "It leaves."
    NOP 0x80d "Nothing."
    ALLOC_XRCD 0x80e "Make an XRC domain."
    DEALLOC_XRCD 0x80f "End it."
    ALLOC_TRANSPORT_DOMAIN 0x816 "Make a transport domain."
    DEALLOC_TRANSPORT_DOMAIN 0x817 "End it."
    CREATE_RMP 0x90c "Make a basic SRQ."
    MODIFY_RMP 0x90d "Set its limit."
    DESTROY_RMP 0x90e "End it."
    QUERY_RMP 0x90f "Read its context."
}

#[cfg(test)]
mod tests {
    use super::Opcode;

    #[test]
    fn numbers_read_back() {
        for &op in Opcode::ALL {
            assert_eq!(Opcode::from_number(op as u16), Some(op));
        }
        assert_eq!(Opcode::from_number(0), None);
        assert_eq!(Opcode::CREATE_XRC_SRQ.name(), "CREATE_XRC_SRQ");
    }
}
