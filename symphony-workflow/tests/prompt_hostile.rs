//! Prompts under hostile input (contract 15.2): issues are untrusted, and a template may be wrong
//! in any way.
//!
//! Each test runs for its share of `SYMPHONY_FUZZ_SECONDS` (10 by default). A failure prints the
//! seed of its case; `SYMPHONY_FUZZ_SEED` begins with it. For a case that ends the process,
//! `SYMPHONY_FUZZ_TRACE` prints every seed before it is used.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::panic,
    reason = "bounded by the clock, set by the environment, prints its seed, fails in helpers"
)]

use std::cell::Cell;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use symphony_core::settings::PromptEngine;
use symphony_core::{Blocker, Issue, Label};
use symphony_workflow::prompt::{Prompt, PromptInput};

const ENGINES: [PromptEngine; 2] = [PromptEngine::Tera, PromptEngine::Liquid];
const TESTS: u32 = 4;

/// Runs cases until the time is up, each with a seed of its own.
fn fuzz<S: Strategy>(name: &str, strategy: &S, check: impl Fn(S::Value)) {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let budget = Duration::from_secs(number("SYMPHONY_FUZZ_SECONDS").unwrap_or(10)) / TESTS;
    let first = number("SYMPHONY_FUZZ_SEED").unwrap_or_else(|| RandomState::new().hash_one(name));
    let started = Instant::now();
    let mut cases = 0;
    let mut slowest = Duration::ZERO;
    while cases == 0 || started.elapsed() < budget {
        let seed = first.wrapping_add(cases);
        if env::var_os("SYMPHONY_FUZZ_TRACE").is_some() {
            eprintln!("{name}: seed {seed}");
        }
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config = Config { cases: 1, failure_persistence: None, ..Config::default() };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let begun = Instant::now();
        let result = TestRunner::new_with_rng(config, rng).run(strategy, |value| {
            check(value);
            Ok(())
        });
        if let Err(error) = result {
            panic!("{name}: replay with SYMPHONY_FUZZ_SEED={seed}\n{error}");
        }
        slowest = slowest.max(begun.elapsed());
        cases += 1;
    }
    println!("{name}: {cases} cases from seed {first}, the slowest in {slowest:?}");
}

/// Text that an attacker might hope is evaluated, shown or cut in the wrong way.
fn hostile_text() -> impl Strategy<Value = String> {
    let pieces = select(vec![
        "{{ issue.id }}",
        "{% if true %}x{% endif %}",
        "{% raw %}",
        "{% endraw %}",
        "{% endfor %}",
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "{{- 7 -}}",
        "{{ 7 | plus: 7 }}",
        "{{ get_env(name=\"HOME\") }}",
        "${HOME} $(id) `id`",
        "\0",
        "\u{1b}[31m",
        "\u{7}",
        "\r\n",
        "\n",
        " ",
        "\t",
        "\u{202e}",
        "\u{2066}",
        "\u{feff}",
        "\u{200d}",
        "e\u{301}",
        "👩‍👩‍👧",
        "ß",
        "İ",
        "ﬁ",
        "\u{10ffff}",
        "\\",
        "\"",
        "'",
        "<b>&amp;</b>",
        "---",
    ]);
    let parts = prop::collection::vec(
        prop_oneof![8 => pieces.prop_map(str::to_owned), 2 => any::<String>()],
        0..12,
    );
    let long = (select(vec!["x", "{{", "\n", "é"]), 100_000..500_000_usize);
    prop_oneof![
        200 => parts.prop_map(|parts| parts.concat()),
        1 => long.prop_map(|(piece, times)| piece.repeat(times)),
    ]
}

fn optional_text() -> impl Strategy<Value = Option<String>> {
    prop::option::of(hostile_text())
}

fn hostile_issue() -> impl Strategy<Value = Issue> {
    (
        hostile_text(),
        optional_text(),
        prop::collection::vec(hostile_text(), 0..4),
        optional_text(),
        prop::option::of(any::<i64>()),
        prop::collection::vec(optional_text(), 0..3),
    )
        .prop_map(|(title, description, labels, url, priority, blockers)| {
            let title = format!("t{title}");
            let mut issue = Issue::new("id", "MT-1", &title, "Todo").unwrap();
            issue.description = description;
            issue.labels = Label::list(labels);
            issue.url = url;
            issue.priority = priority;
            issue.blocked_by = blockers
                .into_iter()
                .map(|identifier| Blocker {
                    identifier: identifier.map(Into::into),
                    ..Blocker::default()
                })
                .collect();
            issue
        })
}

fn input(issue: &Issue) -> PromptInput<'_> {
    PromptInput { issue, attempt: Some(2), turn: 1, max_turns: 20 }
}

#[test]
fn rule_15_2_issue_text_stands_in_the_prompt_as_it_is() {
    let body = "T<{{ issue.title }}>D<{{ issue.description }}>U<{{- issue.url -}}>\
        {% for label in issue.labels %}L<{{ label }}>{% endfor %}\
        {% for b in issue.blocked_by %}B<{% if b.identifier %}{{ b.identifier }}{% endif %}>\
        {% endfor %}{% if issue.description %}+{% endif %}";
    let prompts = ENGINES.map(|engine| Prompt::compile(body, 1, Some(engine)).unwrap());
    fuzz("issue text", &hostile_issue(), |issue| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let labels = issue.labels.iter().map(|label| format!("L<{label}>"));
        let blockers = issue.blocked_by.iter().map(|blocker| {
            let identifier = blocker.identifier.as_ref().map(ToString::to_string);
            format!("B<{}>", identifier.unwrap_or_default())
        });
        let expected = format!(
            "T<{}>D<{}>U<{}>{}{}{}",
            issue.title,
            text(&issue.description),
            text(&issue.url),
            labels.collect::<String>(),
            blockers.collect::<String>(),
            if text(&issue.description).is_empty() { "" } else { "+" },
        );
        for prompt in &prompts {
            match prompt.render(&input(&issue)) {
                Ok(rendered) => assert!(rendered == expected, "{:?}", prompt.engine()),
                Err(error) => {
                    assert!(expected.len() > 4 * 1024 * 1024, "{error}");
                }
            }
        }
    });
}

#[test]
fn rule_15_2_issue_text_stays_data_behind_variables_and_filters() {
    let tera = "{% set x = issue.title %}{{ x }}|{{ issue.title | upper }}|\
        {{ issue.title ~ issue.title }}|{{ issue.labels | join(sep=\"{{\") }}|\
        {{ issue.title | replace(from=\"{\", to=\"{{\") }}|{{ issue.title | default(value=1) }}";
    let liquid = "{% assign x = issue.title %}{{ x }}|{{ issue.title | upcase }}|\
        {% capture y %}{{ x }}{{ x }}{% endcapture %}{{ y }}|{{ issue.labels | join: \"{{\" }}|\
        {{ issue.title | replace: \"{\", \"{{\" }}|{{ issue.title | default: 1 }}";
    let prompts = [
        Prompt::compile(tera, 1, Some(PromptEngine::Tera)).unwrap(),
        Prompt::compile(liquid, 1, Some(PromptEngine::Liquid)).unwrap(),
    ];
    fuzz("filters", &hostile_issue(), |issue| {
        let labels: Vec<&str> = issue.labels.iter().map(Label::as_str).collect();
        let title = &issue.title;
        let expected = format!(
            "{title}|{}|{title}{title}|{}|{}|{title}",
            title.to_uppercase(),
            labels.join("{{"),
            title.replace('{', "{{"),
        );
        for prompt in &prompts {
            match prompt.render(&input(&issue)) {
                Ok(rendered) => assert!(rendered == expected, "{:?}", prompt.engine()),
                Err(error) => assert!(expected.len() > 2 * 1024 * 1024, "{error}"),
            }
        }
    });
}

fn words(text: &'static str) -> Vec<&'static str> {
    text.split_whitespace().collect()
}

/// Templates of the words of both languages, in any order.
fn template() -> impl Strategy<Value = String> {
    let mut word_list = words(
        "{{ }} {% %} {{- -}} {%- -%} {# #} if elif elsif else endif unless endunless \
         for in endfor set assign capture endcapture case when endcase break continue \
         raw endraw comment endcomment set_global reversed limit: offset: x y issue . \
         title labels blocked_by description native_ref attempt turn loop forloop last \
         size | join (sep= : upper upcase length default (value= ) ( [ ] { } \" ' ` a 1 \
         0 -1 1.5 99999999999999999999 9223372036854775807 .. ... , = == != < > <= ~ + \
         - * / // ** % and or not is in contains defined none nil true empty blank \
         range (end= split (pat= slice divided_by modulo times abs round date \"%Q\" é \
         \\",
    );
    word_list.extend([" ", "\n", "\u{0}"]);
    let whole = [
        "{{ issue.title }}",
        "{{ issue.labels | join: \", \" }}",
        "{{ issue.labels | join(sep=\", \") }}",
        "{% if attempt %}",
        "{% for x in issue.labels %}",
        "{% for x in (1..9999) %}",
        "{% for x in range(end=9999) %}",
        "{% endif %}",
        "{% endfor %}",
        "{% else %}",
        "{% set x = issue.labels %}",
        "{% set x = [x, x] %}",
        "{% set x = x ~ x %}",
        "{% assign x = issue.title %}",
        "{% assign x = x | append: x %}",
        "{% capture x %}{{ x }}{{ x }}{% endcapture %}",
        "{{ x }}",
        "{{ -9223372036854775807 | minus: 9 | abs }}",
        "{{ issue.description | slice: -9223372036854775807, 9 }}",
        "{{ issue.priority * issue.priority }}",
        "{{ issue.title[0:9223372036854775807:3] }}",
        "{{ issue.title | indent(width=1000, first=true) }}",
        "{{ issue.title | truncate(length=3) | wordcount }}",
        "{{ issue.created_at | date: \"%A %Q %\" }}",
        "{% comment %}{% if",
        "text",
    ];
    let repeated = (
        select(
            [
                words("( [ { - .a [x] {{ {%"),
                vec![
                    "not ",
                    " ~ x",
                    " | upper",
                    " and x",
                    "{% if x %}",
                    "{% elif x %}",
                    "{% elsif x %}",
                    " ** 2",
                    " if x else x",
                ],
            ]
            .concat(),
        ),
        1..600_usize,
    );
    let part = prop_oneof![
        20 => select(word_list.clone()).prop_map(|word| format!("{word} ")),
        8 => select(word_list).prop_map(str::to_owned),
        20 => select(whole.to_vec()).prop_map(str::to_owned),
        1 => repeated.prop_map(|(word, times)| word.repeat(times)),
        1 => any::<String>(),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// Values of Tera, most of them sensible.
fn tera_value() -> impl Strategy<Value = String> {
    let atom = select(
        [
            words(
                "issue.title issue.description issue.labels issue.blocked_by issue.priority \
         issue.native_ref issue.native_ref.a issue attempt turn x 'é' 1 0 -7 1.5 \
         9223372036854775807 none true [] range(end=50) issue.labels[0] \
         issue.title[1:3] issue?.title",
            ),
            vec!["\"a b\"", "[1, \"a\", none]", "{\"a\": 1}"],
        ]
        .concat(),
    );
    let filter = select(
        [
            words(
                "upper length first last reverse sort unique default(value=1) trim \
         split(pat=\"\") str int float round(precision=2) abs truncate(length=2) \
         indent(width=9) nth(n=1) title wordcount capitalize get(key=\"a\") keys values \
         pairs group_by(attribute=\"a\") sort(attribute=\"id\") pluralize escape safe \
         int(base=40) round(method=\"up\") trim(pat=\"a\")",
            ),
            vec!["join(sep=\", \")", "split(pat=\" \")", "replace(from=\"\", to=\"{{\")"],
        ]
        .concat(),
    );
    let sign = select([words("+ - * / // % ** ~ == != < >= and or in"), vec!["not in"]].concat());
    let test = select(
        [
            words("defined string odd divisible_by(divisor=0) iterable containing(pat=\"a\")"),
            vec!["not number"],
        ]
        .concat(),
    );
    atom.prop_map(str::to_owned).prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            (inner.clone(), filter.clone())
                .prop_map(|(value, filter)| format!("{value} | {filter}")),
            (inner.clone(), sign.clone(), inner.clone())
                .prop_map(|(a, sign, b)| format!("{a} {sign} {b}")),
            (inner.clone(), test.clone()).prop_map(|(value, test)| format!("{value} is {test}")),
            inner.clone().prop_map(|value| format!("({value})")),
            inner.clone().prop_map(|value| format!("not {value}")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("{a} if {b} else {c}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("x[{a}:{b}]")),
        ]
    })
}

/// Values of Liquid, most of them sensible.
fn liquid_value() -> impl Strategy<Value = String> {
    let atom = || {
        select(
            [
                words(
                    "issue.title issue.description issue.labels issue.blocked_by turn x \
         issue.priority issue.native_ref issue.native_ref.a issue attempt nil 'é' 1 0 \
         -7 1.5 9223372036854775807 true empty blank (1..9) (9..1) \
         (1..9223372036854775807) issue.labels.first issue.labels[-1] \
         issue.labels[turn] issue.title.size",
                ),
                vec!["\"a b\""],
            ]
            .concat(),
        )
    };
    let filter = select(words(
        "upcase capitalize size first last reverse sort uniq compact join default strip \
         split append prepend replace remove slice truncate truncatewords map where \
         concat plus minus times divided_by modulo abs round ceil floor at_least \
         at_most date escape url_encode sort_natural replace_first strip_newlines",
    ));
    let call = (filter, prop::collection::vec(atom(), 0..3)).prop_map(|(filter, args)| {
        let colon = if args.is_empty() { "" } else { ": " };
        format!(" | {filter}{colon}{}", args.join(", "))
    });
    (atom(), prop::collection::vec(call, 0..4))
        .prop_map(|(atom, calls)| format!("{atom}{}", calls.concat()))
}

/// Templates that are well-formed, apart from their types.
fn sentence(engine: PromptEngine) -> impl Strategy<Value = (PromptEngine, String)> {
    let value = match engine {
        PromptEngine::Tera => tera_value().boxed(),
        PromptEngine::Liquid => liquid_value().boxed(),
    };
    let tested = value.clone().prop_map(move |value| match engine {
        PromptEngine::Tera => value,
        PromptEngine::Liquid => value.split(" | ").next().unwrap_or_default().to_owned(),
    });
    let set = match engine {
        PromptEngine::Tera => "set",
        PromptEngine::Liquid => "assign",
    };
    let leaf = prop_oneof![
        Just(" text \n".to_owned()),
        value.clone().prop_map(|value| format!("{{{{ {value} }}}}")),
        value.prop_map(move |value| format!("{{% {set} x = {value} -%}}")),
    ];
    let blocks = leaf.prop_recursive(4, 24, 3, move |inner| {
        let body = || prop::collection::vec(inner.clone(), 0..3).prop_map(|parts| parts.concat());
        prop_oneof![
            (tested.clone(), body(), body()).prop_map(|(value, yes, no)| format!(
                "{{% if {value} %}}{yes}{{% else %}}{no}{{%- endif %}}"
            )),
            (tested.clone(), body())
                .prop_map(|(value, body)| format!("{{% for x in {value} %}}{body}{{% endfor %}}")),
            body(),
        ]
    });
    let start = format!("{{% {set} x = issue.title %}}");
    prop::collection::vec(blocks, 0..6)
        .prop_map(move |parts| (engine, format!("{start}{}", parts.concat())))
}

#[test]
fn rule_15_2_no_well_formed_template_panics_or_runs_away() {
    let issue = odd_issue();
    let accepted = Cell::new(0);
    let rendered = Cell::new(0);
    let sentences = prop_oneof![sentence(ENGINES[0]), sentence(ENGINES[1])];
    fuzz("sentences", &sentences, |(engine, body)| {
        if let Ok(prompt) = Prompt::compile(&body, 1, Some(engine)) {
            accepted.set(accepted.get() + 1);
            if prompt.render(&input(&issue)).is_ok() {
                rendered.set(rendered.get() + 1);
            }
        }
    });
    println!("sentences: {} accepted, {} rendered", accepted.get(), rendered.get());
}

fn odd_issue() -> Issue {
    let mut issue = Issue::new("id", "MT-1", "{{ a }} \u{1F600} b", "Todo").unwrap();
    issue.description = Some("é\u{0}\n".repeat(2000));
    issue.labels = Label::list(["a", "b"]);
    issue.priority = Some(i64::MAX);
    issue.blocked_by = vec![Blocker::default()];
    issue.native_ref = serde_json::json!({"a": [1, {"b": null}], "c": 1e300}).as_object().cloned();
    issue
}

#[test]
fn rule_15_2_no_template_panics_or_runs_away() {
    let issue = odd_issue();
    let accepted = Cell::new(0);
    fuzz("templates", &template(), |body| {
        let lines = u32::try_from(body.matches('\n').count()).unwrap() + 1;
        for engine in [None, Some(ENGINES[0]), Some(ENGINES[1])] {
            match Prompt::compile(&body, 1, engine) {
                Ok(prompt) => {
                    accepted.set(accepted.get() + 1);
                    if let Ok(text) = prompt.render(&input(&issue)) {
                        assert!(text.len() <= 4 * 1024 * 1024);
                    }
                }
                Err(problems) => {
                    assert!(!problems.is_empty());
                    for at in problems.iter().filter_map(|problem| problem.at) {
                        assert!((1..=lines).contains(&at.line), "{at:?}");
                    }
                }
            }
        }
    });
    println!("templates: {} times one was accepted", accepted.get());
}
