//! Abilities of filters, and above all their limits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::*;

const BOUNDS: Bounds = Bounds { steps: 50_000, work: 2_000_000, time: Duration::from_secs(30), outputs: 100, bytes: 100_000 };

fn jq(filter: &str, input: &str) -> Result<String, String> {
    run(filter, &Json::parse(input).unwrap(), BOUNDS, Arc::default()).map(|outputs| outputs.join(" "))
}

#[test]
fn filters_do_what_jq_does() {
    let people = r#"[{"name":"Ann","age":41,"tags":["a","b"]},{"name":"Bo","age":7,"tags":[]},{"name":"Cy","age":41}]"#;
    let cases = [
        (".", people, people),
        (".[0].name", people, r#""Ann""#),
        ("map(.age) | add", people, "89"),
        ("[.[] | select(.age > 10) | .name]", people, r#"["Ann","Cy"]"#),
        ("group_by(.age) | map({age: .[0].age, n: length})", people, r#"[{"age":7,"n":1},{"age":41,"n":2}]"#),
        ("sort_by(.age, .name) | .[].name", people, r#""Bo" "Ann" "Cy""#),
        ("map({(.name): .age}) | add", people, r#"{"Ann":41,"Bo":7,"Cy":41}"#),
        (".[] |= (.age += 1) | map(.age)", people, "[42,8,42]"),
        ("map(.age *= 2) | map(.age)", people, "[82,14,82]"),
        ("del(.[].tags) | .[0] | keys", people, r#"["age","name"]"#),
        ("first(.[] | select(.age < 10)).name", people, r#""Bo""#),
        ("path(first(.[] | .age))", people, "[0,\"age\"]"),
        ("[paths(type == \"number\")]", r#"{"a":[1,{"b":2}]}"#, r#"[["a",0],["a",1,"b"]]"#),
        ("to_entries | map(\"\\(.key)=\\(.value)\") | join(\"&\")", r#"{"a":1,"b":"x"}"#, r#""a=1&b=x""#),
        ("with_entries(.value += 1)", r#"{"a":1}"#, r#"{"a":2}"#),
        ("reduce .[] as $x (0; . + $x * 2)", "[1,2,3]", "12"),
        ("[foreach .[] as [$a, $b] (0; . + $a; . * $b)]", "[[1,2],[3,4]]", "[2,16]"),
        ("[limit(3; repeat(1))] | length", "null", "3"),
        ("[range(0; 10; 3)]", "null", "[0,3,6,9]"),
        ("[.[] | tostring | ascii_upcase | test(\"A+\")]", r#"["xax","b"]"#, "[true,false]"),
        ("gsub(\"(?<l>[a-z])\"; \"<\\(.l)>\")", r#""a1b""#, r#""<a>1<b>""#),
        ("def f($n): if $n == 0 then 1 else $n * f($n - 1) end; f(10)", "null", "3628800"),
        ("[recurse(if . < 3 then . + 1 else empty end)]", "0", "[0,1,2,3]"),
        ("until(. > 1000; . * 2)", "1", "1024"),
        ("walk(if type == \"number\" then . + 1 else . end)", r#"[1,[2,{"a":3}]]"#, r#"[2,[3,{"a":4}]]"#),
        ("try error(\"x\") catch .", "null", r#""x""#),
        (".a? // \"none\"", "1", r#""none""#),
        ("label $out | .[] | if . > 1 then ., break $out else . end", "[1,2,3]", "1 2"),
        ("[.[] as {a: $x, b: [$y]} | $x + $y]", r#"[{"a":1,"b":[2]}]"#, "[3]"),
        ("\"ab\" * 3", "null", r#""ababab""#),
        ("{a, \"b\": 2, @text \"c\": 3} | .a as $a | {$a}", r#"{"a":1}"#, r#"{"a":1}"#),
        ("[splits(\", *\")]", r#""a, b,c""#, r#"["a","b","c"]"#),
        ("fromjson | .[0]", r#""[1,2]""#, "1"),
        ("transpose", "[[1,2],[3]]", "[[1,3],[2,null]]"),
        ("min_by(.a), max_by(.a)", r#"[{"a":2},{"a":1}]"#, r#"{"a":1} {"a":2}"#),
        ("todate", "0", r#""1970-01-01T00:00:00Z""#),
        ("12345678901234567890 + 1", "null", "12345678901234567891"),
    ];
    for (filter, input, expected) in cases {
        assert_eq!(jq(filter, input).unwrap_or_else(|message| panic!("{filter}: {message}")), expected, "{filter}");
    }
}

#[test]
fn nothing_of_the_process_can_be_seen() {
    for filter in [
        "env",
        "env.PATH",
        "$ENV",
        "$ENV.PATH",
        "input",
        "inputs",
        "now",
        "halt",
        "halt_error",
        "debug",
        "debug(1)",
        "stderr",
        "input_filename",
        "$__prog_args",
        "localtime",
        "0 | strflocaltime(\"%Z\")",
        "get_search_list",
        "input_line_number",
        "import \"a\" as a; 1",
        "include \"/etc/passwd\"; 1",
        "import \"/etc/passwd\" as $x; $x",
        "!step",
        "\"\\(env)\"",
        "@sh \"\\(env)\"",
        "modulemeta",
        "getpath(env)",
        "$!factor",
        "system(\"ls\")",
    ] {
        let message = jq(filter, "null").expect_err(filter);
        assert!(message.contains("undefined") || message.contains("not jq"), "{filter}: {message}");
    }
}

#[test]
fn whatever_never_ends_or_grows_is_stopped() {
    let deep = "[".repeat(2_000) + &"]".repeat(2_000);
    let hostile = [
        "repeat(1)",
        "last(repeat(1))",
        "[repeat(1)]",
        "until(false; .)",
        "last(range(1e18))",
        "[range(1e12)]",
        "last(range(0; 1; 0))",
        "def f: f; f",
        "def f: 1 + f; f",
        "def f: [f]; f",
        "def f: f, f; f",
        "def f: (try f catch .), f; last(f)",
        "def f: label $x | f; f",
        "def f: reduce f as $x (0; 1); f",
        "def f: \"\\(f)\"; f",
        "def f: .a[f]; f",
        "def f(g): f(g | g); f(.)",
        "last(repeat(try error(1) catch 2))",
        "last(recurse(.))",
        "last(recurse(. + 1))",
        "[limit(1e9; repeat(\"x\"))]",
        "\"x\" | until(false; . + .)",
        "reduce range(60) as $i (\"x\"; . + .)",
        "reduce range(60) as $i ([1]; [., .])",
        "reduce range(60) as $i ([1]; . + .)",
        "reduce range(60) as $i ({}; {a: ., b: .})",
        "reduce range(100000) as $i (0; [.])",
        "reduce range(100000) as $i (0; {a: .})",
        "reduce range(60) as $i (10; . * .)",
        "reduce range(1e9) as $i (0; 1)",
        "\"x\" * 1e12",
        "\"x\" * 1000000000",
        "1000000000 * \"xx\"",
        "\"x\" * 99999999999999999999",
        "\"x\" | . *= 1000000000",
        "[range(1000)] | [.[] as $a | .[] as $b | .[] as $c | .[] as $d | 1] | length",
        "[range(1000)] | last(.[] as $a | .[] as $b | .[] as $c | if false then 1 else {}[] end)",
        "[range(9)] | [combinations(9)]",
        "[[range(99)], [range(99)], [range(99)], [range(99)]] | [combinations] | length",
        "path(last(recurse(.a)))",
        "last(path(recurse(.a)))",
        "(recurse(.a) | select(false)) |= 1",
        "last(recurse(.a)) |= 1",
        "[range(99999)] | map(\"aaaaaaaaaaaaaaaaaaaaaaaaaaa\") | add | explode | map([.]) | add",
        "[limit(70000; repeat(\"a\"))] | add | [matches(\"\"; \"g\")]",
        "\"aaaa\" | [match(\"()()()()()()()()()()()()()()\"; \"g\")]",
        "[limit(200; repeat(\"(\"))] | add as $p | test($p)",
        "\"a\" | test(\"(a{1000}){1000}\")",
        "[limit(5000; repeat(\"[\"))] | add | fromjson",
        "foreach repeat(1) as $x (0; 1; empty)",
        "isempty(repeat(empty))",
        "any(repeat(false); .)",
        "input_line_number // repeat(1)",
        "walk(repeat(1))",
        "[.[]?] | until(false; [.])",
        "tojson | until(false; tojson)",
        "\"\" | until(false; @html \"<\\(.)\\(.)\")",
        "limit(1e308; repeat(1))",
        "getpath([range(1e9)])",
        "setpath([range(100000) | \"a\"]; 1)",
        "[range(1e5)] | group_by(repeat(1))",
        "sort_by(repeat(1))",
        "[3,1] | min_by(repeat(1))",
        "ascii(repeat(1))",
        "splits(repeat(1))",
        "label $f | repeat(1) | if . > 2 then break $f else . end",
        ".[1000000000] = 1 | repeat(.)",
        "[.] | .[-1000000000:1000000000] = [range(1e9)]",
        "infinite | range(.)",
        "[range(infinite)]",
        "\"x\" * infinite",
        "[limit(infinite; repeat(1))]",
        "implode | repeat(.)",
        "to_entries | repeat(.)",
        "ltrimstr(repeat(1))",
        "@json \"\\(repeat(1))\"",
        &deep,
    ];
    let mut escaped = Vec::new();
    for filter in hostile {
        let begin = std::time::Instant::now();
        let result = jq(filter, "null");
        if result.is_ok() || begin.elapsed() > Duration::from_secs(20) {
            escaped.push(format!("{filter} after {:?}: {result:?}", begin.elapsed()));
        }
    }
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

#[test]
fn filters_that_are_not_jq_say_where() {
    assert_eq!(jq(".[", "[]").unwrap_err(), "the filter is not jq: closing bracket expected at character 3");
    assert_eq!(jq("1 +", "[]").unwrap_err(), "the filter is not jq: term expected at the end");
    assert_eq!(jq("foo(1)", "[]").unwrap_err(), "the filter uses undefined names: filter foo/1");
    assert!(jq(".[] | .a", "[1]").unwrap_err().starts_with("the filter failed: cannot index 1 with"));
    for filter in [
        "",
        "§",
        "\"",
        "\"\\q\"",
        "@",
        "$",
        "if",
        "reduce",
        ")",
        "{a:}",
        "1 as",
        &"(".repeat(3_000),
        &"-".repeat(3_999),
        &"[.".repeat(1_900),
        &".".repeat(4_001),
    ] {
        jq(filter, "null").expect_err(filter);
    }
}

#[test]
fn outputs_and_data_are_bounded() {
    assert!(jq("range(101)", "null").unwrap_err().contains("more than 100 outputs"));
    assert!(jq("[range(20000)]", "null").unwrap_err().contains("more than 100000 bytes"));
    assert_eq!(jq("empty", "null").unwrap(), "");
    let deep = "[".repeat(121) + &"]".repeat(121);
    assert!(run(".", &Json::parse(&deep).unwrap(), BOUNDS, Arc::default()).unwrap_err().contains("deeper than 120"));
}

#[test]
fn a_stopped_call_and_a_passed_time_end_a_filter() {
    let endless = Bounds { steps: u64::MAX, work: u64::MAX, ..BOUNDS };
    let stopped = Arc::new(AtomicBool::new(false));
    stopped.store(true, Ordering::Relaxed);
    assert!(run("last(repeat(1))", &Json::null(), endless, stopped).unwrap_err().contains("cancelled"));
    let late = Bounds { time: Duration::ZERO, ..endless };
    assert!(run("last(repeat(1))", &Json::null(), late, Arc::default()).unwrap_err().contains("longer than 0 seconds"));
}
