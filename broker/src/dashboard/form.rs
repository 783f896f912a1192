//! What somebody sent with a form, once it is sure that the form was this browser's (WD3).

use std::{str::FromStr, sync::Arc};

use axum::extract::{Form as Fields, FromRequest, FromRequestParts as _, Request};
use maud::{Markup, html};

use super::{
    App,
    keys::chance,
    visit::{Trouble, Visit},
};

/// The name of the field that ties a form to its browser, and of that which names its command.
const TOKEN: &str = "form";
const KEY: &str = "key";

/// Bytes of chance in a key, in hexadecimal.
const KEY_CHARS: usize = 32;

/// The fields of a form by name, in order.
#[derive(Debug)]
pub(super) struct Form {
    fields: Vec<(String, String)>,
    key: String,
}

impl Form {
    /// The command's name.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// A field with white space around it taken off; empty where there is none.
    pub(super) fn text(&self, name: &str) -> String {
        self.all(name).next().unwrap_or_default()
    }

    /// All fields of this name that are not empty.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        let named = self.fields.iter().filter(move |(field, _)| field == name);
        // Browsers end lines with CR LF.
        let texts = named.map(|(_, text)| text.replace("\r\n", "\n").trim().to_owned());
        texts.filter(|text| !text.is_empty())
    }

    /// The names in fields of this name, apart by commas or white space.
    pub(super) fn names(&self, name: &str) -> Vec<String> {
        let all = self.all(name);
        let split = |text: String| {
            let names = text.split(|it: char| it == ',' || it.is_whitespace());
            names.filter(|it| !it.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        all.flat_map(split).collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// A number; 0 where there is none.
    pub(super) fn number<N: FromStr + Default>(&self, name: &str) -> Result<N, Trouble> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(N::default());
        }
        text.parse().map_err(|_| Trouble::Invalid(format!("Enter a whole number as {name}.")))
    }
}

/// Somebody does something.
pub(super) struct Act {
    pub(super) visit: Visit,
    pub(super) form: Form,
}

impl FromRequest<Arc<App>> for Act {
    type Rejection = Trouble;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Trouble> {
        let (mut parts, body) = request.into_parts();
        let visit = Visit::from_request_parts(&mut parts, app).await?;
        let request = Request::from_parts(parts, body);
        let Fields(fields) = Fields::<Vec<(String, String)>>::from_request(request, app)
            .await
            .map_err(|why| Trouble::Invalid(format!("The form is not readable: {why}.")))?;
        let field = |name: &str| {
            let found = fields.iter().find(|(field, _)| field == name);
            found.map(|(_, text)| text.clone()).unwrap_or_default()
        };
        if !app.sessions.is_form_token(&visit.name, &field(TOKEN)) {
            return Err(Trouble::Forged);
        }
        let key = field(KEY);
        if key.len() != KEY_CHARS || !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Trouble::Forged);
        }
        Ok(Self { visit, form: Form { fields, key } })
    }
}

/// The fields that every form has.
pub(super) fn hidden(visit: &Visit) -> Markup {
    html! {
        input type="hidden" name=(TOKEN) value=(visit.form_token());
        input type="hidden" name=(KEY) value=(chance());
    }
}

/// A form that opens below a button. `path` is the action's, in this workspace.
pub(super) fn dialog(visit: &Visit, id: &str, button: &str, path: &str, fields: &Markup) -> Markup {
    html! {
        details class="act" id=(id) {
            summary class="button" { (button) }
            form method="post" action=(visit.link(path)) {
                (hidden(visit))
                (fields)
                p.row {
                    button type="submit" class="main" { (button) }
                    output role="status" {}
                }
            }
        }
    }
}

/// A form that is a button and nothing else.
pub(super) fn button(visit: &Visit, label: &str, path: &str, fields: &Markup) -> Markup {
    html! {
        form.inline method="post" action=(visit.link(path)) {
            (hidden(visit))
            (fields)
            button type="submit" { (label) }
            output role="status" {}
        }
    }
}

/// A line of text with its label.
pub(super) fn line_field(name: &str, label: &str, value: &str, is_required: bool) -> Markup {
    html! {
        label { span { (label) }
            input type="text" name=(name) value=(value) required[is_required] autocomplete="off";
        }
    }
}

/// Several lines of text with their label.
pub(super) fn text_field(name: &str, label: &str, is_required: bool) -> Markup {
    html! {
        label { span { (label) }
            textarea name=(name) rows="4" required[is_required] {}
        }
    }
}

/// A choice among names.
pub(super) fn choice<'a>(
    name: &str,
    label: &str,
    options: impl IntoIterator<Item = &'a str>,
    chosen: &str,
) -> Markup {
    html! {
        label { span { (label) }
            select name=(name) {
                @for option in options {
                    option value=(option) selected[option == chosen] { (option) }
                }
            }
        }
    }
}

/// A field that nobody sees.
pub(super) fn hidden_field(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}
