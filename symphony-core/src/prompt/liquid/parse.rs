//! From words to the tree that is rendered.

use std::sync::Arc;

use crate::prompt::liquid::filters::{Filter, filter, filter_names};
use crate::prompt::liquid::value::Value;
use crate::prompt::marks::{Fault, Mark, MarkKind, Piece, Token, Word, cut};
use crate::prompt::meter::MAX_DEPTH;
use crate::prompt::names::nearest;
use crate::settings::PromptEngine;

#[derive(Debug)]
pub(super) enum Node {
    Text(Arc<str>),
    Output(Chain),
    If {
        arms: Vec<(Condition, Vec<Node>)>,
        otherwise: Vec<Node>,
    },
    Case {
        subject: Operand,
        arms: Vec<(Vec<Operand>, Vec<Node>)>,
        otherwise: Vec<Node>,
    },
    For(Box<Loop>),
    Assign {
        name: String,
        value: Chain,
    },
    Capture {
        name: String,
        body: Vec<Node>,
        at: usize,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct Loop {
    pub(super) name: String,
    pub(super) over: Operand,
    pub(super) reversed: bool,
    pub(super) limit: Option<Operand>,
    pub(super) offset: Option<Operand>,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) enum Condition {
    Truth(Operand),
    Compare(Operand, Comparison, Operand),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

/// A value and what is done to it.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) base: Operand,
    pub(super) calls: Vec<Call>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) filter: &'static Filter,
    pub(super) args: Vec<Operand>,
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) enum Operand {
    Literal(Value),
    Path(Path),
    Range {
        first: Box<Operand>,
        last: Box<Operand>,
        at: usize,
    },
}

#[derive(Debug)]
pub(super) struct Path {
    pub(super) root: String,
    pub(super) steps: Vec<Step>,
    /// As it stands in the file.
    pub(super) text: String,
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) enum Step {
    Field(String),
    Item(Operand),
}

/// Parses a whole body.
pub(super) fn parse(body: &str) -> Result<Vec<Node>, Fault> {
    let (pieces, fault) = cut(body, PromptEngine::Liquid);
    let mut parser = Parser {
        body,
        pieces: pieces.into_iter(),
        depth: 0,
        loops: 0,
    };
    // What stands before an unreadable mark may be wrong too, and is then the better answer.
    let parsed = parser.nodes(None, &[]);
    match (parsed, fault) {
        (Err(early), Some(fault)) if early.at > fault.at => Err(fault),
        (Err(early), Some(fault)) if early.message.contains("never closed") => Err(fault),
        (Err(early), _) => Err(early),
        (Ok(_), Some(fault)) => Err(fault),
        (Ok((nodes, _)), None) => Ok(nodes),
    }
}

struct Parser<'a, I> {
    body: &'a str,
    pieces: I,
    depth: usize,
    loops: usize,
}

/// The words of one mark, read from left to right.
struct Words<'a, 'w> {
    body: &'a str,
    mark: &'w Mark<'a>,
    next: usize,
}

impl<'a, I: Iterator<Item = Piece<'a>>> Parser<'a, I> {
    /// Reads up to one of the tags in `ends`, which is given back, or to the end of the body.
    fn nodes(
        &mut self,
        open: Option<(&str, usize)>,
        ends: &[&str],
    ) -> Result<(Vec<Node>, Option<Mark<'a>>), Fault> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let mark = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text.into()));
                    continue;
                }
                Piece::Mark(mark) => mark,
            };
            if mark.kind == MarkKind::Output {
                let mut words = Words::new(self.body, &mark, 0);
                let chain = words.chain()?;
                words.end()?;
                nodes.push(Node::Output(chain));
                continue;
            }
            match mark.tag() {
                Some(name) if ends.contains(&name) => return Ok((nodes, Some(mark))),
                Some(name) => nodes.push(self.tag(name, &mark)?),
                None => return Err(Fault::new(mark.span.start, "a tag begins with its name")),
            }
        }
        match open {
            Some((name, at)) => Err(Fault::new(
                at,
                format!("this `{name}` is never closed by `end{name}`"),
            )),
            None => Ok((nodes, None)),
        }
    }

    fn tag(&mut self, name: &str, mark: &Mark<'a>) -> Result<Node, Fault> {
        let at = mark.span.start;
        let mut words = Words::new(self.body, mark, 1);
        if matches!(name, "if" | "unless" | "case" | "for" | "capture") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(Fault::new(
                    at,
                    format!("blocks stand in each other more than {MAX_DEPTH} deep"),
                ));
            }
            let node = match name {
                "if" | "unless" => self.conditional(name, words, at),
                "case" => self.case(words, at),
                "for" => self.for_loop(words, at),
                _ => self.capture(words, at),
            }?;
            self.depth -= 1;
            return Ok(node);
        }
        let node = match name {
            "assign" => {
                let name = words.name("a variable")?.to_owned();
                words.expect("=")?;
                let value = words.chain()?;
                Node::Assign { name, value }
            }
            "echo" => Node::Output(words.chain()?),
            "break" | "continue" if self.loops == 0 => {
                return Err(Fault::new(at, format!("`{name}` stands in no loop")));
            }
            "break" => Node::Break,
            "continue" => Node::Continue,
            _ => return Err(unknown_tag(name, at)),
        };
        words.end()?;
        Ok(node)
    }

    fn conditional(
        &mut self,
        name: &str,
        mut words: Words<'a, '_>,
        at: usize,
    ) -> Result<Node, Fault> {
        let first = words.condition()?;
        words.end()?;
        let mut condition = match name {
            "unless" => Condition::Not(Box::new(first)),
            _ => first,
        };
        let close = format!("end{name}");
        let mut arms = Vec::new();
        loop {
            let (body, end) = self.nodes(Some((name, at)), &["elsif", "else", &close])?;
            arms.push((condition, body));
            let Some(end) = end else { break };
            let mut words = Words::new(self.body, &end, 1);
            if end.tag() == Some("elsif") {
                condition = words.condition()?;
                words.end()?;
                continue;
            }
            words.end()?;
            let otherwise = self.otherwise(&end, (name, at), &close)?;
            return Ok(Node::If { arms, otherwise });
        }
        let otherwise = Vec::new();
        Ok(Node::If { arms, otherwise })
    }

    /// What follows an `else`, if it was one.
    fn otherwise(
        &mut self,
        end: &Mark<'a>,
        open: (&str, usize),
        close: &str,
    ) -> Result<Vec<Node>, Fault> {
        if end.tag() != Some("else") {
            return Ok(Vec::new());
        }
        let (nodes, end) = self.nodes(Some(open), &[close])?;
        if let Some(end) = end {
            Words::new(self.body, &end, 1).end()?;
        }
        Ok(nodes)
    }

    fn case(&mut self, mut words: Words<'a, '_>, at: usize) -> Result<Node, Fault> {
        let subject = words.operand()?;
        words.end()?;
        let open = ("case", at);
        let ends = ["when", "else", "endcase"];
        let mut arms = Vec::new();
        let (lead, mut end) = self.nodes(Some(open), &ends)?;
        if lead
            .iter()
            .any(|node| !matches!(node, Node::Text(text) if text.trim().is_empty()))
        {
            return Err(Fault::new(at, "between `case` and `when` nothing is shown"));
        }
        let otherwise = loop {
            let Some(mark) = end else { break Vec::new() };
            let mut words = Words::new(self.body, &mark, 1);
            if mark.tag() != Some("when") {
                words.end()?;
                break self.otherwise(&mark, open, "endcase")?;
            }
            let mut values = vec![words.operand()?];
            while words.take(",") || words.take_name("or") {
                values.push(words.operand()?);
            }
            words.end()?;
            let (body, next) = self.nodes(Some(open), &ends)?;
            arms.push((values, body));
            end = next;
        };
        Ok(Node::Case {
            subject,
            arms,
            otherwise,
        })
    }

    fn for_loop(&mut self, mut words: Words<'a, '_>, at: usize) -> Result<Node, Fault> {
        let name = words.name("a loop variable")?.to_owned();
        if !words.take_name("in") {
            return Err(words.fault("expected `in`"));
        }
        let over = words.operand()?;
        let (mut reversed, mut limit, mut offset) = (false, None, None);
        while !words.is_done() {
            words.take(",");
            match words.name("`limit`, `offset` or `reversed`")? {
                "reversed" => reversed = true,
                "limit" => {
                    words.expect(":")?;
                    limit = Some(words.operand()?);
                }
                "offset" => {
                    words.expect(":")?;
                    offset = Some(words.operand()?);
                }
                _ => return Err(words.fault("expected `limit`, `offset` or `reversed`")),
            }
        }
        self.loops += 1;
        let (body, end) = self.nodes(Some(("for", at)), &["else", "endfor"])?;
        self.loops -= 1;
        let otherwise = match end {
            Some(end) => {
                Words::new(self.body, &end, 1).end()?;
                self.otherwise(&end, ("for", at), "endfor")?
            }
            None => Vec::new(),
        };
        Ok(Node::For(Box::new(Loop {
            name,
            over,
            reversed,
            limit,
            offset,
            body,
            otherwise,
            at,
        })))
    }

    fn capture(&mut self, mut words: Words<'a, '_>, at: usize) -> Result<Node, Fault> {
        let name = words.name("a variable")?.to_owned();
        words.end()?;
        let (body, end) = self.nodes(Some(("capture", at)), &["endcapture"])?;
        if let Some(end) = end {
            Words::new(self.body, &end, 1).end()?;
        }
        Ok(Node::Capture { name, body, at })
    }
}

impl<'a, 'w> Words<'a, 'w> {
    fn new(body: &'a str, mark: &'w Mark<'a>, next: usize) -> Self {
        Self { body, mark, next }
    }

    fn peek(&self) -> Option<&'w Word<'a>> {
        self.mark.words.get(self.next)
    }

    fn is_done(&self) -> bool {
        self.peek().is_none()
    }

    fn at(&self) -> usize {
        self.peek()
            .map_or(self.mark.span.end - 2, |word| word.span.start)
    }

    /// A fault at the next word, which is named.
    fn fault(&self, expected: &str) -> Fault {
        let found = match self.peek() {
            Some(word) => format!("found `{}`", &self.body[word.span.clone()]),
            None => "the mark ends".to_owned(),
        };
        Fault::new(self.at(), format!("{expected}, but {found}"))
    }

    fn take(&mut self, sign: &str) -> bool {
        let taken = self.peek().is_some_and(|word| word.token.is(sign));
        self.next += usize::from(taken);
        taken
    }

    fn take_name(&mut self, name: &str) -> bool {
        let taken = self
            .peek()
            .is_some_and(|word| matches!(word.token, Token::Name(own) if own == name));
        self.next += usize::from(taken);
        taken
    }

    fn expect(&mut self, sign: &str) -> Result<(), Fault> {
        if self.take(sign) {
            return Ok(());
        }
        Err(self.fault(&format!("expected `{sign}`")))
    }

    fn name(&mut self, what: &str) -> Result<&'a str, Fault> {
        if let Some(Word {
            token: Token::Name(name),
            ..
        }) = self.peek()
        {
            self.next += 1;
            return Ok(name);
        }
        Err(self.fault(&format!("expected {what}")))
    }

    fn end(&self) -> Result<(), Fault> {
        if self.is_done() {
            return Ok(());
        }
        let fault = self.fault("expected the end of the mark");
        let jinja = self.peek().is_some_and(|word| word.token.is("("));
        Err(if jinja {
            fault.help("in Liquid, arguments follow a colon: `join: \", \"`")
        } else {
            fault
        })
    }

    fn chain(&mut self) -> Result<Chain, Fault> {
        let base = self.operand()?;
        let mut calls = Vec::new();
        while self.take("|") {
            let at = self.at();
            let name = self.name("a filter")?;
            let filter = filter(name).ok_or_else(|| unknown_filter(name, at))?;
            let mut args = Vec::new();
            if self.take(":") {
                args.push(self.operand()?);
                while self.take(",") {
                    args.push(self.operand()?);
                }
            }
            if !filter.args.contains(&args.len()) {
                return Err(filter.wrong_count(args.len(), at));
            }
            calls.push(Call { filter, args, at });
        }
        Ok(Chain { base, calls })
    }

    /// `a and b or c` is read from the right: `a and (b or c)`.
    fn condition(&mut self) -> Result<Condition, Fault> {
        let mut terms = vec![self.comparison()?];
        let mut joins = Vec::new();
        loop {
            if self.take_name("and") {
                joins.push(true);
            } else if self.take_name("or") {
                joins.push(false);
            } else {
                break;
            }
            terms.push(self.comparison()?);
        }
        let last = terms
            .pop()
            .ok_or_else(|| self.fault("expected a condition"))?;
        let joined = terms.into_iter().zip(joins).rev();
        Ok(joined.fold(last, |right, (left, and)| match and {
            true => Condition::And(Box::new(left), Box::new(right)),
            false => Condition::Or(Box::new(left), Box::new(right)),
        }))
    }

    fn comparison(&mut self) -> Result<Condition, Fault> {
        let left = self.operand()?;
        let sign = match self.peek().map(|word| &word.token) {
            Some(Token::Sign("==")) => Comparison::Equal,
            Some(Token::Sign("!=" | "<>")) => Comparison::NotEqual,
            Some(Token::Sign("<")) => Comparison::Less,
            Some(Token::Sign("<=")) => Comparison::LessOrEqual,
            Some(Token::Sign(">")) => Comparison::Greater,
            Some(Token::Sign(">=")) => Comparison::GreaterOrEqual,
            Some(Token::Name("contains")) => Comparison::Contains,
            _ => return Ok(Condition::Truth(left)),
        };
        self.next += 1;
        Ok(Condition::Compare(left, sign, self.operand()?))
    }

    fn operand(&mut self) -> Result<Operand, Fault> {
        let at = self.at();
        let Some(word) = self.peek() else {
            return Err(self.fault("expected a value"));
        };
        let literal = match &word.token {
            Token::Int(number) => Value::Int(*number),
            Token::Float(number) => Value::Float(*number),
            Token::Text(text) => Value::text(&**text),
            Token::Name("nil" | "null") => Value::Null,
            Token::Name("true") => Value::Truth(true),
            Token::Name("false") => Value::Truth(false),
            Token::Name("empty") => Value::Empty,
            Token::Name("blank") => Value::Blank,
            Token::Name(name) => return self.path(name),
            Token::Sign("(") => return self.range(at),
            Token::Sign(_) => return Err(self.fault("expected a value")),
        };
        self.next += 1;
        Ok(Operand::Literal(literal))
    }

    fn range(&mut self, at: usize) -> Result<Operand, Fault> {
        self.expect("(")?;
        let first = Box::new(self.operand()?);
        self.expect("..")?;
        let last = Box::new(self.operand()?);
        self.expect(")")?;
        Ok(Operand::Range { first, last, at })
    }

    fn path(&mut self, root: &str) -> Result<Operand, Fault> {
        let at = self.at();
        self.next += 1;
        let mut steps = Vec::new();
        loop {
            if self.take(".") {
                steps.push(Step::Field(self.name("a field")?.to_owned()));
            } else if self.take("[") {
                let step = match self.operand()? {
                    Operand::Literal(Value::Text(field)) => Step::Field(field.to_string()),
                    operand => Step::Item(operand),
                };
                self.expect("]")?;
                steps.push(step);
            } else {
                break;
            }
        }
        let end = self
            .mark
            .words
            .get(self.next - 1)
            .map_or(at, |word| word.span.end);
        Ok(Operand::Path(Path {
            root: root.to_owned(),
            steps,
            text: self.body[at..end].to_owned(),
            at,
        }))
    }
}

fn unknown_filter(name: &str, at: usize) -> Fault {
    let fault = Fault::new(at, format!("Liquid has no filter `{name}`"));
    let meant = match name {
        "lower" => Some("downcase"),
        "upper" => Some("upcase"),
        "trim" => Some("strip"),
        "length" | "count" => Some("size"),
        _ => nearest(name, filter_names()),
    };
    match meant {
        Some(near) => fault.help(format!("did you mean `{near}`?")),
        None => fault,
    }
}

fn unknown_tag(name: &str, at: usize) -> Fault {
    const TAGS: [&str; 12] = [
        "if", "unless", "case", "for", "assign", "capture", "comment", "raw", "break", "continue",
        "echo", "elsif",
    ];
    match name {
        "include" | "render" | "layout" => Fault::new(
            at,
            format!("`{name}` is not available: a prompt is one file"),
        ),
        "else" | "elsif" | "when" => Fault::new(at, format!("this `{name}` belongs to no block")),
        "elif" => Fault::new(at, "Liquid has no tag `elif`").help("did you mean `elsif`?"),
        "set" => Fault::new(at, "Liquid has no tag `set`").help("did you mean `assign`?"),
        _ if name.starts_with("end") => {
            Fault::new(at, format!("this `{name}` closes nothing that is open"))
        }
        _ => {
            let fault = Fault::new(at, format!("Liquid has no tag `{name}`"));
            match nearest(name, TAGS.into_iter()) {
                Some(near) => fault.help(format!("did you mean `{near}`?")),
                None => fault,
            }
        }
    }
}
