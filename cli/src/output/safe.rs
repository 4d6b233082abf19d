//! Text from outside, made safe for a terminal.
//!
//! Names, labels and log lines may hold escape sequences that move the cursor,
//! rename the window or answer in the reader's stead. Whatever a terminal would
//! obey is shown as a visible character instead.

use std::borrow::Cow;

/// Characters that a terminal obeys or that make a text look other than it is.
fn obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}' | '\u{061C}')
}

/// What stands in its place: the picture of a control character, or `�`.
fn picture(c: char) -> char {
    match u32::from(c) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{FFFD}'),
        0x7f => '\u{2421}',
        _ => '\u{FFFD}',
    }
}

/// One line; tabs stay.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| obeyed(c) && c != '\t') {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if obeyed(c) && c != '\t' { picture(c) } else { c }).collect()
}

/// A cell of a table: one line, tabs as spaces.
pub(crate) fn cell(text: &str) -> Cow<'_, str> {
    if !text.chars().any(obeyed) {
        return Cow::Borrowed(text);
    }
    text.chars()
        .map(|c| {
            if c == '\t' {
                ' '
            } else if obeyed(c) {
                picture(c)
            } else {
                c
            }
        })
        .collect()
}

/// A line of a log: colours are taken out, since programs write them all the time; a
/// carriage return at the end goes, everything else is as in [`line`].
pub(crate) fn log(text: &str) -> String {
    line(&without_colours(text.strip_suffix('\r').unwrap_or(text))).into_owned()
}

/// A JSON document that means the same: what a terminal would obey is written as an escape.
pub(crate) fn json(document: String) -> String {
    let obeyed = |c: char| obeyed(c) && c != '\n';
    if !document.chars().any(obeyed) {
        return document;
    }
    let mut safe = String::with_capacity(document.len());
    for c in document.chars() {
        if obeyed(c) {
            // All of them are of the basic plane.
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Without `ESC [ … m`.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(at);
        plain.push_str(before);
        let body = &sequence[2..];
        let end = body.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'));
        match end {
            Some(end) if body[end..].starts_with('m') => rest = &body[end + 1..],
            _ => {
                plain.push_str(&sequence[..2]);
                rest = body;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        for (given, expected) in [
            ("plain ünïcode", "plain ünïcode"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("a\u{1b}[2Jb", "a␛[2Jb"),
            ("a\rb\nc", "a␍b␊c"),
            ("\u{9b}31m", "\u{FFFD}31m"),
            ("\u{202E}txt", "\u{FFFD}txt"),
            ("\u{7f}", "␡"),
            ("a\tb", "a\tb"),
        ] {
            assert_eq!(line(given), expected, "{given:?}");
        }
        assert_eq!(cell("a\tb\n"), "a b␊");
    }

    #[test]
    fn logs_lose_their_colours_only() {
        for (given, expected) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[1;38:5:2mx\u{1b}[m\r", "x"),
            ("\u{1b}[2Kx", "␛[2Kx"),
            ("\u{1b}[31", "␛[31"),
            // Taking one out must not make another.
            ("\u{1b}\u{1b}[m[2J", "␛[2J"),
        ] {
            assert_eq!(log(given), expected, "{given:?}");
        }
    }

    proptest! {
        #[test]
        fn p42_nothing_is_left_to_obey(text in any::<String>()) {
            prop_assert!(!line(&text).chars().any(|c| obeyed(c) && c != '\t'));
            prop_assert!(!cell(&text).chars().any(obeyed));
            prop_assert!(!log(&text).chars().any(|c| obeyed(c) && c != '\t'));
        }

        #[test]
        fn p42_a_document_means_the_same(text in any::<String>()) {
            let safe = json(serde_json::to_string(&text).unwrap());
            prop_assert!(!safe.chars().any(obeyed));
            prop_assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
        }

        #[test]
        fn p42_escapes_neither(text in "[\u{1b}\\[m0-9;\u{9b}a]{0,20}") {
            let left = log(&text).contains(['\u{1b}', '\u{9b}']);
            prop_assert!(!left);
        }
    }
}
