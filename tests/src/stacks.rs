//! Stacks that several suites run.

/// A web server, and a service that waits for it and has data; `VERSION` is there to be changed.
pub const WEB_AND_KEEPER: &str = r#"services:
  web:
    image: busybox:stable
    command: ["httpd", "-f", "-p", "8080"]
    stop_grace_period: 0s
    ports: ["8080:8080"]
    environment: {VERSION: "0"}
  keeper:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    volumes: ["data:/data"]
    environment: {VERSION: "0"}
    depends_on: [web]
volumes: {data: {}}
"#;
