//! Which addresses a granted *name* may stand for: what was checked is what is dialled.
//!
//! Names are resolved here, every answer is checked, and only checked addresses reach the
//! connection. A name that points at a cloud's metadata service, or changes between two look-ups,
//! gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// How long a look-up may take.
const LOOK_UP: Duration = Duration::from_secs(10);

/// All addresses of a name were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} stands for {address}, which is not a public address; to grant it, add to the \
     configuration: [grants] http_private = [\"{address}\"]"
)]
pub(crate) struct RefusedAddress {
    name: String,
    address: IpAddr,
}

/// Resolves and checks.
#[derive(Clone, Debug)]
pub(crate) struct CheckedResolver {
    pub(crate) private: Vec<IpNet>,
}

impl CheckedResolver {
    fn allows(&self, name: &str, address: IpAddr) -> bool {
        is_public(address)
            || (name == "localhost" && address.is_loopback())
            || self.private.iter().any(|range| range.contains(&address))
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let name = name.as_str();
            let look_up = tokio::net::lookup_host((name, 0));
            let found: Vec<SocketAddr> = tokio::time::timeout(LOOK_UP, look_up)
                .await
                .map_err(|_| format!("{name} was not resolved within {LOOK_UP:?}"))??
                .collect();
            let allowed: Vec<_> = found
                .iter()
                .copied()
                .filter(|address| resolver.allows(name, address.ip()))
                .collect();
            match (allowed.is_empty(), found.first()) {
                (true, Some(refused)) => Err(Box::new(RefusedAddress {
                    name: name.to_owned(),
                    address: refused.ip(),
                })
                    as Box<dyn std::error::Error + Send + Sync>),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// Whether an address is on the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    !(v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_broadcast()
        || v4.is_documentation()
        || a == 0
        // Carrier-grade NAT, IETF protocol assignments, benchmarking, reserved.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        // Relays of 6to4.
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240)
}

/// Global unicast is 2000::/3. Outside of it are unique local, link-local and multicast, and most
/// forms that carry an IPv4 address: mapped, compatible and NAT64. Those are refused even if the
/// carried address is public, because where they lead is decided by a translator nobody checked.
fn is_public_v6(v6: Ipv6Addr) -> bool {
    let [first, second, ..] = v6.segments();
    (first & 0xe000) == 0x2000
        // 2001::/23 is for protocols (Teredo, benchmarking, ORCHID), 2001:db8::/32 and 3fff::/20
        // are documentation, 2002::/16 is 6to4.
        && !(first == 0x2001 && (second < 0x200 || second == 0xdb8))
        && first != 0x2002
        && !(first == 0x3fff && second < 0x1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for public in [
            "1.1.1.1",
            "203.0.114.1",
            "100.63.0.1",
            "172.32.0.1",
            "2606:4700::1",
            "2001:200::1",
            "2001:4860:4860::8888",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for other in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "198.18.0.1",
            "192.0.0.1",
            "240.0.0.1",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "::ffff:1.1.1.1",
            "::1.1.1.1",
            "64:ff9b::a00:1",
            "64:ff9b::101:101",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:101:101::",
            "192.88.99.1",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "2001:2::1",
            "3fff::1",
            "2001:db8::1",
            "2001::1",
            "fd00:ec2::254",
        ] {
            assert!(!is_public(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn a_range_grants_its_addresses_and_localhost_only_loopback() {
        let resolver = CheckedResolver {
            private: vec!["10.0.0.0/8".parse().unwrap()],
        };
        let allows = |name, address: &str| resolver.allows(name, address.parse().unwrap());
        assert!(allows("db.internal", "10.9.9.9"));
        assert!(!allows("db.internal", "192.168.0.1"));
        assert!(!allows("db.internal", "127.0.0.1"));
        assert!(allows("localhost", "127.0.0.1"));
        assert!(!allows("localhost", "192.168.0.1"));
    }
}
