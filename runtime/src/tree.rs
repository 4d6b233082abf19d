//! The rendered project on disk: a cache that can always be made again.
//!
//! Owner-only, without a secret and without data. Config files stand at names
//! made of their content and are written before the one rename that puts the new
//! `compose.yaml` in place, so that a reader never sees half a tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;
use sidestack_topology::plan::Plan;
use sidestack_topology::render::Rendered;

use crate::error::{Error, Kind, Result};
use crate::files;

/// Writes a tree.
///
/// # Errors
/// When the disk does not take it.
pub(crate) fn write(folder: &Path, plan: &Plan, rendered: &Rendered) -> Result<()> {
    files::create_private_dir(folder)?;
    let store = folder.join("files");
    files::create_private_dir(&store)?;
    for (name, content) in &plan.files {
        let path = store.join(name);
        if !path.exists() {
            // A container's own user reads it through the mount; the folder keeps others out.
            files::write_atomic(&path, content.as_bytes(), 0o444)?;
        }
    }
    let placement = &plan.placement;
    let about = json!({
        "format": 1,
        "install": placement.install,
        "instance_id": placement.instance_id,
        "workspace": placement.target.workspace,
        "environment": placement.target.environment,
        "instance": placement.target.instance,
        "revision": placement.revision,
        "slot": placement.slot,
        "subnet": placement.subnet,
        "checkout": placement.checkout,
        "generation": placement.generation,
    });
    files::write_atomic(&folder.join("revision.json"), format!("{about:#}\n").as_bytes(), 0o600)?;
    let head = format!(
        "# {} as Sidestack renders it; written anew at every change.\n# Look with `docker compose -p {} ps`. Secrets stand by reference.\n",
        placement.target, plan.project
    );
    files::write_atomic(&folder.join("compose.yaml"), format!("{head}{}", rendered.tree()).as_bytes(), 0o600)?;
    Ok(())
}

/// Removes config files that no container can have mounted any more: those that
/// the tree as it stands does not name. Called only when all containers are of
/// that tree.
pub(crate) fn sweep(folder: &Path, plan: &Plan) {
    let wanted: BTreeSet<&String> = plan.files.keys().collect();
    let Ok(entries) = fs::read_dir(folder.join("files")) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !wanted.contains(&name) {
            // A file that stays costs nothing but space.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes a whole tree.
///
/// # Errors
/// When something in it cannot be removed.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Ok(()) => Ok(()),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(Error::new(Kind::Failed, "file", format!("cannot remove `{}`: {cause}", folder.display()))),
    }
}
