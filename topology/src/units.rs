//! Sizes and durations as people write them: `128MiB`, `500ms`, `1m30s`.
//!
//! `KiB`, `MiB`, `GiB` and `TiB` count in 1024, `kB`, `MB`, `GB` and `TB` in 1000,
//! and a bare number is bytes. There are no fractions: `1.5GiB` is `1536MiB`.

const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// The bytes of a size; `None` when it is none or has more than 64 bits.
pub fn parse_size(text: &str) -> Option<u64> {
    let (digits, factor) =
        SIZES.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor))).unwrap_or((text, 1));
    number(digits.strip_suffix(' ').unwrap_or(digits))?.checked_mul(factor)
}

/// A size for people, exact: in the largest of the units of 1024 that divides it.
pub fn format_size(bytes: u64) -> String {
    let (unit, factor) =
        SIZES[..4].iter().find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor)).unwrap_or(&SIZES[8]);
    format!("{}{unit}", bytes / factor)
}

/// The milliseconds of a duration in `ms`, `s`, `m` and `h`, largest first, as in
/// `1m30s`; `None` when it is none. A unit is never left out, save for `0`.
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut total = 0_u64;
    let mut seen = 0;
    for (unit, factor) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (count, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        if &after[..letters] == unit {
            total = total.checked_add(number(count)?.checked_mul(factor)?)?;
            rest = &after[letters..];
            seen += 1;
            if rest.is_empty() {
                break;
            }
        }
    }
    (seen > 0 && rest.is_empty()).then_some(total)
}

/// A duration for people, exact: `1m30s`.
pub fn format_duration_ms(ms: u64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut rest = ms;
    let mut out = String::new();
    for (unit, factor) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        if rest >= factor {
            out.push_str(&format!("{}{unit}", rest / factor));
            rest %= factor;
        }
    }
    out
}

/// Digits alone: neither `+5` nor an empty text is a number here.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("17B", Some(17)),
            ("64kB", Some(64_000)),
            ("64KiB", Some(65_536)),
            ("128MiB", Some(128 << 20)),
            ("2 GiB", Some(2 << 30)),
            ("16TiB", Some(16 << 40)),
            ("16777216TiB", None),
            ("1.5GiB", None),
            ("-1", None),
            ("+1", None),
            ("MiB", None),
            ("", None),
            ("1mb", None),
            ("1KB", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
        assert_eq!(format_size(0), "0B");
        assert_eq!(format_size(1 << 30), "1GiB");
        assert_eq!(format_size(1536 << 20), "1536MiB");
        assert_eq!(format_size(1000), "1000B");
    }

    #[test]
    fn durations() {
        for (text, ms) in [
            ("5s", Some(5_000)),
            ("500ms", Some(500)),
            ("1m", Some(60_000)),
            ("1m30s", Some(90_000)),
            ("1h1ms", Some(3_600_001)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("5", None),
            ("s", None),
            ("", None),
            ("30s1m", None),
            ("1s1s", None),
            ("-1s", None),
            ("1s ", None),
            ("1d", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(parse_duration_ms(text), ms, "{text}");
        }
        assert_eq!(format_duration_ms(90_500), "1m30s500ms");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(number in any::<u64>(), text in "\\PC{0,12}") {
            prop_assert_eq!(parse_size(&format_size(number)), Some(number));
            prop_assert_eq!(parse_duration_ms(&format_duration_ms(number)), Some(number));
            let _ = (parse_size(&text), parse_duration_ms(&text));
        }
    }
}
