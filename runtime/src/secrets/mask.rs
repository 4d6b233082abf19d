//! Masking: known secret values, and the forms in which they turn up, become `***` in text and in streams.
//!
//! A value is looked for as it is, JSON-escaped (also as Go writes it), with `$` doubled, percent-encoded, in base64
//! (both alphabets, also inside a longer encoded text) and in hexadecimal; of a value of several lines also each line,
//! since logs carry lines apart. Values under four bytes are left alone: masking them would eat ordinary text.

use std::fmt;
use std::fmt::Write;

use zeroize::{Zeroize, Zeroizing};

use super::SecretValue;

/// What stands in place of a secret.
pub const MASK: &str = "***";

/// The shortest value that is masked, in bytes.
const SHORTEST: usize = 4;
/// The shortest single line, and the shortest part of a longer base64 text, that is masked.
const SHORTEST_PART: usize = 8;

/// Knows secret values and masks them.
#[derive(Default)]
pub struct Masker {
    /// By first byte, each list longest first.
    needles: Vec<Zeroizing<Vec<u8>>>,
    by_first: Vec<Vec<usize>>,
}

impl Masker {
    /// A masker that knows these values. `Masker::default()` knows none.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a SecretValue>) -> Self {
        let mut masker = Self::default();
        for value in values {
            masker.add(value);
        }
        masker
    }

    /// Learns one more value. Streams that were begun do not know it.
    pub fn add(&mut self, value: &SecretValue) {
        let text = value.expose();
        if text.len() < SHORTEST {
            return;
        }
        for form in forms(text) {
            if form.len() >= SHORTEST && !self.needles.iter().any(|n| **n == *form) {
                self.needles.push(form);
            }
        }
        self.needles.sort_by_key(|needle| std::cmp::Reverse(needle.len()));
        self.by_first = vec![Vec::new(); 256];
        for (index, needle) in self.needles.iter().enumerate() {
            self.by_first[usize::from(needle[0])].push(index);
        }
    }

    /// The text with every known value masked. Values that overlap in it become one mask.
    pub fn mask(&self, text: &str) -> String {
        if self.needles.is_empty() {
            return text.to_owned();
        }
        let mut stream = self.stream();
        let mut out = stream.push(text.as_bytes());
        out.extend(stream.finish());
        String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// A stream that masks what is pushed into it, whatever the chunks.
    pub fn stream(&self) -> MaskingStream<'_> {
        MaskingStream { masker: self, held: Vec::new(), covered: 0 }
    }

    /// What the bytes begin with: the length of the longest value that stands there whole, and whether a longer one
    /// could still come of them.
    fn look(&self, bytes: &[u8]) -> (usize, bool) {
        let Some(candidates) = bytes.first().and_then(|&b| self.by_first.get(usize::from(b))) else {
            return (0, false);
        };
        let mut open = false;
        for &index in candidates {
            let needle = &self.needles[index];
            if bytes.starts_with(needle) {
                return (needle.len(), open);
            }
            open |= needle.starts_with(bytes);
        }
        (0, open)
    }
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Masker({} forms)", self.needles.len())
    }
}

/// Masks a stream of chunks: the output of all pushes and of `finish`, joined, is what [`Masker::mask`] makes of the
/// joined input. Holds back at most as much as the longest known form.
pub struct MaskingStream<'a> {
    masker: &'a Masker,
    /// What may still become a secret.
    held: Vec<u8>,
    /// How many of the held bytes belong to a mask that was written already.
    covered: usize,
}

impl MaskingStream<'_> {
    /// Takes a chunk and gives what is certain by now.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(chunk);
        self.advance(false)
    }

    /// The rest. Call it at the end of the stream, and only there.
    pub fn finish(mut self) -> Vec<u8> {
        self.advance(true)
    }

    fn advance(&mut self, last: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.held.len());
        let mut at = 0;
        while at < self.held.len() {
            let (length, open) = self.masker.look(&self.held[at..]);
            if open && !last {
                break;
            }
            if length > 0 {
                if self.covered == 0 {
                    out.extend_from_slice(MASK.as_bytes());
                }
                self.covered = self.covered.max(length);
            }
            if self.covered > 0 {
                self.covered -= 1;
            } else {
                out.push(self.held[at]);
            }
            at += 1;
        }
        self.held[..at].zeroize();
        self.held.drain(..at);
        out
    }
}

impl Drop for MaskingStream<'_> {
    fn drop(&mut self) {
        self.held.zeroize();
    }
}

impl fmt::Debug for MaskingStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MaskingStream({} bytes held)", self.held.len())
    }
}

/// The forms in which a value turns up.
fn forms(text: &str) -> Vec<Zeroizing<Vec<u8>>> {
    let bytes = text.as_bytes();
    let mut forms = vec![text.to_owned(), text.replace('$', "$$")];
    if let Ok(quoted) = serde_json::to_string(text) {
        let escaped = quoted[1..quoted.len() - 1].to_owned();
        forms.push(escaped.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"));
        forms.push(escaped);
    }
    for upper in [true, false] {
        let encoded = percent(bytes, upper);
        forms.push(encoded.replace("%20", "+"));
        forms.push(encoded);
        forms.push(hex(bytes, upper));
    }
    for alphabet in [STANDARD, URL_SAFE] {
        forms.push(base64(bytes, alphabet));
        forms.extend(
            (0..3).map(|shift| base64_inside(bytes, shift, alphabet)).filter(|part| part.len() >= SHORTEST_PART),
        );
    }
    if text.contains('\n') {
        forms.extend(
            text.lines()
                .map(str::trim)
                // The frame of a PEM file is the same for everybody.
                .filter(|line| line.len() >= SHORTEST_PART && !line.starts_with("-----"))
                .map(str::to_owned),
        );
    }
    forms.into_iter().map(|form| Zeroizing::new(form.into_bytes())).collect()
}

fn hex(bytes: &[u8], upper: bool) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = if upper { write!(out, "{byte:02X}") } else { write!(out, "{byte:02x}") };
        out
    })
}

fn percent(bytes: &[u8], upper: bool) -> String {
    bytes.iter().fold(String::new(), |mut out, &byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = if upper { write!(out, "%{byte:02X}") } else { write!(out, "%{byte:02x}") };
        }
        out
    })
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 without padding, which the shorter match leaves standing.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = [0, 1, 2].iter().fold(0u32, |word, &i| word << 8 | u32::from(chunk.get(i).copied().unwrap_or(0)));
        for digit in 0..=chunk.len() {
            let index = word >> (18 - 6 * digit) & 63;
            out.push(char::from(alphabet[index as usize]));
        }
    }
    out
}

/// The digits that are the same wherever the value stands at an offset of `shift` modulo 3 in a longer text.
fn base64_inside(bytes: &[u8], shift: usize, alphabet: &[u8; 64]) -> String {
    let mut padded = vec![0; shift];
    padded.extend_from_slice(bytes);
    let whole = base64(&padded, alphabet);
    padded.zeroize();
    // A digit that also carries bits of a neighbour is not certain.
    let first = (shift * 8).div_ceil(6);
    let end = (shift + bytes.len()) * 8 / 6;
    whole[first..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn masker(values: &[&str]) -> Masker {
        let values: Vec<SecretValue> = values.iter().map(|v| SecretValue::new((*v).to_owned())).collect();
        Masker::new(&values)
    }

    #[test]
    fn values_are_masked_and_nothing_else() {
        let m = masker(&["hunter22", "hunter2", "abc", "s3cr3t"]);
        assert_eq!(m.mask("a hunter22b hunter2 abc"), "a ***b *** abc");
        assert_eq!(m.mask("s3cr3ts3cr3t"), "******");
        assert_eq!(m.mask("hunter"), "hunter");
        assert_eq!(m.mask(""), "");
        assert_eq!(Masker::default().mask("x"), "x");
        assert!(!format!("{m:?}").contains("hunter"));
    }

    #[test]
    fn overlapping_values_leave_no_tail() {
        assert_eq!(masker(&["abcd", "cdefgh"]).mask("xabcdefghy"), "x***y");
        assert_eq!(masker(&["aaaa"]).mask("aaaaaa"), "***");
    }

    #[test]
    fn known_encodings_are_masked() {
        let value = "p$a\"ss w/ö<&\\rd?";
        let m = masker(&[value]);
        let json = serde_json::to_string(value).unwrap();
        for (form, rest) in [
            (json.clone(), "\"***\""),
            (json.replace('<', "\\u003c").replace('&', "\\u0026"), "\"***\""),
            (value.replace('$', "$$"), "***"),
            ("p%24a%22ss%20w%2F%C3%B6%3C%26%5Crd%3F".into(), "***"),
            ("p%24a%22ss+w%2f%c3%b6%3c%26%5crd%3f".into(), "***"),
            // `printf '%s' VALUE | base64`, `… | xxd -p`
            ("cCRhInNzIHcvw7Y8JlxyZD8=".into(), "***="),
            ("70246122737320772fc3b63c265c72643f".into(), "***"),
            ("70246122737320772FC3B63C265C72643F".into(), "***"),
        ] {
            assert_eq!(m.mask(&form), rest, "{form}");
        }
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648, section 10, without the padding.
        for (text, expected) in [("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(text.as_bytes(), STANDARD), expected);
        }
        assert_eq!(base64(b"\xfb\xff", STANDARD), "+/8");
        assert_eq!(base64(b"\xfb\xff", URL_SAFE), "-_8");
    }

    #[test]
    fn a_value_inside_a_longer_base64_text_is_masked() {
        let m = masker(&["correct-horse"]);
        for user in ["", "a", "ab", "abc"] {
            let text = base64(format!("{user}:correct-horse").as_bytes(), STANDARD);
            let masked = m.mask(&format!("Basic {text}"));
            assert!(masked.contains(MASK), "{masked}");
            // At most the digits that mix with the neighbours are left.
            assert!(masked.len() <= "Basic ".len() + 8 + MASK.len() + 2, "{masked}");
        }
    }

    #[test]
    fn each_line_of_a_key_is_masked() {
        let m = masker(&["-----BEGIN KEY-----\nMIIEowIBAAK\nfFhQx12345\n-----END KEY-----\n"]);
        assert_eq!(m.mask("web-1 | MIIEowIBAAK"), "web-1 | ***");
        assert_eq!(m.mask("-----BEGIN KEY-----"), "-----BEGIN KEY-----");
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference_and_nothing_leaks(
            secrets in prop::collection::vec("[ab\"$ é]{4,9}", 1..4),
            noise in prop::collection::vec("[ab\"$ é]{0,6}", 1..6),
            order in prop::collection::vec(0usize..4, 1..6),
            cuts in prop::collection::vec(1usize..7, 1..30),
        ) {
            let m = masker(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
            let text: String = noise.iter().zip(order.iter().cycle())
                .map(|(n, &o)| format!("{n}{}", secrets[o % secrets.len()])).collect();
            let whole = m.mask(&text);
            for secret in &secrets {
                prop_assert!(!whole.contains(secret.as_str()), "{} in {}", secret, whole);
            }
            let mut stream = m.stream();
            let (mut out, mut at) = (Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                if at >= text.len() { break; }
                let end = (at + cut).min(text.len());
                let given = stream.push(&text.as_bytes()[at..end]);
                for secret in &secrets {
                    prop_assert!(!given.windows(secret.len()).any(|w| w == secret.as_bytes()));
                }
                out.extend(given);
                at = end;
            }
            out.extend(stream.finish());
            prop_assert_eq!(String::from_utf8(out).unwrap(), whole);
        }

        #[test]
        fn text_without_secrets_is_untouched(text in "[c-z0-9 \\n]{0,80}") {
            prop_assert_eq!(masker(&["AAAA", "QQQQ-long"]).mask(&text), text);
        }
    }
}
