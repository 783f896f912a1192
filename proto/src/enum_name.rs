//! Names of the API's enum values, as programs and people read them.

/// The name of a value in small letters and without its enum's: `RUN_MODE_CHAIN` is `chain`.
pub fn enum_name(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}
