//! The address a request comes from, and the share of a limited resource that one may take.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::connections::Connection;

/// An address that requests come from. Of IPv6 it is the network: one machine has all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// A process of the service's user, or of root, over the unix socket.
    Operator,
    /// A process that the service has started, an agent or a hook, over the unix socket.
    Descendant,
    Ip(IpAddr),
}

impl Peer {
    /// Whether the peer is on this machine.
    pub(crate) const fn is_loopback(self) -> bool {
        match self {
            Self::Operator | Self::Descendant => true,
            Self::Ip(ip) => ip.is_loopback(),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(match address.ip().to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => {
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64)))
            }
            ip => ip,
        })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator => f.write_str("the unix socket"),
            Self::Descendant => f.write_str("the unix socket, from a process of the service"),
            Self::Ip(ip) => ip.fmt(f),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::from_extensions(&parts.extensions))
    }
}

impl Peer {
    /// The peer of a request.
    pub(crate) fn from_extensions(extensions: &axum::http::Extensions) -> Self {
        let connection = extensions.get::<Arc<Connection>>();
        connection.map_or(Self::Ip(IpAddr::from([0, 0, 0, 0])), |connection| connection.peer())
    }
}

/// A number of places of which one peer gets at most three quarters: behind a reverse proxy all
/// clients share an address and need most of them, and other clients still find a place.
#[derive(Debug)]
pub(crate) struct Shares {
    limit: usize,
    taken: usize,
    by_peer: BTreeMap<Peer, usize>,
}

impl Shares {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, taken: 0, by_peer: BTreeMap::new() }
    }

    /// How many are taken.
    pub(crate) const fn taken(&self) -> usize {
        self.taken
    }

    /// Takes a place, if there is one for this peer.
    pub(crate) fn take(&mut self, peer: Peer) -> bool {
        let own = self.by_peer.get(&peer).copied().unwrap_or_default();
        let has_room = self.taken < self.limit && own < most_of(self.limit);
        if has_room {
            self.take_beyond(peer);
        }
        has_room
    }

    /// Takes a place in any case.
    pub(crate) fn take_beyond(&mut self, peer: Peer) {
        self.taken += 1;
        *self.by_peer.entry(peer).or_default() += 1;
    }

    pub(crate) fn give_back(&mut self, peer: Peer) {
        self.taken = self.taken.saturating_sub(1);
        if let Some(own) = self.by_peer.get_mut(&peer) {
            *own -= 1;
            if *own == 0 {
                self.by_peer.remove(&peer);
            }
        }
    }
}

/// Three quarters, and at least one.
pub(crate) fn most_of(number: usize) -> usize {
    (number - number / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn peer(text: &str) -> Peer {
        Peer::from(SocketAddr::new(text.parse().unwrap(), 1))
    }

    #[test]
    fn rule_13_3_a_network_of_ipv6_is_one_peer() {
        assert_eq!(peer("2001:db8:1:2::3"), peer("2001:db8:1:2:ffff::9"));
        assert_ne!(peer("2001:db8:1:2::3"), peer("2001:db8:1:3::3"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
        assert_eq!(peer("::1").to_string(), "::1");
    }

    #[test]
    fn rule_13_3_one_peer_gets_most_and_not_all() {
        let (mut shares, one, other) = (Shares::new(8), peer("192.0.2.1"), peer("192.0.2.2"));
        assert_eq!((0..9).filter(|_| shares.take(one)).count(), 6);
        assert_eq!((0..9).filter(|_| shares.take(other)).count(), 2);
        shares.give_back(other);
        assert!(!shares.take(one) && shares.take(other));
        shares.take_beyond(one);
        assert_eq!(shares.taken(), 9);
        (0..7).for_each(|_| shares.give_back(one));
        (0..2).for_each(|_| shares.give_back(other));
        assert_eq!((shares.taken(), shares.by_peer.len()), (0, 0));
        assert!(Shares::new(1).take(one));
    }
}
