//! Objects that are only a number that others refer to, doorbell pages, and multicast membership.

use crate::{
    command::{
        mailbox::{Input, Output},
        status::{Refusal, Status, Syndrome},
    },
    device::Device,
    objects::{GuestId, Kind},
    registers::{END_UAR, FIRST_UAR},
};

/// Where ATTACH_TO_MCG and DETACH_FROM_MCG have the GID.
const GROUP: usize = 16;

impl Device {
    /// ALLOC_PD, ALLOC_XRCD, ALLOC_TRANSPORT_DOMAIN.
    pub fn alloc_domain(&mut self, guest: GuestId, kind: Kind, output: &mut Output) -> Result<(), Refusal> {
        output.set_object(self.objects.insert_domain(kind, guest)?);
        Ok(())
    }

    /// DEALLOC_PD, DEALLOC_XRCD, DEALLOC_TRANSPORT_DOMAIN.
    pub fn dealloc_domain(&mut self, guest: GuestId, kind: Kind, input: &Input) -> Result<(), Refusal> {
        let number = input.object();
        if self.objects.is_used(guest, kind, number) {
            return Err(Refusal::in_use());
        }
        self.objects.remove_domain(kind, guest, number)
    }

    /// ALLOC_UAR.
    pub fn alloc_uar(&mut self, guest: GuestId, output: &mut Output) -> Result<(), Refusal> {
        let g = &mut self.guests[guest];
        // Round robin: a page that a dead process had is not the next one's at once.
        let uar = (g.next_uar..END_UAR)
            .chain(FIRST_UAR..g.next_uar)
            .find(|n| !g.uars.contains(n))
            .ok_or(Refusal::new(Status::LimitExceeded, Syndrome::TooManyObjects))?;
        g.next_uar = if uar + 1 < END_UAR { uar + 1 } else { FIRST_UAR };
        g.uars.insert(uar);
        output.set_object(uar);
        Ok(())
    }

    /// DEALLOC_UAR.
    pub fn dealloc_uar(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        let uar = input.object();
        // A QP or CQ may outlive its page: a process that exits has its mappings, and with them the page, taken
        // away before its files, and with them its objects.
        if self.guests[guest].eqs.values().any(|eq| eq.uar() == uar) {
            return Err(Refusal::in_use());
        }
        if self.guests[guest].uars.remove(&uar) { Ok(()) } else { Err(Refusal::missing(Syndrome::NoSuchUar)) }
    }

    /// ATTACH_TO_MCG.
    pub fn attach_to_group(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        self.objects.qps.owned(guest, input.object())?;
        self.fabric.attach(input.context(GROUP)?, guest, input.object())
    }

    /// DETACH_FROM_MCG.
    pub fn detach_from_group(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        self.objects.qps.owned(guest, input.object())?;
        self.fabric.detach(input.context(GROUP)?, input.object())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(n: u32) -> Input {
        let mut b = vec![0; 32];
        b[8..12].copy_from_slice(&n.to_be_bytes());
        b[16] = 0xff;
        Input::new(b)
    }

    #[test]
    fn doorbell_pages_end() {
        let mut d = Device::new(2);
        let mut o = Output::new(16);
        for _ in FIRST_UAR..END_UAR {
            d.alloc_uar(0, &mut o).unwrap();
        }
        assert_eq!(d.alloc_uar(0, &mut o).unwrap_err().status, Status::LimitExceeded);
        d.alloc_uar(1, &mut o).unwrap();
        d.dealloc_uar(0, &number(FIRST_UAR)).unwrap();
        assert!(d.dealloc_uar(0, &number(FIRST_UAR)).is_err());
        d.alloc_uar(0, &mut o).unwrap();
    }

    #[test]
    fn kinds_are_not_mixed_up() {
        let mut d = Device::new(1);
        let mut o = Output::new(16);
        d.alloc_domain(0, Kind::Pd, &mut o).unwrap();
        let pd = crate::bits::be32(o.bytes(), 8);
        assert!(d.dealloc_domain(0, Kind::Xrcd, &number(pd)).is_err());
        assert!(d.attach_to_group(0, &number(pd)).is_err());
        d.dealloc_domain(0, Kind::Pd, &number(pd)).unwrap();
        assert!(d.dealloc_domain(0, Kind::Pd, &number(pd)).is_err());
    }
}
