//! When neither language can render a body: which one its author most likely meant, so that the
//! error that helps is shown.

use crate::prompt::marks::{Piece, PromptFault, Token, cut};
use crate::prompt::{liquid, tera};
use symphony_core::settings::PromptEngine;

/// Marks of a third language, Handlebars or Go templates.
pub(super) fn other_language(body: &str) -> Option<PromptFault> {
    let mut from = 0;
    while let Some(found) = body[from..].find("{{") {
        let at = from + found;
        from = at + 2;
        let inside = body[from..].trim_start_matches(['-', ' ', '{']);
        let word = inside.split(|c: char| !c.is_ascii_alphanumeric()).next();
        let fault = match (inside.chars().next(), word) {
            _ if body[at..].starts_with("{{{") => mustache(at),
            _ if inside.starts_with("/*") => go_template(at),
            (Some('#' | '/' | '^' | '>' | '&'), _) | (_, Some("else")) => handlebars(inside, at),
            (Some('.' | '$'), _) => go_template(at),
            (_, Some("if" | "range" | "end" | "with" | "template" | "define")) => go_template(at),
            _ => continue,
        };
        return Some(fault);
    }
    None
}

fn handlebars(inside: &str, at: usize) -> PromptFault {
    let help = if inside.starts_with("#each") {
        "write a loop as `{% for label in issue.labels %}` and `{% endfor %}`"
    } else {
        "write a condition as `{% if issue.description %}` and `{% endif %}`"
    };
    PromptFault::new(at, "this is a mark of Handlebars, not of Tera or Liquid").with_help(help)
}

fn mustache(at: usize) -> PromptFault {
    PromptFault::new(at, "this is a mark of Handlebars, not of Tera or Liquid")
        .with_help("write a variable as `{{ issue.title }}`")
}

fn go_template(at: usize) -> PromptFault {
    PromptFault::new(at, "this is a mark of Go templates, not of Tera or Liquid").with_help(
        "write a variable as `{{ issue.title }}` and a condition as `{% if attempt %}` and \
         `{% endif %}`",
    )
}

/// The language that a body's words point to; Tera, where nothing does.
pub(super) fn likely_engine(body: &str) -> PromptEngine {
    let (pieces, _) = cut(body, PromptEngine::Tera);
    let mut balance = 0_i32;
    for piece in &pieces {
        let Piece::Mark(mark) = piece else { continue };
        balance += match mark.tag() {
            Some("elsif" | "unless" | "assign" | "capture" | "case" | "when" | "comment") => 2,
            Some("elif" | "set" | "set_global" | "block" | "macro" | "filter") => -2,
            _ => 0,
        };
        for pair in mark.words.windows(2) {
            balance += match (&pair[0].token, &pair[1].token) {
                // A filter's arguments follow a colon, or stand in brackets.
                (Token::Name(_), Token::Sign(":")) | (Token::Sign("."), Token::Name("size")) => 1,
                (Token::Sign("|"), Token::Name(filter)) => filter_balance(filter),
                (Token::Name("forloop"), _) | (_, Token::Name("contains")) => 1,
                (Token::Name(_), Token::Sign("(")) | (Token::Name("is"), Token::Name(_)) => -1,
                (Token::Name("loop"), Token::Sign(".")) | (_, Token::Sign("~" | "+")) => -1,
                _ => 0,
            };
        }
    }
    if balance > 0 { PromptEngine::Liquid } else { PromptEngine::Tera }
}

/// One, if only Liquid has a filter of this name; less than nothing, if only Tera has.
fn filter_balance(filter: &str) -> i32 {
    let is_liquid = liquid::filters::filter_names().any(|name| name == filter);
    let is_tera = tera::inspect::FILTERS.contains(&filter);
    i32::from(is_liquid) - i32::from(is_tera)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_point_to_a_language() {
        for (body, engine) in [
            ("{{ a }} {% if b %}{% endif %}", PromptEngine::Tera),
            ("{{ a | join: \", \" }}", PromptEngine::Liquid),
            ("{{ a | join(sep=\", \") }}", PromptEngine::Tera),
            ("{{ a | upcase }}", PromptEngine::Liquid),
            ("{{ a | upper }}{{ b | first }}", PromptEngine::Tera),
            ("{% unless a %}{{ b | f(x=1) }}", PromptEngine::Liquid),
            ("{% if a %}{% elif b %}{% endif %}{{ c.size }}", PromptEngine::Tera),
        ] {
            assert_eq!(likely_engine(body), engine, "{body}");
        }
    }

    #[test]
    fn marks_of_other_languages_are_known() {
        for body in ["{{{ a }}}", "{{#each a}}", "{{/if}}", "{{else}}", "{{> part}}", "{{^a}}"] {
            let fault = other_language(body).unwrap();
            assert!(fault.message.contains("Handlebars"), "{body}");
        }
        for body in ["{{.A}}", "{{- range .A }}", "{{ end }}", "{{ $x }}", "{{/* x */}}"] {
            let fault = other_language(body).unwrap();
            assert!(fault.message.contains("Go"), "{body}");
        }
        for body in ["{{ issue.title }}", "{{ ended }}", "{% if a %}", "{{ ifs }}"] {
            assert_eq!(other_language(body), None, "{body}");
        }
    }
}
