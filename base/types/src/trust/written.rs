//! How a fault model is written in files: a word, or a table of numbers.
//!
//! ```text
//! fault_model = "byzantine"
//! fault_model = { kind = "visigoth", u = 2, s = 1, o = 1, t_ms = 50 }
//! ```

use super::{FaultModel, Visigoth};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The names of the numbers, in their order.
const NUMBERS: [&str; 4] = ["u", "s", "o", "t_ms"];
const KIND: &str = "kind";

impl Serialize for FaultModel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self::Visigoth(Visigoth { u, s, o, t_ms }) = *self else { return to.serialize_str(self.name()) };
        let mut map = to.serialize_map(Some(1 + NUMBERS.len()))?;
        map.serialize_entry(KIND, self.name())?;
        for (name, number) in NUMBERS.iter().zip([u, s, o, t_ms]) {
            map.serialize_entry(name, &number)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for FaultModel {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = FaultModel;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"crash\", \"byzantine\", or { kind = \"visigoth\", u = 2, s = 1, o = 0, t_ms = 50 }")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<FaultModel, E> {
        match word {
            "crash" => Ok(FaultModel::Crash),
            "byzantine" => Ok(FaultModel::Byzantine),
            _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
        }
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<FaultModel, M::Error> {
        let (mut kind, mut numbers) = (None::<String>, [None::<u32>; 4]);
        while let Some(key) = map.next_key::<String>()? {
            if key == KIND {
                kind = Some(map.next_value()?);
                continue;
            }
            let Some(at) = NUMBERS.iter().position(|name| *name == key) else {
                return Err(de::Error::unknown_field(&key, &[KIND, "u", "s", "o", "t_ms"]));
            };
            if numbers[at].replace(map.next_value()?).is_some() {
                return Err(de::Error::custom(format!("{key} is there twice")));
            }
        }
        match kind.as_deref() {
            Some("visigoth") => {}
            Some(word) if numbers.iter().all(Option::is_none) => return self.visit_str(word),
            Some(word) => {
                return Err(de::Error::custom(format!(
                    "only kind = \"visigoth\" has numbers, not \"{word}\""
                )));
            }
            None => return Err(de::Error::missing_field(KIND)),
        }
        let needed = |at: usize| numbers[at].ok_or_else(|| de::Error::missing_field(NUMBERS[at]));
        let numbers =
            Visigoth { u: needed(0)?, s: needed(1)?, o: needed(2)?, t_ms: numbers[3].unwrap_or_default() };
        numbers.check().map_err(de::Error::custom)?;
        Ok(FaultModel::Visigoth(numbers))
    }
}
