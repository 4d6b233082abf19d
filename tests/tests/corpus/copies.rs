//! Two copies of one project, planned by the real program and held against Compose's own reading.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sidestack_state::{Instance, Store};
use sidestack_tests::{Ran, World};

use crate::model::{applied, built, differences, each_text, external, learn, marker, own, plain, tree as tree_of};

/// A project of a corpus: a compose file, or a folder with some.
pub(crate) struct Project {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// What became of one.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It runs in two copies.
    Planned {
        /// Entries of the report by rule.
        rules: BTreeMap<String, usize>,
        /// How many things are told as shared.
        shared: usize,
        /// What is not as it should be.
        wrong: Vec<String>,
    },
    /// It does not.
    Refused {
        code: String,
        message: String,
        /// Compose itself refuses it.
        by_compose: bool,
        wrong: Vec<String>,
    },
}

impl Outcome {
    pub(crate) fn wrong(&self) -> &[String] {
        let (Self::Planned { wrong, .. } | Self::Refused { wrong, .. }) = self;
        wrong
    }
}

/// Refusals with a reason of their own: what Compose reads, but runs neither, or what nobody could run twice.
const TRUE_REASONS: [&str; 13] = [
    "and one fixed address",
    "publishes ports, but its network is",
    "mounts a `npipe`",
    "`models` are not supported",
    "uses models, which is not supported",
    "uses a provider, which is not supported",
    "uses a credential spec, which is not supported",
    "exists in Swarm only",
    "only tcp and udp are supported",
    "for a Windows drive",
    "whose file system is read-only",
    "would stand under the tmpfs",
    "; a slot has 100",
];

/// Variables that look like secrets get values of their own, so that references stand in the trees.
const SECRET_WORDS: [&str; 4] = ["PASSWORD", "SECRET", "TOKEN", "PASSWD"];

/// All projects in folders of their own, with one store.
pub(crate) struct Corpus {
    world: World,
}

/// A copy that was planned.
struct Copy {
    /// `plan --json`.
    plan: Value,
    /// The tree as it is written.
    tree: Value,
    /// What Compose makes of it.
    read: Value,
    /// What Compose makes of the files under the same name.
    original: Value,
    /// The texts of files of variables, where secrets may come from too.
    in_files: String,
}

impl Corpus {
    pub(crate) fn new(projects: &[Project]) -> Self {
        let world = World::new();
        fs::create_dir_all(world.home()).unwrap();
        for project in projects {
            let folder = world.root().join("corpus").join(stem(&project.name));
            fs::create_dir_all(&folder).unwrap();
            if project.path.is_dir() {
                copy_all(&project.path, &folder);
            } else {
                fs::copy(&project.path, folder.join("compose.yaml")).unwrap();
            }
        }
        Self { world }
    }

    fn folder(&self, project: &Project) -> PathBuf {
        fs::canonicalize(self.world.root().join("corpus").join(stem(&project.name))).unwrap()
    }

    /// The store has the workspace and both instances with slots, so that the copies do not stand in one place.
    fn instances(&self, store: &Store, folder: &Path) -> [Instance; 2] {
        let identity = format!("folder:{}", folder.display());
        let wanted = sidestack_name(&folder.file_name().unwrap().to_string_lossy());
        let workspace = store.ensure_workspace(&identity, &wanted.parse().unwrap()).unwrap();
        let environment = store.ensure_environment(workspace.id, &"dev".parse().unwrap()).unwrap();
        ["main", "two"].map(|name| {
            let name = name.parse().unwrap();
            let instance = store.create_instance(environment.id, &name, Some(folder), false).unwrap();
            store.lease_slot(instance.id, &BTreeSet::new(), "10.231").unwrap();
            store.instance_by_id(instance.id).unwrap()
        })
    }

    /// Plans two copies and holds them against each other and against Compose.
    pub(crate) fn two_copies(&self, project: &Project) -> Outcome {
        let folder = self.folder(project);
        let store = Store::open(&self.world.home()).unwrap();
        let instances = self.instances(&store, &folder);
        let secrets = self.secrets(&folder);
        let outcome = self.planned(&folder, &secrets);
        for instance in &instances {
            store.release_slot(instance.id).unwrap();
        }
        outcome
    }

    fn planned(&self, folder: &Path, secrets: &BTreeMap<String, String>) -> Outcome {
        let mut wrong = Vec::new();
        let mut copies = Vec::new();
        for name in ["main", "two"] {
            let tree = folder.join(format!("../tree-{}-{name}", folder.file_name().unwrap().to_string_lossy()));
            let mut command = self.world.command(["plan", name, "--json", "--render"]);
            let ran = ran(command.arg(&tree).current_dir(folder).envs(secrets));
            if ran.code == 101 || ran.code == 255 || ran.stderr.contains("panicked") {
                wrong.push(format!("it broke: {}", ran.stderr));
            }
            if ran.code != 0 {
                return self.refused(folder, secrets, &ran, wrong);
            }
            let plan = ran.json();
            let project = plan["project"].as_str().unwrap().to_owned();
            let original = self.compose(folder, &project, secrets, &["--profile", "*"]);
            let fills: BTreeMap<String, String> = (0..200).map(|n| (format!("_SS{n}"), marker(n))).collect();
            let file = tree.join("compose.yaml");
            let read =
                self.compose(folder, &project, &fills, &["--env-file", "/dev/null", "-f", file.to_str().unwrap()]);
            match (original, read) {
                (Ok(original), Ok(read)) => {
                    let tree = tree_of(&fs::read_to_string(&file).unwrap(), &project);
                    copies.push(Copy { plan, tree, read, original, in_files: env_files(folder) });
                }
                (Err(error), _) => wrong.push(format!("Compose itself refuses what is planned: {error}")),
                (_, Err(error)) => wrong.push(format!("Compose refuses the copy `{name}`: {error}")),
            }
        }
        if let [one, other] = &copies[..] {
            for copy in &copies {
                copy.exact(secrets, &mut wrong);
            }
            one.apart_from(other, &mut wrong);
        }
        let entries = copies.iter().flat_map(|copy| copy.entries());
        let mut rules = BTreeMap::new();
        for entry in entries {
            *rules.entry(entry["rule"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
        let warnings = copies.first().and_then(|copy| copy.plan["warnings"].as_array().cloned()).unwrap_or_default();
        let shared = warnings.iter().filter(|w| w["hint"].as_str().is_some_and(|hint| hint.contains("copy"))).count();
        Outcome::Planned { rules, shared, wrong }
    }

    fn refused(&self, folder: &Path, secrets: &BTreeMap<String, String>, ran: &Ran, mut wrong: Vec<String>) -> Outcome {
        let document: Value = serde_json::from_str(&ran.stdout).unwrap_or(Value::Null);
        let error = &document["error"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let errors = error["diagnostics"].as_array().into_iter().flatten().filter(|fault| fault["severity"] == "error");
        let mut messages: Vec<String> = errors.map(|fault| text(&fault["message"])).collect();
        if messages.is_empty() {
            messages.push(text(&error["message"]));
        }
        let by_compose = self.compose(folder, "original", secrets, &["--profile", "*"]).is_err();
        let has_reason = |message: &String| TRUE_REASONS.iter().any(|reason| message.contains(reason));
        if !by_compose && !messages.iter().all(has_reason) {
            wrong.push(format!("it is refused without need: {} {}", messages.join("; "), ran.stderr));
        }
        Outcome::Refused { code: text(&error["code"]), message: messages.join("; "), by_compose, wrong }
    }

    /// Variables that the files interpolate and that look like secrets, with values; none where Compose then refuses.
    fn secrets(&self, folder: &Path) -> BTreeMap<String, String> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let text = fs::read_to_string(&entry).unwrap_or_default();
            for (at, _) in text.match_indices('$') {
                let name = text[at + 1..].trim_start_matches('{');
                let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
                if SECRET_WORDS.iter().any(|word| name[..end].to_ascii_uppercase().contains(word)) {
                    names.insert(name[..end].to_owned());
                }
            }
        }
        let value = |(at, name): (usize, String)| (name, format!("s3cr\u{e9}t {at} $x\"'"));
        let secrets: BTreeMap<String, String> = names.into_iter().enumerate().map(value).collect();
        match self.compose(folder, "original", &secrets, &["--profile", "*"]) {
            Ok(_) => secrets,
            Err(_) => BTreeMap::new(),
        }
    }

    fn docker(&self, folder: &Path, env: &BTreeMap<String, String>) -> Command {
        let mut command = Command::new("docker");
        command.current_dir(folder).env_clear().stdin(Stdio::null());
        // What the program is run with.
        for (key, value) in self.world.command(["version"]).get_envs().filter_map(|(key, value)| Some((key, value?))) {
            command.env(key, value);
        }
        command.env("PWD", folder).envs(env);
        command
    }

    /// What Compose reads, in plain form.
    fn compose(
        &self,
        folder: &Path,
        project: &str,
        env: &BTreeMap<String, String>,
        args: &[&str],
    ) -> Result<Value, String> {
        let mut command = self.docker(folder, env);
        command.args(["compose", "-p", project, "--project-directory"]).arg(folder).args(args);
        let ran = ran(command.args(["config", "--format", "json"]));
        if ran.code != 0 {
            return Err(ran
                .stderr
                .lines()
                .rfind(|line| !line.contains("level=warning"))
                .unwrap_or_default()
                .to_owned());
        }
        // It doubles every dollar that it prints.
        let mut model: Value =
            serde_json::from_str(&ran.stdout.replace("$$", "$")).map_err(|error| format!("{error}"))?;
        plain(&mut model);
        Ok(model)
    }

    /// The fastest runs of `plan` and of Compose's own `config`; more of them only where the first are not enough.
    pub(crate) fn fastest(&self, project: &Project, more: Duration, runs: usize) -> (Duration, Duration) {
        let folder = self.folder(project);
        let (mut plan, mut config) = (Duration::MAX, Duration::MAX);
        for _ in 0..runs {
            plan = plan.min(ran(self.world.command(["plan", "--json"]).current_dir(&folder)).took);
            let mut command = self.docker(&folder, &BTreeMap::new());
            config = config.min(ran(command.args(["compose", "config", "--format", "json"])).took);
            if plan <= config + more {
                break;
            }
        }
        (plan, config)
    }
}

impl Copy {
    fn entries(&self) -> impl Iterator<Item = &Value> {
        self.plan["isolation"].as_array().into_iter().flatten()
    }

    /// The report is the difference: applied to the files it gives the copy, taken back from the copy the files.
    fn exact(&self, secrets: &BTreeMap<String, String>, wrong: &mut Vec<String>) {
        let mut report: Vec<Value> = self.entries().cloned().collect();
        for entry in report.iter().filter(|entry| entry["rule"] == "unexplained") {
            wrong.push(format!("nothing explains {entry}"));
        }
        // Secrets stand in the report by reference.
        let shown = |text: &mut String| {
            for (name, value) in secrets {
                *text = text.replace(&format!("‹env:{name}›"), value);
            }
        };
        let mut shown = shown;
        for entry in &mut report {
            each_text(entry, &mut shown);
        }
        // A config out of the environment is held with its content; Compose reads that when it makes the container.
        let mut original = self.original.clone();
        for entry in report.iter().filter(|entry| entry["rule"] == "delivery") {
            let config = original.pointer_mut(entry["path"].as_str().unwrap()).and_then(Value::as_object_mut);
            if let (Some(config), Some(content)) = (config, entry["from"].get("content"))
                && config.remove("environment").is_some()
            {
                config.insert("content".to_owned(), content.clone());
            }
        }
        let forward = match applied(&original, &report, false) {
            Ok(model) => model,
            Err(error) => return wrong.push(format!("the report does not fit the files: {error}")),
        };
        // And in the tree by number: what each is is learnt, and must be a secret.
        let mut values = BTreeMap::new();
        learn(&self.tree, &forward, &mut values);
        let known = |value: &String| secrets.values().any(|secret| secret == value) || self.in_files.contains(value);
        for (name, value) in values.iter().filter(|(_, value)| !known(value)) {
            wrong.push(format!("{name} stands for `{value}`, which is no secret"));
        }
        let mut tree = self.tree.clone();
        each_text(&mut tree, &mut |text| {
            for (name, value) in &values {
                *text = text.replace(name, value);
            }
        });
        if forward != tree {
            wrong.push(format!("the copy is not what the report says: {:#?}", differences(&forward, &tree)));
        }
        match applied(&tree, &report, true) {
            Ok(back) if back == original => {}
            Ok(back) => wrong.push(format!("taken back it differs: {:#?}", differences(&back, &original))),
            Err(error) => wrong.push(format!("the report does not fit the copy: {error}")),
        }
    }

    /// What only one of a machine can have is had by one; what is shared is told.
    fn apart_from(&self, other: &Self, wrong: &mut Vec<String>) {
        let (told, told_there) = (self.told(), other.told());
        for met in own(&self.read, &told).intersection(&own(&other.read, &told_there)) {
            wrong.push(format!("both copies have {met}"));
        }
        let (built, theirs) = (built(&self.read), built(&other.read));
        for (tag, content) in built.iter().filter(|(tag, content)| theirs.get(*tag).is_some_and(|c| c != *content)) {
            wrong.push(format!("both copies build `{tag}`, of {content} and of {}", theirs[tag]));
        }
        for (copy, told) in [(self, told), (other, told_there)] {
            for key in external(&copy.read).iter().filter(|key| !told.contains(key.as_str())) {
                wrong.push(format!("nothing says that {key} is shared"));
            }
        }
    }

    /// The places of everything that is warned of.
    fn told(&self) -> BTreeSet<String> {
        let warnings = self.plan["warnings"].as_array().into_iter().flatten();
        warnings.filter_map(|warning| warning["path"].as_str().map(str::to_owned)).collect()
    }
}

/// A name of a workspace: letters, digits and dashes.
fn sidestack_name(text: &str) -> String {
    let name: String = text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("c-{}", name.trim_matches('-').chars().take(24).collect::<String>().trim_matches('-'))
}

/// The folder of a project; `x.yaml` and `x.yml` are two.
fn stem(name: &str) -> String {
    name.replace('.', "-")
}

fn env_files(folder: &Path) -> String {
    let mut text = String::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            text.push_str(&env_files(&path));
        } else if path.to_string_lossy().ends_with("env") {
            text.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
    text
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() { copy_all(&entry, &target) } else { _ = fs::copy(&entry, &target).unwrap() }
    }
}

fn ran(command: &mut Command) -> Ran {
    let began = Instant::now();
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(255),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: began.elapsed(),
    }
}
