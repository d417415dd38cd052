//! Which family of clients a path serves: it decides the status and the shape of errors.

/// A family of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// TypeSafe, Ollama and everything without a shape of its own.
    SystemOne,
    /// OpenAI.
    Decisions,
    /// Cloudflare: everything in an envelope.
    Cloudflare,
    /// Labels: TEI, Hugging Face, vLLM, GLiClass.
    Labels,
}

impl Dialect {
    /// The family of a path.
    pub(crate) fn of(path: &str) -> Self {
        const LABELS: [&str; 6] =
            ["/gliclass", "/v1/classify", "/classify", "/models/", "/pipeline/", "/predict"];
        match path {
            "/v1/decisions" | "/decisions" => Self::Decisions,
            _ if path.starts_with("/client/v4/") => Self::Cloudflare,
            "/" => Self::Labels,
            _ if LABELS.iter().any(|start| path.starts_with(start)) => Self::Labels,
            _ => Self::SystemOne,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_their_family() {
        for (path, expected) in [
            ("/v1/systemone", Dialect::SystemOne),
            ("/api/alpha/decisions", Dialect::SystemOne),
            ("/v1/decisions", Dialect::Decisions),
            ("/client/v4/accounts/a/ai/run/@cf/cloudflare/clef", Dialect::Cloudflare),
            ("/gliclass", Dialect::Labels),
            ("/models/x", Dialect::Labels),
            ("/v1/models", Dialect::SystemOne),
        ] {
            assert_eq!(Dialect::of(path), expected, "{path}");
        }
    }
}
