//! The prompt layer (contract 15, 2.2 and 10.1), rule by rule.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails it")]

mod samples;

use samples::{full, input, sparse};
use symphony_core::problem::{Position, Problem, ProblemKind};
use symphony_core::settings::PromptEngine;
use symphony_core::{Failure, FailureKind, Issue};
use symphony_workflow::prompt::{Choice, Prompt, PromptError, Why, continuation};

const ENGINES: [PromptEngine; 2] = [PromptEngine::Tera, PromptEngine::Liquid];

fn compile(body: &str) -> Prompt {
    Prompt::compile(body, 1, None).unwrap()
}

fn pinned(body: &str, engine: PromptEngine) -> Result<Prompt, Vec<Problem>> {
    Prompt::compile(body, 1, Some(engine))
}

fn render(prompt: &Prompt, issue: &Issue) -> Result<String, PromptError> {
    prompt.render(&input(issue, Some(2)))
}

/// Rendered by both languages, which must agree.
fn both(body: &str, issue: &Issue, attempt: Option<u32>) -> String {
    let [tera, liquid] = ENGINES.map(|engine| {
        let prompt = pinned(body, engine).unwrap();
        prompt.render(&input(issue, attempt)).unwrap()
    });
    assert_eq!(tera, liquid, "{body}");
    tera
}

/// `line:column: message (help)` of each problem.
fn refused(body: &str, engine: Option<PromptEngine>) -> Vec<String> {
    let problems = Prompt::compile(body, 1, engine).expect_err(body);
    problems.iter().map(show).collect()
}

fn show(problem: &Problem) -> String {
    let at = problem.at.unwrap();
    let help = problem.help.iter().map(|help| format!(" ({help})"));
    let help: String = help.collect();
    format!("{}:{}: {}{help}", at.line, at.column, problem.message)
}

/// The first problem that each language has, without position and help.
fn messages(body: &str) -> [String; 2] {
    ENGINES.map(|engine| pinned(body, engine).expect_err(body)[0].message.clone())
}

#[test]
fn rule_15_1_tera_is_the_prompt_language() {
    let prompt = compile(
        "{% if issue.labels is containing(pat=\"bug\") %}{{ issue.title | upper }}{% endif %}",
    );
    let choice = Choice { engine: PromptEngine::Tera, why: Why::PromptLanguage };
    assert_eq!(prompt.choice(), &choice);
    assert_eq!(render(&prompt, &full()).unwrap(), "FIX THE DOOR");
}

#[test]
fn rule_15_1_a_body_that_only_liquid_renders_is_rendered_by_liquid() {
    let body = "\n{{ issue.labels | join: \", \" }} {% unless attempt == 1 %}again{% endunless %}";
    let prompt = Prompt::compile(body, 40, None).unwrap();
    let tera = Problem::new(ProblemKind::TemplateParseError, "Tera has no tag `unless`")
        .with_position(Some(Position { line: 41, column: 33 }))
        .with_help("write `{% if not ... %}`");
    let choice = Choice { engine: PromptEngine::Liquid, why: Why::OnlyLiquid(Box::new(tera)) };
    assert_eq!(prompt.choice(), &choice);
    assert_eq!(
        prompt.choice().to_string(),
        "liquid: Tera cannot render it (line 41: Tera has no tag `unless`)"
    );
    assert_eq!(render(&prompt, &full()).unwrap(), "\nbug, ui again");
}

#[test]
fn rule_15_1_the_trial_with_a_sparse_issue_decides_too() {
    // Tera parses it and renders it for a full issue, but cannot compare null with a number.
    let prompt = compile("{% if attempt > 1 %}again{% else %}first{% endif %}");
    assert_eq!(prompt.engine(), PromptEngine::Liquid);
    let rendered = |attempt| prompt.render(&input(&full(), attempt)).unwrap();
    assert_eq!([rendered(None), rendered(Some(2))], ["first", "again"]);
}

#[test]
fn rule_15_1_prompt_engine_pins_the_language() {
    let body = "{{ issue.title }}";
    for engine in ENGINES {
        let choice = Choice { engine, why: Why::Pinned };
        assert_eq!(pinned(body, engine).unwrap().choice(), &choice);
    }
    assert_eq!(
        refused("{{ issue.title | downcase }}", Some(PromptEngine::Tera)),
        ["1:18: Tera has no filter `downcase` (did you mean `lower`?)"]
    );
    assert_eq!(
        refused("{{ issue.title | lower }}", Some(PromptEngine::Liquid)),
        ["1:18: Liquid has no filter `lower` (did you mean `downcase`?)"]
    );
}

#[test]
fn rule_15_1_both_languages_say_the_same_about_lists_and_empty_text() {
    let mut issue = full();
    assert_eq!(both("{{ issue.labels }}", &issue, None), "[\"bug\", \"ui\"]");
    issue.description = Some(String::new());
    let body = "{% if issue.description %}yes{% else %}no{% endif %}";
    assert_eq!(both(body, &issue, None), "no");
    issue.labels = Vec::new();
    assert_eq!(both("{% if issue.labels %}Labels:{% endif %}", &issue, None), "");
}

#[test]
fn rule_15_1_every_field_of_an_issue_is_a_variable() {
    let body = "{{ issue.id }}|{{ issue.identifier }}|{{ issue.title }}|{{ issue.description }}|\
        {{ issue.priority }}|{{ issue.state }}|{{ issue.state_kind }}|{{ issue.branch_name }}|\
        {{ issue.url }}|{{ issue.assignee_id }}|{{ issue.labels }}|{{ issue.blocked_by }}|\
        {{ issue.dispatchable }}|{{ issue.created_at }}|{{ issue.updated_at }}|\
        {{ issue.native_ref }}|{{ attempt }}|{{ turn }}|{{ max_turns }}";
    assert_eq!(
        both(body, &full(), Some(2)),
        "id-7|MT-7|Fix the door|It sticks.|2|Todo|unstarted|mt-7-door|\
         https://tracker.example/MT-7|user-9|[\"bug\", \"ui\"]|\
         [{\"id\": \"id-3\", \"identifier\": \"MT-3\", \"state\": \"Done\", \
         \"state_kind\": \"completed\"}]|\
         true|2026-01-02T03:04:05Z|2026-02-03T04:05:06Z|{\"number\": 7}|2|1|20"
    );
    assert_eq!(
        both(body, &sparse(), None),
        "id-7|MT-7|Fix the door|||Todo|||||[]|[]|true|||||1|20"
    );
}

#[test]
fn rule_15_1_null_is_false_and_prints_nothing() {
    let body = "{% if attempt %}{{ attempt }}{% else %}first{% endif %}\
        {% if issue.description %}d{% endif %}<{{ issue.url }}>\
        {% for blocker in issue.blocked_by %}<{{ blocker.state }}>{% endfor %}";
    let mut issue = sparse();
    assert_eq!(both(body, &issue, None), "first<>");
    issue.blocked_by = vec![Default::default()];
    assert_eq!(both(body, &issue, Some(1)), "1<><>");
}

#[test]
fn rule_15_1_a_default_stands_in_for_null() {
    let tera = pinned("{{ issue.url | default(value=\"none\") }}", PromptEngine::Tera).unwrap();
    let liquid = pinned("{{ issue.url | default: \"none\" }}", PromptEngine::Liquid).unwrap();
    let mut empty = sparse();
    empty.url = Some(String::new());
    for prompt in [tera, liquid] {
        assert_eq!(render(&prompt, &sparse()).unwrap(), "none");
        assert_eq!(render(&prompt, &empty).unwrap(), "none");
        assert_eq!(render(&prompt, &full()).unwrap(), "https://tracker.example/MT-7");
    }
}

#[test]
fn rule_15_1_loops_have_their_own_names() {
    let tera = "{% for l in issue.labels %}{{ loop.index }}{{ l }}{% if not loop.last %},{% endif %}\
        {% endfor %}{% set n = 3 %}{{ n + 1 }}";
    let liquid = "{% for l in issue.labels %}{{ forloop.index }}{{ l }}{% unless forloop.last %},\
        {% endunless %}{% endfor %}{% assign n = 3 %}{{ n | plus: 1 }}";
    for body in [tera, liquid] {
        assert_eq!(render(&compile(body), &full()).unwrap(), "1bug,2ui4");
    }
}

#[test]
fn rule_15_1_a_parse_error_is_a_problem_of_the_file() {
    for (body, told) in [
        ("a\n {% if attempt %}\nb", "2:2: this `if` is never closed by `endif`"),
        ("a{% endif %}", "1:2: this `endif` closes nothing that is open"),
        ("{% else %}", "1:1: this `else` belongs to no block"),
        ("a {{ issue.title", "1:3: this `{{` is never closed by `}}`"),
        ("{% for l in issue.labels %}a", "1:1: this `for` is never closed by `endfor`"),
    ] {
        for engine in ENGINES {
            assert_eq!(refused(body, Some(engine)), [told], "{engine:?}");
        }
    }
    let kinds = ENGINES.map(|engine| pinned("{{ issue.title", engine).unwrap_err()[0].kind);
    assert_eq!(kinds, [ProblemKind::TemplateParseError; 2]);
}

#[test]
fn rule_15_1_an_unknown_filter_is_a_problem_of_the_file() {
    // Also where no sample issue comes by.
    let body = "{% if issue.state == \"Nowhere\" %}{{ issue.title | shout }}{% endif %}";
    assert_eq!(messages(body), ["Tera has no filter `shout`", "Liquid has no filter `shout`"]);
}

#[test]
fn rule_15_1_an_unknown_name_is_a_problem_of_the_file() {
    for body in [
        "{{ typo }}",
        "{% if issue.state == \"Nowhere\" %}{{ typo }}{% endif %}",
        "{% for x in typo %}{% endfor %}",
        "{% for x in issue.labels %}{% endfor %}{% for y in issue.labels %}{{ typo }}{% endfor %}",
        "{{ issue.labels[typo] }}",
    ] {
        assert_eq!(messages(body), ["there is no variable `typo`"; 2], "{body}");
    }
    assert_eq!(
        messages("{% for x in issue.labels %}{% endfor %}{{ x }}"),
        ["there is no variable `x`"; 2]
    );
    assert_eq!(
        refused("{{ title }}\n\n  {{ atempt }} {{ repo }}", None),
        [
            "1:4: there is no variable `title` (did you mean `issue.title`?)",
            "3:6: there is no variable `atempt` (did you mean `attempt`?)",
            "3:19: there is no variable `repo` (a prompt has `issue`, `attempt`, `turn` and \
             `max_turns`)",
        ]
    );
}

#[test]
fn rule_15_1_an_unknown_field_is_a_problem_of_the_file() {
    for body in [
        "{{ issue.foo }}",
        "{{ issue[\"foo\"] }}",
        "{% if issue.state == \"Nowhere\" %}{{ issue.foo }}{% endif %}",
    ] {
        assert_eq!(messages(body), ["`issue` has no field `foo`"; 2], "{body}");
    }
    let body = "{% for b in issue.blocked_by %}{{ b.title }}{% endfor %}";
    assert_eq!(messages(body), ["`b` has no field `title`"; 2]);
    let body = "{% for l in issue.labels %}{% if l.name %}{% endif %}{% endfor %}";
    assert_eq!(messages(body), ["`l` is text and has no `name`"; 2]);
    assert_eq!(
        refused("{% if issue.labels.size > 0 %}{% endif %}", Some(PromptEngine::Tera)),
        ["1:7: `issue.labels` is a list and has no `size` \
          (Tera counts with a filter: `issue.labels | length`)"]
    );
}

#[test]
fn rule_15_1_what_depends_on_the_data_fails_the_attempt_with_name_and_line() {
    let body = "Number:\n{{ issue.native_ref.number }}";
    for engine in ENGINES {
        let prompt = Prompt::compile(body, 10, Some(engine)).unwrap();
        assert_eq!(render(&prompt, &full()).unwrap(), "Number:\n7");
        let error = render(&prompt, &sparse()).unwrap_err();
        assert_eq!(error.at.map(|at| at.line), Some(11));
        assert_eq!(error.name.as_deref(), Some("issue.native_ref.number"));
        let failure = Failure::from(error.clone());
        assert_eq!(failure, Failure::new(FailureKind::Prompt, error.to_string()));
        assert!(failure.message.starts_with("line 11: issue.native_ref.number: "));
    }
    // To test it is not a failure.
    let body = "{% if issue.native_ref.number %}{{ issue.native_ref.number }}{% endif %}";
    assert_eq!(both(body, &full(), None), "7");
}

#[test]
fn rule_15_1_a_prompt_that_fails_only_for_sparse_issues_is_taken_with_a_warning() {
    let prompt = compile("{{ turn + 1 }}\n{{ issue.description | trim }}");
    assert_eq!(prompt.engine(), PromptEngine::Tera);
    let warnings: Vec<String> = prompt.warnings().iter().map(show).collect();
    assert_eq!(
        warnings,
        [
            "2:4: `issue.description`: Invalid type for the value, expected `string` but got `none`; \
          it is null for this issue (it fails for an issue without this)"
        ]
    );
    assert!(prompt.warnings().iter().all(|warning| warning.kind.is_warning()));
    assert_eq!(render(&prompt, &full()).unwrap(), "2\nIt sticks.");
    let error = render(&prompt, &sparse()).unwrap_err();
    assert_eq!(error.name.as_deref(), Some("issue.description"));
}

#[test]
fn rule_15_1_an_error_that_every_issue_meets_is_a_problem_of_the_file() {
    let problems = pinned("{{ issue.title | round }}", PromptEngine::Tera).unwrap_err();
    assert_eq!(problems[0].kind, ProblemKind::TemplateRenderError);
    let problems = pinned("{{ issue.title | plus: 1 }}", PromptEngine::Liquid).unwrap_err();
    assert_eq!(problems[0].kind, ProblemKind::TemplateRenderError);
}

#[test]
fn rule_15_1_a_problem_is_told_in_the_language_that_was_meant() {
    let first = |body| refused(body, None)[0].clone();
    assert_eq!(
        first("{% unless attempt %}{{ issue.titel | downcase }}{% endunless %}"),
        "1:24: `issue` has no field `titel` (did you mean `issue.title`?)"
    );
    assert_eq!(
        first("{{ issue.labels | join(\", \") }}"),
        "1:24: Found string but expected identifier \
         (Tera's arguments have names: `join(sep=\", \")`)"
    );
    assert_eq!(
        first("{{ issue.labels | jion: \", \" }}"),
        "1:19: Liquid has no filter `jion` (did you mean `join`?)"
    );
    assert_eq!(
        first("a {{#if issue.labels}}b{{/if}}"),
        "1:3: this is a mark of Handlebars, not of Tera or Liquid \
         (write a condition as `{% if issue.description %}` and `{% endif %}`)"
    );
    assert_eq!(
        first("{{{ issue.title }}}"),
        "1:1: this is a mark of Handlebars, not of Tera or Liquid \
         (write a variable as `{{ issue.title }}`)"
    );
    assert_eq!(
        first("Run ${{ github.ref }}."),
        "1:9: there is no variable `github` (if it is to stand in the prompt as it is, put it \
         between `{% raw %}` and `{% endraw %}`)"
    );
    assert_eq!(
        first("{{ issue.description | default('none') }}"),
        "1:32: Found string but expected identifier (Tera's arguments have names: \
         `default(value=\"none\")`)"
    );
    // A filter that only one language has points to that language.
    assert_eq!(
        first("{{ issue.titel | upcase }}"),
        "1:4: `issue` has no field `titel` (did you mean `issue.title`?)"
    );
    assert_eq!(first("{{ issue | json }}"), "1:12: Tera has no filter `json`");
    for body in ["{{ .Issue.Title }}", "{{ if .attempt }}", "{{/* a note */}}"] {
        assert!(first(body).contains("mark of Go templates"), "{body}");
    }
}

/// Renders a Liquid body for the full issue, with its warnings.
fn with_warnings(body: &str) -> (String, Vec<String>) {
    let prompt = pinned(body, PromptEngine::Liquid).expect(body);
    let warnings = prompt.warnings().iter().map(show).collect();
    (render(&prompt, &full()).expect(body), warnings)
}

#[test]
fn rule_15_1_a_liquid_condition_on_an_unknown_name_is_null_with_a_warning() {
    let body = "{% if reworkCount > 0 %}{{ reworkCount }}{% endif %}{{ issue.title }}";
    assert_eq!(
        with_warnings(body),
        (
            "Fix the door".to_owned(),
            vec![
                "1:7: there is no variable `reworkCount`: it is null \
                 (in a condition it is false, and `default` stands in for it)"
                    .to_owned()
            ]
        )
    );
    assert_eq!(compile(body).engine(), PromptEngine::Liquid, "in Tera it is an error");
    for (body, rendered) in [
        ("{% if comments and comments.size > 0 %}{{ comments[0].body }}{% endif %}a", "a"),
        (
            "{% if issue.comments %}{% for c in issue.comments %}{{ c }}{% endfor %}{% endif %}a",
            "a",
        ),
        ("{% unless stage %}a{% else %}{{ stage }}{% endunless %}", "a"),
        ("{% if stage == 'x' %}{{ stage }}{% elsif stage != 'x' %}a{% endif %}", "a"),
        ("{% case stage %}{% when 'x', 'y' %}{{ stage }}{% else %}a{% endcase %}", "a"),
        ("{% if stage %}{{ playbook }}{% endif %}{{ mood | default: 'a' }}", "a"),
        ("{% for b in issue.blocked_by %}{% if b.colour %}{% else %}a{% endif %}{% endfor %}", "a"),
    ] {
        let (text, warnings) = with_warnings(body);
        assert_eq!(text, rendered, "{body}");
        assert!(!warnings.is_empty(), "{body}");
    }
}

#[test]
fn rule_15_1_a_liquid_condition_on_a_slip_is_a_problem_of_the_file() {
    for (body, message) in [
        ("{% if atempt %}{% endif %}", "there is no variable `atempt`"),
        ("{% if labels %}{% endif %}", "there is no variable `labels`"),
        ("{% if issue.titel == 'a' %}{% endif %}", "`issue` has no field `titel`"),
        ("{% if stage %}{{ issue.titel }}{% endif %}", "`issue` has no field `titel`"),
        ("{% if issue.title.colour %}{% endif %}", "`issue.title` is text and has no `colour`"),
    ] {
        assert_eq!(pinned(body, PromptEngine::Liquid).unwrap_err()[0].message, message, "{body}");
    }
}

#[test]
fn rule_15_1_an_unknown_name_cannot_be_printed_where_rendering_gets_there() {
    for body in [
        "{{ stage }}",
        "{% unless stage %}{{ stage }}{% endunless %}",
        "{% if stage != 'x' %}{{ stage }}{% endif %}",
        "{% if stage == nil %}{{ stage }}{% endif %}",
        "{% if stage or issue.title %}{{ stage }}{% endif %}",
        "{% if stage %}{% else %}{{ stage }}{% endif %}",
        "{% case stage %}{% when 'x' %}{% else %}{{ stage }}{% endcase %}",
        "{% for s in stage %}{% endfor %}",
        "{% if attempt %}{{ stage }}{% endif %}",
    ] {
        let found = pinned(body, PromptEngine::Liquid).unwrap_err();
        assert_eq!(found[0].message, "there is no variable `stage`", "{body}");
    }
}

#[test]
fn rule_2_2_an_unknown_name_is_reported_once_with_all_its_lines() {
    assert_eq!(
        refused("{{ mood }}\n{{ mood }} {{ mood }}\n\n{{ issue.titel }}\n{{ mood }}", None),
        [
            "1:4: there is no variable `mood` (also on lines 2 and 5) (a prompt has `issue`, \
             `attempt`, `turn` and `max_turns`)",
            "4:4: `issue` has no field `titel` (did you mean `issue.title`?)",
        ]
    );
    let (_, warnings) = with_warnings("{% if mood %}{% endif %}\n{% if mood %}{% endif %}a");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("it is null (also on line 2)"), "{warnings:?}");
}

#[test]
fn rule_2_8_a_compiled_prompt_is_shared_between_threads() {
    fn shared<T: Clone + PartialEq + Send + Sync + 'static>(_: &T) {}
    let prompt = compile("{{ issue.title }}");
    shared(&prompt);
    assert_eq!(prompt, prompt.clone());
    assert_ne!(prompt, compile("{{ issue.id }}"));
}

#[test]
fn rule_15_1_an_empty_body_means_a_short_default_prompt() {
    for engine in [None, Some(PromptEngine::Liquid)] {
        let prompt = Prompt::compile(" \n", 5, engine).unwrap();
        assert_eq!(prompt.choice().why, Why::EmptyBody);
        let full_text = render(&prompt, &full()).unwrap();
        for part in ["MT-7", "Fix the door", "It sticks.", "https://tracker.example/MT-7"] {
            assert!(full_text.contains(part), "{full_text}");
        }
        let sparse_text = render(&prompt, &sparse()).unwrap();
        assert!(sparse_text.contains("It has no description."));
    }
}

#[test]
fn rule_2_2_all_problems_of_a_prompt_are_reported_with_their_place() {
    let body = "{{ one }}\n{{ issue.two }}\n{{ issue.title | three }}";
    let problems = Prompt::compile(body, 100, None).unwrap_err();
    let places: Vec<Position> = problems.iter().filter_map(|problem| problem.at).collect();
    let at = |line, column| Position { line, column };
    assert_eq!(places, [at(100, 4), at(101, 4), at(102, 18)]);
    assert_eq!(problems[0].to_string(), "line 100: there is no variable `one`");
}

#[test]
fn rule_15_2_marks_in_issue_text_are_never_evaluated() {
    let mut issue = full();
    let hostile = "{{ issue.id }}{% if true %}x{% endif %}{# c #}{% raw %}";
    issue.title = hostile.to_owned();
    issue.description = Some(hostile.to_owned());
    issue.labels = symphony_core::Label::list([hostile]);
    let body = "<{{ issue.title }}><{{ issue.description }}>\
        {% for label in issue.labels %}<{{ label }}>{% endfor %}";
    assert_eq!(both(body, &issue, None), format!("<{hostile}><{hostile}><{hostile}>"));
}

#[test]
fn rule_15_2_nothing_is_escaped() {
    let mut issue = sparse();
    issue.title = "<b> & \"quotes\" 'too'".to_owned();
    assert_eq!(both("{{ issue.title }}", &issue, None), issue.title);
}

#[test]
fn rule_15_2_a_prompt_reads_no_file_no_environment_and_no_clock() {
    for body in [
        "{% include \"/etc/passwd\" %}",
        "{% extends \"a\" %}",
        "{% import \"a\" as b %}",
        "{% render \"a\" %}",
        "{{ get_env(name=\"HOME\") }}",
        "{{ now() }}",
        "{{ __tera_context }}",
    ] {
        assert!(Prompt::compile(body, 1, None).is_err(), "{body}");
    }
    let now = compile("{{ \"now\" | date: \"%Y\" }}");
    assert_eq!(render(&now, &full()).unwrap(), "now");
}

#[test]
fn rule_15_2_rendering_is_bounded() {
    use PromptEngine::{Liquid, Tera};
    let nested = |over: &str| {
        let open = format!("{{% for a in {over} %}}{{% for b in {over} %}}");
        format!("{open}{{% for c in {over} %}}{{% endfor %}}{{% endfor %}}{{% endfor %}}")
    };
    let often = |start: &str, rest: &str| start.to_owned() + &rest.repeat(40);
    let set = "{% set x = \"ab\" %}";
    let assign = "{% assign x = \"ab\" %}";
    let spent = "the loops of this prompt go round too often for the size of the issue";
    let range = "a range may have at most 10000 numbers";
    let value = "this value is too large";
    let result = "the result is too large";
    let long = "the prompt is longer than 4194304 bytes";
    for (engine, body, message) in [
        (Tera, &*nested("range(end=1000)"), spent),
        (Tera, &nested("issue.title"), spent),
        (Liquid, &nested("(1..1000)"), spent),
        (Tera, "{% for i in range(end=10000000000) %}{% endfor %}", range),
        (Liquid, "{% for i in (1..10000000000) %}{% endfor %}", range),
        (Tera, &often(set, "{% set x = x ~ x %}"), value),
        (Tera, &often(set, "{% set x = [x, x] %}"), value),
        (Liquid, &often(assign, "{% assign x = x | append: x %}"), result),
        (Liquid, &often(assign, "{% assign x = x | replace: 'b', x %}"), result),
        (Liquid, &often(assign, "{% capture x %}{{ x }}{{ x }}{% endcapture %}"), long),
        (Tera, "{{ issue.description | replace(from='x', to=issue.title) }}", result),
        (Tera, "{{ issue.description | split(pat='x') }}", result),
        (Liquid, "{{ issue.description | split: 'x' }}", result),
        (Tera, "{% for i in range(end=9000) %}{{ issue.description }}{% endfor %}", long),
    ] {
        let mut issue = full();
        issue.title = "x".repeat(1000);
        issue.description = Some("x".repeat(20_000));
        let found = match pinned(body, engine) {
            Ok(prompt) => render(&prompt, &issue).err().map(|error| error.message),
            Err(problems) => Some(problems[0].message.clone()),
        };
        let found = found.unwrap_or_default();
        assert!(found.ends_with(message), "{body}: {found}");
    }
}

#[test]
fn rule_15_2_a_step_costs_more_where_there_is_much_text() {
    // Each round copies a million bytes: 17 for the step, and 15 for the copy.
    let tera = "{% for i in range(end=400) %}{% set x = issue.description ~ \"\" %}{% endfor %}";
    let liquid = "{% for i in (1..400) %}{% assign x = issue.description | upcase %}{% endfor %}";
    for (body, engine) in [tera, liquid].into_iter().zip(ENGINES) {
        let prompt = pinned(body, engine).unwrap();
        let mut issue = full();
        assert_eq!(render(&prompt, &issue).unwrap(), "");
        issue.description = Some("x".repeat(1_000_000));
        let message = render(&prompt, &issue).unwrap_err().message;
        assert!(message.contains("go round too often"), "{message}");
    }
}

#[test]
fn rule_15_2_what_cannot_be_bounded_is_refused() {
    for (body, message) in [
        (
            "{{ [x for x in issue.labels] }}".to_owned(),
            "a list made by `for` is not available in prompts",
        ),
        ("{{ [...issue.labels] }}".to_owned(), "`...` is not available in prompts"),
        ("{% set x %}a{% endset %}".to_owned(), "`set` needs a value: `set x = 1`"),
        ("{% filter upper %}a{% endfilter %}".to_owned(), "`filter` is not available in prompts"),
        (
            format!("{{{{ turn{} }}}}", " ~ turn".repeat(20)),
            "one mark joins more than 16 texts by `~`",
        ),
        (
            format!("{{% if turn %}}{}{{% endif %}}", "{% elif turn %}".repeat(9000)),
            "there are more than 100 `elif`",
        ),
        ("{% if turn %}".repeat(9000), "blocks stand in each other more than 32 deep"),
        ("a".repeat(300_000), "the prompt is longer than 262144 bytes"),
    ] {
        let problems = pinned(&body, PromptEngine::Tera).unwrap_err();
        assert_eq!(problems[0].message, message);
    }
}

#[test]
fn rule_10_1_continuation_names_the_turn_and_says_to_resume() {
    let guidance = continuation(3, 20);
    assert!(guidance.contains("turn 3 of at most 20"));
    assert!(guidance.contains("Resume where the last turn ended"));
    assert!(guidance.contains("Do not start over"));
}
