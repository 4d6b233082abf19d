//! Colours: few, and never the only carrier of a meaning.

/// How a text is set off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// As it is.
    Plain,
    /// Headings and names.
    Bold,
    /// What matters less.
    Dim,
    /// As it should be.
    Good,
    /// On its way, or worth a look.
    Busy,
    /// Not as it should be.
    Bad,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\u{1b}[1m",
            Self::Dim => "\u{1b}[2m",
            Self::Good => "\u{1b}[32m",
            Self::Busy => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
        }
    }

    /// The text in this style, when colours are on.
    pub(crate) fn paint(self, on: bool, text: &str) -> String {
        if on && self != Self::Plain && !text.is_empty() {
            format!("{}{text}\u{1b}[0m", self.code())
        } else {
            text.to_owned()
        }
    }

    /// The style of a state's word.
    pub(crate) fn of_state(word: &str) -> Self {
        match word.split(' ').next().unwrap_or_default() {
            "running" | "healthy" | "completed" | "ready" => Self::Good,
            "starting" | "restarting" | "created" | "waiting" | "creating" => Self::Busy,
            "degraded" | "failed" | "gone" | "missing" | "unhealthy" | "dead" | "exited" => Self::Bad,
            "stopped" => Self::Dim,
            _ => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_can_be_off() {
        assert_eq!(Style::Bad.paint(false, "x"), "x");
        assert_eq!(Style::Bad.paint(true, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Style::Plain.paint(true, "x"), "x");
        assert_eq!(Style::of_state("running 6/6"), Style::Good);
    }
}
