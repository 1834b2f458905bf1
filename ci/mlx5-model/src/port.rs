//! The port: its state and tables by vport commands, its registers by ACCESS_REG.

use crate::{
    bits::Field,
    command::{
        mailbox::{Input, Output},
        status::{Refusal, Status, Syndrome},
    },
    device::Device,
    eq::Event,
    fields::{access_register_in, command_in, hca_vport_context as vport, pmtu_reg, ptys_reg, pvlc_reg},
    guest::{Guest, Phase, SM_LID},
    hw::{DEFAULT_PKEY, PortChange},
    objects::GuestId,
};

/// Where the commands have context, table entries and registers.
const BODY: usize = 16;

/// The lengths of the tables, as the capabilities code them.
const GIDS: u64 = 8;
const PKEYS: u64 = 128;
/// An index that means "all of the table".
const ALL: u64 = 0xffff;
/// Sizes of their entries; a P_Key is in the second half of its own.
const GID_BYTES: usize = 16;
const PKEY_BYTES: usize = 4;
const PKEY_AT: usize = 2;

/// Bits of the port's CapabilityMask: service levels, system image GUID, extended speeds, connection manager,
/// client reregistration.
pub const CAPABILITY_MASK: u32 = 1 << 6 | 1 << 11 | 1 << 14 | 1 << 16 | 1 << 25;
/// The only port.
pub const NUMBER: u64 = 1;
/// Physical states: link up, and looking for one.
pub const LINK_UP: u64 = 5;
pub const POLLING: u64 = 2;
/// States: active, down.
pub const ACTIVE: u64 = 4;
pub const DOWN: u64 = 1;
/// How long a MAD may travel, coded.
const SUBNET_TIMEOUT: u64 = 18;
/// Modification of the vport context: the CapabilityMask.
const SELECT_CAPABILITY_MASK: u64 = 1 << 2;

/// Registers.
mod register {
    pub const PMTU: u64 = 0x5003;
    pub const PTYS: u64 = 0x5004;
    pub const PVLC: u64 = 0x500f;
    pub const NODE_DESCRIPTION: u64 = 0x6001;
    pub const HOST_ENDIANNESS: u64 = 0x7004;
}
/// Variant of ACCESS_REG: write.
const WRITE: u16 = 0;
/// Four lanes (this register has a bit for two as well); EDR.
const WIDTH_4X: u64 = 1 << 2;
const SPEED_EDR: u64 = 1 << 5;
const MTU: u64 = 4096;
/// Code of four data lanes.
const FOUR_LANES: u64 = 4;
const NODE_DESCRIPTION_BYTES: usize = 64;

impl Guest {
    /// The physical state of the port and its state.
    pub fn port_states(&self) -> (u64, u64) {
        if self.port_up { (LINK_UP, ACTIVE) } else { (POLLING, DOWN) }
    }
}

impl Device {
    /// The cable of a guest's port is pulled out or put in again. The subnet manager notices at once: a port that
    /// went down is in no multicast group any more, one that came up is active and has the LID that it had.
    pub fn set_port(&mut self, guest: GuestId, up: bool) {
        let g = &mut self.guests[guest];
        if std::mem::replace(&mut g.port_up, up) == up {
            return;
        }
        tracing::info!("guest {}: port {}", guest + 1, if up { "up" } else { "down" });
        let lid = g.lid;
        if !up {
            self.fabric.forget_port(lid);
        }
        let g = &mut self.guests[guest];
        // Before it is running a driver has no queue for it and asks for the state itself.
        if g.phase == Phase::Running {
            g.raise_async(&Event::port(if up { PortChange::Active } else { PortChange::Down }));
        }
    }

    /// QUERY_HCA_VPORT_CONTEXT.
    pub fn query_vport_context(&mut self, guest: GuestId, output: &mut Output) -> Result<(), Refusal> {
        let g = &self.guests[guest];
        let (physical, state) = g.port_states();
        for (field, value) in [
            (vport::HAS_SMI, 1),
            (vport::PORT_PHYSICAL_STATE, physical),
            (vport::PORT_STATE, state),
            (vport::VPORT_STATE, state),
            (vport::SYSTEM_IMAGE_GUID, g.guid),
            (vport::PORT_GUID, g.guid),
            (vport::NODE_GUID, g.guid),
            (vport::CAP_MASK1, g.capability_mask.into()),
            (vport::CAP_MASK1_FIELD_SELECT, vport::CAP_MASK1_FIELD_SELECT.max()),
            (vport::LID, g.lid.into()),
            (vport::SM_LID, SM_LID.into()),
            (vport::SUBNET_TIMEOUT, SUBNET_TIMEOUT),
        ] {
            output.set(field.within(BODY), value);
        }
        Ok(())
    }

    /// MODIFY_HCA_VPORT_CONTEXT.
    pub fn modify_vport_context(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        let context: [u8; vport::BYTES] = input.context(BODY)?;
        if vport::FIELD_SELECT.get(&context) & SELECT_CAPABILITY_MASK != 0 {
            let mask = vport::CAP_MASK1_FIELD_SELECT.get32(&context);
            let g = &mut self.guests[guest];
            g.capability_mask = g.capability_mask & !mask | vport::CAP_MASK1.get32(&context) & mask;
        }
        Ok(())
    }

    /// Writes the table entries that the index asks for.
    fn table(
        input: &Input,
        output: &mut Output,
        length: u64,
        bytes: usize,
        entry: impl Fn(u64, &mut Output, usize),
    ) -> Result<(), Refusal> {
        let entries = match input.get(command_in::INDEX) {
            ALL => 0..length,
            n if n < length => n..n + 1,
            _ => return Err(Refusal::new(Status::BadIndex, Syndrome::BadTableIndex)),
        };
        for (i, n) in entries.enumerate() {
            entry(n, output, BODY + i * bytes);
        }
        Ok(())
    }

    /// QUERY_HCA_VPORT_GID.
    pub fn query_gid(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let gid = self.guests[guest].gid();
        Self::table(input, output, GIDS, GID_BYTES, |n, output, at| {
            if n == 0 {
                output.put(at, &gid);
            }
        })
    }

    /// QUERY_HCA_VPORT_PKEY.
    pub fn query_pkey(&mut self, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        Self::table(input, output, PKEYS, PKEY_BYTES, |n, output, at| {
            if n == 0 {
                output.put(at + PKEY_AT, &DEFAULT_PKEY.to_be_bytes());
            }
        })
    }

    /// ACCESS_REG.
    pub fn access_register(
        &mut self,
        guest: GuestId,
        input: &Input,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        let g = &mut self.guests[guest];
        let id = input.get(access_register_in::REGISTER_ID);
        let write = input.variant() == WRITE;
        let values: &[(Field, u64)] = match id {
            register::PTYS => &[
                (ptys_reg::IB_LINK_WIDTH_CAPABILITY, WIDTH_4X),
                (ptys_reg::IB_PROTO_CAPABILITY, SPEED_EDR),
                (ptys_reg::IB_LINK_WIDTH_OPER, WIDTH_4X),
                (ptys_reg::IB_PROTO_OPER, SPEED_EDR),
            ],
            register::PMTU => {
                &[(pmtu_reg::MAX_MTU, MTU), (pmtu_reg::ADMIN_MTU, MTU), (pmtu_reg::OPER_MTU, MTU)]
            }
            register::PVLC => &[
                (pvlc_reg::VL_HW_CAP, FOUR_LANES),
                (pvlc_reg::VL_ADMIN, FOUR_LANES),
                (pvlc_reg::VL_OPERATIONAL, FOUR_LANES),
            ],
            register::NODE_DESCRIPTION if write => {
                g.node_description = input.context::<NODE_DESCRIPTION_BYTES>(BODY)?;
                &[]
            }
            register::NODE_DESCRIPTION => {
                output.put(BODY, &g.node_description);
                return Ok(());
            }
            register::HOST_ENDIANNESS => &[],
            _ => return Err(Refusal::parameter(Syndrome::UnknownRegister)),
        };
        output.put(BODY, input.rest(BODY));
        if !write {
            values.iter().for_each(|(field, value)| output.set(field.within(BODY), *value));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(n: u16) -> Input {
        let mut b = vec![0; 16];
        b[14..].copy_from_slice(&n.to_be_bytes());
        Input::new(b)
    }

    #[test]
    fn tables_have_one_entry_and_an_end() {
        let mut d = Device::new(2);
        let mut o = Output::new(16 + 8 * 16);
        d.query_gid(1, &index(0xffff), &mut o).unwrap();
        assert_eq!((&o.bytes()[16..18], o.bytes()[31], o.bytes()[32]), (&[0xfe, 0x80][..], 0xe2, 0));
        assert_eq!(d.query_gid(0, &index(8), &mut o).unwrap_err().status, Status::BadIndex);
        assert!(d.query_pkey(&index(127), &mut o).is_ok());
        assert!(d.query_pkey(&index(128), &mut o).is_err());
    }

    #[test]
    fn a_port_that_is_down_says_so_and_is_in_no_group() {
        let mut d = Device::new(2);
        let lid = d.guests[1].lid;
        d.fabric.join([0xff; 16], None, lid, 1).unwrap();
        d.set_port(1, false);
        let mut o = Output::new(16 + vport::BYTES);
        d.query_vport_context(1, &mut o).unwrap();
        let seen = |o: &Output, field: Field| field.within(BODY).get(o.bytes());
        assert_eq!((seen(&o, vport::PORT_STATE), seen(&o, vport::PORT_PHYSICAL_STATE)), (DOWN, POLLING));
        assert_eq!(seen(&o, vport::LID), u64::from(lid));
        assert!(d.fabric.group(&[0xff; 16]).is_none());
        assert_eq!(d.guests[1].activity.events_lost, 0, "without a driver there is no event");
        assert_eq!(d.guest_at(lid), None);
        d.set_port(1, true);
        d.query_vport_context(1, &mut o).unwrap();
        assert_eq!(seen(&o, vport::VPORT_STATE), ACTIVE);
        assert_eq!(d.guest_at(lid), Some(1));
    }

    #[test]
    fn unknown_registers_are_refused() {
        let mut d = Device::new(1);
        let r = d.access_register(0, &Input::new(vec![0xff; 32]), &mut Output::new(32));
        assert_eq!(r.unwrap_err().syndrome, Syndrome::UnknownRegister);
    }
}
