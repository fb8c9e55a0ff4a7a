//! What the kernel's tracepoints announce of one device, counted by programs of the tests' own (bpf/witness.bpf.c).

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};

#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/witness.o")));

/// Counts until it goes.
pub(crate) struct Witness(
    Object,
    #[expect(dead_code, reason = "the programs go with their links")] Vec<Link>,
);

impl Witness {
    /// Of the queues of a device, by its index and the inode of its namespace.
    pub(crate) fn new(ifindex: u32, netns: u32) -> Self {
        let mut open = ObjectBuilder::default().open_memory(&OBJECT.0).unwrap();
        let mut settings =
            open.maps_mut().find(|map| map.name().to_string_lossy().ends_with("rodata")).unwrap();
        settings.set_initial_value(&[ifindex.to_ne_bytes(), netns.to_ne_bytes()].concat()).unwrap();
        let object = open.load().unwrap();
        let links = object.progs_mut().map(|program| program.attach().unwrap()).collect();
        Self(object, links)
    }

    /// Packets that were dropped, and packets that left, until now. What the driver gave back leaves again.
    pub(crate) fn seen(&self) -> (u64, u64) {
        let map = self.0.maps().find(|map| map.name() == "seen").unwrap();
        let count = |key: u32| {
            let bytes = map.lookup(&key.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
            u64::from_ne_bytes(bytes.try_into().unwrap())
        };
        (count(0), count(1))
    }
}
