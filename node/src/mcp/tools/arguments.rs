//! A tool's arguments as models write them, read into the tool's struct.
//!
//! A number or a flag in quotes is taken for what it says, `3.0` for 3, and one value for a list
//! of one. `null` is absent, and so is a blank text where the field is optional. Anything else that
//! does not fit is refused by the name of its field. Texts are whole or refused, never cut.

use std::{collections::BTreeSet, fmt, marker::PhantomData};

use parking_lot::Mutex;
use rmcp::model::JsonObject;
use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error, Expected, MapAccess, SeqAccess, Unexpected,
        Visitor,
        value::{BorrowedStrDeserializer, MapAccessDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::Value;
use tasuki_proto::{echo::echo, limits::TEXT_BYTES_MAX, reason::Reason};

use crate::role::Refusal;

/// Paths of fields that a tool does not have.
pub(super) type UnknownFields = Mutex<BTreeSet<String>>;

/// Reads a call's arguments. `unknown` gets the paths of fields that `T` does not have.
pub(super) fn read<T: DeserializeOwned>(
    arguments: &JsonObject,
    unknown: &UnknownFields,
) -> Result<T, ArgumentError> {
    let fields = Fields::new(arguments, "", "", unknown);
    T::deserialize(MapAccessDeserializer::new(fields)).inspect_err(|error| {
        let unfit = error.at.as_deref().and_then(|at| at.split(['.', '[']).next());
        let mut rest = arguments.clone();
        if unfit.and_then(|field| rest.remove(field)).is_some() {
            // Reading ended there, and unknown fields may stand behind it.
            drop(read::<T>(&rest, unknown));
        }
    })
}

/// Reads one of a call's arguments; `None`: it is absent.
pub(super) fn read_field<T: DeserializeOwned>(
    arguments: &JsonObject,
    field: &str,
) -> Result<Option<T>, Refusal> {
    let unknown = UnknownFields::default();
    let Some(value) = arguments.get(field).filter(|it| !it.is_null()) else { return Ok(None) };
    let argument = Argument { value, at: field.to_owned(), path: String::new(), unknown: &unknown };
    argument.read(PhantomData::<Option<T>>).map_err(|error| error.refusal(&JsonObject::new()))
}

/// A value of a call.
struct Argument<'a> {
    value: &'a Value,
    /// Where it stands: `results[0].output`.
    at: String,
    /// The same without places in lists.
    path: String,
    unknown: &'a UnknownFields,
}

impl Argument<'_> {
    /// Reads it, and says where it stands if it does not fit.
    fn read<'de, S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, ArgumentError>
    where
        Self: Deserializer<'de, Error = ArgumentError>,
    {
        let (at, value) = (self.at.clone(), self.value);
        seed.deserialize(self).map_err(|error| error.or_at(&at, value))
    }

    fn text(&self) -> Option<&str> {
        self.value.as_str().map(str::trim)
    }

    fn signed(&self) -> Option<i64> {
        if let Some(text) = self.text() {
            return text.parse().ok();
        }
        self.value.as_i64().or_else(|| {
            let number = self.value.as_f64()?;
            let size = i64::try_from(whole(number.abs())?).ok()?;
            Some(if number < 0.0 { -size } else { size })
        })
    }

    fn unsigned(&self) -> Option<u64> {
        if let Some(text) = self.text() {
            return text.parse().ok();
        }
        self.value.as_u64().or_else(|| whole(self.value.as_f64()?))
    }

    fn float(&self) -> Option<f64> {
        self.value.as_f64().or_else(|| self.text()?.parse().ok())
    }

    fn flag(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.text()?.to_ascii_lowercase().parse().ok())
    }
}

/// `3.0` is 3, as some models write it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within the range that a float holds exactly"
)]
fn whole(number: f64) -> Option<u64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number)).then_some(number as u64)
}

/// Takes a scalar as it is meant, or says what `$expected` is.
macro_rules! scalars {
    ($($deserialize:ident, $read:ident, $visit:ident, $expected:literal;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ArgumentError> {
            visitor.$visit(self.$read().ok_or_else(|| misfit($expected))?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Argument<'de> {
    type Error = ArgumentError;

    scalars! {
        deserialize_bool, flag, visit_bool, "true or false";
        deserialize_u32, unsigned, visit_u64, "a whole number, 0 or more";
        deserialize_u64, unsigned, visit_u64, "a whole number, 0 or more";
        deserialize_i32, signed, visit_i64, "a whole number";
        deserialize_f64, float, visit_f64, "a number";
    }

    /// As it is written, for types that know several forms.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ArgumentError> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Number(number) => visitor.visit_string(number.to_string()),
            Value::String(_) => self.deserialize_str(visitor),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ArgumentError> {
        visitor.visit_borrowed_str(self.value.as_str().ok_or_else(|| misfit("a text"))?)
    }

    /// A text for another agent.
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ArgumentError> {
        match self.value.as_str().map_or(0, str::len) {
            bytes if TEXT_BYTES_MAX < bytes => {
                Err(refuse(Reason::TooLarge, too_long(bytes, TEXT_BYTES_MAX)))
            }
            _ => self.deserialize_str(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ArgumentError> {
        match self.text() {
            Some("") => visitor.visit_none(),
            Some(_) | None => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ArgumentError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ArgumentError> {
        let items = match self.value {
            Value::Array(items) => items,
            Value::Object(_) => return Err(misfit("a list")),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return visitor.visit_seq(Items(std::iter::once(self)));
            }
        };
        visitor.visit_seq(Items(items.iter().enumerate().map(|(place, value)| Self {
            value,
            at: format!("{}[{place}]", self.at),
            path: self.path.clone(),
            unknown: self.unknown,
        })))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ArgumentError> {
        let Value::Object(object) = self.value else { return Err(misfit("an object")) };
        visitor.visit_map(Fields::new(object, &self.at, &self.path, self.unknown))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ArgumentError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, ArgumentError> {
        self.unknown.lock().insert(self.path);
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i64 i128 u8 u16 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct
        enum identifier
    }
}

/// The fields of an object that say something.
struct Fields<'a> {
    left: serde_json::map::Iter<'a>,
    at: String,
    path: String,
    value: Option<Argument<'a>>,
    unknown: &'a UnknownFields,
}

impl<'a> Fields<'a> {
    fn new(object: &'a JsonObject, at: &str, path: &str, unknown: &'a UnknownFields) -> Self {
        let (at, path) = (at.to_owned(), path.to_owned());
        Self { left: object.iter(), at, path, value: None, unknown }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = ArgumentError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ArgumentError> {
        let Some((name, value)) = self.left.find(|(_, value)| !value.is_null()) else {
            return Ok(None);
        };
        let (at, path) = (join(&self.at, name), join(&self.path, name));
        self.value = Some(Argument { value, at, path, unknown: self.unknown });
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ArgumentError> {
        self.value.take().expect("a value follows its key").read(seed)
    }
}

fn join(at: &str, field: &str) -> String {
    if at.is_empty() { field.to_owned() } else { format!("{at}.{field}") }
}

struct Items<I>(I);

impl<'de, I: Iterator<Item = Argument<'de>>> SeqAccess<'de> for Items<I> {
    type Error = ArgumentError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ArgumentError> {
        self.0.next().map(|item| item.read(seed)).transpose()
    }
}

/// Why arguments do not fit.
#[derive(Debug)]
pub(super) struct ArgumentError {
    /// Where; `None`: whoever found it does not know.
    at: Option<String>,
    fault: Fault,
}

#[derive(Debug)]
enum Fault {
    Missing {
        field: String,
    },
    /// It has to say something.
    Blank,
    /// It is of another kind.
    Misfit {
        expected: String,
    },
    Unfit {
        reason: Reason,
        why: String,
    },
}

/// `expected` says what fits.
fn misfit(expected: impl fmt::Display) -> ArgumentError {
    ArgumentError { at: None, fault: Fault::Misfit { expected: expected.to_string() } }
}

/// Between a reason and its text in an error of serde, which is a text alone.
const REASON_END: char = '\u{1f}';

/// Refuses a value by its type's own rules.
pub(super) fn refuse<E: Error>(reason: Reason, why: impl fmt::Display) -> E {
    E::custom(format_args!("{}{REASON_END}{why}", reason.as_str()))
}

/// Refuses a text that says nothing.
pub(super) fn refuse_blank<E: Error>() -> E {
    E::custom("")
}

/// How the refusal of a text by its size begins.
pub(super) fn too_long(bytes: usize, bytes_max: usize) -> String {
    format!("is {bytes} bytes long; the limit is {bytes_max}")
}

impl Error for ArgumentError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        let text = text.to_string();
        let coded = text.split_once(REASON_END);
        let coded = coded.and_then(|(reason, why)| Some((Reason::parse(reason)?, why.to_owned())));
        let fault = match coded {
            Some((reason, why)) => Fault::Unfit { reason, why },
            None if text.is_empty() => Fault::Blank,
            None => Fault::Unfit { reason: Reason::InvalidArgument, why: text },
        };
        Self { at: None, fault }
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        misfit(expected)
    }

    /// Numbers alone are checked by serde itself: whether they fit their type.
    fn invalid_value(_: Unexpected<'_>, _: &dyn Expected) -> Self {
        Self::custom("is too large")
    }

    fn missing_field(field: &'static str) -> Self {
        Self { at: None, fault: Fault::Missing { field: field.to_owned() } }
    }

    /// Of a type that takes no others.
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let field = echo(field);
        Self::custom(format_args!("has no field {field}; its fields are {}", expected.join(", ")))
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for ArgumentError {}

impl ArgumentError {
    /// Says where it was found, at which value, unless that is known.
    fn or_at(self, at: &str, value: &Value) -> Self {
        /// Of the value shown back, in characters.
        const SHOWN_CHARS_MAX: usize = 60;
        let at = match (self.at, &self.fault) {
            (Some(known), _) => return Self { at: Some(known), ..self },
            (None, Fault::Missing { field }) => join(at, field),
            (None, _) => at.to_owned(),
        };
        let fault = match self.fault {
            Fault::Misfit { expected } => {
                let shown: String = value.to_string().chars().take(SHOWN_CHARS_MAX).collect();
                let why = format!("must be {expected}, not {shown}");
                Fault::Unfit { reason: Reason::InvalidArgument, why }
            }
            fault @ (Fault::Missing { .. } | Fault::Blank | Fault::Unfit { .. }) => fault,
        };
        Self { at: Some(at), fault }
    }

    /// The refusal. `schema` says what a missing field is for.
    pub(super) fn refusal(self, schema: &JsonObject) -> Refusal {
        let at = match (&self.at, &self.fault) {
            (None, Fault::Missing { field }) => field.clone(),
            (at, _) => at.clone().unwrap_or_default(),
        };
        match self.fault {
            Fault::Missing { .. } => missing(&at, &purpose(schema, &at)),
            Fault::Blank => invalid(&at, &format_args!("is empty: {}", purpose(schema, &at))),
            Fault::Misfit { expected } => invalid(&at, &format_args!("must be {expected}")),
            Fault::Unfit { reason: Reason::InvalidArgument, why } => invalid(&at, &why),
            Fault::Unfit { reason: Reason::TooLarge, why } => Refusal {
                reason: Reason::TooLarge,
                message: format!(
                    "`{at}` {why}. No change was made. Shorten it, or write it to a file and give \
                     the path."
                ),
            },
            Fault::Unfit { reason, why } => {
                Refusal { reason, message: format!("`{at}` {why}. No change was made.") }
            }
        }
    }
}

/// What the field at this path is for, as its schema says.
fn purpose(schema: &JsonObject, at: &str) -> String {
    let mut found = None;
    let mut within = Some(schema);
    for name in at.split('.') {
        let name = name.split('[').next().unwrap_or_default();
        found = within.and_then(|it| it.get("properties")?.get(name));
        within = found.and_then(|it| it.get("items").unwrap_or(it).as_object());
    }
    let Some(field) = found else { return "give a value".to_owned() };
    if let Some(values) = field["enum"].as_array() {
        let text = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
        return format!("give one of {}", values.iter().map(text).collect::<Vec<_>>().join(", "));
    }
    match (field["description"].as_str(), field["type"].as_str()) {
        (Some(description), _) => description.trim_end_matches('.').to_owned(),
        (None, Some("object")) => "give an object".to_owned(),
        (None, Some("array")) => "give a list".to_owned(),
        (None, Some("boolean")) => "give true or false".to_owned(),
        (None, Some("integer" | "number")) => "give a number".to_owned(),
        (None, _) => "give a text".to_owned(),
    }
}

pub(super) fn missing(field: &str, what: &str) -> Refusal {
    invalid(field, &format_args!("is missing: {what}"))
}

pub(super) fn invalid(field: &str, why: &dyn fmt::Display) -> Refusal {
    Refusal {
        reason: Reason::InvalidArgument,
        message: format!("`{field}` {why}. No change was made. Fix the argument and retry."),
    }
}

/// Reads arguments without a schema to say what is missing.
#[cfg(test)]
pub(super) fn read_all<T: DeserializeOwned>(arguments: &JsonObject) -> Result<T, Refusal> {
    read(arguments, &UnknownFields::default()).map_err(|error| error.refusal(&JsonObject::new()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde::Deserialize;
    use serde_json::json;
    use tasuki_proto::{id::RoleId, mail::BoxKind};

    use super::{
        super::field_types::{Id, Name, Names, Seconds, Text, Word},
        *,
    };

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Arguments {
        flag: bool,
        count: Option<u32>,
        code: i32,
        text: String,
        short: Option<Text<8>>,
        name: Option<Name>,
        names: Names,
        list: Vec<String>,
        after: Option<Seconds>,
        role: Option<Id<RoleId>>,
        place: Option<Word<BoxKind>>,
        parts: Vec<Part>,
    }

    #[derive(Debug, Deserialize)]
    struct Part {
        is_open: bool,
    }

    fn taken(arguments: Value) -> Arguments {
        read_all(arguments.as_object().unwrap()).unwrap()
    }

    fn refused(arguments: Value) -> Refusal {
        read_all::<Arguments>(arguments.as_object().unwrap()).unwrap_err()
    }

    #[test]
    fn what_models_write_is_taken_as_it_is_meant() {
        let it = taken(json!({
            "flag": " True ", "count": "7", "code": -2.0, "text": " x ", "short": " y ",
            "name": 5, "list": "one", "after": "0.5", "role": " A ", "place": "OUTBOX",
            "parts": [{ "is_open": "false" }],
        }));
        assert_eq!((it.flag, it.count, it.code, it.parts[0].is_open), (true, Some(7), -2, false));
        assert_eq!((it.text.as_str(), it.short.unwrap().0.as_str()), (" x ", " y "));
        assert_eq!((it.name.unwrap().0.as_str(), it.list), ("5", vec!["one".to_owned()]));
        assert_eq!(it.after.unwrap().0, Duration::from_millis(500));
        assert_eq!((it.role.unwrap().0.as_str(), it.place.unwrap().0), ("A", BoxKind::Outbox));
    }

    #[test]
    fn nothing_is_absent() {
        for nothing in [json!(null), json!(""), json!(" ")] {
            let it = taken(json!({ "count": nothing, "name": nothing, "role": nothing,
                "place": nothing, "short": nothing, "after": nothing }));
            assert!(it.count.is_none() && it.name.is_none() && it.role.is_none());
            assert!(it.place.is_none() && it.short.is_none() && it.after.is_none());
        }
        assert!(!taken(json!({ "flag": null })).flag);
    }

    #[test]
    fn names_are_taken_in_every_form_each_once() {
        for (names, expected) in [
            (json!("a"), "a"),
            (json!(" a, b ,,a"), "a b"),
            (json!(["a ", 7, "", "a"]), "a 7"),
            (json!(" [\"a\", 7]"), "a 7"),
            (json!(7), "7"),
            (json!([]), ""),
        ] {
            assert_eq!(taken(json!({ "names": names })).names.0.join(" "), expected, "{names}");
        }
        for names in [json!({}), json!(true), json!([{}]), json!("[\"a\""), json!("[{}]")] {
            let why = refused(json!({ "names": names }));
            assert!(why.message.starts_with("`names"), "{names}: {}", why.message);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_its_field() {
        for (arguments, words) in [
            (json!({ "flag": 1 }), "`flag` must be true or false, not 1. No change was made."),
            (json!({ "count": -1 }), "`count` must be a whole number, 0 or more, not -1."),
            (json!({ "count": 1.5 }), "`count` must be a whole number, 0 or more, not 1.5."),
            (json!({ "count": u64::MAX }), "`count` is too large."),
            (json!({ "code": "x" }), "`code` must be a whole number, not \"x\"."),
            (json!({ "text": 5 }), "`text` must be a text, not 5."),
            (json!({ "name": ["x"] }), "`name` must be a text, not [\"x\"]."),
            (json!({ "list": ["x", 5] }), "`list[1]` must be a text, not 5."),
            (json!({ "list": { "a": 1 } }), "`list` must be a list, not {\"a\":1}."),
            (json!({ "after": -1 }), "`after` must be a number of seconds, 0 or more"),
            (json!({ "role": "a b" }), "`role` is not a name: \"a b\""),
            (json!({ "place": "x" }), "`place` is \"x\"; use one of inbox, outbox, done, cancel."),
            (json!({ "parts": [{}] }), "`parts[0].is_open` is missing"),
            (json!({ "parts": ["x"] }), "`parts[0]` must be an object, not \"x\"."),
        ] {
            let why = refused(arguments);
            assert_eq!(why.reason, Reason::InvalidArgument);
            assert!(why.message.starts_with(words), "{words}: {}", why.message);
        }
        let long = json!({ "text": "x".repeat(TEXT_BYTES_MAX + 1) });
        for arguments in [json!({ "short": "123456789" }), long] {
            let why = refused(arguments);
            assert_eq!(why.reason, Reason::TooLarge);
            assert!(why.message.contains("bytes long; the limit is"), "{}", why.message);
        }
    }

    #[test]
    fn what_is_missing_is_said_with_what_it_is_for() {
        let schema = json!({ "properties": {
            "parts": { "type": "array", "items": { "properties": {
                "is_open": { "type": "boolean" }, "kind": { "enum": [1, "a"] },
                "text": { "type": "string", "description": "What you did." },
            } } },
        } });
        let schema = schema.as_object().unwrap();
        for (at, expected) in [
            ("parts", "give a list"),
            ("parts[3].is_open", "give true or false"),
            ("parts[3].kind", "give one of 1, a"),
            ("parts[0].text", "What you did"),
            ("other.text", "give a value"),
        ] {
            assert_eq!(purpose(schema, at), expected);
        }
    }
}
