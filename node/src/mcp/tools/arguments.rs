//! A tool's arguments as models write them.
//!
//! A number or a flag in quotes is taken for what it says, `null` and an empty name for absent;
//! anything else that does not fit is refused by the name of its field.

use std::{fmt, str::FromStr, time::Duration};

use rmcp::model::JsonObject;
use serde_json::Value;
use tasuki_proto::{
    echo::echo,
    id::{InvalidId, LoopId},
    limits::{LOOP_DEFAULT, TEXT_BYTES_MAX},
    reason::Reason,
};

use crate::role::Refusal;

#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    fields: &'a JsonObject,
    /// The field whose value these are; empty: they are the call's own.
    within: &'static str,
    /// How long a text may be, in bytes.
    text_max: usize,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(arguments: &'a JsonObject) -> Self {
        Self { fields: arguments, within: "", text_max: TEXT_BYTES_MAX }
    }

    /// The same for a text that may have so many bytes.
    pub(super) const fn at_most(self, text_max: usize) -> Self {
        Self { text_max, ..self }
    }

    /// The field as a refusal names it.
    pub(super) fn at(self, field: &str) -> String {
        match self.within {
            "" => field.to_owned(),
            within => format!("{within}.{field}"),
        }
    }

    /// The fields of an object.
    pub(super) fn object(self, field: &'static str) -> Result<Option<Self>, Refusal> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self { within: field, ..Self::new(fields) })),
            Some(other) => Err(misfit(&self.at(field), "an object", other)),
        }
    }

    /// The same where it has to be there; `what` says what for.
    pub(super) fn required_object(self, field: &'static str, what: &str) -> Result<Self, Refusal> {
        self.object(field)?.ok_or_else(|| missing(&self.at(field), what))
    }

    /// The fields of each of several objects; none if it is not there.
    pub(super) fn objects(self, field: &'static str) -> Result<Vec<Self>, Refusal> {
        let items = match self.get(field) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(misfit(&self.at(field), "a list of objects", other)),
        };
        let object = |item: &'a Value| match item {
            Value::Object(fields) => Ok(Self { within: field, ..Self::new(fields) }),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(misfit(&self.at(field), "a list of objects", item)),
        };
        items.iter().map(object).collect()
    }

    /// A list of texts, as they are; none if it is not there. One text is a list of one.
    pub(super) fn texts(self, field: &str) -> Result<Vec<String>, Refusal> {
        let text = |item: &Value| match item {
            Value::String(text) => Ok(text.clone()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Err(misfit(&self.at(field), "a list of texts", item)),
        };
        match self.get(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => items.iter().map(text).collect(),
            Some(one) => Ok(vec![text(one)?]),
        }
    }

    /// Whether anything is said.
    pub(super) fn has(self, field: &str) -> bool {
        self.get(field).is_some()
    }

    fn get(self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// A name; empty is absent.
    pub(super) fn name(self, field: &str) -> Result<Option<String>, Refusal> {
        let name = match self.get(field) {
            None => return Ok(None),
            Some(Value::String(text)) => text.trim().to_owned(),
            Some(Value::Number(number)) => number.to_string(),
            Some(other) => return Err(misfit(&self.at(field), "a text", other)),
        };
        Ok(Some(name).filter(|name| !name.is_empty()))
    }

    /// Any number of names: a list, or names with commas between them, as one text.
    pub(super) fn names(self, field: &str) -> Result<Vec<String>, Refusal> {
        let name = |value: &Value| match value {
            Value::String(text) => Ok(text.trim().to_owned()),
            Value::Number(number) => Ok(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                Err(misfit(&self.at(field), "a name or a list of names", value))
            }
        };
        let names = match self.get(field) {
            None => Vec::new(),
            Some(Value::Array(items)) => items.iter().map(name).collect::<Result<_, _>>()?,
            Some(Value::String(text)) if text.trim_start().starts_with('[') => {
                let items: Result<Vec<Value>, _> = serde_json::from_str(text);
                match items {
                    Ok(items) => items.iter().map(name).collect::<Result<_, _>>()?,
                    Err(_) => {
                        return Err(misfit(
                            &self.at(field),
                            "a name or a list of names",
                            &text[..].into(),
                        ));
                    }
                }
            }
            Some(Value::String(text)) => text.split(',').map(|it| it.trim().to_owned()).collect(),
            Some(other) => vec![name(other)?],
        };
        let mut unique = Vec::new();
        for name in names {
            if !name.is_empty() && !unique.contains(&name) {
                unique.push(name);
            }
        }
        Ok(unique)
    }

    pub(super) fn id<T: FromStr<Err = InvalidId>>(self, field: &str) -> Result<Option<T>, Refusal> {
        self.name(field)?
            .map(|name| {
                name.parse().map_err(|error| {
                    invalid(
                        &self.at(field),
                        &format_args!("is not a name: {} {error}", echo(&name)),
                    )
                })
            })
            .transpose()
    }

    /// The loop meant: `loop`, or the one every workspace starts with.
    pub(super) fn loop_id(self) -> Result<LoopId, Refusal> {
        match self.id("loop")? {
            Some(loop_id) => Ok(loop_id),
            None => LOOP_DEFAULT.parse().map_err(|error: InvalidId| invalid("loop", &error)),
        }
    }

    /// A text for another agent: whole or refused, never cut.
    pub(super) fn text(self, field: &str) -> Result<Option<String>, Refusal> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) if self.text_max < text.len() => Err(Refusal {
                reason: Reason::TooLarge,
                message: format!(
                    "`{}` is {} bytes long; the limit is {}. No change was made. Shorten it, or \
                     write it to a file and give the path.",
                    self.at(field),
                    text.len(),
                    self.text_max
                ),
            }),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(misfit(&self.at(field), "a text", other)),
        }
    }

    /// A text that must say something; `what` says what.
    pub(super) fn words(self, field: &str, what: &str) -> Result<String, Refusal> {
        match self.text(field)? {
            Some(text) if text.trim().is_empty() => {
                Err(invalid(&self.at(field), &format_args!("is empty: {what}")))
            }
            Some(text) => Ok(text),
            None => Err(missing(&self.at(field), what)),
        }
    }

    pub(super) fn flag(self, field: &str) -> Result<Option<bool>, Refusal> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(Value::String(text)) if text.trim().eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(Value::String(text)) if text.trim().eq_ignore_ascii_case("false") => {
                Ok(Some(false))
            }
            Some(other) => Err(misfit(&self.at(field), "true or false", other)),
        }
    }

    pub(super) fn number(self, field: &str) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        number.map(Some).ok_or_else(|| misfit(&self.at(field), "a whole number, 0 or more", value))
    }

    /// A whole number that may be below 0.
    pub(super) fn integer(self, field: &str) -> Result<Option<i64>, Refusal> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_i64().or_else(|| {
                let (sign, size) = (number.as_f64()?.signum(), number.as_f64()?.abs());
                let size = i64::try_from(whole(size)?).ok()?;
                Some(if sign < 0.0 { -size } else { size })
            }),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        number.map(Some).ok_or_else(|| misfit(&self.at(field), "a whole number", value))
    }

    /// Seconds, in whole or in part.
    pub(super) fn seconds(self, field: &str) -> Result<Option<Duration>, Refusal> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let seconds = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .map(Some)
            .ok_or_else(|| misfit(&self.at(field), "a number of seconds, 0 or more", value))
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

pub(super) fn missing(field: &str, what: &str) -> Refusal {
    invalid(field, &format_args!("is missing: {what}"))
}

fn misfit(field: &str, expected: &str, got: &Value) -> Refusal {
    /// Of the value shown back, in characters.
    const SHOWN_CHARS_MAX: usize = 60;
    let shown: String = got.to_string().chars().take(SHOWN_CHARS_MAX).collect();
    invalid(field, &format_args!("must be {expected}, not {shown}"))
}

pub(super) fn invalid(field: &str, why: &dyn fmt::Display) -> Refusal {
    Refusal {
        reason: Reason::InvalidArgument,
        message: format!("`{field}` {why}. No change was made. Fix the argument and retry."),
    }
}
