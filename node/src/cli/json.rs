//! JSON in one line, for programs that read these commands' output. What the API's messages are in
//! it follows from their `.proto` files.

use serde_json::Value;
use tasuki_proto::visible::is_visible;

/// The value in one line. Characters that a terminal would act on are written as `\u…`, which
/// means the same: outside of its strings JSON has none.
pub(crate) fn harmless(value: &Value) -> String {
    let text = value.to_string();
    if text.bytes().all(|it| it == b' ' || it.is_ascii_graphic()) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_visible(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out += &format!("\\u{unit:04x}");
        }
    }
    out
}
