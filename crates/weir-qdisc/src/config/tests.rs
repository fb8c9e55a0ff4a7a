use super::{BuildContext, ConfigError, QdiscConfig};
use crate::Limit;
use crate::keys::Form;
use weir_core::{Duration, Rate, Seed};

#[derive(Debug, PartialEq, serde::Deserialize, serde::Serialize)]
struct Document {
    qdisc: QdiscConfig,
}

fn toml(text: &str) -> Result<QdiscConfig, String> {
    toml::from_str::<Document>(text)
        .map(|document| document.qdisc)
        .map_err(|error| error.message().to_owned())
}

fn words(text: &str) -> QdiscConfig {
    text.parse().unwrap()
}

fn link(rate: &str, rtt: &str) -> BuildContext {
    BuildContext { rate: rate.parse().unwrap(), rtt: rtt.parse().unwrap(), mtu: 1514, seed: Seed::default() }
}

fn refusal(text: &str) -> String {
    words(text).build(&link("100mbit", "20ms")).err().unwrap().to_string()
}

#[test]
fn words_and_tables_mean_the_same() {
    for (line, table) in [
        ("pfifo", "kind = 'pfifo'"),
        ("bfifo limit 64kb", "kind = 'bfifo'\nlimit = '64kb'"),
        (
            "codel ecn target 1ms interval 20ms limit 500p",
            "kind='codel'\necn=true\ntarget='1ms'\ninterval='20ms'\nlimit='500p'",
        ),
        (
            "codel ce_threshold 1ms ce_threshold_ect1 kernel 6.12 noecn",
            "kind='codel'\nce_threshold='1ms'\nce_threshold_ect1=true\nkernel='6.12'",
        ),
        (
            "crq standard bfifo limit 0.5bdp responsive codel ecn sharing 30:70 split shared switching drain",
            "kind='crq'\nstandard='bfifo limit 0.5bdp'\nresponsive={kind='codel', ecn=true}\nsharing='30:70'\n\
             split='shared'\nswitching='drain'",
        ),
        ("crq", "kind='crq'"),
        (
            "crq responsive red burst 30 min 20kb max 60kb limit 100kb split shared",
            "kind='crq'\nsplit='shared'\nresponsive={kind='red', burst=30, min='20kb', max='60kb', limit='100kb'}",
        ),
        ("step threshold 0.17bdp drop", "kind='step'\nthreshold='0.17bdp'\ndrop=true"),
        (
            "pie alpha 2 beta 20.5 ecn variant rfc8033",
            "kind='pie'\nalpha=2\nbeta=20.5\necn=true\nvariant='rfc8033'",
        ),
        ("pi2 coupling 1.64", "kind='pi2'\ncoupling=1.64"),
        ("pi2 coupling 3 scalable any decay", "kind='pi2'\ncoupling=3\nscalable='any'\ndecay=true"),
        ("curvy_red range_scalable 62.5ms ewma 4 curviness 4", "kind='curvy_red'\newma=4\ncurviness=4"),
        ("dualq_curvy threshold 2ms", "kind='dualq_curvy'\nvariant='paper'\nthreshold='2ms'"),
        ("dualq_curvy curviness 4 curviness_l 2", "kind='dualq_curvy'\ncurviness=4\ncurviness_l=2"),
        ("pie dq_rate_estimator", "kind='pie'\ndq_rate_estimator=true"),
        ("dualpi2 overflow c_protection 25", "kind='dualpi2'\ndrop_overload=false\nc_protection=25"),
        ("dualpi2 scalable any protect 5", "kind='dualpi2'\nscalable='any'\nprotect=5"),
        ("dualpi2 l4s_limit 1.5ms protect 5", "kind='dualpi2'\nl4s_limit='1.5ms'\nprotect=5"),
        ("dualq_curvy l4s_limit 8p", "kind='dualq_curvy'\nl4s_limit='8p'"),
        ("drr limit 50p quantum 3kb flows 16", "kind='drr'\nlimit='50p'\nquantum='3kb'\nflows=16"),
        ("fq initial_quantum 0b flow_limit 5p", "kind='fq'\ninitial_quantum=0\nflow_limit='5p'"),
        (
            "fq_codel noecn drop_batch 1 memory_limit 64kb kernel 6.12",
            "kind='fq_codel'\necn=false\ndrop_batch=1\nmemory_limit='64kb'\nkernel='6.12'",
        ),
        ("fq_pie ecn alpha 2", "kind='fq_pie'\necn=true\nalpha=2"),
        ("cake isolation dual-srchost unlimited", "kind='cake'\nisolation='dual-srchost'\nunlimited=true"),
        ("csaqm edge buckets edge_time 20ms", "kind='csaqm'\nedge='buckets'\nedge_time='20ms'"),
    ] {
        let config = words(line);
        assert_eq!(toml(&format!("[qdisc]\n{table}")).as_ref(), Ok(&config), "{line}");
        assert_eq!(toml(&format!("qdisc = '{line}'")).as_ref(), Ok(&config), "{line}");
        let written = toml::to_string(&Document { qdisc: config.clone() }).unwrap();
        assert_eq!(toml(&written).as_ref(), Ok(&config), "{written}");
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<QdiscConfig>(&json).unwrap(), config, "{json}");
        assert!(config.build(&link("1gbit", "20ms")).is_ok(), "{line}");
    }
}

#[test]
fn every_word_of_every_kind_is_a_key_and_takes_its_example() {
    for (kind, known) in QdiscConfig::KINDS.iter().zip(QdiscConfig::WORDS) {
        let usual = words(kind);
        assert_eq!(usual.kind(), *kind);
        assert!(usual.to_string().starts_with(kind), "{usual}");
        assert!(!usual.queue_names().is_empty());
        let written: toml::Table = toml::from_str(&toml::to_string(&usual).unwrap()).unwrap();
        for key in written.keys().filter(|key| *key != "kind") {
            assert!(known.iter().any(|word| word.key == key), "no word for {key} of {kind}");
        }
        for word in *known {
            let (line, table) = match word.form {
                Form::Value(example) | Form::Section(example) => {
                    (format!("{kind} {} {example}", word.word), format!("'{example}'"))
                }
                Form::Flag(value) => (format!("{kind} {}", word.word), value.to_string()),
            };
            let config: QdiscConfig = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            let number = match word.form {
                // A number in words is a number in a table.
                Form::Value(example)
                    if toml(&format!("qdisc = {{kind = '{kind}', {} = {table}}}", word.key)).is_err() =>
                {
                    example.to_owned()
                }
                _ => table,
            };
            let table = format!("qdisc = {{kind = '{kind}', {} = {number}}}", word.key);
            assert_eq!(toml(&table), Ok(config), "{line}: {table}");
        }
    }
}

#[test]
fn descriptions_fit_a_line() {
    for (line, description) in [
        ("pfifo", "pfifo 1000p"),
        ("codel ecn", "codel 5ms/100ms ecn"),
        ("codel target 100us interval 10us limit 1bdp", "codel 100us/10us limit 1bdp"),
        (
            "codel ce_threshold 1ms ce_threshold_ect1 kernel 6.12",
            "codel 5ms/100ms ce_threshold 1ms ect1 kernel 6.12",
        ),
        (
            "crq standard bfifo responsive codel ecn",
            "crq(standard bfifo 1bdp, responsive codel 5ms/100ms ecn, split hard 50:50)",
        ),
        (
            "crq sharing 1:3 burst 5p switching drain",
            "crq(standard bfifo 1bdp, responsive codel 5ms/100ms limit 1bdp, split hard 1:3 burst 5p, drain)",
        ),
        ("step threshold 5p limit 50p", "step 5p limit 50p"),
        ("red max 60kb ecn adaptive", "red max 60kb probability 0.02 ecn adaptive"),
        ("pie tupdate 16ms bytemode", "pie 15ms tupdate 16ms bytemode"),
        ("pi2 target 1ms alpha 10", "pi2 1ms alpha 10"),
        ("curvy_red ecn", "curvy_red 500ms/62.5ms ecn"),
        ("dualq_curvy variant rfc9332 min_th 0", "dualq_curvy rfc9332 min_th 0ns"),
        ("dualpi2 step 500us overflow", "dualpi2 15ms step 500us overflow"),
        ("drr flows 4", "drr flows 4"),
        (
            "fq limit 100p refill_delay 1ms ce_threshold 2ms",
            "fq limit 100p refill_delay 1ms ce_threshold 2ms",
        ),
        ("fq_codel noecn quantum 300b", "fq_codel 5ms/100ms quantum 300b noecn"),
        ("fq_pie burst 1ms bytemode", "fq_pie 15ms burst 1ms bytemode"),
        ("cake rtt 30ms isolation flows", "cake rtt 30ms flows"),
        ("csaqm target 1ms limit 1bdp edge none", "csaqm 1ms limit 1bdp edge none"),
        (
            "crq sharing strict split shared",
            "crq(standard bfifo 1bdp, responsive codel 5ms/100ms limit 1bdp, strict priority)",
        ),
        (
            "crq sharing flows split shared challenge 1s",
            "crq(standard bfifo 1bdp, responsive codel 5ms/100ms limit 1bdp, by flows, challenge 1s)",
        ),
    ] {
        assert_eq!(words(line).to_string(), description);
    }
}

#[test]
fn slips_are_answered_with_what_was_meant() {
    let kinds = QdiscConfig::KINDS.join(", ");
    assert!(kinds.contains("pfifo, bfifo, tbf, codel"));
    for (line, error) in [
        ("", format!("no queue discipline is named; give one of {kinds}").as_str()),
        ("coddle", "'coddle' is not a queue discipline; did you mean 'codel'?"),
        ("xyz", format!("'xyz' is not a queue discipline; known are {kinds}").as_str()),
        ("codel intervall 5ms", "'intervall' is not a word of codel; did you mean 'interval'?"),
        ("codel target", "'target' needs a value after it, such as 'target 5ms'"),
        ("codel target 5", "'target 5' is not a time such as 20us, 5ms or 1.5s: the unit is missing"),
        (
            "codel limit 1000",
            "'limit 1000' is not a limit such as 1000p (packets), 64kb (bytes), 20ms or 0.5bdp",
        ),
        ("dualpi2 coupling two", "'coupling two' is not a whole number"),
        ("dualpi2 coupling 256", "coupling 256: invalid value: integer `256`, expected u8"),
        ("pi2 coupling two", "'coupling two' is not a number"),
        ("pie alpha x", "'alpha x' is not a number"),
        ("step threshold 5", "'threshold 5' is not a threshold such as 1ms, 65p (packets), 64kb or 0.17bdp"),
        ("pie variant linux", "'variant linux' is not 'kernel' or 'rfc8033'"),
        ("codel ecn noecn", "'ecn' is given twice; leave one out"),
        ("crq standard split hard", "'standard' needs a value after it, such as 'standard codel ecn'"),
        ("crq responsive codel ecm", "'ecm' is not a word of codel; did you mean 'ecn'?"),
        (
            "crq split soft",
            "'split soft' is not 'hard' (each queue keeps to its share) or 'shared' (work-conserving)",
        ),
    ] {
        assert_eq!(line.parse::<QdiscConfig>().unwrap_err().to_string(), error, "{line}");
    }
    assert_eq!(
        toml("qdisc = {kind = 'codel', tagret = '5ms'}").unwrap_err(),
        "'tagret' is not a key of a queue discipline; did you mean 'target'?"
    );
    assert!(toml("qdisc = {kind = 'pfifo', target = '5ms'}").unwrap_err().contains("unknown field `target`"));
    assert!(toml("qdisc = {kind = 'codle'}").unwrap_err().contains("codel"));
    assert!(toml("qdisc = {limit = '5p'}").unwrap_err().contains("kind"));
    assert!(toml("qdisc = 7").unwrap_err().contains("codel ecn"));
    assert!(toml("qdisc = {kind = 'codel', noecn = true}").unwrap_err().contains("noecn"));
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    for (line, key) in [
        ("pfifo limit 64kb", "bfifo"),
        ("bfifo limit 10p", "pfifo"),
        ("bfifo limit 1513b", "1514"),
        ("bfifo limit 0bdp", "0bdp"),
        ("codel limit 1513b", "limit"),
        ("codel target 0", "target"),
        ("codel interval 1023ns", "interval"),
        ("codel interval 121s", "interval"),
        ("codel ce_threshold 1000s", "ce_threshold"),
        ("crq sharing 0:1", "sharing"),
        ("crq sharing 1:4000000000", "sharing: 1:4000000000 leaves the standard queue"),
        ("crq sharing 4000000000:1 split shared", "sharing: 4000000000:1 leaves the responsive queue"),
        ("crq sharing strict", "split"),
        ("crq sharing flows", "split"),
        ("crq challenge 1ms", "challenge"),
        ("crq burst 1513b", "burst"),
        ("crq burst 1bdp", "burst"),
        ("crq split shared burst 3p", "burst: with split shared"),
        ("crq standard crq", "standard"),
        ("crq responsive codel target 0", "responsive: target"),
        ("drr limit 64kb", "limit: a drr counts packets"),
        ("drr flows 0", "flows"),
        ("drr quantum 0b", "quantum"),
        ("fq flow_limit 0p", "flow_limit: 0p is 0 bytes"),
        ("pfifo limit 0p", "give more, such as 10p"),
        ("dualpi2 l4s_limit 100b", "l4s_limit: 100b is 100 bytes"),
        ("fq flow_limit 2kb", "flow_limit: a fq counts packets"),
        ("fq_codel flows 65537", "65536"),
        ("fq_codel quantum 255b", "quantum"),
        ("fq_codel interval 0", "interval"),
        ("fq_codel drop_batch 0", "drop_batch"),
        ("fq_codel memory_limit 1513b", "memory_limit"),
        ("fq_pie tupdate 0", "tupdate"),
        ("fq_pie quantum 2mb", "1048576"),
        ("cake rtt 5s", "rtt"),
        ("cake memory_limit 1kb", "memory_limit"),
        ("codel ce_threshold_ect1", "ce_threshold_ect1: there is no ce_threshold"),
        ("fq_codel ce_threshold_ect1", "ce_threshold_ect1: there is no ce_threshold"),
        ("csaqm update 0", "update"),
        ("csaqm edge none edge_time 20ms", "edge_time: with edge none"),
        ("csaqm limit 1513b", "limit"),
        ("crq standard fq_codel limit 0p", "standard: limit"),
    ] {
        let error = refusal(line);
        assert!(error.contains(key), "{line}: {error}");
    }
    assert_eq!(words("codel").build(&link("0", "1ms")).err(), Some(ConfigError::ZeroRate));
    let buckets = words("csaqm edge buckets");
    assert!(buckets.build(&link("1gbit", "5ms")).is_ok());
    let error = buckets.build(&link("10gbit", "5ms")).err().unwrap().to_string();
    assert!(error.starts_with("edge: ") && error.ends_with("use rate"), "{error}");
    assert!(words("codel target 1024ns interval 120s limit 1514b").build(&link("1mbit", "0")).is_ok());
}

#[test]
fn a_bdp_is_that_of_the_queues_own_share() {
    // 10 mbit and 2 ms are 2500 bytes: enough for one queue, too little for half of it.
    let link = link("10mbit", "2ms");
    assert!(words("bfifo").build(&link).is_ok());
    assert_eq!(
        words("crq").build(&link).err().unwrap().to_string(),
        "standard: limit: 1bdp is 1250 bytes here, less than one packet of 1514; give more, such as 15140b"
    );
    assert!(words("crq sharing strict split shared").build(&link).is_ok());
    let QdiscConfig::Codel(keys) = words("codel limit 1bdp") else { panic!("not codel") };
    let paper = BuildContext {
        rate: Rate::from_bits_per_sec(500_000_000),
        rtt: Duration::from_millis(100),
        mtu: 1514,
        seed: Seed::default(),
    };
    assert_eq!(keys.resolve(&paper).unwrap().limit, crate::QueueLimit::Packets(4166));
    assert_eq!(keys.limit, Limit::Bdp(1.0));
}

#[test]
fn cake_may_reorder_wherever_it_is() {
    let may = |words: &str| words.parse::<QdiscConfig>().unwrap().may_reorder();
    for words in ["cake", "crq standard cake", "crq responsive cake", "crq ecn_responsive cake"] {
        assert!(may(words), "{words}");
    }
    for words in ["fq_codel", "pfifo", "dualpi2 protect 5", "crq"] {
        assert!(!may(words), "{words}");
    }
}
