//! Every way that is known to make a template large, slow or deep.

use serde_json::json;

use super::*;

fn render(source: &str) -> Result<String, TemplateError> {
    let variables = json!({"name": "Ann", "rows": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "text": "one\ntwo"});
    Templates::new(SyntaxConfig::default()).render(source, minijinja::value::Serde(&variables).into(), 100)
}

fn check(source: &str) -> Result<BTreeSet<String>, TemplateError> {
    Templates::new(SyntaxConfig::default()).check(source)
}

#[track_caller]
fn renders(source: &str, text: &str) {
    assert_eq!(render(source).map_err(|error| error.message).as_deref(), Ok(text), "{source}");
}

#[track_caller]
fn refused(source: &str, why: &str) {
    let message = render(source).unwrap_err().message;
    assert!(message.contains(why), "{}: {message}", &source[..source.len().min(120)]);
}

#[test]
fn ordinary_templates_render_as_before() {
    renders("Dear {{ name }}, {{ 2 * 3 }} {{ 2.5 * 2 }} {{ 'ab' * 2 }} {{ [1] * 2 }}", "Dear Ann, 6 5.0 abab [1, 1]");
    renders("{{ name ~ '-' ~ 1 }} {{ 'a' + 'b' }} {{ [1] + [2] }} {{ 'abc'[1:] }}", "Ann-1 ab [1, 2] bc");
    renders("{% for row in rows %}{{ loop.index }}{{ row.b }}{% if not loop.last %}, {% endif %}{% endfor %}", "1x, 2y");
    renders("{{ rows | map(attribute='b') | join('+') }} {{ rows | length }} {{ rows | sum(attribute='a') }}", "x+y 2 3");
    renders("{{ text | indent(2) }}|{{ 'a.b' | replace('.', '/') }}|{{ 'a,b' | split(',') }}", "one\n  two|a/b|['a', 'b']");
    renders("{{ '%05.2f' | format(3.14159) }} {{ rows[0] | tojson }}", "03.14 {\"a\": 1, \"b\": \"x\"}");
    renders("{% set ns = namespace(n=0) %}{% for row in rows %}{% set ns.n = ns.n + row.a %}{% endfor %}{{ ns.n }}", "3");
    renders("{% macro hi(x, y=2) %}<{{ x }}{{ y }}>{% endmacro %}{{ hi(1) }}{{ hi('b', y=3) }}", "<12><b3>");
    renders("{% set x %}{{ name }}!{% endset %}{{ x | upper }}{% filter lower %}ABC{% endfilter %}", "ANN!abc");
    renders("{% block greeting %}Hi {{ name }}{% endblock %} {{ self.greeting() }}", "Hi Ann Hi Ann");
    renders("{{ 1 if name == 'Ann' else 2 }}{{ 3 in [1, 2] }}{{ missing | default('d') }}", "1Falsed");
    renders("{% for n in range(3) %}{{ n }}{% endfor %}{{ range(3) | list }}{{ (1, 2) }}", "012[0, 1, 2](1, 2)");
    renders(
        "{% for r in [[1, [2]], [3]] recursive %}{% if r is iterable %}({{ loop(r) }}){% else %}{{ r }}{% endif %}{% endfor %}",
        "(1(2))(3)",
    );
    assert!(render("{{ missing }}").unwrap_err().message.contains("undefined"));
    assert!(render("{{ missing ~ 'x' }}").unwrap_err().message.contains("undefined"));
}

#[test]
fn errors_name_the_line_and_the_part() {
    let error = render("a\n{{ 2 * 3 + rows }}").unwrap_err();
    assert_eq!((error.line, error.part.as_deref()), (Some(2), Some("2 * 3 + rows")), "{error:?}");
    let error = check("a\n{{ name ").unwrap_err();
    assert!(error.message.starts_with("syntax error"), "{error:?}");
    assert_eq!(error.line, Some(2));
}

#[test]
fn what_grows_is_refused_before_it_is_large() {
    let doubled = "{% set ns = namespace(s='x') %}{% for i in range(60) %}";
    for step in [
        "{% set ns.s = ns.s ~ ns.s %}",
        "{% set ns.s = ns.s + ns.s %}",
        "{% set ns.s = ns.s * 2 %}",
        "{% set ns.s = [ns.s, ns.s] %}",
        "{% set ns.s = (ns.s, ns.s) %}",
        "{% set ns.s = {'a': ns.s, 'b': ns.s} %}",
        "{% set ns.s = dict(a=ns.s, b=ns.s) %}",
        "{% set ns.s = [ns.s] + [ns.s] %}",
        "{% set ns.s = '%s%s' | format(ns.s, ns.s) %}",
        "{% set ns.s = [ns.s, ns.s] | join %}",
        "{% set ns.s = ns.s | replace('x', 'xx') %}",
        "{% set t %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = t %}",
        "{% set ns.s = [ns.s] * 2 %}",
        "{% set ns.s = ns.s | upper ~ ns.s | lower %}",
    ] {
        refused(&format!("{doubled}{step}{{% endfor %}}"), "the template makes too much");
    }
    let steps = (0..60).map(|n| format!("{{% set a{} = a{n} ~ a{n} %}}", n + 1)).collect::<Vec<_>>().concat();
    refused(&format!("{{% set a0 = 'x' %}}{steps}"), "too much");
    let withs = (0..40).map(|n| format!("{{% with a{} = a{n} ~ a{n} %}}", n + 1)).collect::<Vec<_>>().concat();
    refused(&format!("{{% set a0 = 'xxxxx' %}}{withs}{}", "{% endwith %}".repeat(40)), "too much");
    let nested = format!("{}'x'{}", "m(".repeat(40), ")".repeat(40));
    refused(&format!("{{% macro m(x) %}}{{{{ x }}}}{{{{ x }}}}{{% endmacro %}}{{{{ {nested} }}}}"), "too much");
    let block = "{% block b %}{% set ns.s = ns.s ~ ns.s %}{% endblock %}";
    refused(&format!("{{% set ns = namespace(s='x') %}}{block}{}", "{{ self.b() }}".repeat(60)), "too much");
    refused("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", "recursion");
}

#[test]
fn filters_are_charged_before_they_begin() {
    let big = "{% set big = 'a' * 10000000 %}";
    for filter in [
        "big | replace('a', 'a' * 1000)",
        "big | replace('', 'aaaaaaaaaaaa')",
        "big | list",
        "big | split('')",
        "big | escape | escape",
        "text | indent(1000000000)",
        "('\n' * 100000) | indent(100000)",
        "text | indent(width=1000000000, first=true)",
        "[1] | slice(1000000000) | list",
        "[1] | batch(1000000000, 0)",
        "[1] | batch(1000000000, fill_with=0)",
        "'%1000000000d' | format(1)",
        "'%.1000000000f' | format(1)",
        "'%*d' | format(1000000000, 1)",
        "rows | tojson(indent=1000000000)",
        "rows | tojson(1000000000)",
        "range(100000) | join('a' * 10000)",
        "range(100000) | map('replace', '1', 'a' * 100000) | list",
        "['a' * 100000] * 100000",
        "(1,) * 100000000",
        "[1] * 100000000",
        "'a' * 100000000",
        "('a' * 10000) * 100000",
    ] {
        refused(&format!("{big}{{{{ {filter} }}}}"), "too much");
    }
    for gone in ["rows | pprint", "rows | chain(rows)", "debug()"] {
        assert!(render(&format!("{{{{ {gone} }}}}")).is_err(), "{gone}");
    }
}

#[test]
fn text_in_a_loop_is_counted_too() {
    let text = "y".repeat(100_000);
    refused(&format!("{{% set x %}}{{% for i in range(100000) %}}{text}{{% endfor %}}{{% endset %}}"), "too much");
    refused(&format!("{{% for i in range(100000) %}}{text}{{% endfor %}}"), "too much");
    let held = (0..2_000).map(|n| format!("{{% set x{n} %}}{{{{ m() }}}}{{% endset %}}")).collect::<Vec<_>>().concat();
    refused(&format!("{{% macro m() %}}{text}{{% endmacro %}}{held}"), "too much");
}

#[test]
fn a_product_is_not_made_while_a_template_is_read() {
    let held = "'a' * 100000000, ".repeat(50);
    assert_eq!(check(&format!("{{% set x = [{held}] %}}")), Ok(BTreeSet::new()));
    assert_eq!(
        check("{{ name * 2 }} {{ f(*rows) }} {{ (name * 2) * 3 }}").map(|used| used.into_iter().collect::<Vec<_>>()),
        Ok(vec!["f".to_owned(), "name".to_owned(), "rows".to_owned()])
    );
}

#[test]
fn nesting_is_judged_before_the_parser_recurses() {
    let deep = 20_000;
    let wrapped = |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(deep), close.repeat(deep));
    for source in [
        format!("{{{{ {}1 }}}}", "-".repeat(deep)),
        format!("{{{{ {}1 }}}}", "not ".repeat(deep)),
        format!("{{{{ {} }}}}", wrapped("(", "1", ")")),
        format!("{{{{ {} }}}}", wrapped("[", "1", "]")),
        format!("{{{{ {} }}}}", wrapped("{'a':", "1", "}")),
        format!("{{{{ {} }}}}", wrapped("name[", "1", "]")),
        format!("{{{{ name{} }}}}", ".a".repeat(deep)),
        format!("{{{{ name{} }}}}", "[0]".repeat(deep)),
        format!("{{{{ name{} }}}}", "()".repeat(deep)),
        format!("{{{{ name{} }}}}", " | upper".repeat(deep)),
        format!("{{{{ 1{} }}}}", " + 1".repeat(deep)),
        format!("{{{{ 1{} }}}}", " ** 1".repeat(deep)),
        format!("{{{{ 1{} }}}}", " ~ 1".repeat(deep)),
        format!("{{{{ 1{} }}}}", " and 1".repeat(deep)),
        format!("{{{{ 1{} }}}}", " < 1".repeat(deep)),
        format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(deep)),
        format!("{{{{ 1{} }}}}", " is defined".repeat(deep)),
        wrapped("{% if 1 %}", "x", "{% endif %}"),
        wrapped("{% for a in [1] %}", "x", "{% endfor %}"),
        wrapped("{% with %}", "x", "{% endwith %}"),
        wrapped("{% filter upper %}", "x", "{% endfilter %}"),
        wrapped("{% set x %}", "x", "{% endset %}"),
        wrapped("{% macro m() %}", "x", "{% endmacro %}"),
        wrapped("{% block b %}", "x", "{% endblock %}"),
        wrapped("{% autoescape true %}", "x", "{% endautoescape %}"),
        format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(deep)),
        format!("{{% for {}a{} in [1] %}}x{{% endfor %}}", "(".repeat(deep), ",)".repeat(deep)),
    ] {
        assert!(check(&source).is_err(), "{}", &source[..60]);
        assert!(render(&source).is_err(), "{}", &source[..60]);
    }
    // Wide is not deep.
    let list = vec!["-1"; 5_000].join(", ");
    assert_eq!(render(&format!("{{{{ [{list}] | length }}}}")).as_deref(), Ok("5000"));
    assert_eq!(render(&"{% if 1 %}x{% endif %}".repeat(2_000)).map(|text| text.len()), Ok(2_000));
    assert!(render(&format!("{{{{ 1{} }}}}", " + 1".repeat(90))).is_ok());
}

#[test]
fn the_deepest_template_that_is_accepted_fits_a_small_stack() {
    let sources = [
        format!("{{{{ {}1 }}}}", "-".repeat(110)),
        format!("{{{{ {}1{} }}}}", "(".repeat(70), ")".repeat(70)),
        format!("{{{{ 1{} }}}}", " ~ 1".repeat(110)),
        format!("{{{{ rows{} }}}}", " | list".repeat(110)),
        format!("{}x{}", "{% if 1 %}".repeat(110), "{% endif %}".repeat(110)),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(110)),
        format!("{}{{{{ 1{} }}}}{}", "{% if 1 %}".repeat(50), " + 1".repeat(60), "{% endif %}".repeat(50)),
    ];
    let small = std::thread::Builder::new().stack_size(1_024 * 1_024);
    let rendered = small.spawn(move || sources.map(|source| (check(&source), render(&source)))).unwrap().join().unwrap();
    assert!(rendered.iter().all(|(checked, _)| checked.is_ok()), "{rendered:?}");
}

#[test]
fn values_cannot_be_nested_without_end() {
    let begin = "{% set ns = namespace(l=[], d={}) %}{% for i in range(20000) %}";
    for step in [
        "{% set ns.l = [ns.l] %}",
        "{% set ns.l = (ns.l,) %}",
        "{% set ns.d = {'a': ns.d} %}",
        "{% set ns.d = dict(a=ns.d) %}",
        "{% set ns.l = namespace(l=ns.l) %}",
    ] {
        for end in ["{{ ns.l }}{{ ns.d }}", "{{ ns.l == ns.l }}", "{{ ns.l | tojson }}", ""] {
            assert!(render(&format!("{begin}{step}{{% endfor %}}{end}")).is_err(), "{step}");
        }
    }
    for source in [
        "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.me = [[ns]] %}{{ ns }}",
        "{% set a = namespace() %}{% set b = namespace(a=a) %}{{ b }}",
    ] {
        refused(source, "a namespace cannot hold a namespace");
    }
    // Promises of lists do not pile up either.
    let sliced = "{% set ns = namespace(l=[1, 2]) %}{% for i in range(20000) %}{% set ns.l = ns.l[0:] %}{% endfor %}{{ ns.l }}";
    assert_eq!(render(sliced).as_deref(), Ok("[1, 2]"));
    refused("{% set ns = namespace(l=[]) %}{% for i in range(20000) %}{% set ns.l = ns.l + [i] %}{% endfor %}", "too much");
}

#[test]
fn a_rendering_may_make_in_proportion_to_what_it_is_given() {
    let templates = Templates::new(SyntaxConfig::default());
    let text = "z".repeat(40 * 1_024 * 1_024);
    let variables = || minijinja::value::Serde(json!({"text": text})).into();
    assert!(templates.render("{{ text }}{{ text }}", variables(), 0).is_err());
    assert_eq!(templates.render("{{ text }}{{ text }}", variables(), text.len()).map(|text| text.len()), Ok(2 * text.len()));
}

#[test]
fn jumps_lead_to_the_same_place_behind_the_steps_of_the_meter() {
    renders("x{{ 0 and 1 }}{{ 0 or 2 }}{{ name ~ '!' and 3 }}y", "x023y");
    renders("Dear {{ name ~ '!' }} {% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) }}", "Dear Ann! <1>");
    renders("{{ (name, 2) }} {{ [name, 2] }}", "('Ann', 2) ['Ann', 2]");
}

#[test]
fn products_of_what_is_no_number_are_refused_in_words() {
    renders("{{ true * 3 }} {{ 3 * 0.5 }}", "3 1.5");
    refused("{{ missing * 2 }}", "undefined");
    refused("{{ 2 * missing }}", "undefined");
    refused("{{ none * 2 }}", "unsupported types");
}

#[test]
fn what_is_made_and_dropped_counts_too() {
    let each = |step: &str| format!("{{% set big = 'a' * 1000000 %}}{{% for i in range(100) %}}{step}{{% endfor %}}");
    for step in ["{% set x = big + 'b' %}", "{% set x = '' ~ big %}", "{% set x = big ~ '' %}", "{% set x = big[1:] %}"] {
        refused(&each(step), "too much");
    }
    let items: Vec<String> = (0..30).map(|item| format!("'{item}': i")).collect();
    let often = |step: &str| format!("{{% for i in range(100000) %}}{step}{{% endfor %}}done");
    refused(&often(&format!("{{% set x = {{{}}} %}}", items.join(", "))), "too much");
    refused(&often(&format!("{{% set x = [{}] %}}", vec!["i"; 60].join(", "))), "too much");
    // A name in a namespace takes an entry and its letters.
    renders(&format!("{{% set ns = namespace() %}}{}", often(&format!("{{% set ns.{} = i %}}", "n".repeat(40)))), "done");
}

#[test]
fn escaped_text_is_charged_as_the_longest_that_escaping_makes() {
    let escaping =
        |shown: &str| format!("{{% set big = '<' * 12000000 %}}{{% autoescape true %}}{{{{ {shown} }}}}{{% endautoescape %}}");
    refused(&escaping("big"), "too much");
    assert_eq!(render(&escaping("big | safe")).map(|text| text.len()), Ok(12_000_000));
}

#[test]
fn a_template_may_nest_up_to_the_limit() {
    let is_refused = |source: &str| check(source).is_err_and(|error| error.message.contains("nests more than"));
    let boundary = |source: &dyn Fn(usize) -> String, most: usize| {
        assert!(!is_refused(&source(most)), "{}", source(most));
        assert!(is_refused(&source(most + 1)), "{}", source(most + 1));
    };
    boundary(&|n| format!("{{{{ 1{} }}}}", " + 1".repeat(n)), 120);
    boundary(&|n| format!("{}x{}", "{% if 1 %}".repeat(n), "{% endif %}".repeat(n)), 120);
    let (open, close) = ("[".repeat(60), "]".repeat(60));
    boundary(&|n| format!("{{{{ {open}1, 1{}{close} }}}}", " + 1".repeat(n)), 60);
    // Only the end of a block ends it.
    let sets = "{% set x = 1 %}".repeat(5);
    boundary(&|n| format!("{}{sets}{}x{}", "{% if 1 %}".repeat(n - 1), "{% if 1 %}", "{% endif %}".repeat(n)), 120);
}

#[test]
fn an_expression_has_the_limits_of_a_template() {
    let templates = Templates::new(SyntaxConfig::default());
    let variables = || minijinja::value::Serde(json!({"n": 4})).into();
    assert_eq!(templates.check_expression("n * 2 + m"), Ok(BTreeSet::from(["m".to_owned(), "n".to_owned()])));
    assert_eq!(templates.evaluate("n * 2 + 1", variables(), 100).map(|value| value.to_string()).as_deref(), Ok("9"));
    let deep = format!("{}1", "-".repeat(20_000));
    assert!(templates.check_expression(&deep).is_err_and(|error| error.message.contains("nests more than")));
    assert!(templates.evaluate(&deep, variables(), 100).is_err());
    let large = templates.evaluate("'a' * 100000000", variables(), 100);
    assert!(large.is_err_and(|error| error.message.contains("too much")));
}
