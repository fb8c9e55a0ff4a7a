//! How a scenario's keys are declared: each once, as a field of its table, with its words for the reference page, its
//! default, its range and where it counts. Reading and writing, the check of ranges, the answer that only world `sim`
//! has a key, and the page's tables follow from that.

use std::fmt;

use weir_core::{Bytes, Duration, Rate};
use weir_testbed::traffic::Stack;

use crate::{Refusal, WorkloadKind};

/// A key of a table of scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    name: &'static str,
    /// What the value is, in the words of the page.
    value: &'static str,
    range: Range,
    /// What follows the bound in an error: its unit, or why it is there.
    because: &'static str,
    /// What holds if it is not given, in the words of the page.
    usual: &'static str,
    required: bool,
    meaning: &'static str,
    worlds: Worlds,
    stacks: Stacks,
    /// The kinds of workload that have it; all if there are none.
    kinds: &'static [WorkloadKind],
    is_delay: bool,
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
enum Range {
    /// Whatever its type reads.
    Any,
    From(Bound),
    Above(Bound),
    UpTo(Bound),
    Within(Bound, Bound),
}

/// The end of a range.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// Packets, bytes, bits per second, or another number.
    Number(u64),
    Time(Duration),
}

/// The worlds that have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worlds {
    All,
    /// `sim`.
    Sim,
    /// `kernel` and `vm`.
    Kernel,
}

impl Worlds {
    fn words(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Sim => "World `sim`",
            Self::Kernel => "Worlds `kernel` and `vm`",
        }
    }
}

/// The flows that may have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stacks {
    All,
    TcpAndQuic,
    Tcp,
    Quic,
    Udp,
}

impl Stacks {
    fn has(self, stack: Stack) -> bool {
        match self {
            Self::All => true,
            Self::TcpAndQuic => stack != Stack::Udp,
            Self::Tcp => stack == Stack::Tcp,
            Self::Quic => stack == Stack::Quic,
            Self::Udp => stack == Stack::Udp,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::All => "",
            Self::TcpAndQuic => "TCP and QUIC",
            Self::Tcp => "TCP",
            Self::Quic => "QUIC",
            Self::Udp => "UDP",
        }
    }
}

impl Key {
    /// A key whose value is `value`, in the words of the page: `rate`, `packets`, `true or false`.
    pub(crate) const fn of(value: &'static str) -> Self {
        Self {
            name: "",
            value,
            range: Range::Any,
            because: "",
            usual: "none",
            required: false,
            meaning: "",
            worlds: Worlds::All,
            stacks: Stacks::All,
            kinds: &[],
            is_delay: false,
        }
    }

    /// A number, a rate or a size from `least`.
    pub(crate) const fn least(self, least: u64) -> Self {
        Self { range: Range::From(Bound::Number(least)), ..self }
    }

    /// A time from `least`.
    pub(crate) const fn least_time(self, least: Duration) -> Self {
        Self { range: Range::From(Bound::Time(least)), ..self }
    }

    /// What is more than `least`.
    pub(crate) const fn above(self, least: u64) -> Self {
        Self { range: Range::Above(Bound::Number(least)), ..self }
    }

    /// A number up to `most`.
    pub(crate) const fn up_to(self, most: u64) -> Self {
        Self { range: Range::UpTo(Bound::Number(most)), ..self }
    }

    /// A time up to `most`.
    pub(crate) const fn up_to_time(self, most: Duration) -> Self {
        Self { range: Range::UpTo(Bound::Time(most)), ..self }
    }

    /// A number from `least` to `most`.
    pub(crate) const fn within(self, least: u64, most: u64) -> Self {
        Self { range: Range::Within(Bound::Number(least), Bound::Number(most)), ..self }
    }

    /// What errors about the range say after the bound.
    pub(crate) const fn because(self, because: &'static str) -> Self {
        Self { because, ..self }
    }

    /// What holds if it is not given, in the words of the page.
    pub(crate) const fn usual(self, usual: &'static str) -> Self {
        Self { usual, ..self }
    }

    /// It must be given.
    pub(crate) const fn required(self) -> Self {
        Self { usual: "required", required: true, ..self }
    }

    /// Only world `sim` has it.
    pub(crate) const fn sim(self) -> Self {
        Self { worlds: Worlds::Sim, ..self }
    }

    /// Only worlds whose queues are the kernel's have it.
    pub(crate) const fn kernel(self) -> Self {
        Self { worlds: Worlds::Kernel, ..self }
    }

    /// Only flows over TCP and QUIC have it.
    pub(crate) const fn tcp_and_quic(self) -> Self {
        Self { stacks: Stacks::TcpAndQuic, ..self }
    }

    /// Only flows over TCP have it.
    pub(crate) const fn tcp(self) -> Self {
        Self { stacks: Stacks::Tcp, ..self }
    }

    /// Only flows over QUIC have it.
    pub(crate) const fn quic(self) -> Self {
        Self { stacks: Stacks::Quic, ..self }
    }

    /// Only flows over UDP have it.
    pub(crate) const fn udp(self) -> Self {
        Self { stacks: Stacks::Udp, ..self }
    }

    /// Only workloads of these kinds have it.
    pub(crate) const fn kinds(self, kinds: &'static [WorkloadKind]) -> Self {
        Self { kinds, ..self }
    }

    /// A time that packets need, for which there is a lower limit than for times in general.
    pub(crate) const fn delay(self) -> Self {
        Self { is_delay: true, ..self }
    }

    /// Called so, with this meaning: what [`keys!`] takes from the field.
    pub(crate) const fn declared(self, name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, ..self }
    }

    /// As scenarios write it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether other worlds than `sim` refuse it.
    pub fn only_in_sim(&self) -> bool {
        self.worlds == Worlds::Sim
    }

    /// What is wrong with a value of it.
    #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "what is not a number is in no range")]
    fn fault(&self, value: &dyn Value) -> Option<String> {
        let amount = value.amount()?;
        let because = self.because;
        match self.range {
            Range::From(least) if !(amount >= least.amount()) => {
                Some(format!("must be at least {least}{because}"))
            }
            Range::Above(least) if !(amount > least.amount() && amount.is_finite()) => {
                Some(format!("must be above {least}{because}"))
            }
            Range::UpTo(most) if !(amount <= most.amount()) => {
                Some(format!("must be at most {most}{because}"))
            }
            Range::Within(least, most) if !(least.amount()..=most.amount()).contains(&amount) => {
                Some(format!("must lie between {least} and {most}{because}"))
            }
            _ => None,
        }
    }

    /// Why a flow over `stack` cannot have it.
    pub(crate) fn refused_by(&self, stack: Stack) -> Option<String> {
        (!self.stacks.has(stack))
            .then(|| format!("only {} flows have it; remove the key", self.stacks.words()))
    }

    /// What is wrong with its being given, or not, in a workload of this kind.
    pub(crate) fn refused_of(&self, kind: WorkloadKind, is_given: bool) -> Option<String> {
        let (has, name) = (self.kinds.contains(&kind), kind.name());
        if self.kinds.is_empty() {
            None
        } else if is_given && !has {
            Some(format!("a workload of kind \"{name}\" has none; remove the key"))
        } else if !is_given && has && self.required {
            Some(format!("is missing; a workload of kind \"{name}\" needs it"))
        } else {
            None
        }
    }

    /// Its row of the page's table; `kinds` is whether the table says which workloads have it.
    fn row(&self, kinds: bool) -> String {
        let code = |bound: Bound| match bound {
            Bound::Number(number) => number.to_string(),
            Bound::Time(time) => format!("`{time}`"),
        };
        let range = match self.range {
            Range::Any => String::new(),
            Range::From(least) => format!("from {}", code(least)),
            Range::Above(least) => format!("above {}", code(least)),
            Range::UpTo(most) => format!("up to {}", code(most)),
            Range::Within(least, most) => format!("{} to {}", code(least), code(most)),
        };
        let of = match self.kinds {
            _ if !kinds => String::new(),
            [] => " all |".to_owned(),
            kinds => {
                let names: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.name())).collect();
                format!(" {} |", names.join(", "))
            }
        };
        let where_ = match (self.worlds.words(), self.stacks.words()) {
            ("", "") => String::new(),
            (only, "") | ("", only) => format!(". {only}"),
            (worlds, stacks) => format!(". {worlds}, {stacks}"),
        };
        let (name, usual, value) = (self.name, self.usual, self.value);
        let value = format!("{value} {range}");
        let meaning = self.meaning.trim();
        let meaning = meaning.strip_suffix('.').filter(|kept| !kept.ends_with('.')).unwrap_or(meaning);
        format!("| `{name}` |{of} {} | {usual} | {meaning}{where_} |", value.trim())
    }
}

impl Bound {
    fn amount(self) -> f64 {
        match self {
            Self::Number(number) => number as f64,
            Self::Time(time) => time.as_nanos() as f64,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Time(time) => time.fmt(f),
        }
    }
}

/// The value of a key, as far as the rules that hold for all keys look at it.
pub(crate) trait Value {
    /// Whether it asks for something that its default does not.
    fn is_given(&self) -> bool {
        true
    }

    /// What ranges bound: nanoseconds, bits per second, bytes, or the number itself.
    fn amount(&self) -> Option<f64> {
        None
    }

    /// What [`bounds`](crate::bounds) bounds.
    fn quantity(&self) -> Option<Quantity> {
        None
    }
}

/// A quantity with a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quantity {
    Rate(Rate),
    Time(Duration),
    Bytes(Bytes),
}

impl<T: Value> Value for Option<T> {
    fn is_given(&self) -> bool {
        self.is_some()
    }

    fn amount(&self) -> Option<f64> {
        self.as_ref()?.amount()
    }

    fn quantity(&self) -> Option<Quantity> {
        self.as_ref()?.quantity()
    }
}

impl<T> Value for Vec<T> {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }
}

impl Value for String {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }
}

impl Value for bool {
    fn is_given(&self) -> bool {
        *self
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn amount(&self) -> Option<f64> {
                Some(*self as f64)
            }
        }
    )*};
}
numbers!(u32, u64, f64);

impl Value for Rate {
    fn amount(&self) -> Option<f64> {
        Some(self.bits_per_sec() as f64)
    }

    fn quantity(&self) -> Option<Quantity> {
        Some(Quantity::Rate(*self))
    }
}

impl Value for Duration {
    fn amount(&self) -> Option<f64> {
        Some(self.as_nanos() as f64)
    }

    fn quantity(&self) -> Option<Quantity> {
        Some(Quantity::Time(*self))
    }
}

impl Value for Bytes {
    fn amount(&self) -> Option<f64> {
        Some(self.0 as f64)
    }

    fn quantity(&self) -> Option<Quantity> {
        Some(Quantity::Bytes(*self))
    }
}

/// Values without a range, which are there or not.
macro_rules! plain {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::key::Value for $type {}
    )*};
}
pub(crate) use plain;
plain!(Stack);

/// A table of a scenario.
pub(crate) trait Table {
    /// Its keys, in the order of its fields.
    const KEYS: &'static [Key];

    /// Their values, in the same order.
    fn values(&self) -> Vec<&dyn Value>;

    /// Its keys with their values.
    fn entries(&self) -> impl Iterator<Item = (&'static Key, &dyn Value)> {
        Self::KEYS.iter().zip(self.values())
    }

    /// Those that are given.
    fn given(&self) -> impl Iterator<Item = &'static Key> {
        self.entries().filter(|(_, value)| value.is_given()).map(|(key, _)| key)
    }

    /// The first that is given and that only these worlds have.
    fn given_of(&self, worlds: Worlds) -> Option<&'static str> {
        self.given().find(|key| key.worlds == worlds).map(|key| key.name)
    }

    /// The first value that is outside the range of its key.
    fn check_ranges(&self) -> Result<(), Refusal> {
        let fault = |(key, value): (&Key, &dyn Value)| Some(Refusal::new(key.name, key.fault(value)?));
        self.entries().find_map(fault).map_or(Ok(()), Err)
    }

    /// Quantities with a unit, with the names of their keys and whether they are delays.
    fn quantities(&self) -> impl Iterator<Item = (&'static str, Quantity, bool)> {
        self.entries().filter_map(|(key, value)| Some((key.name, value.quantity()?, key.is_delay)))
    }
}

/// The table of a reference page about some keys.
pub(crate) fn page(keys: &[Key]) -> String {
    let kinds = keys.iter().any(|key| !key.kinds.is_empty());
    let of = if kinds { [" of |", "---|"] } else { [""; 2] };
    let mut page =
        format!("| key |{} type, range | default | meaning |\n|---|{}---|---|---|\n", of[0], of[1]);
    for key in keys {
        page.push_str(&key.row(kinds));
        page.push('\n');
    }
    page
}

/// Declares a table: a field for each key, what it is if it is not given, and after `=>` what the key is. The field's
/// comment is the key's meaning on the page. The function makes a table of its arguments and of defaults.
macro_rules! keys {
    (
        $(#[$about:meta])*
        pub struct $table:ident;
        $(#[$made:meta])*
        pub fn $new:ident($($argument:ident: $given:ty),*);
        $(
            $(#[doc = $doc:literal])* $(#[serde($($serde:tt)*)])?
            $key:ident: $type:ty = $default:expr => $declared:expr;
        )*
    ) => {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[$about])*
        #[serde(deny_unknown_fields)]
        pub struct $table {
            $($(#[doc = $doc])* $(#[serde($($serde)*)])? pub $key: $type,)*
        }

        impl $table {
            $(#[$made])*
            pub fn $new($($argument: $given),*) -> Self {
                Self { $($key: $default,)* }
            }
        }

        impl $crate::key::Table for $table {
            const KEYS: &'static [$crate::key::Key] = {
                use $crate::key::Key;
                &[$($declared.declared(stringify!($key), concat!($($doc),*)),)*]
            };

            fn values(&self) -> Vec<&dyn $crate::key::Value> {
                vec![$(&self.$key),*]
            }
        }
    };
}
pub(crate) use keys;
