//! Templates that would exhaust memory or the stack, in a prompt, a request and a script, under a limit of address space.
//!
//! Every command that reads a job refuses them or renders them. None is ended by a signal, and none runs out of memory.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::{Scene, Size, Tally, program};

/// The address space of each command, in KiB.
const KILOBYTES: u64 = 1_000_000;

/// Tries every template in every place with every command.
pub fn attack(size: Size) -> anyhow::Result<Tally> {
    let templates = templates();
    let chosen = templates.iter().step_by(if size == Size::Full { 1 } else { 19 });
    let harmless = program::run(scene("prompt", "{{ 1 + 1 }}")?.limited_command(KILOBYTES, &["run", "hostile"])?)?;
    ensure!(harmless.code == Some(0), "a harmless job does not run in so little memory: {}", harmless.text());
    let mut tally = Tally::default();
    for (name, template) in chosen {
        for place in ["prompt", "request", "script", "expression", "condition"] {
            let scene = scene(place, template)?;
            // What only reads a job treats all places alike, so one command does for each place but the first.
            let commands: &[&[&str]] = match place {
                "prompt" => &[
                    &["validate", "hostile"],
                    &["doctor", "hostile"],
                    &["graph", "hostile"],
                    &["tool", "call", "echo", "--job", "hostile", "--message", "hello"],
                    &["run", "hostile"],
                ],
                _ => &[&["validate", "hostile"], &["run", "hostile"]],
            };
            for command in commands {
                let ran = program::run(scene.limited_command(KILOBYTES, command)?)?;
                let escape = ran.crash().or_else(|| ran.code.is_none().then(|| "it did not exit".to_owned()));
                tally.count(escape.map(|escape| format!("{name} in a {place}, {}: {escape}", command[0])));
            }
        }
    }
    Ok(tally)
}

/// Returns a job with `template` in one place.
fn scene(place: &str, template: &str) -> anyhow::Result<Scene> {
    let scene = Scene::new()?;
    let text = |here: &str, otherwise: &str| if place == here { template.to_owned() } else { otherwise.to_owned() };
    let expression = template.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).unwrap_or("1").trim();
    let mut turn = json!({"text": text("script", "done")});
    if place == "expression" {
        turn = json!({"calls": [{"tool": "echo", "input": {"message": format!("{{{{ {expression} }}}}")}}]});
    }
    let mut lead = json!({"turns": [turn, {"text": "done"}]});
    if place == "condition" {
        lead["cases"] = json!([{"when": expression, "turns": [{"text": "done"}]}]);
    }
    let request: Value = text("request", "Do it.").into();
    scene.write_job("hostile", &[("lead", &["echo"])], json!({"lead": lead}), json!({"request": request}))?;
    let agent = json!({
        "agent_id": "lead", "description": "An agent that somebody sent.", "model": "scripted",
        "system_prompt": text("prompt", "Do it."), "tools": ["echo"],
    });
    scene.write("hostile/agents/lead.json", agent.to_string())?;
    Ok(scene)
}

/// Templates by name.
fn templates() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |name: &str, template: String| all.push((name.to_owned(), template));
    // One value, doubled sixty times, in every way that a template can hold one.
    for (name, step) in [
        ("concatenation", "{% set ns.s = ns.s ~ ns.s %}"),
        ("addition", "{% set ns.s = ns.s + ns.s %}"),
        ("repetition", "{% set ns.s = ns.s * 2 %}"),
        ("lists of lists", "{% set ns.s = [ns.s, ns.s] %}"),
        ("tuples", "{% set ns.s = (ns.s, ns.s) %}"),
        ("objects", "{% set ns.s = {'a': ns.s, 'b': ns.s} %}"),
        ("dict()", "{% set ns.s = dict(a=ns.s, b=ns.s) %}"),
        ("format()", "{% set ns.s = '%s%s' | format(ns.s, ns.s) %}"),
        ("join()", "{% set ns.s = [ns.s, ns.s] | join %}"),
        ("replace()", "{% set ns.s = ns.s | replace('x', 'xx') %}"),
        ("a captured text", "{% set t %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = t %}"),
        ("a filter block", "{% set t %}{% filter upper %}{{ ns.s }}{{ ns.s }}{% endfilter %}{% endset %}{% set ns.s = t %}"),
        ("a macro", "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns.s = m(ns.s) %}"),
        (
            "a caller",
            "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}{% set t %}{% call m() %}{{ ns.s }}{% endcall %}{% endset %}{% set ns.s = t %}",
        ),
    ] {
        let end = "{% endfor %}{{ ns.s }}{{ ns.s == ns.s }}";
        add(&format!("doubling by {name}"), format!("{{% set ns = namespace(s='x') %}}{{% for i in range(60) %}}{step}{end}"));
    }
    let sets: Vec<String> = (0..60).map(|n| format!("{{% set a{} = a{n} ~ a{n} %}}", n + 1)).collect();
    let sets = sets.concat();
    add("doubling without a loop", format!("{{% set a0 = 'x' %}}{sets}{{{{ a60 }}}}"));
    let calls = format!("{{{{ {}'x'{} }}}}", "m(".repeat(40), ")".repeat(40));
    add("nested macros", format!("{{% macro m(x) %}}{{{{ x }}}}{{{{ x }}}}{{% endmacro %}}{calls}"));
    add("a macro of itself", "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}".to_owned());
    add("a loop of itself", "{% for a in [[1]] recursive %}{{ loop([a]) }}{% endfor %}".to_owned());
    for filter in [
        "('a' * 10000) | replace('a', 'a' * 100000)",
        "'aaaa' | replace('', 'a' * 1000000) | replace('', 'a' * 1000000)",
        "('\n' * 100000) | indent(100000)",
        "'a\nb' | indent(1000000000)",
        "[1] | slice(1000000000) | list",
        "[1] | batch(1000000000, 0)",
        "'%1000000000d' | format(1)",
        "'%.1000000000f' | format(1)",
        "'%*d' | format(1000000000, 1)",
        "[[1], [2]] | tojson(indent=1000000000)",
        "range(100000) | join('a' * 100000)",
        "range(100000) | map('replace', '1', 'a' * 100000) | list",
        "('a' * 90000000) | list",
        "('a' * 90000000) | split('')",
        "('<' * 90000000) | escape | escape",
        "('a' * 90000000) | upper | lower | title | trim | reverse",
        "(['a' * 100000] * 100000) | sort | unique | list",
        "(1,) * 100000000",
        "[1] * 100000000",
        "[[1] * 10000] * 10000",
        "range(100000) | map('batch', 1000000000, 0) | list",
        "range(100000) | zip(range(100000), range(100000)) | list | tojson",
        "range(100000) | groupby('x') | list",
        "debug()",
        "[1] | pprint",
    ] {
        add(filter, format!("{{{{ {filter} }}}}"));
    }
    add("constants", format!("{{{{ [{}] | length }}}}", "'a' * 100000000, ".repeat(50)));
    add("text in a loop", format!("{{% for i in range(100000) %}}{}{{% endfor %}}", "y".repeat(100_000)));
    add(
        "captured text in a loop",
        format!("{{% set x %}}{{% for i in range(100000) %}}{}{{% endfor %}}{{% endset %}}", "y".repeat(100_000)),
    );
    add("loops of loops", "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}".to_owned());
    for (name, step) in [
        ("deep lists", "{% set ns.l = [ns.l] %}"),
        ("deep tuples", "{% set ns.l = (ns.l,) %}"),
        ("deep objects", "{% set ns.l = {'a': ns.l} %}"),
        ("deep namespaces", "{% set ns.l = namespace(l=ns.l) %}"),
        ("deep slices", "{% set ns.l = ns.l[0:] %}"),
        ("deep sums", "{% set ns.l = ns.l + [1] %}"),
        (
            "chained namespaces",
            "{% set n = namespace() %}{% if ns.l %}{% set ns.t.n = n %}{% else %}{% set ns.l = n %}{% endif %}{% set ns.t = n %}",
        ),
    ] {
        for end in ["{{ ns.l }}", "{{ ns.l == ns.l }}{{ ns.l < ns.l }}", "{{ ns.l | tojson }}"] {
            let begin = "{% set ns = namespace(l=[]) %}{% for i in range(20000) %}";
            add(&format!("{name}, {end}"), format!("{begin}{step}{{% endfor %}}{end}"));
        }
    }
    add("a namespace in itself", "{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns }}{{ ns == ns }}".to_owned());
    let deep = 20_000;
    for (open, inner, close) in [("(", "1", ")"), ("[", "1", "]"), ("{'a': ", "1", "}"), ("a[", "1", "]"), ("f(", "1", ")")] {
        add(&format!("{deep} times {open}"), format!("{{{{ {}{inner}{} }}}}", open.repeat(deep), close.repeat(deep)));
    }
    for prefix in ["-", "not "] {
        add(&format!("{deep} times {prefix}"), format!("{{{{ {}1 }}}}", prefix.repeat(deep)));
    }
    for postfix in [
        ".a",
        "[0]",
        "()",
        " | upper",
        " + 1",
        " * 1",
        " ** 1",
        " ~ 1",
        " and 1",
        " < 1",
        " == 1",
        " in [1]",
        " is defined",
        " if 1 else 1",
    ] {
        add(&format!("{deep} times {postfix}"), format!("{{{{ 1{} }}}}", postfix.repeat(deep)));
    }
    for (open, close) in [
        ("{% if 1 %}", "{% endif %}"),
        ("{% for a in [1] %}", "{% endfor %}"),
        ("{% with %}", "{% endwith %}"),
        ("{% filter upper %}", "{% endfilter %}"),
        ("{% set x %}", "{% endset %}"),
        ("{% macro m() %}", "{% endmacro %}"),
        ("{% block b %}", "{% endblock %}"),
        ("{% call m() %}", "{% endcall %}"),
        ("{% autoescape true %}", "{% endautoescape %}"),
    ] {
        add(&format!("{deep} times {open}"), format!("{}x{}", open.repeat(deep), close.repeat(deep)));
    }
    add("elif", format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(deep)));
    add("includes", "{% include '/etc/passwd' %}{% extends 'hostile' %}{% import 'a' as b %}".to_owned());
    all
}
