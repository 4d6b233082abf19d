//! What is generated for people: the schema of the format, a page per module.

use std::fmt::Write;

use serde_json::Value;
use sidestack_topology::module::{Characteristic, Module, Setting, SettingKind};
use sidestack_topology::units::format_size;

use crate::raw::RawModule;

/// The JSON schema of a module as it is written.
pub fn schema() -> Value {
    schemars::schema_for!(RawModule).to_value()
}

/// A Markdown page about a module.
pub fn reference(module: &Module) -> String {
    // Writing to a `String` cannot fail, so the results below are dropped.
    let mut page = String::new();
    let out = &mut page;
    let _ = writeln!(out, "# {}\n\n{}.\n", module.name, module.summary);
    overview(out, module);
    settings(out, module);
    credentials(out, module);
    ports(out, module);
    provisions(out, module);
    variables(out, module);
    data(out, module);
    page
}

/// A row of texts in backticks.
fn ticked<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("`{text}`")).collect();
    texts.join(", ")
}

/// A cell: a bar would end it, and a line break the table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn table(out: &mut String, title: &str, head: &[&str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "## {title}\n");
    let _ = writeln!(out, "| {} |", head.join(" | "));
    let _ = writeln!(out, "|{}", " --- |".repeat(head.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|text| cell(text)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

fn overview(out: &mut String, module: &Module) {
    let provides = ticked(module.provides.iter().map(String::as_str));
    let arrangements: Vec<String> = module.arrangements.iter().map(ToString::to_string).collect();
    let arrangements = ticked(arrangements.iter().map(String::as_str));
    let _ = writeln!(out, "- Provides: {provides}");
    let _ = writeln!(out, "- Preference among those that provide the same: {}", module.preference);
    let _ = writeln!(out, "- Arrangements: {arrangements}");
    let exercised = if module.exercised { "yes" } else { "no; it was read against the engine's documentation only" };
    let _ = writeln!(out, "- Exercised on real containers: {exercised}\n");
    let rows: Vec<Vec<String>> = module
        .versions
        .iter()
        .enumerate()
        .map(|(index, version)| {
            let preferred = if index == 0 { " (preferred)" } else { "" };
            vec![
                format!("`{}@{}`{preferred}", module.name, version.version),
                format!("`{}`", version.image),
                format!("`{}`", version.data_format),
            ]
        })
        .collect();
    table(out, "Versions", &["engine", "image", "data format"], &rows);
    let rows: Vec<Vec<String>> = module
        .characteristics
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Characteristic::AtMost(bytes) => format!("at most {}", format_size(*bytes)),
                Characteristic::Is(true) => "yes".to_owned(),
                Characteristic::Is(false) => "no".to_owned(),
            };
            vec![format!("`{key}`"), value]
        })
        .collect();
    table(out, "Characteristics", &["a stack may require", "it has"], &rows);
}

fn settings(out: &mut String, module: &Module) {
    let rows: Vec<Vec<String>> = module
        .settings
        .iter()
        .map(|(key, setting)| {
            let mut kind = setting.kind.to_string();
            if setting.secret {
                kind.push_str(", a secret");
            }
            vec![format!("`{key}`"), kind, default(setting), setting.summary.clone()]
        })
        .collect();
    table(out, "Settings", &["setting", "value", "default", "what it is"], &rows);
}

fn default(setting: &Setting) -> String {
    match (&setting.default, &setting.kind) {
        (None, _) if setting.required => "must be said".to_owned(),
        (None, _) => "–".to_owned(),
        (Some(value), SettingKind::Size { .. }) => {
            let size = value.as_u64().map_or_else(|| value.to_string(), format_size);
            format!("`{size}`")
        }
        (Some(Value::String(text)), _) if text.is_empty() => "empty".to_owned(),
        (Some(Value::String(text)), _) => format!("`{text}`"),
        (Some(value), _) => format!("`{value}`"),
    }
}

fn credentials(out: &mut String, module: &Module) {
    let rows: Vec<Vec<String>> = module
        .credentials
        .iter()
        .map(|(key, credential)| {
            let default = match credential.default.as_str() {
                "" => "empty".to_owned(),
                text => format!("`{text}`"),
            };
            let secret = if credential.secret { "yes" } else { "no" };
            vec![format!("`{key}`"), default, secret.to_owned()]
        })
        .collect();
    let head = ["credential", "development default", "may be a reference to a secret"];
    table(out, "Credentials", &head, &rows);
}

fn ports(out: &mut String, module: &Module) {
    let rows: Vec<Vec<String>> = module
        .ports
        .iter()
        .map(|(key, port)| {
            let scheme = port.scheme.as_ref().map(|scheme| format!("`{scheme}://`"));
            let primary = if port.primary { " (primary)" } else { "" };
            vec![
                format!("`{key}`{primary}"),
                format!("{}/{}", port.port, port.protocol),
                service(&port.service),
                scheme.unwrap_or_else(|| "–".to_owned()),
            ]
        })
        .collect();
    table(out, "Ports", &["port", "in the container", "service", "scheme"], &rows);
}

/// A service as Compose will call it.
fn service(key: &str) -> String {
    match key {
        "main" => "`<resource>`".to_owned(),
        key => format!("`<resource>-{key}`"),
    }
}

fn provisions(out: &mut String, module: &Module) {
    let rows: Vec<Vec<String>> = module
        .provisions
        .iter()
        .map(|(key, provision)| {
            let default: Vec<String> = provision.default.iter().map(|template| readable(template, None)).collect();
            let default = ticked(default.iter().map(String::as_str));
            let pattern = provision.pattern.as_ref().map(|text| format!("`{text}`"));
            vec![
                format!("`{key}`"),
                if default.is_empty() { "none".to_owned() } else { default },
                pattern.unwrap_or_else(|| "–".to_owned()),
                provision.summary.clone(),
            ]
        })
        .collect();
    let head = ["key", "default", "a name matches", "what is made"];
    table(out, "Provisions", &head, &rows);
}

/// A template as a person reads it: `{{ credentials.user|url }}` is `<user>`, and
/// what stands under a condition is in square brackets. Only the address is
/// filled in, because it is what differs.
fn readable(template: &str, address: Option<(&str, &str)>) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let closing = match from.get(..2) {
            Some("{{") => "}}",
            Some("{%") => "%}",
            _ => {
                out.push('{');
                rest = &from[1..];
                continue;
            }
        };
        let Some((inner, after)) = from[2..].split_once(closing) else {
            rest = from;
            break;
        };
        let inner = inner.trim_matches(['-', ' ']);
        let name = inner.split('|').next().unwrap_or(inner).trim();
        match (closing, name, address) {
            ("%}", name, _) if name.starts_with("if ") => out.push('['),
            ("%}", "else", _) => out.push_str(" or "),
            ("%}", "endif", _) => out.push(']'),
            ("%}", _, _) => {}
            (_, "host", Some((host, _))) => out.push_str(host),
            (_, "port", Some((_, port))) => out.push_str(port),
            (_, name, _) => {
                let last = name.rsplit('.').next().unwrap_or(name);
                let last = match last.strip_suffix("[0]") {
                    Some(list) => format!("first of {list}"),
                    None => last.to_owned(),
                };
                let _ = write!(out, "<{last}>");
            }
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn variables(out: &mut String, module: &Module) {
    let primary = module.ports.values().find(|port| port.primary);
    let (host, port) = match primary {
        Some(port) => (service(&port.service).replace('`', ""), port.port.to_string()),
        None => (String::new(), String::new()),
    };
    let row = |name: String, template: &str| {
        vec![
            format!("`{name}`"),
            format!("`{}`", readable(template, Some((&host, &port)))),
            format!("`{}`", readable(template, Some(("127.0.0.1", "<published>")))),
        ]
    };
    let variables = &module.variables;
    let prefixed = variables.prefixed.iter().map(|(name, template)| row(format!("<RESOURCE>_{name}"), template));
    let each = variables.each.iter().flat_map(|(kind, names)| {
        names.iter().map(move |(name, template)| (format!("<RESOURCE>_<NAME>_{name}` for each of `{kind}"), template))
    });
    let rows: Vec<Vec<String>> = prefixed.chain(each.map(|(name, template)| row(name, template))).collect();
    let head = ["variable", "inside a container", "on the host"];
    table(out, "Variables", &head, &rows);
    let rows: Vec<Vec<String>> =
        variables.conventional.iter().map(|(name, template)| row(name.clone(), template)).collect();
    let title = "Conventional variables, when it is the default of its kind";
    table(out, title, &head, &rows);
}

fn data(out: &mut String, module: &Module) {
    let rows: Vec<Vec<String>> = module
        .services
        .iter()
        .flat_map(|(key, fragment)| {
            fragment
                .volumes
                .iter()
                .map(move |(volume, path)| vec![format!("`{volume}`"), service(key), format!("`{path}`")])
        })
        .collect();
    table(out, "Data volumes", &["volume", "service", "path"], &rows);
    // One line break at the end, as every file has.
    out.truncate(out.trim_end().len());
    out.push('\n');
}
