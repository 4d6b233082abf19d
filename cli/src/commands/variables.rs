//! `env`, `set`, `unset`, `secret`.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};

use sidestack_runtime::api::{Explained, SetReport};
use sidestack_runtime::secrets::SecretValue;
use sidestack_runtime::{Error, Kind};
use sidestack_state::VariableValue;

use super::Context;
use crate::args::{self, Format, SecretCommand, Vantage};
use crate::errors::{Stop, usage};
use crate::format;
use crate::json;
use crate::output::{Style, Table};

/// Who gets a variable on the host.
const HOST: &str = "host";

pub(super) fn env(context: &Context<'_>, args: &args::Env) -> Result<u8, Stop> {
    let (session, out) = (context.session()?, context.out);
    let target = context.target(args.at.target.as_ref());
    let container = args.vantage == Vantage::Container || args.service.is_some();
    if let Some(format) = args.format {
        let values = session.variables(&target, container, args.service.as_deref())?;
        return hand_over(context, format, &values);
    }
    let key = args.explain.as_ref().and_then(Option::as_deref);
    let all = session.explain(&target, key)?;
    let reached = |one: &&Explained| match (&args.service, container, &args.explain) {
        (Some(service), ..) => one.reaches.contains(service),
        (None, _, Some(_)) => true,
        (None, true, None) => one.reaches.iter().any(|who| who != HOST),
        (None, false, None) => one.reaches.iter().any(|who| who == HOST),
    };
    let shown: Vec<&Explained> = all.iter().filter(reached).collect();
    if let (Some(key), true) = (key, shown.is_empty()) {
        let error = Error::new(Kind::NotFound, "no-variable", format!("there is no variable `{key}`"));
        let near = sidestack_topology::diagnostic::nearest(key, all.iter().map(|one| one.key.as_str()));
        return Err(error
            .hint(near.map_or_else(
                || "`sidestack env --explain` lists them".to_owned(),
                |near| format!("did you mean `{near}`?"),
            ))
            .into());
    }
    if out.json {
        out.document(&shown.into_iter().collect::<json::Variables>())?;
    } else if args.explain.is_some() {
        explain(context, &shown)?;
    } else {
        let mut table = Table::new(&["NAME", "VALUE", "LAYER"]);
        for one in shown {
            table.styled([(&one.key, Style::Bold), (&one.shown, Style::Plain), (&layer(one), Style::Dim)]);
        }
        if table.is_empty() {
            out.note("there are no variables; `sidestack env --vantage container` shows those of containers");
        } else {
            out.table(&table)?;
        }
    }
    Ok(0)
}

/// `instance` or `source staging`.
fn layer(one: &Explained) -> String {
    if one.origin.is_empty() || one.origin == one.layer.to_string() {
        one.layer.to_string()
    } else {
        format!("{} {}", one.layer, one.origin)
    }
}

fn explain(context: &Context<'_>, all: &[&Explained]) -> Result<(), Stop> {
    for (at, one) in all.iter().enumerate() {
        if at > 0 {
            context.out.data("\n")?;
        }
        let mut table = Table::bare(0);
        table.styled([(one.key.as_str(), Style::Bold), (&one.shown, Style::Plain), (&layer(one), Style::Good)]);
        for (kind, origin, value) in &one.shadowed {
            let layer = format!("{kind} {origin}");
            table.styled([("  shadowed", Style::Dim), (value.as_str(), Style::Dim), (layer.trim_end(), Style::Dim)]);
        }
        let within = one.within.iter().map(|(service, entry)| format!("{service} (in {entry})"));
        let reaches = one.reaches.iter().cloned().chain(within).collect::<Vec<_>>().join(", ");
        let reaches = if reaches.is_empty() { "none".to_owned() } else { reaches };
        table.styled([("  reaches", Style::Dim), (reaches.as_str(), Style::Plain)]);
        context.out.table(&table)?;
    }
    Ok(())
}

/// The values themselves, for whoever asked for them.
fn hand_over(context: &Context<'_>, format: Format, values: &BTreeMap<String, SecretValue>) -> Result<u8, Stop> {
    let (fit, unfit): (Vec<_>, Vec<_>) =
        values.iter().partition(|(key, _)| format == Format::Json || format::is_name(key));
    for (key, _) in unfit {
        context.out.warn(format!("`{key}` is left out: it is no name for a shell"));
    }
    let values: BTreeMap<&str, &str> = fit.into_iter().map(|(key, value)| (key.as_str(), value.expose())).collect();
    context.out.data(&format::write(format, &values))?;
    Ok(0)
}

pub(super) fn set(context: &Context<'_>, args: &args::Set) -> Result<u8, Stop> {
    let mut values: Vec<(String, VariableValue)> = Vec::new();
    for one in &args.assignments {
        let value = match (&args.secret, &one.value) {
            (Some(reference), None) => VariableValue::Secret(reference.clone()),
            (None, Some(value)) => VariableValue::Literal(value.clone()),
            (Some(_), Some(_)) => {
                return Err(usage(format!("`{}` has a value and a secret", one.key))
                    .hint(format!("`sidestack set {} --secret REFERENCE`", one.key))
                    .into());
            }
            (None, None) => {
                return Err(usage(format!("`{}` has no value", one.key))
                    .hint(format!("`sidestack set {0}=VALUE`, or `sidestack set {0} --secret REFERENCE`", one.key))
                    .into());
            }
        };
        if values.iter().any(|(key, _)| *key == one.key) {
            return Err(usage(format!("`{}` is set twice", one.key)).into());
        }
        values.push((one.key.clone(), value));
    }
    let report = context.session()?.set(&context.target(args.target.as_ref()), args.layer.chosen(), &values)?;
    written(context, &report, "set")
}

pub(super) fn unset(context: &Context<'_>, args: &args::Unset) -> Result<u8, Stop> {
    let report = context.session()?.unset(&context.target(args.target.as_ref()), args.layer.chosen(), &args.keys)?;
    written(context, &report, "unset")
}

fn written(context: &Context<'_>, report: &SetReport, verb: &str) -> Result<u8, Stop> {
    let out = context.out;
    if out.json {
        out.document(&json::Changed::from(report))?;
        return Ok(0);
    }
    if report.changed.is_empty() {
        out.note(format!("{}: nothing was to do", report.place));
    } else {
        out.note(format!("{}: {verb} {}", report.place, report.changed.join(", ")));
    }
    if !report.unreached.is_empty() {
        out.warn(format!(
            "no service names {}: list it in the service's environment, or in `inject`",
            report.unreached.join(", ")
        ));
    }
    for target in &report.behind {
        out.note(format!("{target} has the old value until `sidestack up {target}`"));
    }
    Ok(0)
}

pub(super) fn secret(context: &Context<'_>, args: &args::Secret) -> Result<u8, Stop> {
    let out = context.out;
    match &args.command {
        SecretCommand::Set { reference } => {
            let value = value_from_input(reference)?;
            context.session()?.secret_set(reference, value)?;
            done(context, reference, "is kept")
        }
        SecretCommand::Rm { reference } => {
            context.session()?.secret_remove(reference)?;
            done(context, reference, "is removed")
        }
        SecretCommand::Get { reference } => {
            let value = context.session()?.secret_get(reference)?;
            if out.json {
                out.document(&json::SecretGot { reference: reference.clone(), value: value.expose().to_owned() })?;
            } else {
                out.data(&format!("{}\n", value.expose()))?;
            }
            Ok(0)
        }
        SecretCommand::Ls { inside } => {
            let all = context.session()?.secret_list(&context.target(inside.target.as_ref()))?;
            if out.json {
                out.document(&json::Secrets::from(all.as_slice()))?;
                return Ok(0);
            }
            let mut table = Table::new(&["REFERENCE", "USED BY"]);
            for (reference, users) in &all {
                table.row([reference.as_str(), &users.join(", ")]);
            }
            if table.is_empty() {
                out.note("the stack refers to no secret");
            } else {
                out.table(&table)?;
            }
            Ok(0)
        }
    }
}

fn done(context: &Context<'_>, reference: &str, what: &str) -> Result<u8, Stop> {
    if context.out.json {
        context.out.document(&json::SecretDone { reference: reference.to_owned() })?;
    } else {
        context.out.note(format!("`{reference}` {what}"));
    }
    Ok(0)
}

/// A secret's value from standard input, without the newline at its end. Arguments
/// are seen by every process of the machine, so a value is never one.
fn value_from_input(reference: &str) -> Result<SecretValue, Stop> {
    let input = std::io::stdin();
    if input.is_terminal() {
        return Err(usage("a secret's value is read from standard input, which is a terminal")
            .hint(format!("read -rs V && printf %s \"$V\" | sidestack secret set {reference}; unset V"))
            .into());
    }
    let mut text = String::new();
    // The bytes of what could not be read are in no message.
    if input.lock().read_to_string(&mut text).is_err() {
        return Err(usage("the secret's value is not UTF-8").into());
    }
    let value = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text);
    if value.is_empty() {
        return Err(usage("standard input holds no value")
            .hint(format!("`sidestack secret rm {reference}` removes it"))
            .into());
    }
    if value.contains('\0') {
        return Err(usage("the secret's value holds a NUL").into());
    }
    Ok(SecretValue::new(value.to_owned()))
}
