//! Our Liquid beside the `liquid` library: the same text from the same template, and where not,
//! on purpose.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "reads the corpus, prints the counts, and fails in helpers"
)]

mod samples;

use std::path::Path;

use liquid::model::Value;
use samples::{full, input, sparse};
use symphony_core::Issue;
use symphony_core::settings::PromptEngine;
use symphony_workflow::prompt::Prompt;

fn ours(body: &str, issue: &Issue, attempt: Option<u32>) -> Option<String> {
    let prompt = Prompt::compile(body, 1, Some(PromptEngine::Liquid)).ok()?;
    prompt.render(&input(issue, attempt)).ok()
}

fn theirs(body: &str, issue: &Issue, attempt: Option<u32>) -> Option<String> {
    let text = |text: Option<&str>| text.map_or(Value::Nil, |text| Value::scalar(text.to_owned()));
    let number = |number: Option<i64>| number.map_or(Value::Nil, Value::scalar);
    let labels = issue.labels.iter().map(|label| text(Some(label.as_str())));
    let blockers = issue.blocked_by.iter().map(|blocker| {
        Value::Object(liquid::object!({
            "identifier": text(blocker.identifier.as_ref().map(AsRef::as_ref)),
            "state": text(blocker.state.as_ref().map(|state| state.as_str())),
        }))
    });
    let created = issue.created_at.map(|at| at.to_string());
    let globals = liquid::object!({
        "issue": {
            "id": text(Some(issue.id.as_str())),
            "identifier": text(Some(issue.identifier.as_str())),
            "title": text(Some(&issue.title)),
            "description": text(issue.description.as_deref()),
            "priority": number(issue.priority),
            "state": text(Some(issue.state.as_str())),
            "branch_name": text(issue.branch_name.as_deref()),
            "url": text(issue.url.as_deref()),
            "created_at": text(created.as_deref()),
            "labels": labels.collect::<Vec<_>>(),
            "blocked_by": blockers.collect::<Vec<_>>(),
        },
        "attempt": number(attempt.map(i64::from)),
        "turn": 1,
        "max_turns": 20,
    });
    let parser = liquid::ParserBuilder::with_stdlib().build().ok()?;
    parser.parse(body).ok()?.render(&globals).ok()
}

/// Bodies that only use what both have.
const SAME: [&str; 65] = [
    "a {{ issue.title }} b",
    "a  {{- issue.title -}}  b",
    "a\n{%- if attempt -%}\n b \n{%- endif -%}\n c",
    "{% if attempt %}{{ attempt }}{% else %}first{% endif %}",
    "{% if issue.priority == 2 %}2{% elsif issue.priority == nil %}none{% else %}other{% endif %}",
    "{% unless issue.url %}no{% else %}yes{% endunless %}",
    "{% if issue.state == 'Todo' or issue.state == \"Done\" %}x{% endif %}",
    "{% if issue.state == 'Todo' and attempt %}x{% endif %}",
    "{% if issue.title contains 'door' %}x{% endif %}",
    "{% if issue.labels contains 'bug' %}x{% endif %}",
    "{% if issue.labels == empty %}none{% endif %}{% if issue.description == blank %}b{% endif %}",
    "{% if 1 < 2 and 2 >= 2.0 and 'a' != 'b' and 3 <> 4 %}x{% endif %}",
    "{% case issue.state %}{% when 'Done', 'Todo' %}t{% when 'x' or 'y' %}xy{% else %}e{% endcase %}",
    "{% case issue.priority %}{% when 1 %}one{% else %}else{% endcase %}",
    "{% for l in issue.labels %}{{ forloop.index }}/{{ forloop.length }} {{ l }};{% endfor %}",
    "{% for l in issue.labels reversed %}{{ forloop.rindex0 }}{{ l }}{% endfor %}",
    "{% for l in issue.labels limit:1 %}{{ l }}{% endfor %}",
    "{% for l in issue.labels offset: 1 %}{{ l }}{% else %}none{% endfor %}",
    "{% for i in (1..4) %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in (1..9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in (1..2) %}{% for j in (1..2) %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    "{% for b in issue.blocked_by %}{{ b.identifier }}: {{ b.state }}{% endfor %}",
    "{% assign x = issue.title | upcase %}{{ x }}{{ x | downcase }}",
    "{% capture x %}<{{ issue.title }}>{% endcapture %}{{ x }}{{ x }}",
    "{% comment %} {{ issue.title }} {% endcomment %}a",
    "{% raw %}{{ issue.title }}{% endraw %}",
    "{{ issue.labels.size }} {{ issue.labels.first }} {{ issue.labels[0] }}",
    "{{ issue.labels | join: ', ' }}",
    "{{ issue['title'] }}",
    "{{ 'a' | append: 'b' | prepend: 'c' }}",
    "{{ 'hello WORLD' | upcase | downcase }}",
    "{{ '  a ' | strip }}|{{ '  a ' | lstrip }}|{{ '  a ' | rstrip }}|",
    "{{ 'a b a' | replace: 'a', 'x' }} {{ 'a b a' | replace_first: 'a', 'x' }}",
    "{{ 'a b a' | remove: 'a' }} {{ 'a b a' | remove_first: 'a' }}",
    "{{ 'a,b,c' | split: ',' | join: '-' }}",
    "{{ 'a,b,c' | split: ',' | reverse | join: '-' }}",
    "{{ 'b,a,c' | split: ',' | sort | join: '-' }}",
    "{{ 'b,A,c' | split: ',' | sort_natural | join: '-' }}",
    "{{ 'a,b,a' | split: ',' | uniq | join: '-' }}",
    "{{ 'a,b' | split: ',' | concat: issue.labels | join: '-' }}",
    "{{ 'a,b' | split: ',' | first }}{{ 'a,b' | split: ',' | last }}",
    "{{ issue.blocked_by | map: 'identifier' | join: ' ' }}",
    "{{ issue.blocked_by | where: 'state', 'Done' | map: 'identifier' | join: ' ' }}",
    "{{ 'abcdef' | slice: 2 }} {{ 'abcdef' | slice: 1, 3 }} {{ 'abcdef' | slice: -2, 2 }}",
    "{{ 'one two three' | truncate: 9 }} {{ 'one two three' | truncate: 9, '' }}",
    "{{ 'one two three' | truncatewords: 2 }}",
    "{{ 'abc' | size }} {{ issue.labels | size }}",
    "{{ 'a\nb' | strip_newlines }}",
    "{{ '<a & b>' | escape }}",
    "{{ issue.url | default: 'none' }} {{ '' | default: 'e' }} {{ false | default: 'f' }}",
    "{{ 'no date' | date: '%Y' }}",
    "{{ 3 | plus: 4 }} {{ 3 | minus: 4 }} {{ 3 | times: 4 }} {{ 3 | plus: 0.5 }}",
    "{{ 7 | divided_by: 2 }} {{ 7 | modulo: 3 }} {{ 7.0 | divided_by: 2 }}",
    "{{ -7 | abs }} {{ 3 | at_least: 5 }} {{ 3 | at_most: 2 }}",
    "{{ 1.2 | ceil }} {{ 1.8 | floor }} {{ 1.5 | round }} {{ 1.256 | round: 2 }}",
    "{{ '4' | plus: '3' }}",
    "{{ true }} {{ nil }} {{ 1.5 }} {{ -3 }}",
    "{{ turn }}/{{ max_turns }}",
    "{{ issue.description | size }}",
    "{% if issue.description.size > 3 %}long{% endif %}",
    "{{ issue.title | size | plus: 1 }}",
    "{% assign n = 0 %}{% for l in issue.labels %}{% assign n = n | plus: 1 %}{% endfor %}{{ n }}",
    "{% if turn == 1 and max_turns == 20 %}x{% endif %}",
    "{{ 'a-b' }} {{ \"it's\" }}",
    "{%if attempt%}{{attempt}}{%endif%}{{issue.title|upcase}}",
];

#[test]
fn our_liquid_says_what_the_library_says() {
    for body in SAME {
        for (issue, attempt) in [(full(), Some(2)), (sparse(), None)] {
            let theirs = theirs(body, &issue, attempt);
            assert!(theirs.is_some() || issue.url.is_none(), "{body}");
            if let Some(theirs) = theirs {
                assert_eq!(ours(body, &issue, attempt), Some(theirs), "{body}");
            }
        }
    }
}

#[test]
fn where_our_liquid_differs_it_is_on_purpose() {
    let pair = |body| (ours(body, &full(), None), theirs(body, &full(), None));
    let texts = |ours: &str, theirs: &str| (Some(ours.to_owned()), Some(theirs.to_owned()));
    // A list looks as in Tera.
    assert_eq!(pair("{{ issue.labels }}"), texts("[\"bug\", \"ui\"]", "bugui"));
    // What is empty is false, as in Tera.
    assert_eq!(pair("{% if '' %}x{% endif %}{% if 0 %}y{% endif %}"), texts("", "xy"));
    // From the right, as Liquid defines it: nil and (1 or 1).
    assert_eq!(pair("{% if nil and 1 or 1 %}x{% endif %}"), texts("", "x"));
    // A limit beyond the end adds nothing.
    assert_eq!(
        pair("{% for l in issue.labels offset:1 limit:2 %}<{{ l }}>{% endfor %}"),
        texts("<ui>", "<ui><>")
    );
    // Characters, not bytes.
    assert_eq!(pair("{{ 'äö' | size }}"), texts("2", "4"));
    // The rest is for the first letter alone in the library.
    assert_eq!(pair("{{ 'aBC' | capitalize }}"), texts("Abc", "ABC"));
    // Only the library leaves empty ends.
    assert_eq!(pair("{{ 'ab' | split: '' | join: '-' }}"), texts("a-b", "-a-b-"));
    // The times of an issue are times.
    assert_eq!(
        pair("{{ issue.created_at | date: '%d.%m.%Y %H:%M' }}"),
        texts("02.01.2026 03:04", "2026-01-02T03:04:05Z")
    );
    // A mistyped name is not false.
    assert_eq!(pair("{% if atempt %}{% endif %}a"), (None, Some("a".to_owned())));
}

#[test]
fn our_liquid_and_the_library_agree_on_the_corpus() {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above.map(|folder| folder.join("shared/data/workflows")).find(|it| it.is_dir());
    let Ok(files) = std::fs::read_dir(folder.unwrap_or_default()) else {
        println!("NOT RUN: no corpus at ../shared/data/workflows");
        return;
    };
    let mut compared = 0;
    for file in files {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
        let body = match text.strip_prefix("---\n").map(|rest| rest.split_once("\n---\n")) {
            Some(Some((_, body))) if !body.trim().is_empty() => body.trim(),
            _ => continue,
        };
        // What differs on purpose is taken out.
        let body = [
            ("{{issue.labels}}", ""),
            ("{{ issue.labels }}", ""),
            ("{{ issue.blocked_by }}", ""),
            ("{% if issue.labels %}", "{% if issue.labels.size > 0 %}"),
        ]
        .into_iter()
        .fold(body.to_owned(), |body, (from, to)| body.replace(from, to));
        for (issue, attempt) in [(full(), Some(2)), (sparse(), None)] {
            let theirs = theirs(&body, &issue, attempt);
            let ours = ours(&body, &issue, attempt);
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                assert_eq!(ours, theirs, "{}", path.display());
                compared += 1;
            }
        }
    }
    println!("{compared} texts compared");
    assert!(compared > 200);
}
