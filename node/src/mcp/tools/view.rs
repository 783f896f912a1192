//! What answers are made of: a view of a message of the broker is declared once, each field with
//! where its value comes from.

/// Declares `Name(message: Type, sanitizer) { field: type = value, … }`. A field that ends with
/// `=> if_any` is left out where it says nothing.
macro_rules! view {
    (
        $(#[$meta:meta])*
        $name:ident($it:ident: $message:ty, $others:ident) $(with { $($setup:tt)* })? {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $type:ty = $value:expr $(=> $if_any:ident)?,
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, PartialEq, serde::Serialize)]
        pub(super) struct $name {
            $(
                $(#[$field_meta])*
                $(
                    #[doc = stringify!($if_any)]
                    #[serde(skip_serializing_if = "super::super::view::is_nothing")]
                )?
                pub $field: $type,
            )*
        }

        impl $name {
            pub(super) fn new($it: &$message, $others: &mut Sanitizer) -> Self {
                $($($setup)*)?
                Self { $($field: $value,)* }
            }
        }
    };
}
pub(super) use view;

/// Whether a field says nothing.
pub(super) fn is_nothing<T: Default + PartialEq>(field: &T) -> bool {
    *field == T::default()
}
