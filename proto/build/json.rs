//! `Serialize` for every message of the API: all fields by their names in the `.proto` file, enums by
//! the names of their values in small letters, bytes in hexadecimal. A oneof is a field with the name
//! of what it holds, beside the fields of that message.

use std::{error::Error, fmt::Write as _};

use prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

pub(crate) fn generate(pool: &DescriptorPool) -> Result<String, Box<dyn Error>> {
    let mut out = String::new();
    for message in pool.all_messages() {
        let is_ours = message.parent_file().package_name() == "tasuki.v1";
        if !is_ours || message.is_map_entry() || message.name() == "CallOptions" {
            continue;
        }
        let path = rust_path(&message);
        write!(
            out,
            "impl Fields for {path} {{
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {{
        let _ = &map;
{}        Ok(())
    }}
}}
serialize_fields!({path});
",
            fields(&message)?,
        )?;
    }
    Ok(out)
}

fn fields(message: &MessageDescriptor) -> Result<String, Box<dyn Error>> {
    let mut out = String::new();
    for field in message.fields() {
        let name = field.name();
        if field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic()) {
            continue;
        }
        let member = format!("self.{}", rust_field(name));
        writeln!(out, "        map.serialize_entry({name:?}, &{})?;", value(&field, &member))?;
    }
    for oneof in message.oneofs().filter(|oneof| !oneof.is_synthetic()) {
        let (tag, module) = (oneof.name(), module(message));
        writeln!(out, "        match &self.{} {{", rust_field(tag))?;
        for field in oneof.fields() {
            let (name, variant) = (field.name(), camel(field.name()));
            let rest = if field.kind().as_message().is_some() {
                "it.fields(map)?;".to_owned()
            } else {
                format!("map.serialize_entry({name:?}, &{})?;", value(&field, "*it"))
            };
            writeln!(
                out,
                "            Some({module}::{}::{variant}(it)) => {{
                map.serialize_entry({tag:?}, {name:?})?;
                {rest}
            }}",
                camel(tag)
            )?;
        }
        writeln!(out, "            None => map.serialize_entry({tag:?}, &())?,\n        }}")?;
    }
    Ok(out)
}

/// The expression that is serialized for the field that `member` is.
fn value(field: &FieldDescriptor, member: &str) -> String {
    let kind = field.kind();
    if let Some(kind) = kind.as_enum() {
        return match field.is_list() {
            true => format!("{member}.iter().map(|it| {}).collect::<Vec<_>>()", name(kind, "*it")),
            false => name(kind, member),
        };
    }
    match (kind == Kind::Bytes, field.is_list()) {
        (true, true) => format!("{member}.iter().map(|it| hex(it)).collect::<Vec<_>>()"),
        (true, false) => format!("hex(&{member})"),
        (false, _) => member.to_owned(),
    }
}

/// `TASK_STATUS_IN_PROGRESS` is "in_progress"; whatever is unspecified or unknown is nothing.
fn name(kind: &EnumDescriptor, number: &str) -> String {
    let prefix = format!("{}_", snake(kind.name()).to_uppercase());
    let mut arms = String::new();
    for value in kind.values().filter(|value| value.number() != 0) {
        let name = value.name().trim_start_matches(&prefix).to_lowercase();
        arms += &format!("{} => Some({name:?}), ", value.number());
    }
    format!("match {number} {{ {arms}_ => None::<&str> }}")
}

/// Where prost puts a message.
fn rust_path(message: &MessageDescriptor) -> String {
    let module = message.parent_message().map_or_else(|| "wire".to_owned(), |it| module(&it));
    format!("{module}::{}", camel(&snake(message.name())))
}

/// Where prost puts what is defined within a message.
fn module(message: &MessageDescriptor) -> String {
    let parent = message.parent_message().map_or_else(|| "wire".to_owned(), |it| module(&it));
    format!("{parent}::{}", snake(message.name()))
}

/// As prost names fields.
fn rust_field(name: &str) -> String {
    match name {
        "type" | "loop" | "box" | "move" | "ref" | "override" => format!("r#{name}"),
        name => name.to_owned(),
    }
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut before = None;
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        let begins = c.is_uppercase()
            && before.is_some_and(|it: char| {
                it.is_lowercase() || rest.peek().is_some_and(|it| it.is_lowercase())
            });
        if begins {
            out.push('_');
        }
        out.extend(c.to_lowercase());
        before = Some(c);
    }
    out
}

fn camel(name: &str) -> String {
    let words = name.split('_').filter(|word| !word.is_empty());
    let capitalized = words.map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    capitalized.collect()
}
