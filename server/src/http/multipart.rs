//! `multipart/form-data`: a first part named `request` with the JSON, and one part a picture.

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use dikast_core::request::{Json, MediaLimits};
use multer::Multipart;

use crate::wire::failure::Failure;
use crate::wire::parts::{Part, attach};

/// The boundary between the parts, if a body has parts.
pub(super) fn boundary(headers: &HeaderMap) -> Option<Result<String, Failure>> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("multipart/form-data").then(|| {
        multer::parse_boundary(value)
            .map_err(|_| Failure::media_type("multipart/form-data without its boundary found"))
    })
}

/// The JSON of a whole body, with its pictures in place.
pub(super) fn json(bytes: Bytes, boundary: String) -> Result<Json, Failure> {
    // Everything is there already: the reader never waits.
    let (text, parts) = pollster::block_on(split(bytes, boundary))?;
    let mut body = Json::parse(&text)?;
    attach(&mut body, parts)?;
    Ok(body)
}

async fn split(bytes: Bytes, boundary: String) -> Result<(Bytes, Vec<Part>), Failure> {
    let broken = |_| Failure::invalid("request", "the body is no multipart/form-data of this boundary");
    let most = MediaLimits::default().images;
    let mut all = Multipart::new(Body::from(bytes).into_data_stream(), boundary);
    let (mut request, mut parts) = (None, Vec::new());
    while let Some(field) = all.next_field().await.map_err(broken)? {
        let name = field.name().unwrap_or_default().to_owned();
        if request.is_none() {
            if name != "request" {
                return Err(Failure::invalid("request", "the first part must have this name, and the JSON"));
            }
            request = Some(field.bytes().await.map_err(broken)?);
            continue;
        }
        if parts.len() == most {
            return Err(Failure::too_many("assets", "pictures", most as u64 + 1, most as u64));
        }
        parts.push(Part { name, bytes: field.bytes().await.map_err(broken)? });
    }
    let request = request.ok_or_else(|| Failure::invalid("request", "missing; it is the first part"))?;
    Ok((request, parts))
}
