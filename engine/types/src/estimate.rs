//! Estimates of tokens from bytes. They are marked "≈" wherever a person sees them and are never recounted.

use crate::config::Media;

/// Bytes of text that make about one token. OpenAI's help pages give four characters of English a token;
/// an exact tokenizer costs about 120 ms and 70 MB to load, and would be exact for one vendor only.
const BYTES_PER_TOKEN: u64 = 4;

/// Largest number of tokens of one image, as in Anthropic's vision guide (about 1,600 tokens).
const TOKENS_PER_IMAGE: u64 = 1_600;

/// Returns the estimate for `bytes` bytes of text, rounded up.
pub const fn text_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Returns the bytes of text that correspond to `tokens` tokens.
pub const fn text_bytes(tokens: u64) -> u64 {
    tokens.saturating_mul(BYTES_PER_TOKEN)
}

/// Returns the estimate for a content of `mime_type`. It is 0 for a content that only tools read: no model is shown its bytes.
pub fn content_tokens(mime_type: &str, bytes: u64) -> u64 {
    if !Media::ALL.takes(mime_type) {
        return 0;
    }
    if mime_type.starts_with("image/") && mime_type != "image/svg+xml" { TOKENS_PER_IMAGE } else { text_tokens(bytes) }
}
