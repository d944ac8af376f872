//! Which command is meant: one that stands after options comes first, and a misspelt one is not
//! taken for the name of a workflow file.

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory as _, Parser as _};

use crate::args::Args;

/// A word this far from the name of a command is not a misspelt one.
const MAX_DISTANCE: usize = 2;

/// Reads the arguments of this process, or ends it with a message.
pub(crate) fn parse() -> Args {
    let words = std::env::args_os().collect();
    match with_command_first(words) {
        Ok(words) => Args::parse_from(words),
        Err(error) => error.exit(),
    }
}

/// Moves the name of a command before the options that it was given after.
fn with_command_first(mut words: Vec<OsString>) -> Result<Vec<OsString>, clap::Error> {
    let mut cli = Args::command();
    let Some(at) = first_name(&cli, &words) else { return Ok(words) };
    let name = words[at].to_string_lossy().into_owned();
    if is_command(&cli, &name) {
        let command = words.remove(at);
        words.insert(1, command);
    } else if !is_path(&name) {
        return Err(cli.error(ErrorKind::InvalidSubcommand, unknown(&cli, &name)));
    }
    Ok(words)
}

/// The place of the first word that is neither an option nor the value of one.
fn first_name(cli: &Command, words: &[OsString]) -> Option<usize> {
    let takes_value = |name: &str| {
        let mut options = cli.get_arguments().filter(|option| option.get_long() == Some(name));
        options.any(|option| option.get_action().takes_values())
    };
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let word = word.to_string_lossy();
        match word.strip_prefix("--") {
            Some("") => return None,
            Some(option) if takes_value(option) => at += 2,
            Some(_) => at += 1,
            None if word.starts_with('-') => at += 1,
            None => return Some(at),
        }
    }
    None
}

fn is_command(cli: &Command, name: &str) -> bool {
    name == "help" || cli.find_subcommand(name).is_some()
}

fn is_path(name: &str) -> bool {
    name.contains('/') || is_workflow_name(name) || Path::new(name).exists()
}

/// Whether a word is the name of a workflow file and not of an issue or a command.
pub(crate) fn is_workflow_name(word: &str) -> bool {
    Path::new(word).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md"))
}

fn unknown(cli: &Command, name: &str) -> String {
    let message = format!("`{name}` is neither a command nor a file");
    let names = cli.get_subcommands().filter(|command| !command.is_hide_set());
    let distances = names.map(|command| {
        let known = command.get_name();
        (strsim::damerau_levenshtein(name, known), known)
    });
    let closest = distances.min().filter(|(distance, _)| *distance <= MAX_DISTANCE);
    match closest {
        Some((_, known)) => format!("{message}; did you mean `symphony {known}`?"),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from).collect();
        let words = with_command_first(words).map_err(|error| error.to_string())?;
        Ok(words.join(std::ffi::OsStr::new(" ")).to_string_lossy().into_owned())
    }

    #[test]
    fn rule_14_1_a_command_is_found_after_options() {
        for (line, wanted) in [
            ("symphony check --show", "symphony check --show"),
            ("symphony --log debug check", "symphony check --log debug"),
            ("symphony --log=debug --port 1 run W.md", "symphony run --log=debug --port 1 W.md"),
            ("symphony --port 1 W.md", "symphony --port 1 W.md"),
            ("symphony help check", "symphony help check"),
            ("symphony -- check", "symphony -- check"),
            ("symphony --port", "symphony --port"),
            ("symphony", "symphony"),
            ("symphony some/file", "symphony some/file"),
        ] {
            assert_eq!(moved(line).as_deref(), Ok(wanted), "{line}");
        }
    }

    #[test]
    fn rule_14_1_a_misspelt_command_is_not_a_file() {
        for (line, wanted) in [
            (
                "symphony chek",
                "`chek` is neither a command nor a file; did you mean `symphony check`?",
            ),
            ("symphony puase", "did you mean `symphony pause`?"),
            ("symphony --log debug stats", "did you mean `symphony status`?"),
            ("symphony frobnicate", "`frobnicate` is neither a command nor a file\n"),
        ] {
            let error = moved(line).unwrap_err();
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }
}
