//! Socket addresses in the form that the kernel reads and writes.

use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

/// An address for a call of the kernel.
pub struct RawAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl RawAddress {
    /// An address.
    pub fn new(address: SocketAddr) -> Self {
        // SAFETY: sockaddr_storage is plain data for which zeros are valid.
        let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
        let start: *mut libc::sockaddr_storage = &mut storage;
        let length = match address {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is large enough and aligned for every address family.
                unsafe { start.cast::<libc::sockaddr_in>().write(raw) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { start.cast::<libc::sockaddr_in6>().write(raw) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Self { storage, length: length as libc::socklen_t }
    }

    /// The address as sockets of IPv6 have it, which carry IPv4 as a part of it.
    pub(crate) fn mapped(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(v4) => {
                Self::new(SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into())
            }
            SocketAddr::V6(_) => Self::new(address),
        }
    }

    /// Room for an address that the kernel writes.
    pub(crate) fn room() -> Self {
        // SAFETY: as above.
        Self { storage: unsafe { zeroed() }, length: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    /// Where it is.
    pub fn as_ptr(&self) -> *const libc::sockaddr {
        ptr::from_ref(&self.storage).cast()
    }

    /// Where the kernel may write it.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        ptr::from_mut(&mut self.storage).cast()
    }

    /// Its bytes.
    pub const fn length(&self) -> libc::socklen_t {
        self.length
    }

    /// What it says; none if it is of neither IPv4 nor IPv6. An address of IPv4 as a part of IPv6 is one of IPv4.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match libc::c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which of both it is; the storage is large enough and aligned for them.
                let v4 = unsafe { self.as_ptr().cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { self.as_ptr().cast::<libc::sockaddr_in6>().read() };
                let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
                Some(match ip.to_ipv4_mapped() {
                    Some(ip) => SocketAddrV4::new(ip, port).into(),
                    None => SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into(),
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RawAddress;

    #[test]
    fn addresses_come_back() {
        for text in ["192.0.2.1:7", "[2001:db8::1]:8", "[fe80::1%3]:9"] {
            let address = text.parse().unwrap();
            assert_eq!(RawAddress::new(address).address(), Some(address));
            assert_eq!(RawAddress::mapped(address).address(), Some(address));
        }
        assert_eq!(RawAddress::room().address(), None);
    }
}
