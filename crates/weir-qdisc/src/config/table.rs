//! Disciplines in configuration files: a table with `kind`, or a text of words.

use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{QdiscConfig, registered, words};

impl Serialize for QdiscConfig {
    /// Always as a table.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Registered(config) => config.serialize(serializer),
            _ => Self::serialize(self, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for QdiscConfig {
    /// From a table or from a line of words.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable)
    }
}

struct TextOrTable;

impl<'de> Visitor<'de> for TextOrTable {
    type Value = QdiscConfig;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a queue discipline: words such as \"codel ecn\", or a table with a kind")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<QdiscConfig, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<QdiscConfig, A::Error> {
        let map = MapAccessDeserializer::new(KnownKeys(map));
        if registered::kinds().next().is_none() {
            return QdiscConfig::deserialize(map);
        }
        // The kind may be the last of the keys, and says what the others are.
        let failed = |error: toml::de::Error| serde::de::Error::custom(error.message());
        match registered::from_table(toml::Table::deserialize(map)?) {
            Ok(config) => config.map(QdiscConfig::Registered).map_err(failed),
            Err(table) => QdiscConfig::deserialize(table).map_err(failed),
        }
    }
}

/// Lets only keys through that some discipline has, so that a slip is answered with the key that was meant. That a key
/// belongs to another discipline is found out by the derived code behind it.
struct KnownKeys<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for KnownKeys<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.0.next_key::<String>()? else {
            return Ok(None);
        };
        words::check_key(&key).map_err(serde::de::Error::custom)?;
        seed.deserialize(StringDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}
