//! A discipline of another crate is read, written, described and built like those of this one. What is registered stays
//! so for the life of a process, which is why this test has one of its own.

use weir_core::{Duration, Seed};
use weir_qdisc::config::{CodelKeys, Keys, RegisterError, Word, register};
use weir_qdisc::{BuildContext, ConfigError, Limit, Qdisc, QdiscConfig};

#[derive(Debug, PartialEq, serde::Deserialize, serde::Serialize)]
struct Document {
    qdisc: QdiscConfig,
}

fn toml(text: &str) -> Result<QdiscConfig, String> {
    let document = toml::from_str::<Document>(text);
    document.map(|document| document.qdisc).map_err(|error| error.message().to_owned())
}

fn words(text: &str) -> QdiscConfig {
    text.parse().unwrap()
}

fn link(rate: &str, rtt: &str) -> BuildContext {
    BuildContext { rate: rate.parse().unwrap(), rtt: rtt.parse().unwrap(), mtu: 1514, seed: Seed::default() }
}

/// Keys of a discipline as another crate has them.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TwiceKeys {
    limit: Limit,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<Duration>,
    even: bool,
}

impl Default for TwiceKeys {
    fn default() -> Self {
        Self { limit: Limit::Packets(10), hold: None, even: false }
    }
}

impl std::fmt::Display for TwiceKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "twice {}", self.limit)
    }
}

impl Keys for TwiceKeys {
    const WORDS: &'static [Word] = &[
        Word::value("limit", "10p"),
        Word::value("hold", "5ms"),
        Word::flag("even"),
        Word::no("odd", "even"),
    ];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        words("pfifo").build(context)
    }

    fn marks(&self) -> bool {
        self.even
    }
}

#[test]
fn what_is_registered_reads_and_writes_like_the_rest() {
    assert_eq!(register::<TwiceKeys>("codel"), Err(RegisterError::Taken("codel")));
    assert_eq!(register::<TwiceKeys>("two words"), Err(RegisterError::Name("two words")));
    assert!("twice limit 5p".parse::<QdiscConfig>().is_err());
    assert_eq!(register::<TwiceKeys>("twice"), Ok(()));
    assert_eq!(register::<TwiceKeys>("twice"), Err(RegisterError::Taken("twice")));

    let config = words("twice limit 5p hold 2ms even");
    assert_eq!((config.kind(), config.to_string().as_str(), config.marks()), ("twice", "twice 5p", true));
    assert_eq!(config.queue_names(), ["queue"]);
    assert!(config.build(&link("10mbit", "20ms")).is_ok());
    let table = "qdisc = {limit = '5p', hold = '2ms', even = true, kind = 'twice'}";
    assert_eq!(toml(table).as_ref(), Ok(&config));
    assert_eq!(toml("qdisc = 'twice limit 5p hold 2ms even'").as_ref(), Ok(&config));
    assert_ne!(words("twice limit 6p"), config);
    let written = toml::to_string(&Document { qdisc: config.clone() }).unwrap();
    assert_eq!(toml(&written).as_ref(), Ok(&config), "{written}");
    let json = serde_json::to_string(&config).unwrap();
    assert!(json.starts_with(r#"{"kind":"twice","#), "{json}");
    assert_eq!(serde_json::from_str::<QdiscConfig>(&json).unwrap(), config);
    let QdiscConfig::Registered(registered) = &config else { panic!("{config}") };
    assert_eq!(registered.keys::<TwiceKeys>().unwrap().hold, Some(Duration::from_millis(2)));
    assert!(registered.keys::<CodelKeys>().is_none());

    // Inside a crq its words are its own, and the kinds of the crate are read as ever.
    let inside = words("crq standard twice limit 3p responsive codel");
    assert_eq!(inside.to_string(), "crq(standard twice 3p, responsive codel 5ms/100ms, split hard 50:50)");
    let written = toml::to_string(&Document { qdisc: inside.clone() }).unwrap();
    assert_eq!(toml(&written).as_ref(), Ok(&inside), "{written}");
    assert_eq!(toml("qdisc = {ecn = true, kind = 'codel'}").as_ref(), Ok(&words("codel ecn")));

    for (line, says) in [
        ("twicee", "'twicee' is not a queue discipline; did you mean 'twice'?"),
        ("twice limt 5p", "'limt' is not a word of twice; did you mean 'limit'?"),
        ("twice hold soon", "hold soon"),
    ] {
        let error = line.parse::<QdiscConfig>().unwrap_err().to_string();
        assert!(error.contains(says), "{line}: {error}");
    }
    for (table, says) in [
        ("qdisc = {kind = 'twice', hold = 'soon'}", "soon"),
        ("qdisc = {kind = 'twice', target = '5ms'}", "unknown field `target`"),
        ("qdisc = {kind = 'twice', evenn = true}", "did you mean 'even'?"),
        ("qdisc = {kind = 'codel', even = true}", "unknown field `even`"),
    ] {
        let error = toml(table).unwrap_err();
        assert!(error.contains(says), "{table}: {error}");
    }
}
