//! Compose models as data: one form for what means the same, changes applied and taken back, and what only one
//! project of a machine can have.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// What the tree's reference to secret `n` is filled with, so that it is seen in what Compose makes of the tree.
pub(crate) fn marker(n: usize) -> String {
    format!("SS{n}FILLED")
}

/// A tree as it is written, with markers in the place of references to secrets.
pub(crate) fn tree(text: &str, project: &str) -> Value {
    let mut model: Value = sidestack_topology::yaml::parse("tree", text).unwrap();
    each_text(&mut model, &mut |text| {
        // `$$` is a dollar, and nothing but a reference has a single one.
        let parts: Vec<String> = text.split("$$").map(|part| part.replace("${_", "").replace("?}", "FILLED")).collect();
        *text = parts.join("$");
    });
    // Compose names what has no name.
    for section in ["networks", "volumes", "secrets", "configs"] {
        for (key, part) in model.get_mut(section).and_then(Value::as_object_mut).into_iter().flatten() {
            let part = part.as_object_mut().unwrap();
            part.entry("name").or_insert_with(|| Value::from(format!("{project}_{key}")));
        }
    }
    plain(&mut model);
    model
}

/// One form for what means the same: no null, no empty mapping, but a network that is joined with nothing more to say
/// is joined all the same.
pub(crate) fn plain(model: &mut Value) {
    let services = model.get_mut("services").and_then(Value::as_object_mut).into_iter().flatten();
    let networks: BTreeMap<String, Value> = services
        .filter_map(|(name, service)| Some((name.clone(), service.as_object_mut()?.remove("networks")?)))
        .collect();
    prune(model);
    for (name, mut joined) in networks {
        for joined in joined.as_object_mut().into_iter().flat_map(|joined| joined.values_mut()) {
            prune(joined);
            if joined.is_null() {
                *joined = Value::Object(Map::new());
            }
        }
        if joined.as_object().is_some_and(|joined| !joined.is_empty()) {
            let sections = model.as_object_mut().unwrap();
            let services = sections.entry("services").or_insert_with(|| Value::Object(Map::new()));
            let services = services.as_object_mut().unwrap();
            let service = services.entry(name).or_insert_with(|| Value::Object(Map::new()));
            service.as_object_mut().unwrap().insert("networks".to_owned(), joined);
        }
    }
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|_, value| !value.is_null() && !value.as_object().is_some_and(Map::is_empty));
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

/// Every text of a value, keys left alone.
pub(crate) fn each_text(value: &mut Value, edit: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => edit(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, edit)),
        Value::Object(map) => map.values_mut().for_each(|value| each_text(value, edit)),
        _ => {}
    }
}

/// A model with every entry of a report applied, or taken back; what does not fit is told.
pub(crate) fn applied(model: &Value, report: &[Value], back: bool) -> Result<Value, String> {
    let mut model = model.clone();
    let mut entries: Vec<&Value> = report.iter().collect();
    if back {
        entries.reverse();
    }
    for entry in entries {
        let (from, to) = if back { (&entry["to"], &entry["from"]) } else { (&entry["from"], &entry["to"]) };
        let path = entry["path"].as_str().unwrap();
        let (above, key) = path.rsplit_once('/').ok_or_else(|| format!("`{path}` is no place"))?;
        let key = key.replace("~1", "/").replace("~0", "~");
        let place = model.pointer_mut(above).ok_or_else(|| format!("there is no `{above}` for {entry}"))?;
        let has = match &*place {
            Value::Object(map) => map.get(&key),
            Value::Array(items) => key.parse().ok().and_then(|at: usize| items.get(at)),
            other => return Err(format!("{entry} in {other}")),
        };
        let has = has.unwrap_or(&Value::Null);
        if has != from {
            return Err(format!("`{path}` is {has}, not {from}"));
        }
        match (place, to) {
            (Value::Object(map), Value::Null) => _ = map.remove(&key),
            (Value::Object(map), to) => _ = map.insert(key, to.clone()),
            (Value::Array(items), Value::Null) => _ = items.pop(),
            (Value::Array(items), to) => match items.get_mut(key.parse::<usize>().unwrap()) {
                Some(item) => *item = to.clone(),
                None => items.push(to.clone()),
            },
            _ => {}
        }
    }
    Ok(model)
}

/// Where two models differ, a few places.
pub(crate) fn differences(one: &Value, other: &Value) -> Vec<String> {
    fn walk(one: &Value, other: &Value, at: &str, found: &mut Vec<String>) {
        match (one, other) {
            (one, other) if one == other => {}
            (Value::Object(a), Value::Object(b)) => {
                for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                    let null = Value::Null;
                    walk(a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null), &format!("{at}/{key}"), found);
                }
            }
            (one, other) => found.push(format!("{at}: {one} | {other}")),
        }
    }
    let mut found = Vec::new();
    walk(one, other, "", &mut found);
    found.truncate(5);
    found
}

/// Learns what each marker stands for, from a text that has it and the same text with the values.
pub(crate) fn learn(marked: &Value, filled: &Value, values: &mut BTreeMap<String, String>) {
    match (marked, filled) {
        (Value::String(marked), Value::String(filled)) => learn_text(marked, filled, values),
        (Value::Array(a), Value::Array(b)) => a.iter().zip(b).for_each(|(a, b)| learn(a, b, values)),
        (Value::Object(a), Value::Object(b)) => {
            a.iter().filter_map(|(key, a)| Some((a, b.get(key)?))).for_each(|(a, b)| learn(a, b, values));
        }
        _ => {}
    }
}

fn learn_text(marked: &str, filled: &str, values: &mut BTreeMap<String, String>) {
    let Some(at) = marked.find("SS").filter(|at| filled.starts_with(&marked[..*at])) else { return };
    let rest = &marked[at..];
    let Some(end) = rest.find("FILLED").map(|end| end + "FILLED".len()) else { return };
    let (name, rest) = rest.split_at(end);
    if !name[2..name.len() - 6].bytes().all(|b| b.is_ascii_digit()) {
        return;
    }
    // Up to what stands behind it.
    let next = rest.find("SS").map_or(rest, |next| &rest[..next]);
    let filled = &filled[at..];
    let length = match (next.is_empty(), rest.is_empty()) {
        (_, true) => Some(filled.len()),
        (true, _) => None,
        (false, _) => filled.find(next),
    };
    if let Some(length) = length {
        values.entry(name.to_owned()).or_insert_with(|| filled[..length].to_owned());
        learn_text(rest, &filled[length..], values);
    }
}

/// What only one project of a machine can have: ports, names, subnets, addresses. Networks that are told as shared keep
/// their addresses.
pub(crate) fn own(model: &Value, told: &BTreeSet<String>) -> BTreeSet<String> {
    let mut own = BTreeSet::new();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let is_shared = |key: &str| {
        told.iter().any(|path| *path == format!("networks.{key}") || path.starts_with(&format!("networks.{key}.")))
    };
    for section in ["networks", "volumes"] {
        for (key, part) in objects(model.get(section)) {
            if part["external"] == true {
                continue;
            }
            own.insert(format!("{section} {}", text(&part["name"])));
            if is_shared(key) {
                continue;
            }
            for config in array(part.pointer("/ipam/config")) {
                own.insert(format!("subnet {}", text(&config["subnet"])));
            }
            own.extend(
                part.pointer("/driver_opts/com.docker.network.bridge.name").map(|name| format!("bridge {name}")),
            );
        }
    }
    for (_, service) in objects(model.get("services")) {
        own.extend(service.get("container_name").map(|name| format!("container {}", text(name))));
        own.extend(service.get("mac_address").map(|mac| format!("mac {}", text(mac))));
        for (key, joined) in objects(service.get("networks")) {
            for kind in ["ipv4_address", "ipv6_address", "mac_address"] {
                let address = joined.get(kind).filter(|_| !is_shared(key));
                own.extend(address.map(|address| format!("{kind} {}", text(address))));
            }
        }
        for port in array(service.get("ports")) {
            let published = text(&port["published"]);
            let (first, last) = published.split_once('-').unwrap_or((&published, &published));
            for number in first.parse::<u16>().unwrap_or(0)..=last.parse().unwrap_or(0) {
                own.insert(format!("{} port {number}", text(&port["protocol"])));
            }
        }
    }
    own
}

/// Images that are built, by tag, each with what it is built from.
pub(crate) fn built(model: &Value) -> BTreeMap<String, String> {
    let services = objects(model.get("services"));
    let built = services.filter_map(|(_, service)| Some((service.get("image")?.as_str()?, service.get("build")?)));
    built.map(|(image, build)| (image.to_owned(), build.to_string())).collect()
}

/// Keys of what is external, as `networks.KEY`.
pub(crate) fn external(model: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for section in ["networks", "volumes"] {
        let keys = objects(model.get(section)).filter(|(_, part)| part["external"] == true).map(|(key, _)| key);
        found.extend(keys.map(|key| format!("{section}.{key}")));
    }
    found
}

fn objects(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn array(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}
