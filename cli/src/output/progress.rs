//! What is said while a command works: on a terminal one line per service, redrawn
//! as it goes; elsewhere a line per change; or nothing.
//!
//! Everything goes to standard error. A closed standard error is no reason to
//! stop working, so failures to write are dropped.

use std::io::{Write, stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sidestack_runtime::report::{Event, Progress, Reporter};

use super::safe;
use super::style::Style;

/// How much is said, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Lines that are redrawn.
    Live,
    /// A line per change.
    Plain,
    /// Nothing but errors.
    Quiet,
}

/// How many services are shown at once; a live region must not outgrow the screen.
const SHOWN: usize = 16;
/// How often times are redrawn.
const TICK: Duration = Duration::from_millis(120);

/// The voice of a command.
pub(crate) struct Talk {
    manner: Manner,
    board: Arc<Mutex<Board>>,
}

/// What is known of the services.
#[derive(Debug, Default)]
struct Board {
    colour: bool,
    phase: Option<String>,
    rows: Vec<Row>,
    /// Lines on the screen that the next drawing replaces.
    drawn: usize,
    ticking: bool,
}

#[derive(Debug)]
struct Row {
    name: String,
    progress: Progress,
    /// When the command began, by the event's own count.
    began: Instant,
    after: Duration,
}

impl Talk {
    /// A voice.
    pub(crate) fn new(manner: Manner, colour: bool) -> Self {
        Self { manner, board: Arc::new(Mutex::new(Board { colour, ..Board::default() })) }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        // The board is plain data: a panic elsewhere leaves it usable.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the last drawing as it is; what is printed next stands below it.
    pub(crate) fn settle(&self) {
        let mut board = self.board();
        board.ticking = false;
        if board.drawn > 0 {
            board.phase = None;
            board.draw();
            board.drawn = 0;
        }
        board.rows.clear();
    }

    /// Something good to know.
    pub(crate) fn note(&self, text: &str) {
        if self.manner != Manner::Quiet {
            self.board().say(&safe::line(text));
        }
    }

    /// Something better to know.
    pub(crate) fn warn(&self, text: &str) {
        if self.manner != Manner::Quiet {
            let mut board = self.board();
            let label = Style::Busy.paint(board.colour, "warning:");
            let text: Vec<_> = text.lines().map(safe::line).collect();
            board.say(&format!("{label} {}", text.join("\n")));
        }
    }

    /// An error; said in every manner. `lines` are safe already.
    pub(crate) fn error(&self, lines: &[String]) {
        let mut board = self.board();
        let colour = board.colour;
        let text: Vec<String> = lines
            .iter()
            .map(|line| match (line.strip_prefix("error:"), line.strip_prefix("hint:")) {
                (Some(rest), _) => format!("{}{rest}", Style::Bad.paint(colour, "error:")),
                (_, Some(rest)) => format!("{}{rest}", Style::Good.paint(colour, "hint:")),
                _ => line.clone(),
            })
            .collect();
        board.say(&text.join("\n"));
    }

    fn tick(&self) {
        let board = Arc::clone(&self.board);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(TICK);
                let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
                if !board.ticking {
                    return;
                }
                board.draw();
            }
        });
    }
}

impl Reporter for Talk {
    fn report(&self, event: &Event) {
        match event {
            Event::Note(text) => return self.note(text),
            Event::Warning(text) => return self.warn(text),
            _ if self.manner == Manner::Quiet => return,
            _ => {}
        }
        let mut board = self.board();
        match event {
            Event::Phase(text) if self.manner == Manner::Live => {
                board.phase = Some(safe::line(text).into_owned());
            }
            Event::Phase(text) => board.say(&safe::line(text)),
            Event::Service { name, progress, after } => {
                let fresh = board.update(name, progress, *after);
                if self.manner == Manner::Plain && fresh {
                    let time = if settled(progress) { format!(" ({})", seconds(*after)) } else { String::new() };
                    let line = format!("{name}: {}{time}", word(progress));
                    board.say(&safe::line(&line));
                }
            }
            Event::Note(_) | Event::Warning(_) => {}
        }
        if self.manner == Manner::Live {
            board.draw();
            if !board.ticking {
                board.ticking = true;
                drop(board);
                self.tick();
            }
        }
    }
}

impl Board {
    /// Whether that is news.
    fn update(&mut self, name: &str, progress: &Progress, after: Duration) -> bool {
        let began = Instant::now().checked_sub(after).unwrap_or_else(Instant::now);
        match self.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => {
                let fresh = row.progress != *progress;
                *row = Row { name: name.to_owned(), progress: progress.clone(), began, after };
                fresh
            }
            None => {
                self.rows.push(Row { name: name.to_owned(), progress: progress.clone(), began, after });
                true
            }
        }
    }

    /// A text above the live lines.
    fn say(&mut self, text: &str) {
        let mut out = self.rub_out();
        out.push_str(text);
        out.push('\n');
        let redraw = self.drawn > 0;
        self.drawn = 0;
        let _ = stderr().lock().write_all(out.as_bytes());
        if redraw {
            self.draw();
        }
    }

    fn rub_out(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A\r\u{1b}[J"),
        }
    }

    fn draw(&mut self) {
        let lines = self.lines();
        // Wrapping is off while drawing, so that a line is a line on any width.
        let mut out = self.rub_out();
        out.push_str("\u{1b}[?7l");
        for line in &lines {
            out.push_str(line);
            out.push('\n');
        }
        out.push_str("\u{1b}[?7h");
        self.drawn = lines.len();
        let mut stderr = stderr().lock();
        let _ = stderr.write_all(out.as_bytes());
        let _ = stderr.flush();
    }

    fn lines(&self) -> Vec<String> {
        let width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        // Those that still move, and those that failed, are shown first when there is no room for all.
        let mut shown: Vec<&Row> = self.rows.iter().collect();
        if shown.len() > SHOWN {
            shown.sort_by_key(|row| settled(&row.progress) && !matches!(row.progress, Progress::Failed(_)));
            shown.truncate(SHOWN);
        }
        let mut lines: Vec<String> = self.phase.iter().map(|phase| Style::Dim.paint(self.colour, phase)).collect();
        for row in &shown {
            let (mark, style) = match &row.progress {
                Progress::Ready | Progress::Completed => ("✓", Style::Good),
                Progress::Failed(_) => ("✗", Style::Bad),
                Progress::Stopped | Progress::Removed => ("■", Style::Dim),
                Progress::Waiting => ("·", Style::Dim),
                _ => ("…", Style::Busy),
            };
            let time = if settled(&row.progress) { row.after } else { row.began.elapsed() };
            let name = safe::cell(&row.name);
            let pad = " ".repeat(width.saturating_sub(name.chars().count()));
            let word = word(&row.progress);
            lines.push(format!(
                " {} {name}{pad}  {}{}  {}",
                style.paint(self.colour, mark),
                style.paint(self.colour, &safe::cell(&word)),
                " ".repeat(10_usize.saturating_sub(word.chars().count())),
                Style::Dim.paint(self.colour, &seconds(time)),
            ));
        }
        if self.rows.len() > shown.len() {
            lines.push(format!("   and {} more", self.rows.len() - shown.len()));
        }
        lines
    }
}

/// Whether its time stands still.
fn settled(progress: &Progress) -> bool {
    !matches!(progress, Progress::Waiting | Progress::Creating | Progress::Starting | Progress::Stopping)
}

fn word(progress: &Progress) -> String {
    match progress {
        Progress::Waiting => "waiting".to_owned(),
        Progress::Creating => "creating".to_owned(),
        Progress::Starting => "starting".to_owned(),
        Progress::Ready => "ready".to_owned(),
        Progress::Completed => "completed".to_owned(),
        Progress::Stopping => "stopping".to_owned(),
        Progress::Stopped => "stopped".to_owned(),
        Progress::Removed => "removed".to_owned(),
        Progress::Failed(why) if why.is_empty() => "failed".to_owned(),
        Progress::Failed(why) => format!("failed: {why}"),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1}s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_per_service_in_the_order_of_their_coming() {
        let mut board = Board::default();
        assert!(board.update("db", &Progress::Starting, Duration::from_millis(300)));
        assert!(board.update("web\u{1b}[2J", &Progress::Waiting, Duration::ZERO));
        assert!(board.update("db", &Progress::Ready, Duration::from_millis(1240)));
        assert!(!board.update("db", &Progress::Ready, Duration::from_millis(1300)));
        let lines = board.lines();
        assert_eq!(lines[0], " ✓ db       ready       1.3s");
        assert!(lines[1].starts_with(" · web␛[2J  waiting"), "{lines:?}");
    }

    #[test]
    fn many_services_do_not_outgrow_the_screen() {
        let mut board = Board::default();
        for number in 0..40 {
            board.update(&format!("s{number}"), &Progress::Ready, Duration::ZERO);
        }
        board.update("s39", &Progress::Failed("exited 1".to_owned()), Duration::ZERO);
        let lines = board.lines();
        assert_eq!(lines.len(), SHOWN + 1);
        assert!(lines[0].contains("s39") && lines[0].contains("failed: exited 1"), "{lines:?}");
        assert_eq!(lines[SHOWN], "   and 24 more");
    }
}
