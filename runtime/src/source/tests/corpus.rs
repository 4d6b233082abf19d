use super::*;

/// Public compose files, when they are at hand: each one is read, alone in a folder of its name.
///
/// What a file needs beside itself (env files, files to include) is made up; a variable that it requires gets a value.
#[test]
fn public_compose_files_are_read() {
    let folder = match std::env::var_os("SIDESTACK_CORPUS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"),
    };
    let Ok(entries) = fs::read_dir(&folder) else {
        note("skipped: SIDESTACK_CORPUS names no folder of compose files");
        return;
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml"));
    files.sort();
    let (mut failed, mut unsound, mut untold, mut templates) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for path in &files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Deep down, since some reach for folders above their own.
        let mut site = Site::new(&[("a/b/c/d/compose.yaml", &fs::read_to_string(path).unwrap())]);
        let folder = site.at("a/b/c/d");
        if site.compose.is_none() {
            return;
        }
        let mut outcome = site.read_at(&folder);
        // Compose names one missing thing at a time.
        for _ in 0..40 {
            let Err(error) = &outcome else { break };
            if !supply(&mut site, &error.to_string()) {
                break;
            }
            outcome = site.read_at(&folder);
        }
        match outcome {
            Ok(stack) => {
                if !stack.inputs.sound {
                    unsound.push(name.clone());
                }
                if stack.diagnostics.iter().any(|told| told.message.contains("before interpolation")) {
                    untold.push(name.clone());
                }
                templates += stack.templates.values().map(BTreeMap::len).sum::<usize>();
                let model = serde_json::to_string(&(&stack.model, &stack.templates, &stack.interpolation)).unwrap();
                assert!(!model.contains("sidestack0project0name") && !model.contains("ssstandin0x"), "{name}");
                assert!(!model.contains(folder.to_str().unwrap()), "{name}: {model}");
                assert!(stack.inputs.unchanged(&site.shell, &KEY) || !stack.inputs.sound, "{name}");
            }
            Err(error) => failed.push(format!("{name}: {error}")),
        }
    }
    note(&format!(
        "{} files with {templates} templates; not followed completely: {unsound:?}; without templates: {untold:?}",
        files.len()
    ));
    assert!(untold.is_empty());
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), files.len(), failed.join("\n"));
}

/// Brings what a refusal says is missing; whether that was possible.
fn supply(site: &mut Site, refusal: &str) -> bool {
    if let Some((_, rest)) = refusal.split_once("required variable ") {
        let name = rest.split(' ').next().unwrap_or_default().to_owned();
        return site.shell.insert(name, "8080".into()).is_none();
    }
    let (root, folder) = (site.at(""), site.at("a/b/c/d"));
    let words = refusal.split(|c: char| c.is_whitespace() || c == '`' || c == '"');
    for word in words.map(|word| word.trim_end_matches([':', ','])) {
        let path = folder.join(word);
        if !word.ends_with('/')
            && (word.contains('/') || word.contains('.'))
            && path.starts_with(&root)
            && path != folder
            && !path.exists()
        {
            let text = if word.ends_with(".yml") || word.ends_with(".yaml") { "services: {}\n" } else { "" };
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            return true;
        }
    }
    false
}
