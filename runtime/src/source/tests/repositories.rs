use std::time::Duration;

use super::*;

#[test]
fn the_nearest_folder_with_a_stack_is_found() {
    let site = Site::new(&[("a/compose.yml", ""), ("a/b/c/x", ""), ("a/d/sidestack.yaml", ""), ("a/d/e/x", "")]);
    let found = |folder: &str| checkout(&site.at(folder)).unwrap().folder;
    assert_eq!(found("a/b/c"), site.at("a"));
    assert_eq!(found("a/d/e"), site.at("a/d"));
    let checkout = checkout(&site.at("a")).unwrap();
    assert_eq!(checkout.identity, format!("folder:{}", site.at("a").display()));
    assert_eq!((checkout.repository.as_ref(), instance_name(&checkout).as_str()), (None, "main"));
}

#[test]
fn the_search_ends_at_the_work_tree_and_says_what_it_looked_for() {
    let site = Site::new(&[("compose.yaml", ""), ("repo/x/y", "")]);
    git(&site.at("repo"), &["init", "-q"]);
    let error = checkout(&site.at("repo/x")).unwrap_err();
    assert!(matches!(error, SourceError::NotFound { .. }));
    let text = error.to_string();
    assert!(text.contains("sidestack.yaml") && text.contains("docker-compose.yaml"), "{text}");
    assert!(matches!(checkout(&site.at("none")), Err(SourceError::Io { .. })));
}

#[test]
fn git_is_read_from_its_files() {
    let site = Site::new(&[("repo/deploy/compose.yaml", "services: {}")]);
    let repo = site.at("repo");
    git(&repo, &["init", "-q"]);
    let at = |folder: &Path| checkout(folder).unwrap();
    let before = at(&repo.join("deploy")).repository.unwrap();
    assert_eq!((before.branch.as_deref(), before.commit.as_deref()), (Some("trunk"), None));
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-qm", "one"]);
    let main = at(&repo.join("deploy"));
    assert_eq!(main.identity, format!("git:{}:deploy", repo.join(".git").display()));
    assert_eq!(main.path_in_work_tree(), Path::new("deploy"));
    let facts = main.repository.clone().unwrap();
    assert_eq!((facts.linked, facts.main_root.as_deref()), (false, Some(repo.as_path())));
    let loose = facts.commit.clone().unwrap();
    git(&repo, &["pack-refs", "--all"]);
    assert_eq!(at(&repo.join("deploy")).repository.unwrap().commit, Some(loose.clone()));
    assert_eq!(wait(dirty(&facts, Duration::from_secs(20))), Some(false));
    site.write("repo/deploy/compose.yaml", "services: {a: {}}");
    assert_eq!(wait(dirty(&facts, Duration::from_secs(20))), Some(true));
    let gone = Repository { root: site.at("gone"), ..facts };
    assert_eq!(wait(dirty(&gone, Duration::from_secs(20))), None);

    for (branch, folder, expected) in [
        ("feature", "wt-a", "feature"),
        ("main", "wt-b", "main-"),
        ("r3", "wt-c", "r3-"),
        ("fix/Über-long-name-of-a-branch", "wt-d", "fix-ber-long-na"),
    ] {
        let linked = site.at(folder);
        git(&repo, &["worktree", "add", "-q", "-b", branch, linked.to_str().unwrap()]);
        let checkout = at(&linked.join("deploy"));
        let facts = checkout.repository.as_ref().unwrap();
        assert_eq!((facts.branch.as_deref(), facts.commit.as_ref()), (Some(branch), Some(&loose)));
        assert_eq!((facts.linked, facts.main_root.as_deref(), &facts.root), (true, Some(repo.as_path()), &linked));
        assert_eq!(checkout.identity, main.identity);
        assert_eq!(checkout.in_main_work_tree(), Some(repo.join("deploy")));
        let name = instance_name(&checkout);
        assert!(name.as_str().starts_with(expected), "{name}");
        assert!(name.as_str().len() <= 20 && !name.is_reserved(), "{name}");
        assert_eq!(name.as_str() == branch, branch == "feature", "{name}");
    }
    git(&site.at("wt-a"), &["checkout", "-q", "--detach"]);
    let detached = at(&site.at("wt-a/deploy"));
    assert_eq!(detached.repository.as_ref().unwrap().branch, None);
    assert_eq!(instance_name(&detached).as_str(), "wt-a");
}

#[test]
fn the_index_says_what_is_tracked() {
    for version in ["2", "3", "4"] {
        let site = Site::new(&[("a.env", ""), ("dir/b.env", ""), ("dir/c.env", ""), ("ignored.env", "")]);
        let root = site.at("");
        git(&root, &["init", "-q"]);
        git(&root, &["config", "index.version", version]);
        git(&root, &["add", "a.env", "dir/b.env"]);
        if version == "3" {
            // An intent to add is what makes git write version 3.
            git(&root, &["add", "-N", "dir/c.env"]);
        }
        let index = fs::read(site.at(".git/index")).unwrap();
        assert_eq!(index[7].to_string(), version);
        site.write("compose.yaml", "");
        let checkout = checkout(&root).unwrap();
        let mut inputs = Inputs { work_tree: WorkTree::of(&checkout), ..Inputs::default() };
        let asked = ["a.env", "dir/b.env", "ignored.env", "none.env"].iter().map(|name| site.at(name)).collect();
        let tracked = inputs.ask_tracked(&asked);
        assert_eq!(tracked, [site.at("a.env"), site.at("dir/b.env")].into(), "version {version}");
        assert_eq!(inputs.tracked.len(), 4);
    }
}
