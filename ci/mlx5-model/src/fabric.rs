//! What lies between the guests: who has which LID and GID, and the multicast groups.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    caps::MAX_GROUP_MEMBERS,
    command::status::{Refusal, Status, Syndrome},
    device::Device,
    guest::SM_LID,
    objects::{GuestId, Objects},
};

/// A group identifier.
pub type Gid = [u8; 16];

/// The multicast LIDs; a group gets the first free one.
const FIRST_MLID: u16 = 0xc000;
const LAST_MLID: u16 = FIRST_MLID + MAX_GROUPS as u16 - 1;
/// The most groups.
const MAX_GROUPS: usize = 256;
/// First byte of a multicast GID.
const MULTICAST: u8 = 0xff;
/// Q_Key of the group over which IP finds its way, the one that is there from the beginning.
const IPOIB_Q_KEY: u32 = 0x0000_0b1b;
/// That group: IPv4's broadcast in the default partition.
pub const BROADCAST: Gid = [0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];

/// A multicast group, as the subnet administrator knows it.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its LID.
    pub mlid: u16,
    /// Q_Key of its members.
    pub q_key: u32,
    /// The ports that joined, by LID, with the kinds of membership (JoinState) that they have.
    joined: BTreeMap<u16, u8>,
}

/// Who is at a LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A guest's port.
    Guest(GuestId),
    /// The subnet manager.
    SubnetManager,
    /// Nobody.
    Nowhere,
}

/// What is between two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A wire on which nothing happens to packets, either way: messages may be handed over as they are.
    Perfect,
    /// One that loses, doubles, delays or reorders packets.
    Faulty,
    /// Nothing: one of the ports is down.
    Down,
}

/// Groups and their members. Membership of QPs (ATTACH_TO_MCG) decides who hears; the administrator's groups are
/// what ports joined.
#[derive(Debug)]
pub struct Fabric {
    groups: BTreeMap<Gid, Group>,
    members: Vec<(Gid, u32)>,
}

impl Default for Fabric {
    fn default() -> Self {
        let broadcast = Group { mlid: FIRST_MLID, q_key: IPOIB_Q_KEY, joined: BTreeMap::new() };
        Self { groups: BTreeMap::from([(BROADCAST, broadcast)]), members: Vec::new() }
    }
}

impl Fabric {
    /// A port joins: the group, made if need be with that Q_Key. `None`: there are too many, or it is no group.
    pub fn join(&mut self, gid: Gid, q_key: Option<u32>, lid: u16, states: u8) -> Option<Group> {
        if !self.groups.contains_key(&gid) {
            if gid[0] != MULTICAST || self.groups.len() >= MAX_GROUPS {
                return None;
            }
            let taken: BTreeSet<u16> = self.groups.values().map(|g| g.mlid).collect();
            let mlid = (FIRST_MLID..=LAST_MLID).find(|mlid| !taken.contains(mlid))?;
            let group = Group { mlid, q_key: q_key.unwrap_or(IPOIB_Q_KEY), joined: BTreeMap::new() };
            self.groups.insert(gid, group);
        }
        let group = self.groups.get_mut(&gid)?;
        *group.joined.entry(lid).or_default() |= states;
        Some(group.clone())
    }

    /// A port gives those kinds of membership up; a group that no port is in any more ends. The group as it was;
    /// `None`: the port is not in it.
    pub fn leave(&mut self, gid: Gid, lid: u16, states: u8) -> Option<Group> {
        let group = self.groups.get_mut(&gid)?;
        let was = group.clone();
        let left = group.joined.get_mut(&lid)?;
        *left &= !states;
        if *left == 0 {
            group.joined.remove(&lid);
        }
        self.end_empty();
        Some(was)
    }

    /// A port goes down: it is in no group any more.
    pub fn forget_port(&mut self, lid: u16) {
        for group in self.groups.values_mut() {
            group.joined.remove(&lid);
        }
        self.end_empty();
    }

    fn end_empty(&mut self) {
        self.groups.retain(|gid, group| *gid == BROADCAST || !group.joined.is_empty());
    }

    /// The group, if there is one.
    pub fn group(&self, gid: &Gid) -> Option<&Group> {
        self.groups.get(gid)
    }

    /// A QP joins.
    pub fn attach(&mut self, gid: Gid, qpn: u32) -> Result<(), Refusal> {
        if gid[0] != MULTICAST {
            return Err(Refusal::parameter(Syndrome::BadGid));
        }
        if self.members.contains(&(gid, qpn)) {
            return Ok(());
        }
        let of_group = self.members.iter().filter(|(g, _)| *g == gid).count();
        if of_group >= MAX_GROUP_MEMBERS || self.members.len() >= MAX_GROUPS * MAX_GROUP_MEMBERS {
            return Err(Refusal::new(Status::LimitExceeded, Syndrome::TooManyObjects));
        }
        self.members.push((gid, qpn));
        Ok(())
    }

    /// A QP leaves.
    pub fn detach(&mut self, gid: Gid, qpn: u32) -> Result<(), Refusal> {
        let before = self.members.len();
        self.members.retain(|m| *m != (gid, qpn));
        if self.members.len() < before { Ok(()) } else { Err(Refusal::missing(Syndrome::NotAttached)) }
    }

    /// The QPs of a group.
    pub fn members(&self, gid: &Gid) -> Vec<u32> {
        self.members.iter().filter(|(g, _)| g == gid).map(|(_, qpn)| *qpn).collect()
    }

    /// Whether the QP is in a group.
    pub fn is_member(&self, qpn: u32) -> bool {
        self.members.iter().any(|(_, n)| *n == qpn)
    }

    /// The guest's QPs that are in groups.
    pub fn memberships(&self, objects: &Objects, guest: GuestId) -> Vec<u32> {
        self.members.iter().map(|(_, qpn)| *qpn).filter(|n| objects.qps.owned(guest, *n).is_ok()).collect()
    }

    /// All QPs of the guest leave.
    pub fn forget(&mut self, objects: &Objects, guest: GuestId) {
        self.members.retain(|(_, qpn)| objects.qps.owned(guest, *qpn).is_err());
    }
}

impl Device {
    /// Who is at the LID.
    pub fn place_of(&self, lid: u16) -> Place {
        match self.guest_at(lid) {
            Some(guest) => Place::Guest(guest),
            None if lid == SM_LID => Place::SubnetManager,
            None => Place::Nowhere,
        }
    }

    /// What is between the ports of two guests.
    pub fn link(&self, from: GuestId, to: GuestId) -> Link {
        if !self.guests[from].is_on_the_wire() || !self.guests[to].is_on_the_wire() {
            return Link::Down;
        }
        if self.engine.wire.is_perfect(from, to) { Link::Perfect } else { Link::Faulty }
    }

    /// The guest whose port has the LID and is on the wire.
    pub fn guest_at(&self, lid: u16) -> Option<GuestId> {
        self.guests.iter().position(|g| g.lid == lid && g.is_on_the_wire())
    }

    /// The guest whose port has the GID and is on the wire.
    pub fn guest_with_gid(&self, gid: &[u8]) -> Option<GuestId> {
        self.guests.iter().position(|g| g.gid() == gid && g.is_on_the_wire())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_lids_of_their_own_and_an_end() {
        let mut f = Fabric::default();
        assert_eq!(f.join(BROADCAST, Some(1), 2, 1).unwrap().q_key, IPOIB_Q_KEY, "the first to join decided");
        assert!(f.join([0; 16], None, 2, 1).is_none());
        for n in 1..MAX_GROUPS {
            let mut gid = BROADCAST;
            gid[14..].copy_from_slice(&(n as u16).to_be_bytes());
            assert_eq!(f.join(gid, None, 2, 1).unwrap().mlid, FIRST_MLID + n as u16);
        }
        let mut one_more = BROADCAST;
        one_more[1] = 0;
        assert!(f.join(one_more, None, 2, 1).is_none());
        f.forget_port(2);
        assert_eq!(f.join(one_more, None, 2, 1).unwrap().mlid, FIRST_MLID + 1, "all others are gone");
    }

    #[test]
    fn a_group_ends_with_its_last_member() {
        let mut f = Fabric::default();
        let gid = [MULTICAST; 16];
        f.join(gid, None, 2, 1).unwrap();
        f.join(gid, None, 2, 4).unwrap();
        f.join(gid, None, 3, 1).unwrap();
        assert!(f.leave(gid, 4, 1).is_none(), "not a member");
        f.leave(gid, 3, 1).unwrap();
        f.leave(gid, 2, 1).unwrap();
        assert!(f.group(&gid).is_some(), "still a member in another way");
        f.leave(gid, 2, 4).unwrap();
        assert!(f.group(&gid).is_none());
        f.join(BROADCAST, None, 2, 1).unwrap();
        f.leave(BROADCAST, 2, 1).unwrap();
        assert!(f.group(&BROADCAST).is_some(), "it is there from the beginning");
    }

    #[test]
    fn members_come_and_go() {
        let mut f = Fabric::default();
        f.attach(BROADCAST, 5).unwrap();
        f.attach(BROADCAST, 5).unwrap();
        assert_eq!(f.members(&BROADCAST), [5]);
        assert!(f.detach([0xff; 16], 5).is_err());
        f.detach(BROADCAST, 5).unwrap();
        assert!(!f.is_member(5));
        for n in 0..MAX_GROUP_MEMBERS as u32 {
            f.attach(BROADCAST, n).unwrap();
        }
        assert_eq!(f.attach(BROADCAST, 99).unwrap_err().status, Status::LimitExceeded);
    }

    #[test]
    fn lids_lead_to_places() {
        let d = Device::new(2);
        assert_eq!(d.place_of(SM_LID), Place::SubnetManager);
        assert_eq!(d.place_of(d.guests[1].lid), Place::Guest(1));
        assert_eq!(d.place_of(0xffff), Place::Nowhere);
    }
}
