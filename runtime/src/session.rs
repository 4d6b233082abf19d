//! An opened world: the store, the way to Docker, the person's environment.
//!
//! Verbs are synchronous methods of [`Session`], spread over the modules of
//! [`crate::lifecycle`] and [`crate::look`]. Store calls happen between the
//! blocks that await Docker, never inside them, so no SQLite call blocks the
//! reactor and no transaction is held across a Docker call.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sidestack_state::Store;

use crate::endpoint::{self, Endpoint};
use crate::engine::DockerEngine;
use crate::engine::compose::Compose;
use crate::error::{Error, Kind, Result};
use crate::report::{Event, Reporter};
use crate::secrets::Resolver;
use crate::source;

/// Set by the first Ctrl-C, for the stretches in which no reactor listens.
static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Asks whatever is under way to end, as the first Ctrl-C does.
pub fn cancel() {
    CANCELLED.store(true, Ordering::Relaxed);
}

fn cancelled() -> Error {
    Error::new(Kind::Cancelled, "cancelled", "cancelled").hint("nothing was undone; the same command goes on from here")
}

/// How a session is opened.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--context`.
    pub context: Option<String>,
    /// The folder that the command is run in; the process's own when not given.
    pub folder: Option<PathBuf>,
}

/// See the module.
pub struct Session {
    pub(crate) store: Store,
    pub(crate) env: BTreeMap<String, OsString>,
    pub(crate) folder: PathBuf,
    pub(crate) reporter: Rc<dyn Reporter>,
    pub(crate) began: Instant,
    /// The warnings so far, so that none is told twice.
    warned: RefCell<Vec<String>>,
    options: Options,
    reactor: tokio::runtime::Runtime,
    engine: OnceCell<(DockerEngine, Endpoint)>,
    compose: OnceCell<Compose>,
}

/// Where the store lives: `$SIDESTACK_HOME`, else the platform's data directory.
///
/// # Errors
/// When neither is known.
pub fn home(env: &BTreeMap<String, OsString>) -> Result<PathBuf> {
    if let Some(home) = env.get("SIDESTACK_HOME").filter(|home| !home.is_empty()) {
        let home = PathBuf::from(home);
        return if home.is_absolute() {
            Ok(home)
        } else {
            Err(Error::new(Kind::Usage, "home", format!("SIDESTACK_HOME `{}` is not an absolute path", home.display())))
        };
    }
    directories::ProjectDirs::from("dev", "", "sidestack")
        .map(|dirs| dirs.data_dir().to_owned())
        .ok_or_else(|| Error::new(Kind::Failed, "home", "no home folder is known").hint("set SIDESTACK_HOME"))
}

impl Session {
    /// Opens the store. Docker is looked for when it is first needed.
    ///
    /// # Errors
    /// Whatever stands against the store.
    pub fn open(options: Options, reporter: Rc<dyn Reporter>) -> Result<Self> {
        let began = Instant::now();
        let env: BTreeMap<String, OsString> =
            std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value))).collect();
        let folder = match &options.folder {
            Some(folder) => folder.clone(),
            // One that was deleted under the shell's feet is still where a person stands: what names its target needs
            // no folder, and everything else says that there is none.
            None => std::env::current_dir().unwrap_or_else(|_| {
                let named = env.get("PWD").map(PathBuf::from).filter(|folder| folder.is_absolute());
                named.unwrap_or_else(|| PathBuf::from("."))
            }),
        };
        let store = Store::open(&home(&env)?)?;
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|cause| Error::new(Kind::Failed, "reactor", format!("no event loop: {cause}")))?;
        Ok(Self {
            store,
            env,
            folder,
            reporter,
            began,
            warned: RefCell::default(),
            options,
            reactor,
            engine: OnceCell::new(),
            compose: OnceCell::new(),
        })
    }

    /// The store, for reading.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The person's environment as it was at the start.
    pub fn environment(&self) -> &BTreeMap<String, OsString> {
        &self.env
    }

    pub(crate) fn user_home(&self) -> Option<PathBuf> {
        self.env.get("HOME").map(PathBuf::from)
    }

    /// The engine, and which rule chose it.
    pub(crate) fn engine(&self) -> Result<&DockerEngine> {
        Ok(&self.engine_and_endpoint()?.0)
    }

    /// Where Docker is and which rule says so.
    ///
    /// # Errors
    /// When no endpoint can be used.
    pub fn endpoint(&self) -> Result<&Endpoint> {
        Ok(&self.engine_and_endpoint()?.1)
    }

    fn engine_and_endpoint(&self) -> Result<&(DockerEngine, Endpoint)> {
        if let Some(found) = self.engine.get() {
            return Ok(found);
        }
        let home = self.user_home();
        let endpoint = endpoint::resolve(&self.env, home.as_deref(), self.options.context.as_deref())?;
        // The client registers itself with the reactor.
        let _inside = self.reactor.enter();
        let engine = DockerEngine::connect(&endpoint.host)?;
        Ok(self.engine.get_or_init(|| (engine, endpoint)))
    }

    /// Compose, of a version that is known to be new enough.
    pub(crate) fn compose(&self) -> Result<&Compose> {
        if let Some(compose) = self.compose.get() {
            return Ok(compose);
        }
        let binary = endpoint::find_compose(&self.env, self.user_home().as_deref())?;
        self.check_compose(&binary.path)?;
        let host = self.endpoint()?.host.clone();
        Ok(self.compose.get_or_init(|| Compose::new(binary.path, host)))
    }

    /// Asking Compose for its version takes as long as a container start, so the
    /// answer is kept with what identifies the binary.
    fn check_compose(&self, path: &Path) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let stamp = std::fs::metadata(path)
            .map(|meta| format!("{}:{}:{}:{}", meta.len(), meta.ino(), meta.mtime(), meta.mtime_nsec()))
            .unwrap_or_default();
        let key = format!("compose-version:{}", path.display());
        if self.store.recall(&key)?.is_some_and(|known| known == stamp) {
            return Ok(());
        }
        endpoint::compose_version(path)?;
        self.store.remember(&key, &stamp)?;
        Ok(())
    }

    /// Runs a future to its end; Ctrl-C ends it first with [`Kind::Cancelled`].
    pub(crate) fn wait<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.check_cancelled()?;
        self.reactor.block_on(async {
            tokio::select! {
                biased;
                result = future => result,
                _ = tokio::signal::ctrl_c() => Err(cancelled()),
            }
        })
    }

    /// Whether Ctrl-C came while nothing was waited for.
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        if CANCELLED.load(Ordering::Relaxed) { Err(cancelled()) } else { Ok(()) }
    }

    pub(crate) fn say(&self, event: &Event) {
        if let Event::Warning(text) = event {
            self.warned.borrow_mut().push(text.clone());
        }
        self.reporter.report(event);
    }

    /// Whether there was a warning that begins so.
    pub(crate) fn has_warned(&self, beginning: &str) -> bool {
        self.warned.borrow().iter().any(|text| text.starts_with(beginning))
    }

    pub(crate) fn note(&self, text: impl Into<String>) {
        self.say(&Event::Note(text.into()));
    }

    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.say(&Event::Warning(text.into()));
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// What finds the values of secrets for a checkout's folder.
    pub(crate) fn resolver(&self, folder: PathBuf) -> Resolver {
        let main = source::MainTree::at(&folder);
        Resolver::new(folder, self.env.clone()).looking_in(main)
    }

    /// The folder of an instance's tree.
    pub(crate) fn tree(&self, project: &str) -> PathBuf {
        self.store.home().join("trees").join(project)
    }

    /// The folder of an instance's lock and Compose's output.
    pub(crate) fn lock_file(&self, instance_id: &str) -> PathBuf {
        self.store.home().join("locks").join(format!("{instance_id}.log"))
    }
}
