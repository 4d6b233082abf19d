//! Wrong command lines, told in the manner of every other error.
//!
//! Values are not repeated: one may be a secret that was typed in the wrong place.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use sidestack_runtime::Error;
use sidestack_topology::diagnostic::nearest;

use crate::args::Cli;
use crate::errors::usage;

/// Whether `--json` was asked for, although the line could not be read.
pub(crate) fn wants_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

fn texts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        Some(ContextValue::StyledStr(text)) => vec![text.to_string()],
        Some(ContextValue::StyledStrs(texts)) => texts.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

fn ticked(texts: &[String]) -> String {
    texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ")
}

/// The error of a line that clap refused.
pub(crate) fn told(error: &clap::Error) -> Error {
    let argument = texts(error, ContextKind::InvalidArg);
    let name = ticked(&argument);
    let message = match error.kind() {
        ErrorKind::InvalidSubcommand => return unknown_command(error),
        ErrorKind::UnknownArgument if argument.iter().all(|word| word.starts_with('-')) => {
            format!("there is no argument {name}")
        }
        ErrorKind::UnknownArgument => "there is an argument too many".to_owned(),
        ErrorKind::MissingRequiredArgument => format!("missing {name}"),
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
            format!("the value of {name} is wrong{why}")
        }
        ErrorKind::InvalidValue => {
            let empty = texts(error, ContextKind::InvalidValue).iter().all(String::is_empty);
            let what = if empty { "has no value" } else { "does not take that value" };
            format!("{name} {what}; there are {}", ticked(&texts(error, ContextKind::ValidValue)))
        }
        ErrorKind::ArgumentConflict => {
            let with = texts(error, ContextKind::PriorArg);
            if with == argument {
                format!("{name} is given twice")
            } else {
                format!("{name} does not go with {}", ticked(&with))
            }
        }
        ErrorKind::MissingSubcommand => "no command is given".to_owned(),
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8".to_owned(),
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    };
    let near: Vec<String> = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
        .into_iter()
        .flat_map(|kind| texts(error, kind))
        .collect();
    let hint = match near.as_slice() {
        [] => texts(error, ContextKind::Usage)
            .first()
            .and_then(|text| text.lines().next())
            .map_or_else(|| "see `sidestack help`".to_owned(), |line| line.replacen("Usage:", "it is used as", 1)),
        _ => format!("did you mean {}?", ticked(&near)),
    };
    usage(message).hint(hint)
}

/// A word that is no command, with the nearest ones.
fn unknown_command(error: &clap::Error) -> Error {
    let word = texts(error, ContextKind::InvalidSubcommand).concat();
    let known: Vec<String> = Cli::command()
        .get_subcommands()
        .flat_map(|command| {
            std::iter::once(command.get_name())
                .chain(command.get_visible_aliases())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .chain(["help".to_owned()])
        .collect();
    let mut near: Vec<String> =
        nearest(&word, known.iter().map(String::as_str)).map(str::to_owned).into_iter().collect();
    for one in texts(error, ContextKind::SuggestedSubcommand) {
        if !near.contains(&one) {
            near.push(one);
        }
    }
    near.truncate(3);
    let error = usage(format!("there is no command `{word}`"));
    match near.as_slice() {
        [] => error.hint(format!("the commands are {}", known.join(" "))),
        _ => error.hint(format!("did you mean {}? nothing was changed", ticked(&near))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn refused(words: &[&str]) -> (String, String) {
        let error = Cli::try_parse_from(std::iter::once(&"sidestack").chain(words)).unwrap_err();
        let error = told(&error);
        (error.message, error.hint.unwrap())
    }

    #[test]
    fn wrong_lines_are_told_shortly() {
        for (words, message, hint) in [
            (&["upp"][..], "there is no command `upp`", "did you mean `up`? nothing was changed"),
            (&["lst"], "there is no command `lst`", "did you mean `ls`"),
            (&["up", "--besides"], "there is no argument `--besides`", "did you mean `--beside`?"),
            (&["exec"], "missing `<SERVICE>`, `<COMMAND>...`", "it is used as sidestack exec"),
            (
                &["env", "--format", "xml"],
                "`--format <FORMAT>` does not take that value; there are `shell`, `dotenv`, `json`, `github`",
                "",
            ),
            (
                &["up", "--timeout", "1x"],
                "the value of `--timeout <DURATION>` is wrong: a duration is such as 90s, 2m or 1h30m",
                "",
            ),
            (&["up", "a/b/c/d"], "the value of `[TARGET]` is wrong: `a/b/c/d` is no target", ""),
            (&["up", "--beside", "--new", "x"], "`--beside` does not go with `--new [<NAME>]`", ""),
        ] {
            let (text, told) = refused(words);
            assert!(text.starts_with(message), "{words:?}: {text}");
            assert!(told.starts_with(hint), "{words:?}: {told}");
        }
    }

    #[test]
    fn p31_a_value_is_not_repeated() {
        for words in [
            &["set", "A B=canary"][..],
            &["set", "1=canary"],
            &["unset", "canary=x y"],
            &["secret", "set", "env:X", "canary"],
            &["env", "--format", "canary"],
        ] {
            let (text, hint) = refused(words);
            assert!(!text.contains("canary") && !hint.contains("canary"), "{text} {hint}");
        }
    }

    #[test]
    fn json_is_looked_for_before_the_double_dash() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&words(&["x", "nope", "--json"])));
        assert!(!wants_json(&words(&["x", "exec", "web", "--", "--json"])));
    }
}
