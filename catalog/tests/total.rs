//! Parsing never panics, whatever becomes of a module's text.

use proptest::prelude::*;
use sidestack_catalog::{builtin, parse, reference};

/// One change to a text.
#[derive(Debug, Clone)]
enum Edit {
    Cut(usize, usize),
    Insert(usize, String),
    Swap(usize, usize),
    Repeat(usize),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let tokens = proptest::sample::select(vec![
        "{{",
        "}}",
        "{%",
        "%}",
        "{",
        "}",
        "[",
        "]",
        ":",
        "- ",
        "\n",
        "  ",
        "\"",
        "'",
        "&a ",
        "*a",
        "|",
        "..",
        "0",
        "-1",
        "99999999999999999999",
        "null",
        "true",
        "é",
        "\u{E0F0}",
        "#",
        "!!",
        "{{ settings }}",
        "{{ name }}",
        "{{ x.y }}",
        "{{ 1 // 0 }}",
        "1TiB",
        "{{ '' | url }}",
    ]);
    let edit = prop_oneof![
        (any::<usize>(), 0_usize..40).prop_map(|(at, length)| Edit::Cut(at, length)),
        (any::<usize>(), tokens).prop_map(|(at, token)| Edit::Insert(at, token.to_owned())),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Edit::Swap(a, b)),
        any::<usize>().prop_map(Edit::Repeat),
    ];
    proptest::collection::vec(edit, 1..6)
}

fn edited(text: &str, edits: &[Edit]) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for edit in edits {
        let length = text.len().max(1);
        match edit {
            Edit::Cut(at, count) => {
                let at = at % length;
                text.drain(at..(at + count).min(text.len()));
            }
            Edit::Insert(at, token) => {
                let at = at % length;
                text.splice(at..at, token.chars());
            }
            // Whole lines, so that keys and their values come apart.
            Edit::Swap(a, b) => {
                let whole: String = text.iter().collect();
                let mut lines: Vec<&str> = whole.split('\n').collect();
                let count = lines.len();
                lines.swap(a % count, b % count);
                text = lines.join("\n").chars().collect();
            }
            Edit::Repeat(at) => {
                let whole: String = text.iter().collect();
                let mut lines: Vec<&str> = whole.split('\n').collect();
                let at = at % lines.len();
                lines.insert(at, lines[at]);
                text = lines.join("\n").chars().collect();
            }
        }
    }
    text.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn edited_modules_are_read_or_refused(which in any::<bool>(), edits in edits()) {
        let name = if which { "postgres" } else { "redis" };
        let text = edited(&builtin().get(name).unwrap().text, &edits);
        match parse("m.yaml", &text) {
            Ok(module) => prop_assert!(reference(&module).contains(&module.name)),
            Err(faults) => {
                prop_assert!(!faults.is_empty());
                for fault in faults {
                    prop_assert!(fault.place.is_some());
                    prop_assert!(!fault.message.is_empty());
                    let text = fault.to_string();
                    prop_assert!(!text.contains("internal error"), "{text}");
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\n]{0,200}") {
        prop_assert!(parse("m.yaml", &text).is_err());
    }
}
