//! What can be wrong with a module, and what is said about it.

/// What is replaced, by what, and what is said about it.
pub(crate) const TABLE: &[(&str, &str, &str)] = &[
    ("module: 1", "module: 2", "1:9 format 2 is not known"),
    (
        "name: thing",
        "name: Thing",
        "2:7 `Thing` is not the spelling of the name",
    ),
    (
        "name: thing",
        "name: thing-",
        "2:7 `thing-` is not the spelling of the name",
    ),
    (
        "name: thing",
        "name: 7",
        "2:7 expected a text, found the number 7",
    ),
    (
        "summary: A thing",
        r#"summary: """#,
        "3:10 the summary must be one line",
    ),
    (
        "provides: [things, more-things]",
        "provides: []",
        "4:1 a module must provide one capability at least",
    ),
    (
        "provides: [things, more-things]",
        "provides: [things, things]",
        "4:20 `things` stands here twice",
    ),
    (
        "provides: [things, more-things]",
        "provides: [a_b]",
        "4:12 `a_b` is not the spelling of a capability",
    ),
    (
        "arrangements: [single]",
        "arrangements: [single, single]",
        "8:24 `single` stands here twice",
    ),
    (
        "arrangements: [single]",
        "arrangements: [double]",
        "8:16 `double` is none of `single`, `failover`, `sharded` and `multisite`",
    ),
    (
        "arrangements: [single]",
        "arrangements: []",
        "8:1 there must be one arrangement at least",
    ),
    (
        r#"{version: "1", image: "thing:1"}"#,
        r#"{version: "2", image: "thing:1"}"#,
        "6:91 version `2` stands here twice",
    ),
    (
        r#"{version: "1", image: "thing:1"}"#,
        r#"{version: "1", image: thing}"#,
        "6:103 the image `thing` has no tag",
    ),
    (
        "reg.example:5000/thing:2",
        "reg.example:5000/thing",
        "6:34 the image `reg.example:5000/thing` has no tag\n25:12 the image `reg.example:5000/thing` has no tag",
    ),
    (
        r#"{version: "1", image: "thing:1"}"#,
        r#"{version: 1, image: "thing:1"}"#,
        "6:91 expected a text, found the number 1",
    ),
    (
        r#"{version: "1", image: "thing:1"}"#,
        r#"{version: "1 2", image: "thing:1"}"#,
        "6:91 `1 2` is not the spelling of a version",
    ),
    (
        r#"{version: "1", image: "thing:1"}"#,
        r#"{version: "1"}"#,
        "6:81 `image` is missing",
    ),
    (
        "{at-most: 1TiB}",
        "{at-most: lots}",
        "7:38 expected a size such as `128MiB`, found `lots`",
    ),
    (
        "{at-most: 1TiB}",
        "{at-least: 1}",
        "7:19 `at-most` is missing\n7:39 unknown key `at-least`",
    ),
    (
        "persistent: true",
        r#"persistent: "yes""#,
        "7:57 expected `true` or `false` or a map, found a text",
    ),
    (
        "default: 3,",
        "default: 10,",
        "10:51 expected a whole number from 1 to 9, found 10",
    ),
    (
        "default: 3,",
        r#"default: "3","#,
        "10:51 expected a whole number from 1 to 9, found `3`",
    ),
    (
        "min: 1, max: 9",
        "min: 10, max: 9",
        "10:31 `min` is above `max`",
    ),
    (
        "min: 1, max: 9",
        "min: 1MiB, max: 9",
        "10:31 expected a whole number, found `1MiB`",
    ),
    (
        "default: 4MiB",
        "default: 1kB",
        "11:44 expected a size of at least 1MiB, found `1kB`",
    ),
    (
        "min: 1MiB",
        "min: 1mb",
        "11:29 expected a size such as `128MiB`, found `1mb`",
    ),
    (
        "values: [fast, safe], default: safe",
        "values: [fast, safe], default: slow",
        "12:53 expected one of `fast`, `safe`, found `slow`",
    ),
    (
        "values: [fast, safe], default: safe",
        "default: safe",
        "12:3 an enum needs `values`",
    ),
    (
        "values: [fast, safe], default: safe",
        "values: [safe, safe], default: safe",
        "12:22 a value stands here twice",
    ),
    (
        "type: bool, default: false",
        r#"type: bool, default: "false""#,
        "13:34 expected `true` or `false`, found `false`",
    ),
    (
        "type: bool, default: false",
        "type: bool, min: 1, default: false",
        "13:30 only an integer or a size can have `min`",
    ),
    (
        "type: bool, default: false",
        "type: boolean, default: false",
        "13:19 `boolean` is none of `string`, `bool`, `enum`, `integer`, `size` and `port`",
    ),
    (
        "required: true, secret",
        "required: true, default: x, secret",
        "15:33 a setting with a default is never missing",
    ),
    (
        "  extra:",
        "  ex-tra:",
        "14:3 `ex-tra` is not the spelling of a setting\n58:16 there is no setting `extra` in this module",
    ),
    (
        "default: 81",
        "default: 70000",
        "16:37 expected a port from 1 to 65535, found 70000",
    ),
    (
        "port: 80, scheme",
        "port: 0, scheme",
        "21:16 a port is from 1 to 65535",
    ),
    (
        "port: 80, scheme",
        "port: 70000, scheme",
        "21:16 70000 is out of range",
    ),
    (
        "scheme: http",
        r#"scheme: "http:""#,
        "21:28 `http:` is not the spelling of a scheme",
    ),
    (
        "protocol: udp, service: side",
        "protocol: udp, service: slide",
        "22:44 there is no service `slide` in this module",
    ),
    (
        "protocol: udp, service: side",
        "protocol: udp, service: side, primary: true",
        "22:59 `http` is the primary port already",
    ),
    (
        "protocol: udp, service: side",
        "protocol: tcp, service: main",
        "22:16 `http` is 80/tcp already",
    ),
    (
        "protocol: udp, service: side",
        "protocol: sctp",
        "22:30 `sctp` is none of `tcp` and `udp`",
    ),
    (
        "scheme: http, primary: true",
        "scheme: http",
        "53:10 `host` means the primary port, and there is none\n53:10 `port` means the primary port, and there is none\n56:18 `host` means the primary port, and there is none\n58:16 `host` means the primary port, and there is none",
    ),
    (
        "  main:",
        "  mein:",
        "21:3 there is no service `main` in this module\n23:1 there is no service `main`\n45:3 there is no service `main` in this module",
    ),
    (
        "image: side:1",
        "image: side",
        "43:12 the image `side` has no tag",
    ),
    (
        "image: side:1",
        r#"image: "side:{{ settings.mode }}:""#,
        "43:12 the image `side:safe:` has no tag",
    ),
    (
        "image: side:1",
        "depends-on: [main]",
        "42:3 `image` is missing",
    ),
    (
        "    image: side:1",
        "    image: side:1\n    depends-on: [main]",
        "37:5 a circle: `main` waits for `side` waits for `main`",
    ),
    (
        "depends-on: [side]",
        "depends-on: [main]",
        "37:5 a circle: `main` waits for `main`",
    ),
    (
        "depends-on: [side]",
        "depends-on: [sid]",
        "37:18 there is no service `sid` in this module",
    ),
    (
        r#"MODE: ""#,
        r#"MO DE: ""#,
        "28:14 `MO DE` is not the spelling of a variable",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ settings.mode""#,
        "28:13 the template cannot be read: unexpected end of input, expected end of variable block",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ settings.mode|lower }}""#,
        "28:13 the template fails with the defaults alone: unknown filter: filter lower is unknown",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ settings }}""#,
        "28:13 `settings` is read as a whole",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ settings['mode'] }}""#,
        "28:13 `settings` is read as a whole",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{% for m in settings %}{{ m }}{% endfor %}""#,
        "28:13 `settings` is read as a whole",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ settings.mode.x }}""#,
        "28:13 `settings.mode.x` is not known",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ mode }}""#,
        "28:13 `mode` is not known here",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ host }}""#,
        "28:13 `host` is known in `variables` only",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ name }}""#,
        "28:13 `name` is known in `provisions` and `variables.each` only",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ addresses.http.host }}""#,
        "28:13 `addresses` is known in `variables` only",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ settings.extra }}""#,
        "28:13 the template fails with the defaults alone: a variable of the template is not there",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ settings.mode|bytes_as('kB') }}""#,
        "28:13 the template fails with the defaults alone: invalid operation: cannot convert string to u64",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ settings.memory|bytes_as('furlongs') }}""#,
        "28:13 the template fails with the defaults alone: invalid operation: unknown unit",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ settings.key }}""#,
        "28:13 `settings.key` is a secret and would show in `docker inspect`",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ credentials.password }}""#,
        "28:13 `credentials.password` is a secret and would show in `docker inspect`",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{% set c = credentials %}{{ c.password }}""#,
        "28:13 `credentials` is read as a whole",
    ),
    (
        r#""{{ settings.mode }}""#,
        r#""{{ services.slide }}""#,
        "28:13 there is no service `slide` in this module",
    ),
    (
        r#""--count={{ settings.count }}""#,
        r#""{{ credentials.password }}""#,
        "26:22 `credentials.password` is a secret and would show in the process list",
    ),
    (
        r#"check, "{{ credentials.user }}""#,
        r#"check, "{{ credentials.password }}""#,
        "35:26 `credentials.password` is a secret and would show in `docker inspect`",
    ),
    (
        r#"make, "{{ name }}""#,
        r#"make, "{{ credentials.password }}""#,
        "49:21 `credentials.password` is a secret and would show in the process list",
    ),
    (
        "    secret: true\n",
        "\n",
        "62:14 `settings.key` is a secret and would show in a file that is not marked `secret: true`",
    ),
    (
        r#"default: ["{{ resource }}"]"#,
        r#"default: ["{{ provisions.rooms[0] }}"]"#,
        "47:15 the default of a provision cannot read provisions",
    ),
    (
        r#"default: ["{{ resource }}"]"#,
        r#"default: ["{{ resource }}1"]"#,
        "47:15 the default `sample1` does not match `[a-z]+`",
    ),
    (
        r#"default: ["{{ resource }}"]"#,
        r#"default: ["{{ credentials.password }}"]"#,
        "47:15 `credentials.password` is a secret and would show in the name of what it makes",
    ),
    (
        r#"pattern: "[a-z]+""#,
        r#"pattern: "(a|b)""#,
        "48:14 only characters, classes and counts are understood",
    ),
    (
        r#"command: [make, "{{ name }}"]"#,
        "command: []",
        "49:5 the command is empty",
    ),
    (
        "    summary: Rooms",
        "    summary: Rooms\n    service: room",
        "47:14 there is no service `room` in this module",
    ),
    (
        "test: [CMD, check, ",
        "test: [check, ",
        r#"35:7 expected `[CMD, PROGRAM, …]` or `[CMD-SHELL, "COMMAND"]`"#,
    ),
    (
        "test: [CMD, check, ",
        "test: [CMD-SHELL, check, ",
        r#"35:7 expected `[CMD, PROGRAM, …]` or `[CMD-SHELL, "COMMAND"]`"#,
    ),
    (
        "interval: 2s",
        "interval: 0s",
        "36:17 must be longer than 0",
    ),
    (
        "interval: 2s",
        "interval: 2",
        "36:17 expected a text, found the number 2",
    ),
    ("interval: 2s", "retries: 0", "36:16 must be 1 at least"),
    (
        "stop-signal: SIGINT",
        "stop-signal: int",
        "38:18 `int` is not the spelling of a signal",
    ),
    (
        "stop-grace-period: 1m",
        "stop-grace-period: 1500ms",
        "39:24 only whole seconds can be had here",
    ),
    (
        "shm-size: 64MiB",
        "shm-size: [1]",
        "40:5 expected `true` or `false` or a whole number or a text, found a list",
    ),
    (
        "shm-size: 64MiB",
        "shm-size: big",
        "40:15 expected a size such as `128MiB`, found `big`",
    ),
    (
        "volumes: {data: /data}",
        "volumes: {data: data}",
        "32:21 the path `data` must begin with `/`",
    ),
    (
        "volumes: {data: /data}",
        "volumes: {data: /data/../etc}",
        "32:21 the path `/data/../etc` may not hold `.` or `..`",
    ),
    (
        "volumes: {data: /data}",
        r#"volumes: {data: "/{{ resource }}"}"#,
        "32:21 a path cannot be a template",
    ),
    (
        "volumes: {data: /data}",
        "volumes: {data: /data, more: /data}",
        "32:34 the volume `data` stands at `/data` already",
    ),
    (
        "volumes: {data: /data}",
        r#"volumes: {data: "/data:ro"}"#,
        "32:21 the path `/data:ro` may not hold `:`, `$`, `\\` or a line break",
    ),
    (
        r#"tmpfs: ["/tmp:size=1m"]"#,
        "tmpfs: [/run]",
        "31:17 the tmpfs at `/run` would hide `/run/secrets/password`",
    ),
    (
        r#"tmpfs: ["/tmp:size=1m"]"#,
        "read-only: true",
        "31:17 `main` is read-only, so nothing can be put at `/run/secrets/password`\n61:11 `main` is read-only, so nothing can be put at `/etc/thing.conf`",
    ),
    (
        "files: [config]",
        "files: [confog]",
        "33:13 there is no file `confog` in this module\n60:3 no service gets the file `config`",
    ),
    (
        "files: [config]",
        "files: []",
        "60:3 no service gets the file `config`",
    ),
    (
        "path: /etc/thing.conf",
        "path: etc/thing.conf",
        "61:11 the path `etc/thing.conf` must begin with `/`",
    ),
    (
        "path: /etc/thing.conf",
        "path: /run/secrets/password",
        "61:11 something stands at `/run/secrets/password` in `main` already",
    ),
    (
        r#"mode: "0400""#,
        r#"mode: "0900""#,
        "64:11 expected three or four octal digits, found `0900`",
    ),
    (
        r#"mode: "0400""#,
        "mode: 0400",
        "64:11 expected a text, found the number 400",
    ),
    (
        "    secrets:\n      password:",
        "    secrets:\n      ../password:",
        "31:20 `../password` is not the spelling of a secret file",
    ),
    (
        "    rooms: {URL:",
        "    room: {URL:",
        "56:5 there is no provision `room` in this module",
    ),
    (
        r#"    PEER: "{{ addresses.peer.host }}""#,
        "    peer: x",
        "54:11 `peer` is not the spelling of a variable",
    ),
    (
        r#"    PEER: "{{ addresses.peer.host }}""#,
        r#"    PEER: "{{ addresses.pear.host }}""#,
        "54:11 there is no port `pear` in this module",
    ),
    (
        r#"    PEER: "{{ addresses.peer.host }}""#,
        r#"    PEER: "{{ addresses.peer.name }}""#,
        "54:11 `addresses.peer.name` is not known",
    ),
    (
        r#"    PEER: "{{ addresses.peer.host }}""#,
        r#"    PEER: "{{ addresses.peer }}""#,
        "54:11 `addresses.peer` is not known",
    ),
    (
        r#"    PEER: "{{ addresses.peer.host }}""#,
        r#"    PEER: "{{ name }}""#,
        "54:11 `name` is known in `provisions` and `variables.each` only",
    ),
    (
        "    THING_URL:",
        "    COMPOSE_URL:",
        "58:18 `COMPOSE_URL` is not a module's to give",
    ),
    (
        "exercised: true",
        "exercised: [",
        "65:12 unclosed bracket '['",
    ),
    (
        "exercised: true",
        "exercised: true\nspeed: 3",
        "66:8 unknown key `speed`",
    ),
];
