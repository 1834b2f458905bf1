//! The command interface: takes a command from its slot, has it executed, answers.

pub mod mailbox;
pub mod opcode;
pub mod status;

use crate::{
    device::Device,
    eq::Event,
    objects::{GuestId, Kind},
    report::Activity,
};

use self::{
    mailbox::{Entry, Input, Output},
    opcode::Opcode,
    status::{Delivery, Refusal, Status, Syndrome},
};

impl Device {
    /// Serves the command whose queue entry is at the address.
    pub fn command(&mut self, guest: GuestId, slot: u32, entry: u64) {
        // The command that makes the queue for command events, and the one that ends it, are polled for.
        let events = self.guests[guest].has_command_events();
        let delivery = self.serve_command(guest, entry).err().unwrap_or(Delivery::Ok);
        if delivery != Delivery::Ok {
            self.guests[guest].activity.bad_deliveries += 1;
            tracing::warn!("guest {}: command in slot {slot}: {delivery:?}", guest + 1);
        }
        let g = &mut self.guests[guest];
        Entry::hand_back(&g.memory, entry, delivery);
        if events && g.has_command_events() {
            g.raise_async(&Event::command(1 << slot));
        }
    }

    fn serve_command(&mut self, guest: GuestId, at: u64) -> Result<(), Delivery> {
        let memory = &self.guests[guest].memory;
        let entry = Entry::read(memory, at)?;
        let input = entry.input(memory)?;
        let mut output = entry.output()?;
        let opcode = Opcode::from_number(input.opcode());
        let result = match opcode {
            Some(opcode) => self.execute_command(guest, opcode, &input, &mut output),
            None => Err(Refusal::new(Status::BadOperation, Syndrome::UnknownCommand)),
        };
        let name = Activity::name_of(opcode);
        match result {
            Ok(()) => tracing::debug!(
                "guest {}: {name} variant {:#x}, object {:#x}, {} bytes",
                guest + 1,
                input.variant(),
                input.object(),
                input.len()
            ),
            Err(refusal) => {
                output.refuse(refusal);
                tracing::info!(
                    "guest {}: {name} ({:#x}) variant {:#x}, object {:#x} refused: {:?}, {:?}",
                    guest + 1,
                    input.opcode(),
                    input.variant(),
                    input.object(),
                    refusal.status,
                    refusal.syndrome
                );
            }
        }
        let g = &mut self.guests[guest];
        g.activity.command(name, result);
        entry.answer(&g.memory, at, &output)
    }

    /// Executes a command: who does what.
    pub fn execute_command(
        &mut self,
        guest: GuestId,
        opcode: Opcode,
        input: &Input,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        use Opcode::*;
        self.check_phase(guest, opcode)?;
        match opcode {
            NOP => Ok(()),
            ENABLE_HCA => self.enable_hca(guest),
            INIT_HCA => self.init_hca(guest),
            TEARDOWN_HCA => self.teardown_hca(guest),
            DISABLE_HCA => self.disable_hca(guest),
            QUERY_ISSI => self.query_issi(output),
            SET_ISSI => self.set_issi(input),
            QUERY_PAGES => self.query_pages(guest, input, output),
            MANAGE_PAGES => self.manage_pages(guest, input, output),
            QUERY_ADAPTER => self.query_adapter(output),
            QUERY_HCA_CAP => self.query_hca_cap(guest, input, output),
            SET_HCA_CAP => self.set_hca_cap(guest, input),
            CREATE_MKEY => self.create_mkey(guest, input, output),
            QUERY_MKEY => self.query_mkey(guest, input, output),
            DESTROY_MKEY => self.destroy_mkey(guest, input),
            CREATE_EQ => self.create_eq(guest, input, output),
            QUERY_EQ => self.query_eq(guest, input, output),
            DESTROY_EQ => self.destroy_eq(guest, input),
            CREATE_CQ => self.create_cq(guest, input, output),
            QUERY_CQ => self.query_cq(guest, input, output),
            MODIFY_CQ => self.modify_cq(guest, input),
            DESTROY_CQ => self.destroy_cq(guest, input),
            CREATE_QP => self.create_qp(guest, input, output),
            QUERY_QP => self.query_qp(guest, input, output),
            DESTROY_QP => self.destroy_qp(guest, input),
            RST2INIT_QP | INIT2INIT_QP | INIT2RTR_QP | RTR2RTS_QP | RTS2RTS_QP | SQERR2RTS_QP
            | SQD_RTS_QP | TO_ERR_QP | TO_RST_QP => self.modify_qp(guest, opcode, input),
            MAD_IFC => self.mad_ifc(guest, input, output),
            CREATE_SRQ => self.create_srq(guest, input, output),
            CREATE_XRC_SRQ => self.create_xrc_srq(guest, input, output),
            CREATE_RMP => self.create_rmp(guest, input, output),
            QUERY_SRQ | QUERY_XRC_SRQ | QUERY_RMP => self.query_srq(guest, input, output),
            ARM_RQ | ARM_XRC_SRQ => self.arm_srq(guest, input),
            MODIFY_RMP => self.modify_rmp(guest, input),
            DESTROY_SRQ | DESTROY_XRC_SRQ | DESTROY_RMP => self.destroy_srq(guest, input),
            QUERY_HCA_VPORT_CONTEXT => self.query_vport_context(guest, output),
            MODIFY_HCA_VPORT_CONTEXT => self.modify_vport_context(guest, input),
            QUERY_HCA_VPORT_GID => self.query_gid(guest, input, output),
            QUERY_HCA_VPORT_PKEY => self.query_pkey(input, output),
            ACCESS_REG => self.access_register(guest, input, output),
            ALLOC_PD => self.alloc_domain(guest, Kind::Pd, output),
            DEALLOC_PD => self.dealloc_domain(guest, Kind::Pd, input),
            ALLOC_XRCD => self.alloc_domain(guest, Kind::Xrcd, output),
            DEALLOC_XRCD => self.dealloc_domain(guest, Kind::Xrcd, input),
            ALLOC_TRANSPORT_DOMAIN => self.alloc_domain(guest, Kind::TransportDomain, output),
            DEALLOC_TRANSPORT_DOMAIN => self.dealloc_domain(guest, Kind::TransportDomain, input),
            ALLOC_UAR => self.alloc_uar(guest, output),
            DEALLOC_UAR => self.dealloc_uar(guest, input),
            ATTACH_TO_MCG => self.attach_to_group(guest, input),
            DETACH_FROM_MCG => self.detach_from_group(guest, input),
        }
    }
}
