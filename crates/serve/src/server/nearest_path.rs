//! The path that a client probably meant when it requests an unknown one. Not for the answer: see
//! `Rejection::not_found`.

/// The minimum similarity at which a path counts as misspelt; 1 is the same path.
const MISSPELT: f64 = 0.7;

/// The served path that `path` ends with, misspells or begins.
pub(super) fn nearest_path(path: &str, served: &[&'static str]) -> Option<&'static str> {
    let asked = path.trim_end_matches('/');
    let served = || served.iter().copied();
    let nearest = served().filter(|served| asked.ends_with(bare(served))).max_by_key(|served| served.len());
    let nearest = nearest.or_else(|| most_similar(bare(asked), served()));
    let begins = |served: &&str| bare(served).strip_prefix(bare(asked)).is_some_and(|rest| rest.starts_with('/'));
    nearest.or_else(|| served().filter(|_| asked.len() > 3).find(begins))
}

fn most_similar(asked: &str, served: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    // A longer path cannot be similar enough, and comparing it takes time.
    let comparable = served.filter(|served| asked.len() <= 2 * served.len());
    let scored = comparable.map(|served| (strsim::normalized_levenshtein(asked, bare(served)), served));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= MISSPELT).then_some(best.1)
}

/// A path without its version.
pub(super) fn bare(path: &str) -> &str {
    path.strip_prefix("/v1").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_wire::protocol::Surface;

    #[test]
    fn the_path_that_was_meant() {
        let others = ["/v1/models", "/api/stats", "/api/races", "/healthz", "/metrics"];
        let served: Vec<&str> = Surface::ALL.into_iter().map(Surface::path).chain(others).collect();
        for (asked, expected) in [
            ("/v1/chat/completion", Some("/v1/chat/completions")),
            ("/v1/chat/completions/", Some("/v1/chat/completions")),
            ("/v1/v1/chat/completions", Some("/v1/chat/completions")),
            ("/v1/v1/messages", Some("/v1/messages")),
            ("/anthropic/v1/messages/count_tokens", Some("/v1/messages/count_tokens")),
            ("/openai/deployments/m/chat/completions", Some("/v1/chat/completions")),
            ("/v1/chat", Some("/v1/chat/completions")),
            ("/message", Some("/v1/messages")),
            ("/v1/embedding", Some("/v1/embeddings")),
            ("/v1/model", Some("/v1/models")),
            ("/openai/v1/models", Some("/v1/models")),
            ("/api/race", Some("/api/races")),
            ("/api/metrics", Some("/metrics")),
            ("/v1", None),
            ("/", None),
            ("/v1/audio/transcription", Some("/v1/audio/transcriptions")),
            ("/v1/images/edits", None),
            ("/favicon.ico", None),
        ] {
            assert_eq!(nearest_path(asked, &served), expected, "{asked}");
        }
    }
}
