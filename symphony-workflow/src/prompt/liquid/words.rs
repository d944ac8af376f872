//! The words of one mark: values, filters and conditions.

use crate::prompt::liquid::filters::{filter, filter_names};
use crate::prompt::liquid::tree::{Call, Chain, Comparison, Condition, Operand, Path, PathStep};
use crate::prompt::liquid::value::Value;
use crate::prompt::marks::{PromptFault, TemplateMark, Token, Word};
use crate::prompt::names::nearest;
use symphony_core::plain_start;

/// How much of the file a fault quotes.
const MAX_QUOTED_BYTES: usize = 60;

/// The words of one mark, read from left to right.
pub(super) struct WordReader<'a, 'w> {
    body: &'a str,
    mark: &'w TemplateMark<'a>,
    next: usize,
}

impl<'a, 'w> WordReader<'a, 'w> {
    pub(super) fn new(body: &'a str, mark: &'w TemplateMark<'a>, next: usize) -> Self {
        Self { body, mark, next }
    }

    fn peek(&self) -> Option<&'w Word<'a>> {
        self.mark.words.get(self.next)
    }

    pub(super) fn is_done(&self) -> bool {
        self.peek().is_none()
    }

    fn at(&self) -> usize {
        self.peek().map_or(self.mark.span.end - 2, |word| word.span.start)
    }

    /// A fault at the next word, which is named.
    pub(super) fn fault(&self, expected: &str) -> PromptFault {
        let found = match self.peek() {
            Some(word) => {
                format!("found `{}`", plain_start(&self.body[word.span.clone()], MAX_QUOTED_BYTES))
            }
            None => "the mark ends".to_owned(),
        };
        PromptFault::new(self.at(), format!("{expected}, but {found}"))
    }

    pub(super) fn take(&mut self, sign: &str) -> bool {
        let taken = self.peek().is_some_and(|word| word.token.is(sign));
        self.next += usize::from(taken);
        taken
    }

    pub(super) fn take_name(&mut self, name: &str) -> bool {
        let taken =
            self.peek().is_some_and(|word| matches!(word.token, Token::Name(own) if own == name));
        self.next += usize::from(taken);
        taken
    }

    pub(super) fn expect(&mut self, sign: &str) -> Result<(), PromptFault> {
        if self.take(sign) {
            return Ok(());
        }
        Err(self.fault(&format!("expected `{sign}`")))
    }

    pub(super) fn name(&mut self, what: &str) -> Result<&'a str, PromptFault> {
        if let Some(Word { token: Token::Name(name), .. }) = self.peek() {
            self.next += 1;
            return Ok(name);
        }
        Err(self.fault(&format!("expected {what}")))
    }

    pub(super) fn end(&self) -> Result<(), PromptFault> {
        if self.is_done() {
            return Ok(());
        }
        let fault = self.fault("expected the end of the mark");
        let jinja = self.peek().is_some_and(|word| word.token.is("("));
        Err(if jinja {
            fault.with_help("in Liquid, arguments follow a colon: `join: \", \"`")
        } else {
            fault
        })
    }

    pub(super) fn chain(&mut self) -> Result<Chain, PromptFault> {
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
    pub(super) fn condition(&mut self) -> Result<Condition, PromptFault> {
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
        let last = terms.pop().ok_or_else(|| self.fault("expected a condition"))?;
        let joined = terms.into_iter().zip(joins).rev();
        Ok(joined.fold(last, |right, (left, and)| match and {
            true => Condition::And(Box::new(left), Box::new(right)),
            false => Condition::Or(Box::new(left), Box::new(right)),
        }))
    }

    fn comparison(&mut self) -> Result<Condition, PromptFault> {
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

    pub(super) fn operand(&mut self) -> Result<Operand, PromptFault> {
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

    fn range(&mut self, at: usize) -> Result<Operand, PromptFault> {
        self.expect("(")?;
        let first = Box::new(self.operand()?);
        self.expect("..")?;
        let last = Box::new(self.operand()?);
        self.expect(")")?;
        Ok(Operand::Range { first, last, at })
    }

    fn path(&mut self, root: &str) -> Result<Operand, PromptFault> {
        let at = self.at();
        self.next += 1;
        let mut steps = Vec::new();
        loop {
            if self.take(".") {
                steps.push(PathStep::Field(self.name("a field")?.to_owned()));
            } else if self.take("[") {
                let step = match self.operand()? {
                    Operand::Literal(Value::Text(field)) => PathStep::Field(field.to_string()),
                    operand => PathStep::Item(operand),
                };
                self.expect("]")?;
                steps.push(step);
            } else {
                break;
            }
        }
        let end = self.mark.words.get(self.next - 1).map_or(at, |word| word.span.end);
        Ok(Operand::Path(Path {
            root: root.to_owned(),
            steps,
            text: self.body[at..end].to_owned(),
            at,
        }))
    }
}

fn unknown_filter(name: &str, at: usize) -> PromptFault {
    let fault = PromptFault::new(at, format!("Liquid has no filter `{name}`"));
    let meant = match name {
        "lower" => Some("downcase"),
        "upper" => Some("upcase"),
        "trim" => Some("strip"),
        "length" | "count" => Some("size"),
        "json" | "tojson" | "to_json" => None,
        _ => nearest(name, filter_names()),
    };
    match meant {
        Some(near) => fault.with_help(format!("did you mean `{near}`?")),
        None => fault,
    }
}
