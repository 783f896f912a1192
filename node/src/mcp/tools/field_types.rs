//! Types of tools' arguments: how each is read, and what clients are told of it.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::Value;
use tasuki_proto::{
    echo::echo,
    id::{BoardName, InvalidId, LoopId, RoleId},
    limits::TEXT_BYTES_MAX,
    mail::{BoxKind, MessageType},
    reason::Reason,
};

use super::arguments::{refuse, refuse_blank, too_long};

/// What clients are told of a type.
macro_rules! schema {
    ([$($generics:tt)*] $type:ty => $($schema:tt)*) => {
        impl<$($generics)*> schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($($schema)*)
            }
        }
    };
    ($type:ty => $($schema:tt)*) => {
        schema!([] $type => $($schema)*);
    };
}
pub(super) use schema;

/// A name without blanks around it. A number is one as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Name(pub String);

schema!(Name => { "type": "string" });

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Name, E> {
                match text.trim() {
                    "" => Err(refuse_blank()),
                    name => Ok(Name(name.to_owned())),
                }
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Names, each once: one, a list, a list as JSON in a text, or with commas between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names(pub Vec<String>);

schema!(Names => {
    "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
});

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a list of names")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Names, E> {
                if !text.trim_start().starts_with('[') {
                    return Ok(Names::unique(text.split(',')));
                }
                let items: Vec<Value> = serde_json::from_str(text)
                    .map_err(|_| E::invalid_type(serde::de::Unexpected::Str(text), &self))?;
                let name = |item: &Value| match item {
                    Value::String(name) => Ok(name.clone()),
                    Value::Number(number) => Ok(number.to_string()),
                    Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                        Err(E::invalid_type(serde::de::Unexpected::Str(text), &self))
                    }
                };
                let names = items.iter().map(name).collect::<Result<Vec<_>, E>>()?;
                Ok(Names::unique(names.iter().map(String::as_str)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = items.next_element::<Option<Name>>()? {
                    names.extend(name.map(|it| it.0));
                }
                Ok(Names::unique(names.iter().map(String::as_str)))
            }
        }
        deserializer.deserialize_any(OneOrMore)
    }
}

impl Names {
    fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut unique: Vec<String> = Vec::new();
        for name in names.map(str::trim).filter(|it| !it.is_empty()) {
            if !unique.iter().any(|it| it == name) {
                unique.push(name.to_owned());
            }
        }
        Self(unique)
    }
}

/// A text that says something, of so many bytes at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Text<const BYTES_MAX: usize = TEXT_BYTES_MAX>(pub String);

schema!([const BYTES_MAX: usize] Text<BYTES_MAX> => { "type": "string" });

impl<'de, const BYTES_MAX: usize> Deserialize<'de> for Text<BYTES_MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded<const BYTES_MAX: usize>;
        impl<const BYTES_MAX: usize> Visitor<'_> for Bounded<BYTES_MAX> {
            type Value = Text<BYTES_MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<BYTES_MAX>, E> {
                match text.len() {
                    bytes if BYTES_MAX < bytes => {
                        Err(refuse(Reason::TooLarge, too_long(bytes, BYTES_MAX)))
                    }
                    _ if text.trim().is_empty() => Err(refuse_blank()),
                    _ => Ok(Text(text.to_owned())),
                }
            }
        }
        deserializer.deserialize_str(Bounded)
    }
}

/// Seconds, in whole or in part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seconds(pub Duration);

schema!(Seconds => { "type": "number", "minimum": 0 });

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        let seconds = Duration::try_from_secs_f64(seconds);
        let why = "must be a number of seconds, 0 or more";
        seconds.map(Self).map_err(|_| refuse(Reason::InvalidArgument, why))
    }
}

/// What is named by a text of a certain form.
pub(super) trait ParseName: Sized {
    /// `Err`: why it is not, to follow the field's name.
    fn parse_name(name: &str) -> Result<Self, (Reason, String)>;
}

/// A name that is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id<T>(pub T);

schema!([T] Id<T> => { "type": "string" });

impl<'de, T: ParseName> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Name::deserialize(deserializer)?;
        T::parse_name(&name.0).map(Self).map_err(|(reason, why)| refuse(reason, why))
    }
}

impl ParseName for RoleId {
    fn parse_name(name: &str) -> Result<Self, (Reason, String)> {
        name.parse().map_err(|why| not_a_name(name, why))
    }
}

impl ParseName for LoopId {
    fn parse_name(name: &str) -> Result<Self, (Reason, String)> {
        name.parse().map_err(|why| not_a_name(name, why))
    }
}

impl ParseName for BoardName {
    fn parse_name(name: &str) -> Result<Self, (Reason, String)> {
        name.parse().map_err(|why| not_a_name(name, why))
    }
}

fn not_a_name(name: &str, why: InvalidId) -> (Reason, String) {
    (Reason::InvalidArgument, format!("is not a name: {} {why}", echo(name)))
}

/// What is chosen by a word.
pub(super) trait Words: Copy + 'static {
    const WORDS: &'static [(&'static str, Self)];
    /// Whether the schema lists them; else the field's description does.
    const ARE_LISTED: bool = true;
}

/// One of a few words, in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<T>(pub T);

impl<'de, T: Words> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Name(name) = Name::deserialize(deserializer)?;
        let found = T::WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(&name));
        found.map(|(_, it)| Self(*it)).ok_or_else(|| {
            let why = format!("is {}; use one of {}", echo(&name), words::<T>().join(", "));
            refuse(Reason::InvalidArgument, why)
        })
    }
}

impl<T: Words> JsonSchema for Word<T> {
    fn schema_name() -> Cow<'static, str> {
        "Word".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match T::ARE_LISTED {
            true => json_schema!({ "type": "string", "enum": words::<T>() }),
            false => json_schema!({ "type": "string" }),
        }
    }
}

fn words<T: Words>() -> Vec<&'static str> {
    T::WORDS.iter().map(|(word, _)| *word).collect()
}

impl Words for BoxKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("inbox", Self::Inbox),
        ("outbox", Self::Outbox),
        ("done", Self::Done),
        ("cancel", Self::Cancel),
    ];
}

impl Words for MessageType {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("BR", Self::Br),
        ("ACK", Self::Ack),
        ("ER", Self::Er),
        ("INFO", Self::Info),
        ("URGENT", Self::Urgent),
        ("DIS", Self::Dis),
    ];
}
