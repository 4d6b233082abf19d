//! The one door for YAML: reading what people wrote, and writing trees.
//!
//! Reading is strict (duplicate keys, YAML 1.1 booleans and unknown tags are
//! refused) and total: size, depth, nodes and alias expansion are bounded, so a
//! hostile file costs milliseconds. Every error carries file, line and column.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::granit_parser::{Event, Parser};

use crate::diagnostic::{Diagnostic, Place, is_bidi};

/// The largest text that is read as a manifest, a module or a compose file.
pub const MAX_TEXT: usize = 1 << 20;

/// Checks that bytes are text a person could have meant.
///
/// Refused: more than [`MAX_TEXT`] bytes, bytes that are not UTF-8, NUL and other
/// control characters, and characters that reorder text on a screen.
pub fn text<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Diagnostic> {
    let at = |line: usize, column: usize, message: String, text: &str| Diagnostic {
        place: Some(Place::new(file, text, line as u32, column as u32)),
        ..Diagnostic::error(&[], message)
    };
    if bytes.len() > MAX_TEXT {
        let size = bytes.len();
        return Err(at(0, 0, format!("the file has {size} bytes; at most {MAX_TEXT} are read"), ""));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let before = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        at(line, column, "the file is not valid UTF-8".to_owned(), &String::from_utf8_lossy(bytes))
    })?;
    for (number, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if let Some(column) = line.chars().position(|c| (c.is_control() && c != '\t') || is_bidi(c) || is_reserved(c)) {
            let c = line.chars().nth(column).unwrap_or_default();
            if is_reserved(c) {
                let message = format!("the character U+{:04X} is reserved", u32::from(c));
                let fault = at(number + 1, column + 1, message, text);
                return Err(fault.hint("Sidestack marks secrets and paths with it; use another"));
            }
            let what = if is_bidi(c) { "text direction" } else { "control" };
            let message = format!("a {what} character (U+{:04X}) is not allowed here", u32::from(c));
            return Err(at(number + 1, column + 1, message, text).hint("write it as an escape in double quotes"));
        }
    }
    Ok(text)
}

/// The first character of a text that only tokens and placeholders may have.
pub fn reserved(text: &str) -> Option<char> {
    if crate::secret::private(text) { text.chars().find(|c| is_reserved(*c)) } else { None }
}

fn is_reserved(c: char) -> bool {
    matches!(c, '\u{E0F0}'..='\u{E0F3}')
}

/// What an escape in double quotes could smuggle past [`text`]: characters that
/// tokens are made of, and NUL, which no variable and no path can hold.
fn escaped(file: &str, text: &str) -> Result<(), Diagnostic> {
    if !text.contains(['\\', '!']) {
        return Ok(());
    }
    for event in Parser::new_from_str(text).take(400_000) {
        // The reader proper says what is wrong with the syntax.
        let Ok((event, span)) = event else { break };
        let Event::Scalar(scalar, _, _, tag) = &event else {
            continue;
        };
        if tag.as_ref().is_some_and(|tag| tag.suffix().ends_with("binary")) {
            let (line, column) = (span.start.line() as u32, span.start.col() as u32 + 1);
            return Err(Diagnostic {
                place: Some(Place::new(file, text, line, column)),
                ..Diagnostic::error(&[], "a value in base64 (`!!binary`) is not read; write it as it is")
            });
        }
        let found = scalar.chars().find(|c| *c == '\0').or_else(|| reserved(scalar));
        if let Some(c) = found {
            let (line, column) = (span.start.line() as u32, span.start.col() as u32 + 1);
            let message = format!("the character U+{:04X} is not allowed, not even as an escape", u32::from(c));
            return Err(Diagnostic {
                place: Some(Place::new(file, text, line, column)),
                ..Diagnostic::error(&[], message)
            });
        }
    }
    Ok(())
}

/// Reads a text that [`text`] has let through.
///
/// # Errors
/// Syntax, types, unknown keys (where `T` denies them), duplicate keys, and
/// anything that is over the budget, each with its place.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Diagnostic> {
    escaped(file, text)?;
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        reject_unsupported_tags: false,
        budget: serde_saphyr::budget! {
            max_events: 300_000,
            max_nodes: 150_000,
            max_depth: 64,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_recorded_anchor_events: 100_000,
            max_total_scalar_bytes: 4 << 20,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.without_snippet();
        let (line, column) = error.location().map_or((0, 0), |l| (l.line() as u32, l.column() as u32));
        let over = is_breach(error);
        let message = error.to_string();
        // The location is shown as such, so it is cut from the library's sentence.
        let message = message.split(" at line ").next().unwrap_or_default().trim_end_matches(',').to_owned();
        let message = message.strip_prefix("error: ").unwrap_or(&message).replace('\n', " ");
        let message = if over { format!("{OVER}: {message}") } else { message };
        Diagnostic { place: Some(Place::new(file, text, line, column)), ..Diagnostic::error(&[], message) }
    })
}

/// What the message of a text starts with that is over the budget.
const OVER: &str = "the file is more than is read";

/// Whether a fault of [`parse`] is that the text is over the budget: too many nodes, too deep, or aliases that
/// multiply. Whoever leaves the reading to another program must not hand it such a text.
pub fn is_over_budget(fault: &Diagnostic) -> bool {
    fault.message.starts_with(OVER)
}

fn is_breach(error: &serde_saphyr::Error) -> bool {
    use serde_saphyr::Error;
    match error {
        Error::AliasError { error, .. } => is_breach(error),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => true,
        _ => false,
    }
}

/// [`text`] and [`parse`] in one.
pub fn read<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T, Diagnostic> {
    parse(file, text(file, bytes)?)
}

/// Writes a value as YAML that reads back as the same value.
pub fn write<T: Serialize>(value: &T) -> String {
    // Strings are the only scalars that could be taken for something else; the
    // writer quotes those. A value that cannot be written (a map with maps for
    // keys) does not occur in the model, whose keys are all strings.
    serde_saphyr::to_string(value).unwrap_or_default()
}

/// What is written in the place of a text.
type Edit<'a> = dyn FnMut(&str) -> Cow<'_, str> + 'a;

/// Writes a JSON value as YAML in block style that reads back as the same value.
///
/// The trees are written with it: it is many times faster than [`write`], and
/// quotes whatever is not plainly a word.
pub fn write_value(value: &Value) -> String {
    write_edited(value, &mut |text| Cow::Borrowed(text))
}

/// Likewise, with every text (but no key) written as `edit` has it.
pub(crate) fn write_edited(value: &Value, edit: &mut Edit<'_>) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block_map(map, 0, edit, &mut out),
        Value::Array(items) if !items.is_empty() => block_list(items, 0, edit, &mut out),
        other => {
            scalar(other, edit, &mut out);
            out.push('\n');
        }
    }
    out
}

fn indent(depth: usize, out: &mut String) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

fn block_map(map: &serde_json::Map<String, Value>, depth: usize, edit: &mut Edit<'_>, out: &mut String) {
    for (at, (key, value)) in map.iter().enumerate() {
        // The first key of a list's item stands on the line of its dash.
        if at > 0 || !out.ends_with("- ") {
            indent(depth, out);
        }
        word(key, out);
        out.push(':');
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push('\n');
                block_map(map, depth + 1, edit, out);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                block_list(items, depth + 1, edit, out);
            }
            other => {
                out.push(' ');
                scalar(other, edit, out);
                out.push('\n');
            }
        }
    }
}

fn block_list(items: &[Value], depth: usize, edit: &mut Edit<'_>, out: &mut String) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 || !out.ends_with("- ") {
            indent(depth, out);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => block_map(map, depth + 1, edit, out),
            Value::Array(items) if !items.is_empty() => block_list(items, depth + 1, edit, out),
            other => {
                scalar(other, edit, out);
                out.push('\n');
            }
        }
    }
}

fn scalar(value: &Value, edit: &mut Edit<'_>, out: &mut String) {
    match value {
        Value::String(text) => word(&edit(text), out),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        other => out.push_str(&other.to_string()),
    }
}

/// The bytes of which a bare text may consist.
const BARE: [bool; 256] = {
    let mut bare = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        bare[byte] = c.is_ascii_alphanumeric()
            || matches!(
                c,
                b'_' | b'.' | b'/' | b'@' | b'$' | b'{' | b'}' | b'?' | b'-' | b'=' | b'+' | b',' | b'(' | b')' | b':'
            );
        byte += 1;
    }
    bare
};

/// A text, bare when nothing in it means anything to YAML, else in double quotes.
fn word(text: &str, out: &mut String) {
    let first = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'/' | b'$');
    // A colon is a separator only before white space and at the end.
    let bytes = text.as_bytes();
    let bare = bytes.first().is_some_and(first) && bytes.iter().all(|byte| BARE[usize::from(*byte)]);
    let bare = bare && !text.ends_with(':');
    let meaning = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"];
    let means = |text: &str| text.len() <= 5 && meaning.iter().any(|word| text.eq_ignore_ascii_case(word));
    if bare && !means(text) {
        out.push_str(text);
    } else {
        out.push_str(&crate::render::json_text(text));
    }
}

/// Where a document path stands in a text: line and column, both from 1.
///
/// Sequence items are addressed by their index. When the path leads nowhere, the
/// nearest enclosing place that exists is meant. `None` when nothing is found.
pub fn locate(text: &str, path: &[String]) -> Option<(u32, u32)> {
    places(text).locate(path)
}

/// Where every path of a text stands, for more than one look.
pub struct Places(HashMap<Vec<String>, (u32, u32)>);

impl Places {
    /// The place of a path, see [`locate`].
    pub fn locate(&self, path: &[String]) -> Option<(u32, u32)> {
        self.0.get(&path[..self.depth(path)]).copied()
    }

    /// How many parts of a path the text has.
    pub fn depth(&self, path: &[String]) -> usize {
        (1..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length])).unwrap_or(0)
    }
}

/// The places of a text.
pub fn places(text: &str) -> Places {
    let mut places: HashMap<Vec<String>, (u32, u32)> = HashMap::new();
    // Each open collection: its path and either the next index or the pending key.
    enum Frame {
        Map(Option<String>),
        Seq(usize),
    }
    let mut stack: Vec<Frame> = Vec::new();
    let mut here: Vec<String> = Vec::new();
    for event in Parser::new_from_str(text).take(400_000) {
        let Ok((event, span)) = event else { break };
        let at = (span.start.line() as u32, span.start.col() as u32 + 1);
        // A scalar in key position names the place of its value.
        if let (Event::Scalar(scalar, ..), Some(Frame::Map(key @ None))) = (&event, stack.last_mut()) {
            *key = Some(scalar.to_string());
            here.push(scalar.to_string());
            places.insert(here.clone(), at);
            continue;
        }
        let opens = match &event {
            Event::MappingStart(..) => Some(Frame::Map(None)),
            Event::SequenceStart(..) => Some(Frame::Seq(0)),
            Event::Scalar(..) | Event::Alias(..) => None,
            Event::MappingEnd | Event::SequenceEnd => {
                stack.pop();
                close(&mut stack, &mut here);
                continue;
            }
            _ => continue,
        };
        if let Some(Frame::Seq(index)) = stack.last() {
            here.push(index.to_string());
        }
        match opens {
            // A collection stands where its key does.
            Some(frame) => {
                places.entry(here.clone()).or_insert(at);
                stack.push(frame);
            }
            None => {
                places.insert(here.clone(), at);
                close(&mut stack, &mut here);
            }
        }
    }

    /// A value has ended: its key or index goes from the path.
    fn close(stack: &mut [Frame], here: &mut Vec<String>) {
        match stack.last_mut() {
            Some(Frame::Map(key)) => {
                *key = None;
                here.pop();
            }
            Some(Frame::Seq(index)) => {
                *index += 1;
                here.pop();
            }
            None => {}
        }
    }

    Places(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn place(text: &str) -> Place {
        read::<Value>("f.yaml", text.as_bytes()).unwrap_err().place.unwrap()
    }

    #[test]
    fn values_come_as_they_are_meant() {
        let value: Value = parse("f", "a: 1\nb: 'yes'\nc: yes\nd: [x, 2.5, null, true]\ne: 0x10\n").unwrap();
        assert_eq!(value, json!({"a": 1, "b": "yes", "c": "yes", "d": ["x", 2.5, null, true], "e": 16}));
    }

    #[test]
    fn the_parts_of_a_path_that_are_there_are_counted() {
        let places = places("services:\n  web:\n    image: x\n    ports: [a, b]\n");
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        for (text, depth, place) in [
            ("services.web.ports.1", 4, Some((4, 16))),
            ("services.web.ports.2", 3, Some((4, 5))),
            ("services.web.volumes", 2, Some((2, 3))),
            ("services.db", 1, Some((1, 1))),
            ("volumes.db", 0, Some((1, 1))),
        ] {
            assert_eq!((places.depth(&path(text)), places.locate(&path(text))), (depth, place), "{text}");
        }
    }

    #[test]
    fn p39_duplicate_keys_and_strange_bytes_are_located() {
        assert_eq!((place("a: 1\nb: 2\na: 3\n").line, place("a: 1\nb: 2\na: 3\n").column), (3, 1));
        assert_eq!((place("a: 1\nb: \"x\u{0}\"\n").line, place("a: 1\nb: \"x\u{0}\"\n").column), (2, 6));
        assert_eq!(place("a: \u{202E}x\n").column, 4);
        assert_eq!(place("a: \u{1b}[31m\n").column, 4);
        let error = read::<Value>("f.yaml", b"a: 1\nb: \xff\n").unwrap_err();
        assert_eq!((error.place.clone().unwrap().line, error.place.unwrap().column), (2, 4));
    }

    #[test]
    fn tokens_cannot_be_forged() {
        for (text, line, column) in [
            ("a: 1\nb: x\u{E0F0}y\n", 2, 5),
            ("a: 1\nb: \u{E0F3}\n", 2, 4),
            ("a: 1\nb: \"x\\uE0F0renv:HOME\\uE0F1\"\n", 2, 4),
            ("a: 1\nb: {\"\\U0000E0F2\": 1}\n", 2, 5),
            ("a: \"\\0\"\n", 1, 4),
            ("a: \"\\x00\"\n", 1, 4),
        ] {
            let found = place(text);
            assert_eq!((found.line, found.column), (line, column), "{text:?}");
        }
        // Base64 is no way around it either, however its tag is written.
        for text in [
            "a: !!binary 7oOwcmVudjpY7oOx\n",
            "a: !<tag:yaml.org,2002:binary> 7oOwcmVudjpY7oOx\n",
            "a: !!bin%61ry 7oOwcmVudjpY7oOx\n",
            "%TAG !b! tag:yaml.org,2002:\n---\na: !b!binary 7oOwcmVudjpY7oOx\n",
        ] {
            let read = read::<Value>("f.yaml", text.as_bytes());
            let shown = format!("{read:?}");
            assert!(!read.is_ok_and(|value| reserved(&value.to_string()).is_some()), "{shown}");
        }
    }

    #[test]
    fn p38_hostile_documents_end_quickly() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for n in 1..30 {
            let previous = format!("*a{}", n - 1);
            bomb.push_str(&format!("a{n}: &a{n} [{}]\n", vec![previous; 9].join(",")));
        }
        let deep = "[".repeat(10_000);
        let long = "x: *a\n".repeat(900_000);
        for text in [bomb, deep, long] {
            let before = std::time::Instant::now();
            let error = read::<Value>("f.yaml", text.as_bytes()).unwrap_err();
            assert!(error.place.is_some());
            assert!(before.elapsed().as_millis() < 2_000, "{:?}", before.elapsed());
        }
    }

    #[test]
    fn paths_are_found() {
        let text = "a: 1\nresources:\n  db:\n    engine: pg\n    list: [x, {y: z}]\n";
        let find = |path: &str| locate(text, &path.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(find("resources.db.engine"), Some((4, 13)));
        assert_eq!(find("resources.db.list.1.y"), Some((5, 19)));
        assert_eq!(find("resources.db.nothing"), Some((3, 3)));
        assert_eq!(find("a"), Some((1, 4)));
    }

    #[test]
    fn values_are_written_in_blocks() {
        let value = json!({
            "a": {"b": [1, "x", {"c": "1", "d": []}, [2, [3]], {}], "e": {}},
            "on": "no", "p": "http://x:1/", "q": "a: b", "r": "x:", "s": "", "t": null, "u": "${A?}", "v": "- x", "w": "1e3", "n": 0.5,
        });
        let expected = "a:\n  b:\n    - 1\n    - x\n    - c: \"1\"\n      d: []\n    - - 2\n      - - 3\n    - {}\n  e: {}\n\"n\": 0.5\n\
            \"on\": \"no\"\np: http://x:1/\nq: \"a: b\"\nr: \"x:\"\ns: \"\"\nt: null\nu: ${A?}\nv: \"- x\"\nw: \"1e3\"\n";
        assert_eq!(write_value(&value), expected);
        assert_eq!(parse::<Value>("f", expected).unwrap(), value);
        for lone in [json!("x"), json!({}), json!([]), json!(1), json!([[], [1]])] {
            assert_eq!(parse::<Value>("f", &write_value(&lone)).unwrap(), lone);
        }
    }

    /// Values of any shape, keys and texts of any kind.
    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "\\PC{0,12}",
            "[-_./@${}?=+,():a-z0-9 #&*!|>'\"%\n\t]{0,10}",
            "(?i)(yes|no|true|null|~|0x1f|1_0|\\.inf|=|<<)",
        ];
        let text = text.prop_map(|text| text.chars().filter(|c| !is_reserved(*c)).collect::<String>());
        let leaf = prop_oneof![
            text.clone().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn written_values_read_back(value in any_value()) {
            let yaml = write_value(&value);
            let back: Value = parse("f", &yaml).map_err(|e| TestCaseError::fail(format!("{e}\n{yaml}")))?;
            prop_assert_eq!(back, value, "{}", yaml);
        }

        #[test]
        fn written_strings_read_back(text in "\\PC{0,40}", multi in "[ -~\n\t]{0,60}") {
            let value = json!({"k": text, "m": multi, "l": [text, {"n": multi}]});
            let yaml = write(&value);
            let back: Value = parse("f", &yaml).map_err(|e| TestCaseError::fail(format!("{e}\n{yaml}")))?;
            prop_assert_eq!(value, back);
        }
    }
}
