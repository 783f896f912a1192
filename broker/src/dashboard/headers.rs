//! What a browser may do with a page: nothing but show it, and call this server.

use axum::{extract::Request, middleware::Next, response::Response};
use http::{
    HeaderName, HeaderValue, Method, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, REFRESH, X_CONTENT_TYPE_OPTIONS,
        X_FRAME_OPTIONS,
    },
};

/// While the broker is away, a browser asks for a page again after so many seconds.
const LOOK_AGAIN_S: u16 = 5;

/// The name of the only policy of `app.js` that may turn a text into a document.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types tasuki";

const ALWAYS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // With `no-referrer` a browser sends forms without their origin, which is checked.
    (REFERRER_POLICY, "same-origin"),
    (X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub(super) async fn protect(request: Request, next: Next) -> Response {
    let is_page = request.method() == Method::GET;
    let mut response = next.run(request).await;
    let is_away = response.status() == StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    if is_page && is_away {
        headers.insert(REFRESH, LOOK_AGAIN_S.into());
    }
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
