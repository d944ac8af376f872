//! Reading a Tera body for what its library does not tell: unknown fields, and the places where
//! rendering is measured.

use std::ops::Range;

use crate::prompt::marks::{MarkKind, Piece, PromptFault, TemplateMark, Token, Word};
use crate::prompt::meter::MAX_DEPTH;
use crate::prompt::names::{Hop, Scope, Shape, nearest};
use symphony_core::settings::PromptEngine;

/// Each `~` copies all text to its left.
const MAX_JOINS: usize = 16;
/// The library reads a chain of `elif` by recursion.
const MAX_ELIFS: usize = 100;

const TAGS: [&str; 10] =
    ["if", "elif", "else", "endif", "for", "endfor", "break", "continue", "set", "set_global"];

pub(in crate::prompt) const FILTERS: [&str; 37] = [
    "abs",
    "capitalize",
    "default",
    "escape",
    "escape_html",
    "escape_xml",
    "first",
    "float",
    "get",
    "group_by",
    "indent",
    "int",
    "join",
    "keys",
    "last",
    "length",
    "lower",
    "newlines_to_br",
    "nth",
    "pairs",
    "pluralize",
    "replace",
    "reverse",
    "round",
    "safe",
    "sort",
    "split",
    "str",
    "title",
    "trim",
    "trim_end",
    "trim_start",
    "truncate",
    "unique",
    "upper",
    "values",
    "wordcount",
];

const KEYWORDS: [&str; 14] = [
    "and", "or", "not", "in", "is", "if", "else", "true", "True", "false", "False", "none", "None",
    "null",
];

/// A place where rendering is measured: behind this mark.
#[derive(Debug, PartialEq)]
pub(super) struct Probe {
    pub(super) mark: Range<usize>,
    pub(super) trims_after: bool,
    pub(super) what: Measure,
}

#[derive(Debug, PartialEq)]
pub(super) enum Measure {
    /// A loop goes round.
    Step,
    /// This variable was set.
    Size(String),
}

/// What a body is made of.
#[derive(Debug, Default)]
pub(super) struct TeraInspection {
    /// What is wrong with names, filters and the use of the language.
    pub(super) faults: Vec<PromptFault>,
    pub(super) probes: Vec<Probe>,
    /// Every path, where it stands and how it is written.
    pub(super) paths: Vec<(Range<usize>, String)>,
    /// The names that the template sets.
    pub(super) set: Vec<String>,
}

/// Refuses what must not even reach the library's parser.
pub(super) fn screen(pieces: &[Piece<'_>]) -> Result<(), PromptFault> {
    let mut depth = 0_usize;
    let mut elifs = 0_usize;
    for mark in marks(pieces) {
        let at = mark.span.start;
        match mark.tag() {
            Some("if" | "for") => depth += 1,
            Some("endif" | "endfor") => depth = depth.saturating_sub(1),
            Some("elif") => elifs += 1,
            Some(tag) => check_tag(tag, mark)?,
            None => {}
        }
        if depth > MAX_DEPTH {
            let message = format!("blocks stand in each other more than {MAX_DEPTH} deep");
            return Err(PromptFault::new(at, message));
        }
        if elifs > MAX_ELIFS {
            let message = format!("there are more than {MAX_ELIFS} `elif`");
            return Err(PromptFault::new(at, message));
        }
    }
    Ok(())
}

/// The first block that is not closed, or end of a block that is not open.
pub(super) fn unbalanced(pieces: &[Piece<'_>]) -> Option<PromptFault> {
    let mut open: Vec<(&str, usize)> = Vec::new();
    for mark in marks(pieces) {
        let at = mark.span.start;
        let top = open.last().map(|(tag, _)| *tag);
        match (mark.tag(), top) {
            (Some(tag @ ("if" | "for")), _) => open.push((tag, at)),
            (Some("endif"), Some("if")) | (Some("endfor"), Some("for")) => {
                open.pop();
            }
            (Some(tag @ ("endif" | "endfor")), None) => {
                return Some(PromptFault::new(
                    at,
                    format!("this `{tag}` closes nothing that is open"),
                ));
            }
            (Some("endif" | "endfor"), Some(_)) => break,
            (Some(tag @ ("elif" | "else")), None) => {
                return Some(PromptFault::new(at, format!("this `{tag}` belongs to no block")));
            }
            _ => {}
        }
    }
    let (tag, at) = open.pop()?;
    Some(PromptFault::new(at, format!("this `{tag}` is never closed by `end{tag}`")))
}

fn check_tag(tag: &str, mark: &TemplateMark<'_>) -> Result<(), PromptFault> {
    let at = mark.span.start;
    match tag {
        "set" | "set_global" if !mark.words.get(2).is_some_and(|word| word.token.is("=")) => {
            Err(PromptFault::new(at, format!("`{tag}` needs a value: `{tag} x = 1`"))
                .with_help("text between `set` and `endset` is not available in prompts"))
        }
        tag if TAGS.contains(&tag) => Ok(()),
        "include" | "extends" | "import" | "layout" | "render" => {
            Err(PromptFault::new(at, format!("`{tag}` is not available: a prompt is one file")))
        }
        "block" | "component" | "macro" | "filter" | "endset" => {
            Err(PromptFault::new(at, format!("`{tag}` is not available in prompts")))
        }
        "elsif" => {
            Err(PromptFault::new(at, "Tera has no tag `elsif`").with_help("did you mean `elif`?"))
        }
        "assign" => {
            Err(PromptFault::new(at, "Tera has no tag `assign`").with_help("did you mean `set`?"))
        }
        "unless" => {
            Err(PromptFault::new(at, "Tera has no tag `unless`")
                .with_help("write `{% if not ... %}`"))
        }
        _ => {
            let fault = PromptFault::new(at, format!("Tera has no tag `{tag}`"));
            Err(match nearest(tag, TAGS.into_iter()) {
                Some(near) => fault.with_help(format!("did you mean `{near}`?")),
                None => fault,
            })
        }
    }
}

fn marks<'a, 'p>(pieces: &'p [Piece<'a>]) -> impl Iterator<Item = &'p TemplateMark<'a>> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Mark(mark) => Some(mark),
        Piece::Text(_) => None,
    })
}

/// Reads a body that the library has parsed.
pub(super) fn inspect(body: &str, pieces: &[Piece<'_>]) -> TeraInspection {
    let mut inspector = Inspector {
        body,
        scope: Scope::new(PromptEngine::Tera),
        blocks: Vec::new(),
        found: TeraInspection::default(),
    };
    for mark in marks(pieces) {
        if let (Some("set" | "set_global"), Some(name)) = (mark.tag(), name_at(mark, 1)) {
            inspector.scope.bind(name, Shape::Any);
            inspector.found.set.push(name.to_owned());
        }
    }
    for mark in marks(pieces) {
        inspector.mark(mark);
    }
    inspector.found
}

struct Inspector<'a> {
    body: &'a str,
    scope: Scope,
    /// The open blocks: for a loop, how many names were bound before it.
    blocks: Vec<Option<usize>>,
    found: TeraInspection,
}

impl Inspector<'_> {
    fn mark(&mut self, mark: &TemplateMark<'_>) {
        self.limits(mark);
        let words = &mark.words;
        match mark.tag() {
            Some("for") => self.open_loop(mark),
            Some("if") => {
                self.blocks.push(None);
                self.expression(&words[1..]);
            }
            Some("endif" | "endfor") => {
                if let Some(Some(before)) = self.blocks.pop() {
                    self.scope.close(before);
                }
            }
            Some("set" | "set_global") => {
                self.expression(words.get(3..).unwrap_or_default());
                if let Some(name) = name_at(mark, 1) {
                    self.probe(mark, Measure::Size(name.to_owned()));
                }
            }
            Some(_) => drop(self.expression(&words[1..])),
            None => drop(self.expression(words)),
        }
    }

    fn probe(&mut self, mark: &TemplateMark<'_>, what: Measure) {
        self.found.probes.push(Probe {
            mark: mark.span.clone(),
            trims_after: mark.trims_after,
            what,
        });
    }

    fn fault(&mut self, fault: PromptFault) {
        self.found.faults.push(fault);
    }

    fn open_loop(&mut self, mark: &TemplateMark<'_>) {
        let words = &mark.words;
        let over = words.iter().position(|word| word.token == Token::Name("in"));
        let over = &words[over.map_or(words.len(), |at| at + 1)..];
        let shape = self.expression(over);
        self.blocks.push(Some(self.scope.open()));
        let item = match shape {
            Some(Shape::List(item)) => *item,
            _ => Shape::Any,
        };
        let pair = words.get(2).is_some_and(|word| word.token.is(","));
        if let Some(name) = name_at(mark, 1) {
            self.scope.bind(name, if pair { Shape::Any } else { item });
        }
        if let Some(name) = name_at(mark, 3).filter(|_| pair) {
            self.scope.bind(name, Shape::Any);
        }
        self.scope.bind("loop", Shape::Loop);
        self.probe(mark, Measure::Step);
    }

    /// What cannot be measured is refused.
    fn limits(&mut self, mark: &TemplateMark<'_>) {
        let first = usize::from(mark.kind == MarkKind::Tag);
        let mut joins = 0_usize;
        for (index, word) in mark.words.iter().enumerate().skip(first) {
            let at = word.span.start;
            match word.token {
                Token::Name("for") if !after_dot(&mark.words, index) => {
                    let message = "a list made by `for` is not available in prompts";
                    self.fault(PromptFault::new(at, message).with_help("use `{% for %}`"));
                }
                Token::Sign("...") => {
                    self.fault(PromptFault::new(at, "`...` is not available in prompts"));
                }
                Token::Sign("~") => joins += 1,
                _ => {}
            }
        }
        if joins > MAX_JOINS {
            let message = format!("one mark joins more than {MAX_JOINS} texts by `~`");
            self.fault(PromptFault::new(mark.span.start, message));
        }
    }

    /// Looks up every name in an expression. Gives its shape if it is one path and nothing else.
    fn expression(&mut self, words: &[Word<'_>]) -> Option<Shape> {
        let mut only = None;
        let mut index = 0;
        while let Some(word) = words.get(index) {
            let Token::Name(name) = word.token else {
                index += 1;
                continue;
            };
            let used = self.role(words, index, name);
            if used != Role::Variable {
                index += 1;
                continue;
            }
            let (hops, end) = path(words, index + 1);
            let span = word.span.start..words[end - 1].span.end;
            let written = self.body.get(span.clone()).unwrap_or(name).to_owned();
            match self.scope.shape(name, &hops, span.start) {
                Ok(shape) if index == 0 && end == words.len() => only = Some(shape),
                Ok(_) => {}
                Err(unknown) => self.fault(unknown.fault),
            }
            self.found.paths.push((span, written));
            // Names inside brackets are looked at in their turn.
            index += 1;
        }
        only
    }

    fn role(&mut self, words: &[Word<'_>], index: usize, name: &str) -> Role {
        let sign = |at: usize, sign: &str| words.get(at).is_some_and(|w| w.token.is(sign));
        let word = |at: usize, name| words.get(at).is_some_and(|w| w.token == Token::Name(name));
        let before = index.wrapping_sub(1);
        if after_dot(words, index) || KEYWORDS.contains(&name) {
            return Role::Other;
        }
        if sign(before, "|") {
            if !FILTERS.contains(&name) {
                self.fault(unknown_filter(name, words[index].span.start));
            }
            return Role::Other;
        }
        let test = word(before, "is") || (word(before, "not") && word(index.wrapping_sub(2), "is"));
        let argument = sign(index + 1, "=") && (sign(before, "(") || sign(before, ","));
        if test || argument || sign(index + 1, "(") {
            return Role::Other;
        }
        Role::Variable
    }
}

#[derive(PartialEq)]
enum Role {
    Variable,
    /// A keyword, a field, a filter, a test, a function or an argument.
    Other,
}

fn name_at<'a>(mark: &TemplateMark<'a>, index: usize) -> Option<&'a str> {
    match mark.words.get(index)?.token {
        Token::Name(name) => Some(name),
        _ => None,
    }
}

fn after_dot(words: &[Word<'_>], index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| words.get(before));
    before.is_some_and(|word| word.token.is(".") || word.token.is("?."))
}

/// The steps behind a name, and the index of the first word after them.
fn path<'w>(words: &'w [Word<'_>], from: usize) -> (Vec<Hop<'w>>, usize) {
    let mut hops = Vec::new();
    let mut index = from;
    loop {
        match (words.get(index).map(|w| &w.token), words.get(index + 1).map(|w| &w.token)) {
            (Some(Token::Sign("." | "?.")), Some(Token::Name(field))) => {
                hops.push(Hop::Field(field));
                index += 2;
            }
            (Some(Token::Sign("[" | "?[")), Some(inner)) => {
                let closed = words.get(index + 2).is_some_and(|word| word.token.is("]"));
                hops.push(match inner {
                    Token::Text(field) if closed => Hop::Field(field),
                    _ => Hop::Item,
                });
                index = closing(words, index);
            }
            _ => return (hops, index),
        }
    }
}

/// The index behind the bracket that closes the one at `open`.
fn closing(words: &[Word<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, word) in words.iter().enumerate().skip(open) {
        match word.token {
            Token::Sign("[" | "?[") => depth += 1,
            Token::Sign("]") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    words.len()
}

fn unknown_filter(name: &str, at: usize) -> PromptFault {
    let fault = PromptFault::new(at, format!("Tera has no filter `{name}`"));
    let meant = match name {
        "downcase" => Some("lower"),
        "upcase" => Some("upper"),
        "strip" => Some("trim"),
        "size" | "count" => Some("length"),
        "json" | "tojson" | "to_json" => None,
        _ => nearest(name, FILTERS.into_iter()),
    };
    match meant {
        Some(near) => fault.with_help(format!("did you mean `{near}`?")),
        None => fault,
    }
}
