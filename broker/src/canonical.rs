//! Values to bytes that stay the same for as long as journals are kept: what is hashed to
//! recognise what was said before.
//!
//! - A struct is its fields by number, in order: number (1), length (8, big-endian), bytes. Names
//!   are no part of it, and a field whose value is empty is left out, so that renaming a field
//!   changes nothing, and adding one changes no value that does not have it. Numbers are never
//!   reused.
//! - A list is its items, each with its length before it; an option is nothing, or 1 and its value.
//! - Two values of one type are the same bytes only if they are the same.

use tasuki_proto::{
    id::{NodeId, PersonId, RoleId},
    swarm::{DocName, TaskNumber},
};

/// A value with one way to write it.
pub trait Canonical {
    /// Appends the value's bytes: none for the empty value.
    fn write(&self, to: &mut Vec<u8>);
}

/// Appends a value with its length before it.
pub fn write_item(to: &mut Vec<u8>, item: &(impl Canonical + ?Sized)) {
    let at = to.len();
    to.extend([0; 8]);
    item.write(to);
    let length = (to.len() - at - 8) as u64;
    to[at..at + 8].copy_from_slice(&length.to_be_bytes());
}

/// Appends a struct's field, unless it is empty.
pub fn write_field(to: &mut Vec<u8>, number: u8, field: &(impl Canonical + ?Sized)) {
    let at = to.len();
    to.push(number);
    write_item(to, field);
    if to.len() == at + 9 {
        to.truncate(at);
    }
}

/// Numbers the fields of structs. All fields have to be named: a new one gets a new number.
macro_rules! canonical {
    ($($name:ident { $($number:literal $field:ident,)* })*) => {
        $(impl $crate::canonical::Canonical for $name {
            fn write(&self, to: &mut Vec<u8>) {
                let Self { $($field,)* } = self;
                $($crate::canonical::write_field(to, $number, $field);)*
            }
        })*
    };
}
pub(crate) use canonical;

macro_rules! text {
    ($($name:ty)*) => {
        $(impl Canonical for $name {
            fn write(&self, to: &mut Vec<u8>) {
                to.extend(self.as_str().as_bytes());
            }
        })*
    };
}
text! { String RoleId NodeId PersonId DocName }

macro_rules! number {
    ($($name:ty)*) => {
        $(impl Canonical for $name {
            fn write(&self, to: &mut Vec<u8>) {
                if *self != 0 {
                    to.extend(self.to_be_bytes());
                }
            }
        })*
    };
}
number! { u32 u64 i32 }

impl Canonical for str {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.as_bytes());
    }
}

impl Canonical for [u8; 32] {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self);
    }
}

impl Canonical for bool {
    fn write(&self, to: &mut Vec<u8>) {
        if *self {
            to.push(1);
        }
    }
}

impl Canonical for TaskNumber {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
    }
}

impl<T: Canonical> Canonical for Vec<T> {
    fn write(&self, to: &mut Vec<u8>) {
        self.as_slice().write(to);
    }
}

impl<T: Canonical> Canonical for [T] {
    fn write(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|item| write_item(to, item));
    }
}

impl<T: Canonical> Canonical for Option<T> {
    fn write(&self, to: &mut Vec<u8>) {
        if let Some(value) = self {
            to.push(1);
            value.write(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;

    struct Before {
        subject: String,
        places: Vec<u32>,
    }
    struct After {
        title: String,
        places: Vec<u32>,
        color: Option<String>,
    }
    canonical! {
        Before { 1 subject, 2 places, }
        After { 1 title, 2 places, 3 color, }
    }

    fn bytes(value: &impl Canonical) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        bytes
    }

    #[test]
    fn a_renamed_and_an_added_field_leave_what_was_said_the_same() {
        let before = Before { subject: "s".to_owned(), places: vec![0, 7] };
        let after = After { title: "s".to_owned(), places: vec![0, 7], color: None };
        assert_eq!(Hash::of_value(&before), Hash::of_value(&after));
        assert_ne!(
            Hash::of_value(&after),
            Hash::of_value(&After { color: Some(String::new()), ..after })
        );
        assert_eq!(
            bytes(&before),
            b"\x01\0\0\0\0\0\0\0\x01s\
            \x02\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\x07"
        );
    }

    #[test]
    fn where_one_value_ends_and_the_next_begins_counts() {
        let list = |items: &[&str]| items.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_ne!(bytes(&list(&["ab", "c"])), bytes(&list(&["a", "bc"])));
        assert_ne!(bytes(&list(&[])), bytes(&list(&[""])));
        assert_ne!(bytes(&Some(0_u32)), bytes(&None::<u32>));
        assert_eq!(
            Hash::of_values(&[&"a".to_owned(), &"bc".to_owned()]),
            Hash::of_fields(["a", "bc"]),
            "a list of texts is the same either way"
        );
    }
}
