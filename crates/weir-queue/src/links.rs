//! Lists of flows that take turns: doubly linked through one table, so that a flow is in one list at a time and moves
//! from list to list in constant time (the kernel's `flowchain`, a `struct list_head`).

/// No flow.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Neighbours {
    before: u32,
    after: u32,
}

/// The links of all flows of a discipline.
#[derive(Clone, Debug)]
pub struct Links(Vec<Neighbours>);

/// The ends of one list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NIL, last: NIL }
    }
}

impl List {
    /// The flow at its head.
    pub fn first(&self) -> Option<usize> {
        (self.first != NIL).then_some(self.first as usize)
    }

    /// Whether no flow is in it.
    pub fn is_empty(&self) -> bool {
        self.first == NIL
    }
}

impl Links {
    /// Links for flows `0..flows`, none of them in a list.
    pub fn new(flows: usize) -> Self {
        Self(vec![Neighbours { before: NIL, after: NIL }; flows])
    }

    /// Puts a flow that is in no list at the end of `list`.
    pub fn append(&mut self, list: &mut List, flow: usize) {
        self.0[flow] = Neighbours { before: list.last, after: NIL };
        match self.0.get_mut(list.last as usize) {
            Some(last) => last.after = flow as u32,
            None => list.first = flow as u32,
        }
        list.last = flow as u32;
    }

    /// Takes a flow out of `list`, in which it must be.
    pub fn remove(&mut self, list: &mut List, flow: usize) {
        let Neighbours { before, after } = self.0[flow];
        match self.0.get_mut(before as usize) {
            Some(link) => link.after = after,
            None => list.first = after,
        }
        match self.0.get_mut(after as usize) {
            Some(link) => link.before = before,
            None => list.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Links, List};

    fn drain(links: &mut Links, list: &mut List) -> Vec<usize> {
        let mut flows = Vec::new();
        while let Some(flow) = list.first() {
            links.remove(list, flow);
            flows.push(flow);
        }
        flows
    }

    #[test]
    fn flows_move_between_lists_from_any_place() {
        let mut links = Links::new(6);
        let (mut one, mut other) = (List::default(), List::default());
        (0..6).for_each(|flow| links.append(&mut one, flow));
        for flow in [3, 0, 5] {
            links.remove(&mut one, flow);
            links.append(&mut other, flow);
        }
        links.remove(&mut other, 0);
        links.append(&mut one, 0);
        assert_eq!(drain(&mut links, &mut one), [1, 2, 4, 0]);
        assert_eq!(drain(&mut links, &mut other), [3, 5]);
        assert!(one.is_empty() && other.is_empty());
    }
}
