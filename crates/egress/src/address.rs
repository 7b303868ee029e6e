//! Decides which IP addresses are public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges of IPv4 that are not public: address, prefix length, description.
const IN_FOUR: &[([u8; 4], u32, &str)] = &[
    ([0, 0, 0, 0], 8, "an address of this machine"),
    ([10, 0, 0, 0], 8, "a private address"),
    ([100, 64, 0, 0], 10, "a provider's internal address"),
    ([127, 0, 0, 0], 8, "a loopback address"),
    ([169, 254, 0, 0], 16, "a link-local or metadata address"),
    ([172, 16, 0, 0], 12, "a private address"),
    ([192, 0, 0, 0], 24, "a protocol address"),
    ([192, 0, 2, 0], 24, "a documentation address"),
    ([192, 88, 99, 0], 24, "a tunnel address"),
    ([192, 168, 0, 0], 16, "a private address"),
    ([198, 18, 0, 0], 15, "a benchmarking address"),
    ([198, 51, 100, 0], 24, "a documentation address"),
    ([203, 0, 113, 0], 24, "a documentation address"),
    ([224, 0, 0, 0], 4, "a multicast address"),
    ([240, 0, 0, 0], 4, "a reserved or broadcast address"),
    // A public number, but machines of a cloud reach their metadata service there.
    ([168, 63, 129, 16], 32, "a metadata address"),
];

/// Ranges of IPv6 that are not public. Only `2000::/3` is assigned to the public. The others are listed for the error
/// message.
const IN_SIX: &[([u16; 8], u32, &str)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, "an address of this machine"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "a loopback address"),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, "an IPv4 address in disguise"),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, "an IPv4 address in disguise"),
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, "an IPv4 address in disguise"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "a local translation address"),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "a discard address"),
    // Teredo, ORCHID, benchmarking and addresses of other protocols.
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "a protocol or tunnel address"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "a documentation address"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "a documentation address"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "a private or metadata address"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "a link-local address"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "a site-local address"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "a multicast address"),
];

/// The public range of IPv6.
const PUBLIC_SIX: ([u16; 8], u32) = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
/// NAT64: the last 32 bits are the IPv4 address that is reached.
const NAT64: ([u16; 8], u32) = ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
/// 6to4: the IPv4 address that is reached follows these 16 bits.
const SIX_TO_FOUR: ([u16; 8], u32) = ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);

/// The description of an address that is not a public unicast one. None if it is public.
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => four(address),
        IpAddr::V6(address) => six(address),
    }
}

fn four(address: Ipv4Addr) -> Option<&'static str> {
    let within = |base: [u8; 4], length: u32| {
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        u32::from(address) & mask == u32::from_be_bytes(base) & mask
    };
    IN_FOUR.iter().find(|(base, length, _)| within(*base, *length)).map(|(.., what)| *what)
}

fn six(address: Ipv6Addr) -> Option<&'static str> {
    if let Some((.., what)) = IN_SIX.iter().find(|(base, length, _)| in_six(address, *base, *length)) {
        return Some(what);
    }
    // An address that embeds another is as public as the inner one.
    embedded(address).and_then(four).or_else(|| {
        let public = [PUBLIC_SIX, NAT64].into_iter().any(|(base, length)| in_six(address, base, length));
        (!public).then_some("a reserved address")
    })
}

fn in_six(address: Ipv6Addr, base: [u16; 8], length: u32) -> bool {
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    u128::from(address) & mask == u128::from(Ipv6Addr::from(base)) & mask
}

/// The IPv4 address that a tunnel or translator would reach.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let from = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    if in_six(address, SIX_TO_FOUR.0, SIX_TO_FOUR.1) {
        return Some(from(parts[1], parts[2]));
    }
    // The mark of ISATAP interface identifiers.
    let isatap = matches!(parts[4], 0 | 0x200) && parts[5] == 0x5efe;
    (isatap || in_six(address, NAT64.0, NAT64.1)).then(|| from(parts[6], parts[7]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(text: &str) -> Option<&'static str> {
        not_public(text.parse().expect(text))
    }

    #[test]
    fn public_addresses_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "2606:4700::1111",
            "2a00:1450:4001::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2400::",
            "3ffe::1",
            // NAT64 and 6to4 of a public address.
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert_eq!(judge(address), None, "{address}");
        }
    }

    #[test]
    fn the_edges_of_every_range_are_refused() {
        for (base, length, what) in IN_FOUR {
            let low = u32::from_be_bytes(*base);
            let high = low | !u32::MAX.checked_shl(32 - length).unwrap_or(0);
            for edge in [low, high] {
                assert_eq!(not_public(Ipv4Addr::from(edge).into()), Some(*what), "{}", Ipv4Addr::from(edge));
            }
        }
        for (base, length, _) in IN_SIX {
            let low = u128::from(Ipv6Addr::from(*base));
            let high = low | !u128::MAX.checked_shl(128 - length).unwrap_or(0);
            for edge in [low, high] {
                assert!(not_public(Ipv6Addr::from(edge).into()).is_some(), "{}", Ipv6Addr::from(edge));
            }
        }
    }

    #[test]
    fn an_address_inside_another_is_judged() {
        for address in [
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::808:808",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:a9fe:a9fe::",
            "2606:4700::5efe:10.0.0.1",
            "2606:4700::200:5efe:192.168.0.1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        ] {
            assert!(judge(address).is_some(), "{address}");
        }
    }

    #[test]
    fn what_is_assigned_to_nobody_is_refused() {
        for address in ["4000::1", "5f00::1", "8000::1", "e000::1", "200::1", "1::1", "64:ff9c::1"] {
            assert!(judge(address).is_some(), "{address}");
        }
    }

    #[test]
    fn clouds_keep_their_metadata() {
        for address in [
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "fd00:ec2::254",
            "fd20:ce::254",
        ] {
            assert!(judge(address).is_some(), "{address}");
        }
    }
}
