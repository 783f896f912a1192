//! Fields of events, read leniently: a field of an unexpected type is not there.
//!
//! Text borrows from the line where it can. Half a surrogate pair, which programs in JavaScript write
//! when they cut a text, and bytes that are no UTF-8 become U+FFFD.
//!
//! Not here: the events.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A text. Anything but a string is an error; `Option` takes null.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Str<'a>(pub(super) Cow<'a, str>);

impl Str<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text, or nothing.
pub(super) fn text<'t>(field: &'t Option<Str<'_>>) -> &'t str {
    field.as_ref().map_or("", Str::as_str)
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Str<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Str<'de>, E> {
                Ok(Str(String::from_utf8_lossy(bytes)))
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Str<'de>, E> {
                Ok(Str(Cow::Owned(String::from_utf8_lossy(bytes).into_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Str<'de>, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Str::default())
            }
        }
        // As bytes: serde_json refuses half a surrogate pair in a string, and takes it here.
        deserializer.deserialize_bytes(Visit)
    }
}

/// A count. Whatever is no number is 0, as is what is below it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Count(pub(super) u64);

/// A number as it stands, such as an amount of money. Whatever is no number is 0.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Number(pub(super) f64);

/// True only if it is `true`.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Flag(pub(super) bool);

/// A JSON value of which numbers and truth count.
#[derive(Debug, Default, Clone, Copy)]
struct Scalar {
    count: u64,
    number: f64,
    is_true: bool,
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Scalar, E> {
        Ok(Scalar { is_true, ..Scalar::default() })
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Scalar, E> {
        let number = count as f64;
        Ok(Scalar { count, number, is_true: false })
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        self.visit_u64(u64::try_from(number).unwrap_or(0))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar { count: saturate(number), number, is_true: false })
    }

    fn visit_str<E>(self, _: &str) -> Result<Scalar, E> {
        Ok(Scalar::default())
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::default())
    }
}

/// The nearest count: 0 for what is below it or no number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, and NaN becomes 0"
)]
pub(super) fn saturate(number: f64) -> u64 {
    number.round() as u64
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor).map(|scalar| Self(scalar.count))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor).map(|scalar| Self(scalar.number))
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor).map(|scalar| Self(scalar.is_true))
    }
}

/// The parts of a message, each handed to `T`. A message that is one string has none.
#[derive(Debug)]
pub(super) struct Parts<T>(pub(super) Vec<T>);

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// The parts of one message that are looked at.
const PARTS_MAX: usize = 4096;

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Parts<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = Parts<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("parts of a message")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Parts<T>, A::Error> {
                let mut parts = Vec::new();
                while parts.len() < PARTS_MAX {
                    match seq.next_element()? {
                        Some(part) => parts.push(part),
                        None => return Ok(Parts(parts)),
                    }
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Parts(parts))
            }

            fn visit_str<E>(self, _: &str) -> Result<Parts<T>, E> {
                Ok(Parts::default())
            }

            fn visit_unit<E>(self) -> Result<Parts<T>, E> {
                Ok(Parts::default())
            }
        }
        deserializer.deserialize_any(Visit(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        text: Option<Str<'a>>,
        #[serde(default)]
        count: Count,
    }

    #[test]
    fn half_a_surrogate_pair_and_bytes_that_are_no_text_are_replaced() {
        let event: Event<'_> = serde_json::from_slice(b"{\"text\":\"a\\ud83d!\"}").expect("read");
        assert!(text(&event.text).starts_with('a') && text(&event.text).ends_with('!'));
        let event: Event<'_> = serde_json::from_slice(b"{\"text\":\"a\xff!\"}").expect("read");
        assert_eq!(text(&event.text), "a\u{fffd}!");
    }

    #[test]
    fn a_count_of_another_type_is_none() {
        for (json, count) in [
            ("12", 12),
            ("-3", 0),
            ("2.6", 3),
            ("1e300", u64::MAX),
            ("null", 0),
            ("\"7\"", 0),
            ("[1,{}]", 0),
            ("{\"a\":1}", 0),
            ("true", 0),
        ] {
            let line = format!("{{\"count\":{json}}}");
            let event: Event<'_> = serde_json::from_str(&line).expect("read");
            assert_eq!(event.count.0, count, "{json}");
        }
    }
}
