//! The result as the bytes of `result.json`.

use model::result::RunResult;

/// Pretty JSON with a stable order of keys, UTF-8, ended by a line feed.
///
/// # Errors
/// Never for a result that was read or made of finite figures; the signature is that of the JSON writer.
pub fn render(result: &RunResult) -> Result<Vec<u8>, serde_json::Error> {
    result.to_json().map(String::into_bytes)
}
