//! Which pages browsers let call this server.

use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::error::ServeError;

/// Headers of answers that a page may read.
const SHOWN: [&str; 9] = [
    "x-request-id",
    "x-typesafe-request-id",
    "x-prepare-ms",
    "x-queue-ms",
    "x-inference-ms",
    "x-dikast-receipt",
    "retry-after",
    "retry-after-ms",
    "www-authenticate",
];

/// Permission for pages of these origins; none without any.
///
/// # Errors
/// [`ServeError::Setting`] for what is no origin: it would never match.
pub(crate) fn cors(origins: &[String]) -> Result<Option<CorsLayer>, ServeError> {
    if origins.is_empty() {
        return Ok(None);
    }
    let allowed = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().map(|origin| read(origin)).collect::<Result<Vec<_>, _>>()?)
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        // Which ones SDKs send differs; a page of an allowed origin may send any.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(SHOWN.map(HeaderName::from_static))
        .max_age(std::time::Duration::from_secs(3600));
    Ok(Some(layer))
}

/// An origin as browsers send it: scheme and host, a port unless it is the scheme's own, and no path.
fn read(origin: &str) -> Result<HeaderValue, ServeError> {
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let good = host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ', '*']))
        && !origin.bytes().any(|byte| byte.is_ascii_uppercase());
    HeaderValue::from_str(origin).ok().filter(|_| good).ok_or_else(|| {
        ServeError::Setting(format!(
            "origin {origin:?}: a scheme and a host in small letters are allowed, such as https://example.com, or *"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_have_no_path() {
        for good in ["https://example.com", "http://localhost:5173", "http://[::1]:80"] {
            assert!(read(good).is_ok(), "{good}");
        }
        for bad in
            ["example.com", "https://example.com/", "https://", "https://Example.com", "https://*.a.b", ""]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(cors(&[]).is_ok_and(|layer| layer.is_none()));
        assert!(cors(&["*".to_owned()]).is_ok_and(|layer| layer.is_some()));
    }
}
