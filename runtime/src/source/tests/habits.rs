use super::*;

/// The image of `a`, and the services whose profile is on.
fn told(site: &Site) -> Option<(String, Vec<String>)> {
    let stack = site.stack()?;
    let model = stack.model.unwrap();
    let on = |profiles: &[String]| profiles.is_empty() || profiles.iter().any(|name| stack.profiles.contains(name));
    let services = model.services.iter().filter(|(_, service)| on(&service.profiles)).map(|(name, _)| name.clone());
    Some((model.services["a"].image.clone().unwrap_or_default(), services.collect()))
}

/// What Compose itself makes of the same folder, variables and options.
fn compose_says(site: &Site, options: &[&str]) -> (String, Vec<String>) {
    let compose = site.compose.as_ref().unwrap();
    let run = |what: &[&str]| {
        let mut command = std::process::Command::new(compose.binary());
        command.current_dir(site.at("")).env_clear().envs(&site.shell).args(options).args(["config"]).args(what);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let model: serde_json::Value = serde_json::from_str(&run(&["--format", "json"])).unwrap();
    let mut services: Vec<String> = run(&["--services"]).lines().map(str::to_owned).filter(|l| !l.is_empty()).collect();
    services.sort();
    (model["services"]["a"]["image"].as_str().unwrap().to_owned(), services)
}

#[test]
fn options_and_variables_choose_what_they_choose_for_compose() {
    let site = |shell: &[(&str, &str)]| {
        let mut site = Site::new(&[
            (
                "compose.yaml",
                "services:\n  a: {image: \"a:${TAG:-none}-${MORE:-none}\"}\n  p: {image: p, profiles: [p]}\n  q: {image: q, profiles: [q, r]}\n",
            ),
            (".env", "TAG=dotenv\nCOMPOSE_PROFILES=p\n"),
            ("one.env", "TAG=one\nMORE=one\n"),
            ("two.env", "TAG=two\nCOMPOSE_PROFILES=r\n"),
            ("made.env", "TAG=${MORE}-made\n"),
            ("other.yaml", "services: {a: {image: \"other:${TAG:-none}\"}}\n"),
            ("third.env", "COMPOSE_FILE=other.yaml\nTAG=third\n"),
        ]);
        for (name, value) in shell {
            site.set(name, value);
        }
        site
    };
    let names = |words: &[&str]| words.iter().map(PathBuf::from).collect::<Vec<_>>();
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str], &'a [&'a str], &'a str);
    let cases: &[Case<'_>] = &[
        (&[], &[], &[], &[], "a:dotenv-none"),
        (&[], &[], &["one.env"], &[], "a:one-one"),
        (&[], &[], &["one.env", "two.env"], &[], "a:two-one"),
        (&[], &[], &["two.env", "one.env"], &[], "a:one-one"),
        (&[], &[], &["one.env", "made.env"], &[], "a:one-made-one"),
        (&[], &[], &["two.env", "one.env", "two.env"], &[], "a:two-one"),
        (&[("TAG", "shell")], &[], &["one.env"], &[], "a:shell-one"),
        (&[("COMPOSE_ENV_FILES", "one.env,two.env")], &[], &[], &[], "a:two-one"),
        (&[("COMPOSE_ENV_FILES", "one.env")], &[], &["two.env"], &[], "a:two-none"),
        (&[("COMPOSE_DISABLE_ENV_FILE", "1")], &[], &[], &[], "a:none-none"),
        (&[("COMPOSE_DISABLE_ENV_FILE", "false")], &[], &[], &[], "a:dotenv-none"),
        (&[], &[], &[], &["q"], "a:dotenv-none"),
        (&[], &[], &[], &["q", "p"], "a:dotenv-none"),
        (&[("COMPOSE_PROFILES", "q")], &[], &[], &[], "a:dotenv-none"),
        (&[("COMPOSE_PROFILES", "q")], &[], &[], &["p"], "a:dotenv-none"),
        (&[], &[], &["third.env"], &[], "other:third"),
        (&[], &["compose.yaml"], &["third.env"], &[], "a:third-none"),
        (&[], &["compose.yaml", "other.yaml"], &[], &[], "other:dotenv"),
        (&[("COMPOSE_FILE", "compose.yaml:other.yaml")], &[], &[], &[], "other:dotenv"),
        (
            &[("COMPOSE_FILE", "compose.yaml,other.yaml"), ("COMPOSE_PATH_SEPARATOR", ",")],
            &[],
            &[],
            &[],
            "other:dotenv",
        ),
    ];
    for (shell, files, env_files, profiles, image) in cases {
        let mut site = site(shell);
        (site.files, site.env_files) = (names(files), names(env_files));
        site.profiles = profiles.iter().map(|name| (*name).to_owned()).collect();
        let Some(ours) = told(&site) else { return };
        let options: Vec<&str> = [("-f", files), ("--env-file", env_files), ("--profile", profiles)]
            .iter()
            .flat_map(|(option, values)| values.iter().flat_map(move |value| [*option, *value]))
            .collect();
        assert_eq!(ours, compose_says(&site, &options), "{shell:?} {options:?}");
        assert_eq!(ours.0, *image, "{shell:?} {options:?}");
    }
}

#[test]
fn every_habit_is_in_the_record() {
    let mut site = Site::new(&[
        ("compose.yaml", "services: {a: {image: \"a:${TAG:-none}\"}}\n"),
        (".env", "TAG=dotenv\n"),
        ("one.env", "TAG=one\n"),
    ]);
    site.env_files = vec!["one.env".into()];
    let Some(named) = site.stack() else { return };
    site.env_files.clear();
    let plain = site.stack().unwrap();
    let changed = |stack: &Stack, name: &str, value: &str| {
        let mut shell = site.shell.clone();
        shell.insert(name.to_owned(), value.into());
        !stack.inputs.unchanged(&shell, &KEY)
    };
    assert!(plain.inputs.unchanged(&site.shell, &KEY) && named.inputs.unchanged(&site.shell, &KEY));
    for (name, value) in [
        ("COMPOSE_ENV_FILES", "one.env"),
        ("COMPOSE_DISABLE_ENV_FILE", "1"),
        ("COMPOSE_FILE", "compose.yaml"),
        ("COMPOSE_PATH_SEPARATOR", ";"),
        ("COMPOSE_PROFILES", "p"),
    ] {
        assert!(changed(&plain, name, value) && changed(&named, name, value), "{name}");
    }
    site.write(".env", "TAG=other\n");
    assert!(named.inputs.unchanged(&site.shell, &KEY), "it reads no `.env`");
    assert!(!plain.inputs.unchanged(&site.shell, &KEY));
    site.write("one.env", "TAG=other\n");
    assert!(!named.inputs.unchanged(&site.shell, &KEY));
}

#[test]
fn secrets_of_named_env_files_are_references() {
    let mut site = Site::new(&[
        ("compose.yaml", "services: {a: {image: a, environment: {P: \"${DB_PASSWORD}\", Q: \"${API_TOKEN}\"}}}\n"),
        ("conf/one.env", "DB_PASSWORD=kanarienvogel1\nAPI_TOKEN=kanarienvogel2\n"),
        ("conf/two.env", "DB_PASSWORD=kanarienvogel3\n"),
    ]);
    site.env_files = vec!["conf/one.env".into(), "conf/two.env".into()];
    let Some(stack) = site.stack() else { return };
    assert!(!everything(&stack).contains("kanarienvogel"), "{}", everything(&stack));
    let environment = &stack.model.as_ref().unwrap().services["a"].environment;
    let shown = |name: &str| sidestack_topology::secret::shown(environment[name].as_deref().unwrap());
    assert!(shown("P").contains("dotenv:conf/two.env#DB_PASSWORD"), "{}", shown("P"));
    assert!(shown("Q").contains("dotenv:conf/one.env#API_TOKEN"), "{}", shown("Q"));
}

#[test]
fn what_cannot_be_chosen_is_told_with_its_name() {
    let mut site = Site::new(&[("compose.yaml", "services: {a: {image: a}}\n"), ("bad.env", "not a line\n")]);
    site.env_files = vec!["gone.env".into()];
    let Some(told) = site.refused() else { return };
    assert!(told.contains("there is no env file `gone.env`"), "{told}");
    site.env_files = vec!["bad.env".into()];
    let told = site.refused().unwrap();
    assert!(told.contains("`bad.env` cannot be understood at line 1") && !told.contains("there is no"), "{told}");
    site.env_files.clear();
    site.set("COMPOSE_ENV_FILES", "none.env");
    assert!(site.refused().unwrap().contains("there is no env file `none.env`"));
    site.shell.remove("COMPOSE_ENV_FILES");
    site.set("COMPOSE_DISABLE_ENV_FILE", "perhaps");
    assert!(site.refused().unwrap().contains("`COMPOSE_DISABLE_ENV_FILE` is neither true nor false"));
    site.shell.remove("COMPOSE_DISABLE_ENV_FILE");
    site.files = vec!["-".into()];
    assert!(site.refused().unwrap().contains("cannot be read from standard input"));
}
