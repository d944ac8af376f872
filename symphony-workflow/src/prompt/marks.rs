//! Cutting a prompt into text and marks, and marks into words.
//!
//! The Liquid parser reads these words. For Tera, which has a parser of its own, they show what
//! its library does not tell: where each name, loop and assignment stands.

use std::borrow::Cow;
use std::ops::Range;

use symphony_core::settings::PromptEngine;

/// How many words one mark may have. It bounds every recursion over an expression.
const MAX_WORDS: usize = 256;

/// Something that cannot be read, and where.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PromptFault {
    /// The offset in the body, in bytes.
    pub(super) at: usize,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl PromptFault {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), help: None }
    }

    pub(super) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// A part of the body. Comments are no part.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    /// Stands in the prompt as it is, after whitespace control.
    Text(&'a str),
    Mark(TemplateMark<'a>),
}

/// `{{ ... }}` or `{% ... %}`.
#[derive(Debug, PartialEq)]
pub(super) struct TemplateMark<'a> {
    pub(super) kind: MarkKind,
    /// From the opening brace to behind the closing one.
    pub(super) span: Range<usize>,
    /// Whether it closes with `-`, which takes the space that follows.
    pub(super) trims_after: bool,
    pub(super) words: Vec<Word<'a>>,
}

impl<'a> TemplateMark<'a> {
    /// The first word of a tag.
    pub(super) fn tag(&self) -> Option<&'a str> {
        match (self.kind, self.words.first()?.token.clone()) {
            (MarkKind::Tag, Token::Name(name)) => Some(name),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkKind {
    Output,
    Tag,
}

impl MarkKind {
    fn close(self) -> &'static str {
        match self {
            Self::Output => "}}",
            Self::Tag => "%}",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Word<'a> {
    pub(super) token: Token<'a>,
    pub(super) span: Range<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    Name(&'a str),
    Text(Cow<'a, str>),
    Int(i64),
    Float(f64),
    Sign(&'a str),
}

impl Token<'_> {
    pub(super) fn is(&self, sign: &str) -> bool {
        matches!(self, Token::Sign(own) if *own == sign)
    }
}

/// Longest first.
const SIGNS: [&str; 32] = [
    "...", "..", "==", "!=", "<>", ">=", "<=", "//", "**", "</", "?.", "?[", "+", "-", "*", "/",
    "%", "!", ".", ",", ":", "~", "|", "=", ">", "<", "(", ")", "[", "]", "{", "}",
];

/// Cuts the body up. With a fault, the pieces are those before it.
pub(super) fn cut(body: &str, engine: PromptEngine) -> (Vec<Piece<'_>>, Option<PromptFault>) {
    let mut cutter = Cutter { body, engine, at: 0, trims: false, pieces: Vec::new() };
    let fault = cutter.run().err();
    (cutter.pieces, fault)
}

struct Cutter<'a> {
    body: &'a str,
    engine: PromptEngine,
    at: usize,
    /// Whether the mark before closed with `-`.
    trims: bool,
    pieces: Vec<Piece<'a>>,
}

impl<'a> Cutter<'a> {
    fn rest(&self) -> &'a str {
        &self.body[self.at..]
    }

    fn run(&mut self) -> Result<(), PromptFault> {
        while self.at < self.body.len() {
            let open = self.next_open();
            let text = &self.body[self.at..open];
            self.at = open;
            let trims_before = self.rest().as_bytes().get(2) == Some(&b'-');
            self.text(text, trims_before);
            if self.rest().starts_with("{#") {
                self.comment()?;
            } else if self.rest().starts_with("{%") {
                self.tag()?;
            } else if self.rest().starts_with("{{") {
                let mark = self.mark(MarkKind::Output)?;
                self.pieces.push(Piece::Mark(mark));
            }
        }
        Ok(())
    }

    fn next_open(&self) -> usize {
        let bytes = self.rest().as_bytes();
        bytes
            .windows(2)
            .position(|pair| {
                pair == b"{{"
                    || pair == b"{%"
                    || (pair == b"{#" && self.engine == PromptEngine::Tera)
            })
            .map_or(self.body.len(), |found| self.at + found)
    }

    fn text(&mut self, text: &'a str, trims_before: bool) {
        let mut text = text;
        if self.trims {
            text = text.trim_start();
            self.trims = false;
        }
        if trims_before {
            text = text.trim_end();
        }
        if !text.is_empty() {
            self.pieces.push(Piece::Text(text));
        }
    }

    /// `{# ... #}`, which only Tera has.
    fn comment(&mut self) -> Result<(), PromptFault> {
        let open = self.at;
        let Some(len) = self.rest().get(2..).and_then(|rest| rest.find("#}")) else {
            return Err(PromptFault::new(open, "this `{#` is never closed by `#}`"));
        };
        let inner = &self.body[open + 2..open + 2 + len];
        self.trims = inner.ends_with('-');
        self.at = open + len + 4;
        Ok(())
    }

    fn tag(&mut self) -> Result<(), PromptFault> {
        let open = self.at;
        let inside = &self.rest()[2..];
        let inside = inside.strip_prefix('-').unwrap_or(inside);
        if let Some((len, trims)) = bare_tag(inside, "raw") {
            return self.raw(self.body.len() - inside.len() + len, trims);
        }
        if self.engine == PromptEngine::Liquid {
            if bare_tag(inside, "comment").is_some() {
                return self.comment_block();
            }
            if inside.trim_start().starts_with('#') {
                return self.inline_comment();
            }
        }
        self.at = open;
        let mark = self.mark(MarkKind::Tag)?;
        self.pieces.push(Piece::Mark(mark));
        Ok(())
    }

    /// Everything between `{% raw %}` and `{% endraw %}` is text.
    fn raw(&mut self, start: usize, trims_start: bool) -> Result<(), PromptFault> {
        let open = self.at;
        let mut from = start;
        while let Some(found) = self.body[from..].find("{%") {
            let end = from + found;
            from = end + 2;
            let trims_end = self.body.as_bytes().get(from) == Some(&b'-');
            if let Some((len, trims)) = bare_tag(&self.body[from..], "endraw") {
                self.at = from + len;
                self.trims = trims_start;
                self.text(&self.body[start..end], trims_end);
                self.trims = trims;
                return Ok(());
            }
        }
        Err(PromptFault::new(open, "this `raw` is never closed by `endraw`"))
    }

    /// Liquid's `{% comment %} ... {% endcomment %}`, which may contain others.
    fn comment_block(&mut self) -> Result<(), PromptFault> {
        let open = self.at;
        let mut depth = 0_usize;
        while let Some(found) = self.rest().find("{%") {
            self.at += found + 2;
            if bare_tag(self.rest(), "comment").is_some() {
                depth += 1;
            } else if let Some((len, trims)) = bare_tag(self.rest(), "endcomment") {
                depth -= 1;
                if depth == 0 {
                    self.at += len;
                    self.trims = trims;
                    return Ok(());
                }
            }
        }
        Err(PromptFault::new(open, "this `comment` is never closed by `endcomment`"))
    }

    /// Liquid's `{% # ... %}`.
    fn inline_comment(&mut self) -> Result<(), PromptFault> {
        let Some(len) = self.rest().find("%}") else {
            return Err(PromptFault::new(self.at, "this `{%` is never closed by `%}`"));
        };
        self.trims = self.rest()[..len].ends_with('-');
        self.at += len + 2;
        Ok(())
    }

    fn mark(&mut self, kind: MarkKind) -> Result<TemplateMark<'a>, PromptFault> {
        let open = self.at;
        let close = kind.close();
        self.at += 2;
        if self.rest().starts_with('-') {
            self.at += 1;
        }
        let mut words = Vec::new();
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            let (rest, dash) = match self.rest().strip_prefix('-') {
                Some(rest) if rest.starts_with(close) => (rest, true),
                _ => (self.rest(), false),
            };
            if rest.starts_with(close) {
                self.at = self.body.len() - rest.len() + close.len();
                self.trims = dash;
                return Ok(TemplateMark { kind, span: open..self.at, trims_after: dash, words });
            }
            if rest.is_empty() {
                let opened = &self.body[open..open + 2];
                return Err(PromptFault::new(
                    open,
                    format!("this `{opened}` is never closed by `{close}`"),
                ));
            }
            if words.len() == MAX_WORDS {
                return Err(PromptFault::new(
                    open,
                    format!("this mark has more than {MAX_WORDS} words"),
                ));
            }
            let word = self.word()?;
            self.at = word.span.end;
            words.push(word);
        }
    }

    fn word(&self) -> Result<Word<'a>, PromptFault> {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or_default();
        let (token, len) = match first {
            '"' | '\'' => self.quoted(first)?,
            '`' if self.engine == PromptEngine::Tera => self.quoted(first)?,
            '0'..='9' => self.number()?,
            '-' if self.engine == PromptEngine::Liquid
                && rest[1..].starts_with(|c: char| c.is_ascii_digit()) =>
            {
                self.number()?
            }
            '_' | 'a'..='z' | 'A'..='Z' => {
                let len = self.name_len();
                (Token::Name(&rest[..len]), len)
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Token::Sign(&rest[..sign.len()]), sign.len()),
                None => {
                    return Err(PromptFault::new(
                        self.at,
                        format!("`{}` cannot stand here", first.escape_debug()),
                    ));
                }
            },
        };
        Ok(Word { token, span: self.at..self.at + len })
    }

    /// Liquid's names may have dashes inside and a question mark at the end.
    fn name_len(&self) -> usize {
        let rest = self.rest();
        let liquid = self.engine == PromptEngine::Liquid;
        let len = rest
            .char_indices()
            .find(|&(at, c)| {
                let dash = liquid
                    && c == '-'
                    && !rest[at + 1..].starts_with("}}")
                    && !rest[at + 1..].starts_with("%}");
                !(c.is_ascii_alphanumeric() || c == '_' || dash)
            })
            .map_or(rest.len(), |(at, _)| at);
        len + usize::from(liquid && rest[len..].starts_with('?'))
    }

    fn quoted(&self, quote: char) -> Result<(Token<'a>, usize), PromptFault> {
        let inside = &self.rest()[1..];
        let escapes = self.engine == PromptEngine::Tera;
        let mut text = String::new();
        let mut escaped = false;
        for (at, c) in inside.char_indices() {
            if escaped {
                text.push(match c {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                });
                escaped = false;
            } else if escapes && c == '\\' {
                escaped = true;
            } else if c == quote {
                return Ok((Token::Text(Cow::Owned(text)), at + 2));
            } else {
                text.push(c);
            }
        }
        Err(PromptFault::new(self.at, format!("this text is never closed by `{quote}`")))
    }

    fn number(&self) -> Result<(Token<'a>, usize), PromptFault> {
        let rest = self.rest();
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let sign = usize::from(rest.starts_with('-'));
        let mut len = sign + digits(&rest[sign..]);
        let fraction = rest[len..].strip_prefix('.').map_or(0, digits);
        let token = if fraction > 0 {
            len += 1 + fraction;
            rest[..len].parse().map(Token::Float).ok()
        } else {
            rest[..len].parse().map(Token::Int).ok()
        };
        token
            .map(|token| (token, len))
            .ok_or_else(|| PromptFault::new(self.at, format!("`{}` is too large", &rest[..len])))
    }
}

/// Matches `name %}` behind a `{%`, with dashes and space; gives the length and the last dash.
fn bare_tag(inside: &str, name: &str) -> Option<(usize, bool)> {
    let space = |c: char| c.is_ascii_whitespace();
    let rest = inside.strip_prefix('-').unwrap_or(inside);
    let rest = rest.trim_start_matches(space).strip_prefix(name)?;
    let rest = rest.trim_start_matches(space);
    let (rest, trims) = match rest.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let rest = rest.strip_prefix("%}")?;
    Some((inside.len() - rest.len(), trims))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(body: &str, engine: PromptEngine) -> Vec<String> {
        let (pieces, fault) = cut(body, engine);
        let mut shown: Vec<String> = pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => format!("{text:?}"),
                Piece::Mark(mark) => {
                    let words: Vec<&str> =
                        mark.words.iter().map(|w| &body[w.span.clone()]).collect();
                    format!("{:?} {}", mark.kind, words.join(" "))
                }
            })
            .collect();
        shown.extend(fault.map(|fault| format!("{}: {}", fault.at, fault.message)));
        shown
    }

    fn tera(body: &str) -> Vec<String> {
        show(body, PromptEngine::Tera)
    }

    fn liquid(body: &str) -> Vec<String> {
        show(body, PromptEngine::Liquid)
    }

    #[test]
    fn text_and_marks_alternate() {
        assert_eq!(
            tera("a {{ issue.title | join(sep=\", \") }} b{% if x %}"),
            ["\"a \"", "Output issue . title | join ( sep = \", \" )", "\" b\"", "Tag if x"]
        );
    }

    #[test]
    fn dashes_take_the_space_on_their_side() {
        assert_eq!(
            liquid("a  {{- b-c -}}  d {%- if e? -%} f"),
            ["\"a\"", "Output b-c", "\"d\"", "Tag if e?", "\"f\""]
        );
    }

    #[test]
    fn raw_and_comments_are_not_read() {
        assert_eq!(
            tera("a{% raw %} {{ x }} {%- endraw %}{# {{ y #}b"),
            ["\"a\"", "\" {{ x }}\"", "\"b\""]
        );
        assert_eq!(
            liquid("a{% comment %}{% if {% comment %}{% endcomment %}{% endcomment %}{% # b %}c{#"),
            ["\"a\"", "\"c{#\""]
        );
    }

    #[test]
    fn a_quoted_brace_does_not_close() {
        assert_eq!(tera(r#"{{ "a\"}}" }}"#), [r#"Output "a\"}}""#]);
        assert_eq!(liquid(r#"{{ '}}' }}"#), [r"Output '}}'"]);
    }

    #[test]
    fn faults_say_where() {
        assert_eq!(liquid("a {{ b"), ["\"a \"", "2: this `{{` is never closed by `}}`"]);
        assert_eq!(
            liquid("{{ 99999999999999999999 }}"),
            ["3: `99999999999999999999` is too large"]
        );
        assert_eq!(liquid("{{ é }}"), ["3: `é` cannot stand here"]);
        assert_eq!(tera("{% raw %}"), ["0: this `raw` is never closed by `endraw`"]);
    }
}
