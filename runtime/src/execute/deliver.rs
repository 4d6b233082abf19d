//! Files that go into a container between create and start: secrets, inline configs.

use std::time::Duration;

use sidestack_topology::plan::Delivery;

use super::Execution;
use crate::digest::filled;
use crate::engine::archive::{FileEntry, tar};
use crate::engine::{Detail, Engine, ExecRequest};
use crate::error::{Error, Kind, Result};

/// Whether a path lies under a tmpfs, where an archive would be written beneath the mount.
fn under_tmpfs(path: &str, detail: &Detail) -> bool {
    let mounts = detail.mounts.iter().filter(|mount| mount.kind == "tmpfs").map(|mount| mount.destination.as_str());
    let inside = |mount: &str| {
        let mount = mount.trim_end_matches('/');
        path.strip_prefix(mount).is_some_and(|rest| rest.starts_with('/'))
    };
    mounts.chain(detail.tmpfs.iter().map(String::as_str)).any(inside)
}

impl<E: Engine> Execution<'_, E> {
    /// Before the start: everything that an archive reaches.
    pub(super) async fn deliver(&self, id: &str, deliveries: &[Delivery], detail: &Detail) -> Result<()> {
        let entries: Vec<FileEntry> = deliveries
            .iter()
            .filter(|delivery| !under_tmpfs(&delivery.path, detail))
            .map(|delivery| FileEntry {
                path: delivery.path.clone(),
                mode: delivery.mode,
                uid: u64::from(delivery.uid),
                gid: u64::from(delivery.gid),
                content: filled(&delivery.content, self.secrets).into_bytes(),
            })
            .filter(|entry| !entry.content.is_empty())
            .collect();
        if !entries.is_empty() {
            self.engine.put_archive(id, "/", tar(&entries)?).await?;
        }
        Ok(())
    }

    /// After the start: what lies under a tmpfs, by standard input.
    pub(super) async fn deliver_late(&self, id: &str, deliveries: &[Delivery], detail: &Detail) -> Result<()> {
        for delivery in deliveries.iter().filter(|delivery| under_tmpfs(&delivery.path, detail)) {
            const SCRIPT: &str = r#"mkdir -p "$(dirname "$1")" && cat > "$1" && chown "$3:$4" "$1" && chmod "$2" "$1""#;
            let mode = format!("{:o}", delivery.mode);
            let (uid, gid) = (delivery.uid.to_string(), delivery.gid.to_string());
            let words = ["/bin/sh", "-c", SCRIPT, "sh", &delivery.path, &mode, &uid, &gid];
            let mut request = ExecRequest::new(words, Duration::from_secs(10));
            request.user = Some("0".to_owned());
            request.stdin = Some(filled(&delivery.content, self.secrets).into_bytes());
            let done = self.engine.exec(id, &request).await?;
            if done.code != 0 {
                let message = format!("`{}` could not be put into the container", delivery.path);
                return Err(Error::new(Kind::Failed, "deliver", message)
                    .detail(self.masker.mask(String::from_utf8_lossy(&done.stderr).trim())));
            }
        }
        Ok(())
    }
}
