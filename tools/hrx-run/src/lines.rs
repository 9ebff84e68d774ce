//! Lines of a conversation: from an editor on a terminal, else as they are.

use crate::console::Console;
use crate::failure::Failure;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use std::fs;
use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

/// Lines kept from conversation to conversation.
const HISTORY: usize = 1000;

/// Where messages come from.
pub enum Lines {
    /// A person at a terminal.
    Editor(Box<Editor>),
    /// A pipe or a file.
    Plain,
}

/// A line editor with a history.
pub struct Editor {
    editor: DefaultEditor,
    history: Option<PathBuf>,
    console: Arc<Console>,
}

impl Lines {
    /// Standard input, with an editor if a person sits at both ends.
    ///
    /// # Errors
    /// If the terminal can't be used.
    pub fn open(console: &Arc<Console>) -> Result<Lines, Failure> {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            return Ok(Lines::Plain);
        }
        let config = Config::builder().max_history_size(HISTORY).map_err(failed)?.auto_add_history(true).build();
        let mut editor = DefaultEditor::with_config(config).map_err(failed)?;
        let history = history_file();
        if let Some(path) = history.as_ref().filter(|path| path.exists())
            && let Err(e) = editor.load_history(path)
        {
            console.warn(&format!("{}: can't read the history: {e}", path.display()));
        }
        Ok(Lines::Editor(Box::new(Editor { editor, history, console: Arc::clone(console) })))
    }

    /// The next line, without its end; none at the end.
    ///
    /// # Errors
    /// If standard input can't be read, or is no text.
    pub fn next(&mut self) -> Result<Option<String>, Failure> {
        match self {
            Lines::Editor(editor) => editor.next(),
            Lines::Plain => {
                let mut line = Vec::new();
                let read = io::stdin().lock().read_until(b'\n', &mut line);
                let n = read.map_err(|source| Failure::Stream { action: "read standard input", source })?;
                let line = String::from_utf8(line).map_err(|_| Failure::Input("a message is not UTF-8".into()))?;
                Ok((n > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
            }
        }
    }
}

impl Editor {
    fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            match self.editor.readline("> ") {
                Ok(line) => {
                    self.save();
                    return Ok(Some(line));
                }
                Err(ReadlineError::Interrupted) => self.console.line("Ctrl-D ends the conversation"),
                Err(ReadlineError::Eof) => return Ok(None),
                Err(e) => return Err(failed(e)),
            }
        }
    }

    /// Keeps the history after each line, so that nothing is lost however the program ends.
    fn save(&mut self) {
        let Some(path) = &self.history else { return };
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        if let Err(e) = made.map_err(ReadlineError::from).and_then(|()| self.editor.append_history(path)) {
            self.console.warn(&format!("{}: the history is not kept: {e}", path.display()));
            // Said once.
            self.history = None;
        }
    }
}

/// `$XDG_STATE_HOME/hrx/history`, else `~/.local/state/hrx/history`, as the XDG base directory specification has it.
fn history_file() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    Some(state?.join("hrx/history"))
}

fn failed(e: ReadlineError) -> Failure {
    Failure::Stream { action: "read from the terminal", source: io::Error::other(e) }
}
