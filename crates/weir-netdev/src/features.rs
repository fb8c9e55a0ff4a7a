//! The offload features of an interface by their names, as `ethtool -k` shows them (linux/ethtool.h,
//! `ETHTOOL_GFEATURES`; names in net/ethtool/common.c).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use crate::device;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
/// Bytes of one name.
const NAME: usize = 32;

/// One feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feature {
    index: usize,
    /// Whether it can be changed at all.
    pub changeable: bool,
    /// What was asked for last.
    pub wanted: bool,
    /// What it is.
    pub active: bool,
}

/// Reads all features of an interface.
pub(crate) fn read(socket: &OwnedFd, interface: &str) -> io::Result<BTreeMap<String, Feature>> {
    // command, reserved, mask (64 bits), one length per bit of the mask
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    // SAFETY: five words hold the request and the one length that is asked for.
    unsafe { device::ethtool(socket, interface, &mut info)? };
    let count = info[4] as usize;
    if count == 0 || count > 4096 {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    // command, set, length, then the names
    let mut names = vec![0u32; 3 + count * NAME / 4];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    // SAFETY: there is room for as many names as the kernel said there are; it writes no more than the length says.
    unsafe { device::ethtool(socket, interface, &mut names)? };
    let blocks = count.div_ceil(32);
    // command, blocks, then for each block: available, requested, active, never changed
    let mut state = vec![0u32; 2 + 4 * blocks];
    state[..2].copy_from_slice(&[ETHTOOL_GFEATURES, blocks as u32]);
    // SAFETY: there is room for as many blocks as the request says.
    unsafe { device::ethtool(socket, interface, &mut state)? };
    let bytes: Vec<u8> = names[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let feature = |index: usize| {
        let block = &state[2 + index / 32 * 4..];
        let bit = |word: u32| word >> (index % 32) & 1 == 1;
        Feature {
            index,
            changeable: bit(block[0]) && !bit(block[3]),
            wanted: bit(block[1]),
            active: bit(block[2]),
        }
    };
    let names = bytes.chunks(NAME).map(|name| {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME);
        String::from_utf8_lossy(&name[..end]).into_owned()
    });
    Ok(names
        .enumerate()
        .filter(|(_, name)| !name.is_empty())
        .map(|(index, name)| (name, feature(index)))
        .collect())
}

/// Asks for features to be on or off. The kernel may not follow where one depends on another; read again to see.
pub(crate) fn write(socket: &OwnedFd, interface: &str, changes: &[(Feature, bool)]) -> io::Result<()> {
    let blocks = changes.iter().map(|(feature, _)| feature.index / 32 + 1).max().unwrap_or(0);
    if blocks == 0 {
        return Ok(());
    }
    // The kernel refuses a request of fewer blocks than it has, so ask for its number first.
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    // SAFETY: five words hold the request and the one length that is asked for.
    unsafe { device::ethtool(socket, interface, &mut info)? };
    let blocks = blocks.max((info[4] as usize).div_ceil(32));
    // command, blocks, then for each block: valid, requested
    let mut request = vec![0u32; 2 + 2 * blocks];
    request[..2].copy_from_slice(&[ETHTOOL_SFEATURES, blocks as u32]);
    for (feature, on) in changes {
        let block = 2 + feature.index / 32 * 2;
        request[block] |= 1 << (feature.index % 32);
        request[block + 1] |= u32::from(*on) << (feature.index % 32);
    }
    // SAFETY: there is room for as many blocks as the request says.
    unsafe { device::ethtool(socket, interface, &mut request) }
}
