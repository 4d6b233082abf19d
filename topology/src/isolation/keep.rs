//! Self-addresses that a person wants to stay as they are, by name.

/// The names of `isolation.keep`: `API_URL`, `web.API_URL`, `web.command`, `web.labels.x`, `web`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep<'a>(pub(crate) &'a [String]);

impl Keep<'_> {
    /// Whether this part of a service stays. Service names and labels may hold dots, so whole names are compared.
    pub(crate) fn keeps(self, service: &str, part: &[&str]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let part = part.join(".");
        self.0.iter().any(|name| {
            name == service
                || name.strip_prefix(service).and_then(|rest| rest.strip_prefix('.')).is_some_and(|rest| {
                    rest == part || rest.strip_prefix("environment.").is_some_and(|variable| variable == part)
                })
        })
    }

    /// Whether a variable stays: `API_URL` alone means it in every service.
    pub(crate) fn keeps_variable(self, service: &str, variable: &str) -> bool {
        self.0.iter().any(|name| name == variable) || self.keeps(service, &[variable])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_are_compared() {
        let names: Vec<String> = ["API_URL", "a.b.command", "web.environment.X", "db"].map(str::to_owned).to_vec();
        let keep = Keep(&names);
        assert!(keep.keeps_variable("any", "API_URL"));
        assert!(keep.keeps_variable("web", "X") && !keep.keeps_variable("other", "X"));
        assert!(keep.keeps("a.b", &["command"]) && !keep.keeps("a", &["command"]));
        assert!(keep.keeps("db", &["labels", "x.y"]) && !keep.keeps("d", &["labels"]));
    }
}
