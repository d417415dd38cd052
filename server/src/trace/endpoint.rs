//! Where spans go.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use axum::http::Uri;

/// A collector of OpenTelemetry that takes OTLP over HTTP with Protocol Buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint {
    /// Address of the route for traces.
    pub(super) url: String,
    /// How long one export may take.
    pub(super) timeout: Duration,
    /// File with the certificates in PEM that its own is checked against, instead of Mozilla's list.
    pub(super) certificates: Option<PathBuf>,
}

/// What collectors have for traces behind their base address.
const ROUTE: &str = "/v1/traces";

impl FromStr for OtlpEndpoint {
    type Err = String;

    /// The base address of a collector, such as `http://localhost:4318`; `/v1/traces` is put behind it. The rest is as the
    /// variables `OTEL_EXPORTER_OTLP_…` say.
    fn from_str(base: &str) -> Result<Self, String> {
        Self::base(base, variable)
    }
}

impl OtlpEndpoint {
    /// The collector of the variables `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, taken as it is, or `OTEL_EXPORTER_OTLP_ENDPOINT`, a
    /// base address. `None` without either, and if `OTEL_SDK_DISABLED` or `OTEL_TRACES_EXPORTER` say so.
    ///
    /// # Errors
    /// What is no address, and other ways to send than this one.
    pub fn from_env() -> Result<Option<Self>, String> {
        Self::standard(variable)
    }

    fn standard(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        match variable("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => {
                return Err(format!("OTEL_TRACES_EXPORTER: {other} found, otlp or none is allowed"));
            }
        }
        let named = |name: &str| variable(name).map(|value| (name.to_owned(), value));
        let own = named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let (name, endpoint) = match (own, named("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some((name, url)), _) => (name, Self::at(&url, &variable)),
            (None, Some((name, base))) => (name, Self::base(&base, &variable)),
            (None, None) => return Ok(None),
        };
        let protocol = either(&variable, "PROTOCOL");
        if let Some((name, value)) = protocol.filter(|(_, value)| value != "http/protobuf") {
            return Err(format!("{name}: {value} found, http/protobuf is allowed"));
        }
        endpoint.map(Some).map_err(|error| format!("{name}: {error}"))
    }

    fn base(base: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        Self::at(&format!("{}{ROUTE}", base.trim().trim_end_matches('/')), variable)
    }

    fn at(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let url = url.trim();
        let wrong =
            || "http://HOST:PORT or https://HOST:PORT is allowed, such as http://localhost:4318".to_owned();
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err(
                "a name or password found; OTEL_EXPORTER_OTLP_HEADERS is the place for them".to_owned()
            );
        }
        // A port that is none stays in the authority.
        let port = authority.port_u16().is_some() || authority.as_str() == authority.host();
        let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        if !scheme || !port || authority.host().is_empty() || uri.query().is_some() {
            return Err(wrong());
        }
        let timeout = match either(&variable, "TIMEOUT") {
            None => Duration::from_secs(10),
            Some((name, value)) => {
                let milliseconds = value.trim().parse().ok().filter(|n| (1..=3_600_000).contains(n));
                let wrong = || format!("{name}: {value} found, milliseconds from 1 to 3600000 are allowed");
                Duration::from_millis(milliseconds.ok_or_else(wrong)?)
            }
        };
        let certificates = either(&variable, "CERTIFICATE").map(|(_, path)| PathBuf::from(path));
        Ok(Self { url: url.to_owned(), timeout, certificates })
    }
}

/// A setting for traces alone, or for all that is exported.
fn either(variable: impl Fn(&str) -> Option<String>, what: &str) -> Option<(String, String)> {
    let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")];
    names.into_iter().find_map(|name| variable(&name).map(|value| (name, value)))
}

/// A variable of the environment; an empty one is none.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standard(variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        OtlpEndpoint::standard(find).map(|found| found.map(|endpoint| endpoint.url))
    }

    #[test]
    fn a_base_gets_the_route_and_nonsense_is_refused() {
        let at = |base| OtlpEndpoint::base(base, |_| None).map(|endpoint| endpoint.url);
        for base in ["http://localhost:4318", " http://localhost:4318/ "] {
            assert_eq!(at(base).as_deref(), Ok("http://localhost:4318/v1/traces"), "{base}");
        }
        assert_eq!(at("https://c.example/otlp").as_deref(), Ok("https://c.example/otlp/v1/traces"));
        for bad in
            ["", "localhost:4318", "grpc://c:4317", "http://", "http://c:port", "c", "http://c/?a=b", "/x"]
        {
            assert!(at(bad).is_err_and(|error| error.contains("http://localhost:4318")), "{bad}");
        }
        let secret = at("http://me:secret@c").expect_err("refused");
        assert!(secret.contains("HEADERS") && !secret.contains("secret"), "{secret}");
    }

    #[test]
    fn the_variables_of_the_standard_hold() {
        const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        const OWN: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let some = |url: &str| Ok(Some(url.to_owned()));
        assert_eq!(standard(&[]), Ok(None));
        assert_eq!(standard(&[(BASE, "http://c:1")]), some("http://c:1/v1/traces"));
        assert_eq!(standard(&[(BASE, "http://c:1"), (OWN, "http://d:2/x")]), some("http://d:2/x"));
        for off in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert_eq!(standard(&[(BASE, "http://c:1"), off]), Ok(None));
        }
        for (name, value) in [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            (BASE, "c:4317"),
        ] {
            // The first of equal names counts.
            let error = standard(&[(name, value), (BASE, "http://c:1")]).expect_err(name);
            assert!(error.contains(name), "{name}: {error}");
        }
        let grpc = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
        ];
        assert_eq!(standard(&[&grpc[..], &[(BASE, "http://c:1")]].concat()), some("http://c:1/v1/traces"));
        assert_eq!(standard(&[grpc[0]]), Ok(None), "nobody asked for traces");
    }
}
