//! From marks to the tree that is rendered.

use crate::prompt::liquid::tree::{Condition, LiquidNode, Loop};
use crate::prompt::liquid::words::WordReader;
use crate::prompt::marks::{MarkKind, Piece, PromptFault, TemplateMark, cut};
use crate::prompt::meter::MAX_DEPTH;
use crate::prompt::names::nearest;
use symphony_core::settings::PromptEngine;

/// Parses a whole body.
pub(super) fn parse(body: &str) -> Result<Vec<LiquidNode>, PromptFault> {
    let (pieces, fault) = cut(body, PromptEngine::Liquid);
    let mut parser = Parser { body, pieces: pieces.into_iter(), depth: 0, loops: 0 };
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

impl<'a, I: Iterator<Item = Piece<'a>>> Parser<'a, I> {
    /// Reads up to one of the tags in `ends`, which is given back, or to the end of the body.
    fn nodes(
        &mut self,
        open: Option<(&str, usize)>,
        ends: &[&str],
    ) -> Result<(Vec<LiquidNode>, Option<TemplateMark<'a>>), PromptFault> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let mark = match piece {
                Piece::Text(text) => {
                    nodes.push(LiquidNode::Text(text.into()));
                    continue;
                }
                Piece::Mark(mark) => mark,
            };
            if mark.kind == MarkKind::Output {
                let mut words = WordReader::new(self.body, &mark, 0);
                let chain = words.chain()?;
                words.end()?;
                nodes.push(LiquidNode::Output(chain));
                continue;
            }
            match mark.tag() {
                Some(name) if ends.contains(&name) => return Ok((nodes, Some(mark))),
                Some(name) => nodes.push(self.tag(name, &mark)?),
                None => {
                    return Err(PromptFault::new(mark.span.start, "a tag begins with its name"));
                }
            }
        }
        match open {
            Some((name, at)) => {
                Err(PromptFault::new(at, format!("this `{name}` is never closed by `end{name}`")))
            }
            None => Ok((nodes, None)),
        }
    }

    fn tag(&mut self, name: &str, mark: &TemplateMark<'a>) -> Result<LiquidNode, PromptFault> {
        let at = mark.span.start;
        let mut words = WordReader::new(self.body, mark, 1);
        if matches!(name, "if" | "unless" | "case" | "for" | "capture") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(PromptFault::new(
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
                LiquidNode::Assign { name, value }
            }
            "echo" => LiquidNode::Output(words.chain()?),
            "break" | "continue" if self.loops == 0 => {
                return Err(PromptFault::new(at, format!("`{name}` stands in no loop")));
            }
            "break" => LiquidNode::Break,
            "continue" => LiquidNode::Continue,
            _ => return Err(unknown_tag(name, at)),
        };
        words.end()?;
        Ok(node)
    }

    fn conditional(
        &mut self,
        name: &str,
        mut words: WordReader<'a, '_>,
        at: usize,
    ) -> Result<LiquidNode, PromptFault> {
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
            let mut words = WordReader::new(self.body, &end, 1);
            if end.tag() == Some("elsif") {
                condition = words.condition()?;
                words.end()?;
                continue;
            }
            words.end()?;
            let otherwise = self.otherwise(&end, (name, at), &close)?;
            return Ok(LiquidNode::If { arms, otherwise });
        }
        let otherwise = Vec::new();
        Ok(LiquidNode::If { arms, otherwise })
    }

    /// What follows an `else`, if it was one.
    fn otherwise(
        &mut self,
        end: &TemplateMark<'a>,
        open: (&str, usize),
        close: &str,
    ) -> Result<Vec<LiquidNode>, PromptFault> {
        if end.tag() != Some("else") {
            return Ok(Vec::new());
        }
        let (nodes, end) = self.nodes(Some(open), &[close])?;
        if let Some(end) = end {
            WordReader::new(self.body, &end, 1).end()?;
        }
        Ok(nodes)
    }

    fn case(
        &mut self,
        mut words: WordReader<'a, '_>,
        at: usize,
    ) -> Result<LiquidNode, PromptFault> {
        let subject = words.operand()?;
        words.end()?;
        let open = ("case", at);
        let ends = ["when", "else", "endcase"];
        let mut arms = Vec::new();
        let (lead, mut end) = self.nodes(Some(open), &ends)?;
        if lead.iter().any(|node| !matches!(node, LiquidNode::Text(text) if text.trim().is_empty()))
        {
            return Err(PromptFault::new(at, "between `case` and `when` nothing is shown"));
        }
        let otherwise = loop {
            let Some(mark) = end else { break Vec::new() };
            let mut words = WordReader::new(self.body, &mark, 1);
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
        Ok(LiquidNode::Case { subject, arms, otherwise })
    }

    fn for_loop(
        &mut self,
        mut words: WordReader<'a, '_>,
        at: usize,
    ) -> Result<LiquidNode, PromptFault> {
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
                WordReader::new(self.body, &end, 1).end()?;
                self.otherwise(&end, ("for", at), "endfor")?
            }
            None => Vec::new(),
        };
        Ok(LiquidNode::For(Box::new(Loop {
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

    fn capture(
        &mut self,
        mut words: WordReader<'a, '_>,
        at: usize,
    ) -> Result<LiquidNode, PromptFault> {
        let name = words.name("a variable")?.to_owned();
        words.end()?;
        let (body, end) = self.nodes(Some(("capture", at)), &["endcapture"])?;
        if let Some(end) = end {
            WordReader::new(self.body, &end, 1).end()?;
        }
        Ok(LiquidNode::Capture { name, body, at })
    }
}

fn unknown_tag(name: &str, at: usize) -> PromptFault {
    const TAGS: [&str; 12] = [
        "if", "unless", "case", "for", "assign", "capture", "comment", "raw", "break", "continue",
        "echo", "elsif",
    ];
    match name {
        "include" | "render" | "layout" => {
            PromptFault::new(at, format!("`{name}` is not available: a prompt is one file"))
        }
        "else" | "elsif" | "when" => {
            PromptFault::new(at, format!("this `{name}` belongs to no block"))
        }
        "elif" => {
            PromptFault::new(at, "Liquid has no tag `elif`").with_help("did you mean `elsif`?")
        }
        "set" => {
            PromptFault::new(at, "Liquid has no tag `set`").with_help("did you mean `assign`?")
        }
        _ if name.starts_with("end") => {
            PromptFault::new(at, format!("this `{name}` closes nothing that is open"))
        }
        _ => {
            let fault = PromptFault::new(at, format!("Liquid has no tag `{name}`"));
            match nearest(name, TAGS.into_iter()) {
                Some(near) => fault.with_help(format!("did you mean `{near}`?")),
                None => fault,
            }
        }
    }
}
