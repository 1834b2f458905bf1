//! What lies between the guests: who has which LID and GID, and the multicast groups.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    caps::{LOG_MAX_GROUPS, MAX_GROUP_MEMBERS},
    command::status::{Refusal, Status, Syndrome},
    device::Device,
    guest::SM_LID,
    objects::GuestId,
};

/// A group identifier.
pub type Gid = [u8; 16];

/// The multicast LIDs; a group gets the first free one.
const FIRST_MLID: u16 = 0xc000;
/// This one means everybody.
const LAST_MLID: u16 = 0xffff;
/// The most groups of a port, the one that is always there included: each port can have as many of its own.
const MAX_GROUPS: usize = 1 << LOG_MAX_GROUPS;
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
    members: BTreeMap<(Gid, u32), GuestId>,
    /// Of how many groups each QP that is in one is a member.
    of_qps: BTreeMap<(GuestId, u32), usize>,
    /// The sum of these for each guest.
    of_guests: BTreeMap<GuestId, usize>,
}

impl Default for Fabric {
    fn default() -> Self {
        let broadcast = Group { mlid: FIRST_MLID, q_key: IPOIB_Q_KEY, joined: BTreeMap::new() };
        Self {
            groups: BTreeMap::from([(BROADCAST, broadcast)]),
            members: BTreeMap::new(),
            of_qps: BTreeMap::new(),
            of_guests: BTreeMap::new(),
        }
    }
}

impl Fabric {
    /// A port joins: the group, made if need be with that Q_Key. `None`: there are too many, or it is no group.
    pub fn join(&mut self, gid: Gid, q_key: Option<u32>, lid: u16, states: u8) -> Option<Group> {
        if gid != BROADCAST && !self.groups.get(&gid).is_some_and(|group| group.joined.contains_key(&lid)) {
            let own = |(gid, group): &(&Gid, &Group)| **gid != BROADCAST && group.joined.contains_key(&lid);
            if self.groups.iter().filter(own).count() >= MAX_GROUPS - 1 {
                return None;
            }
        }
        if !self.groups.contains_key(&gid) {
            if gid[0] != MULTICAST {
                return None;
            }
            let taken: BTreeSet<u16> = self.groups.values().map(|g| g.mlid).collect();
            let mlid = (FIRST_MLID..LAST_MLID).find(|mlid| !taken.contains(mlid))?;
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

    /// A guest's QP joins.
    pub fn attach(&mut self, gid: Gid, guest: GuestId, qpn: u32) -> Result<(), Refusal> {
        if gid[0] != MULTICAST {
            return Err(Refusal::parameter(Syndrome::BadGid));
        }
        if self.members.contains_key(&(gid, qpn)) {
            return Ok(());
        }
        let of_group = self.of_group(&gid).filter(|(_, of)| *of == guest).count();
        let of_guest = self.of_guests.entry(guest).or_default();
        if of_group >= MAX_GROUP_MEMBERS || *of_guest >= MAX_GROUPS * MAX_GROUP_MEMBERS {
            return Err(Refusal::new(Status::LimitExceeded, Syndrome::TooManyObjects));
        }
        *of_guest += 1;
        *self.of_qps.entry((guest, qpn)).or_default() += 1;
        self.members.insert((gid, qpn), guest);
        Ok(())
    }

    /// A QP leaves.
    pub fn detach(&mut self, gid: Gid, qpn: u32) -> Result<(), Refusal> {
        let guest = self.members.remove(&(gid, qpn)).ok_or(Refusal::missing(Syndrome::NotAttached))?;
        if let Some(of_guest) = self.of_guests.get_mut(&guest) {
            *of_guest -= 1;
        }
        if let Some(of_qp) = self.of_qps.get_mut(&(guest, qpn)) {
            *of_qp -= 1;
            if *of_qp == 0 {
                self.of_qps.remove(&(guest, qpn));
            }
        }
        Ok(())
    }

    /// The QPs of a group.
    pub fn members(&self, gid: &Gid) -> Vec<u32> {
        self.of_group(gid).map(|(qpn, _)| qpn).collect()
    }

    fn of_group(&self, gid: &Gid) -> impl Iterator<Item = (u32, GuestId)> {
        self.members.range((*gid, 0)..=(*gid, u32::MAX)).map(|((_, qpn), guest)| (*qpn, *guest))
    }

    /// Whether the guest's QP is in a group.
    pub fn is_member(&self, guest: GuestId, qpn: u32) -> bool {
        self.of_qps.contains_key(&(guest, qpn))
    }

    /// The guest's QPs that are in groups, each as often as it is.
    pub fn memberships(&self, guest: GuestId) -> impl Iterator<Item = u32> {
        let own = self.of_qps.range((guest, 0)..=(guest, u32::MAX));
        own.flat_map(|((_, qpn), times)| std::iter::repeat_n(*qpn, *times))
    }

    /// All QPs of the guest leave.
    pub fn forget(&mut self, guest: GuestId) {
        if self.of_guests.remove(&guest).is_some_and(|count| count > 0) {
            self.members.retain(|_, of| *of != guest);
            self.of_qps.retain(|(of, _), _| *of != guest);
        }
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
        let mut others = one_more;
        for n in 1..MAX_GROUPS {
            others[14..].copy_from_slice(&(n as u16).to_be_bytes());
            assert!(f.join(others, None, 3, 1).is_some(), "another port has as many of its own: {n}");
        }
        assert!(f.join(one_more, None, 3, 1).is_none());
        assert!(f.join(others, None, 2, 1).is_none(), "what others made counts as well");
        f.forget_port(3);
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
        f.attach(BROADCAST, 0, 5).unwrap();
        f.attach(BROADCAST, 0, 5).unwrap();
        assert_eq!(f.members(&BROADCAST), [5]);
        assert!(f.is_member(0, 5) && f.memberships(0).eq([5]));
        assert!(f.detach([0xff; 16], 5).is_err());
        f.detach(BROADCAST, 5).unwrap();
        assert!(!f.is_member(0, 5) && f.memberships(0).next().is_none());
    }

    #[test]
    fn no_guest_takes_anothers_share_of_memberships() {
        let mut f = Fabric::default();
        let members = MAX_GROUP_MEMBERS as u32;
        for group in 0..MAX_GROUPS as u16 {
            let mut gid = BROADCAST;
            gid[14..].copy_from_slice(&group.to_be_bytes());
            (0..members).for_each(|n| f.attach(gid, 0, n).unwrap());
            assert_eq!(f.attach(gid, 0, members).unwrap_err().status, Status::LimitExceeded);
            f.attach(gid, 1, members).unwrap();
        }
        let one_more = [MULTICAST; 16];
        assert_eq!(f.attach(one_more, 0, 1).unwrap_err().status, Status::LimitExceeded);
        f.attach(one_more, 1, members).unwrap();
        assert_eq!(f.memberships(1).count(), MAX_GROUPS + 1);
        f.forget(0);
        assert!(f.memberships(0).next().is_none());
        assert_eq!(f.members(&one_more), [members]);
        f.attach(one_more, 0, 1).unwrap();
    }

    #[test]
    fn lids_lead_to_places() {
        let d = Device::new(2);
        assert_eq!(d.place_of(SM_LID), Place::SubnetManager);
        assert_eq!(d.place_of(d.guests[1].lid), Place::Guest(1));
        assert_eq!(d.place_of(0xffff), Place::Nowhere);
    }
}
