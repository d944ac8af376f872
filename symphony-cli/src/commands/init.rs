//! `symphony init`: a workflow file to begin with.

use std::fs::Permissions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use anstream::println;
use anyhow::{Context as _, bail};

use crate::args::{InitArgs, TrackerKind};

/// What stands in the template for Linear where the project is to stand.
const PROJECT: &str = "your-project-0123456789ab";

/// Where the section of the hooks begins in each template, and what comes after it.
const HOOKS: (&str, &str) = ("# Shell commands around the work", "agent:\n");

/// The first line of each prompt.
const GREETING: &str = "You are working on {{ issue.identifier }}: {{ issue.title }}\n";

/// What an agent is told of a clone.
const OF_CLONE: &str = "
This folder is a clone of the repository, on a branch of its own. Change files here and test them, and leave commits and
pushes alone: what you leave in the folder is committed and pushed once you have finished.
";

pub(crate) fn init(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let text = template(args)?;
    let path = args.workflow.display();
    // A link stays a link: what it leads to is replaced.
    let target = match args.workflow.canonicalize() {
        Ok(target) if args.force => target,
        _ => std::path::absolute(&args.workflow).with_context(|| format!("{path}"))?,
    };
    match write(&target, &text, args.force) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{path} is there already; name another file, or replace it with --force");
        }
        written => written.with_context(|| format!("{path} cannot be written"))?,
    }
    println!("Wrote {path}. Next:");
    if args.tracker == TrackerKind::Linear {
        println!("  export LINEAR_API_KEY=...   the key of Linear, from its settings");
    }
    println!("  symphony check {path}   what it means, and whether it can be used");
    println!("  symphony {path}         run it");
    Ok(ExitCode::SUCCESS)
}

fn template(args: &InitArgs) -> anyhow::Result<String> {
    let text = match args.tracker {
        TrackerKind::Memory => include_str!("../../templates/memory.md"),
        TrackerKind::Linear => include_str!("../../templates/linear.md"),
    };
    let text = match &args.project {
        None => text.to_owned(),
        Some(_) if args.tracker == TrackerKind::Memory => {
            bail!("--project is for --tracker linear")
        }
        Some(project) => text.replace(PROJECT, slug(project)?),
    };
    args.repo.as_deref().map_or(Ok(text.clone()), |repo| with_repository(&text, repo))
}

/// The end of a project's address.
fn slug(project: &str) -> anyhow::Result<&str> {
    let after = project.split_once("/project/").map_or(project, |(_, after)| after);
    let slug = after.split(['/', '?', '#']).next().unwrap_or_default();
    let is_slug = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if slug.is_empty() || !slug.bytes().all(is_slug) {
        bail!(
            "--project {project:?} is not a project of Linear; give its address, or the end of it, \
             such as website-1fa66498be91"
        );
    }
    Ok(slug)
}

/// Each issue gets a clone of this repository, and a branch.
fn with_repository(text: &str, repo: &str) -> anyhow::Result<String> {
    // The last two end a line of YAML too.
    let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if repo.trim().is_empty() || repo.chars().any(ends_line) {
        bail!("--repo {repo:?} is not an address to clone from");
    }
    // A folder is cloned from elsewhere.
    let repo = match Path::new(repo).canonicalize() {
        Ok(path) => path.display().to_string(),
        Err(_) => repo.to_owned(),
    };
    let hooks = include_str!("../../templates/repository.yaml");
    let hooks = hooks.replace("REPOSITORY", &shell_word(&repo));
    let (before, rest) = text.split_once(HOOKS.0).unwrap_or((text, ""));
    let (_, after) = rest.split_once(HOOKS.1).unwrap_or(("", rest));
    let text = format!("{before}{hooks}{}{after}", HOOKS.1);
    let text = text.replace("everything is pushed and said", "everything is done and said");
    Ok(text.replacen(GREETING, &format!("{GREETING}{OF_CLONE}"), 1))
}

/// A text as one word of a shell.
fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Writes beside the target and renames: a full disk does not destroy the file that was there.
fn write(target: &Path, text: &str, replace: bool) -> std::io::Result<()> {
    let usual = Permissions::from_mode(0o666); // less what the umask takes
    let folder = target.parent().unwrap_or(target);
    let mut file = tempfile::Builder::new().permissions(usual).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if replace {
        file.persist(target)?
    } else {
        file.persist_noclobber(target)?
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_14_1_a_project_is_the_end_of_its_address() {
        let wanted = "website-1fa66498be91";
        for given in [wanted, "https://linear.app/acme/project/website-1fa66498be91/overview?x=1"] {
            assert_eq!(slug(given).unwrap(), wanted);
        }
        for bad in ["", "a b", "x: y", "https://linear.app/acme/project/"] {
            assert!(slug(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rule_13_1_an_address_is_one_word_of_the_hook() {
        for template in
            [include_str!("../../templates/memory.md"), include_str!("../../templates/linear.md")]
        {
            let text = with_repository(template, "ssh://x/it's; rm -rf /").unwrap();
            assert!(text.contains(r#""$git_dir" -- 'ssh://x/it'\''s; rm -rf /' ."#), "{text}");
            assert!(text.contains("leave commits and\npushes alone"), "{text}");
            assert_eq!(text.matches("\nhooks:\n").count(), 1, "{text}");
            assert_eq!(text.matches("\nagent:\n").count(), 1, "{text}");
        }
        for bad in ["", " ", "a\nb", "a\u{85}b", "a\u{2028}b"] {
            assert!(with_repository("", bad).is_err(), "{bad:?}");
        }
    }
}
