//! What is served as it is, and what is not served.

use axum::Extension;
use axum::http::{HeaderName, StatusCode, Uri};
use axum::response::Response;

use super::context::Context;
use super::reply::{refuse, set, text};
use crate::wire::failure::Failure;

/// The page to try the server.
const PAGE: &str = include_str!("../page.html");
/// The page that shows the description.
const DOCS: &str = include_str!("../docs.html");
/// The description of all routes.
pub(crate) const OPENAPI: &str = include_str!("../openapi.json");

/// A small page to try the server.
pub(super) async fn index() -> Response {
    page(PAGE)
}

/// All routes, for people.
pub(super) async fn docs() -> Response {
    page(DOCS)
}

fn page(html: &'static str) -> Response {
    let mut page = text(StatusCode::OK, "text/html; charset=utf-8", html);
    // It loads nothing from anywhere and talks to this server only.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                  frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    set(&mut page, HeaderName::from_static("content-security-policy"), policy);
    set(&mut page, HeaderName::from_static("x-content-type-options"), "nosniff");
    page
}

/// The OpenAPI document.
pub(super) async fn openapi() -> Response {
    text(StatusCode::OK, "application/json", OPENAPI)
}

/// No such route.
pub(super) async fn not_found(Extension(context): Extension<Context>, uri: Uri) -> Response {
    let path = uri.path();
    let message = match path.strip_prefix("/v1/v1/") {
        Some(rest) => format!(
            "the path has /v1 twice; the route is /v1/{}, so the base URL of this client should not end in /v1",
            rest.chars().take(80).collect::<String>()
        ),
        None => "no such route; GET /openapi.json lists all of them".to_owned(),
    };
    refuse(&context, &Failure::not_found(message))
}

/// No such method.
pub(super) async fn method_not_allowed(Extension(context): Extension<Context>) -> Response {
    refuse(&context, &Failure::method())
}
