//! Hostile programs: none reaches the machine, and each ends in bounded time with a clear error.

mod support;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use baton_program::Limits;
use serde_json::json;

use support::execute;

/// The bounds of each program.
const LIMITS: Limits = Limits { seconds: 1, memory_mib: 64, depth: 200, calls: 100 };

/// The most time of a program, on a machine that is busy.
const MOST: Duration = Duration::from_secs(20);

/// Part of the error of a program that never ends. The interpreter or the system ends it.
const TIME: &str = "longer than 1 seconds";
/// The interpreter's error for the same.
const TIME_OF_INTERPRETER: &str = "time limit exceeded";
/// Written for a program that ends as any other: the interpreter makes it harmless.
const HARMLESS: &str = "no error";
/// Part of the error of a program that needs too much memory.
const MEMORY: &str = "memory";
/// Part of the error of a program whose functions call each other without end.
const DEPTH: &str = "maximum recursion depth exceeded";
/// Part of the error of a program that wants what only an operating system has.
const SYSTEM: &str = "a program has no files, no clock and no environment";
/// Part of the error of an import.
const IMPORT: &str = "ModuleNotFoundError";

/// Programs, each with the only errors that it may end with.
const PROGRAMS: &[(&str, &[&str])] = &[
    // Loops that never end.
    ("while True: pass", &[TIME]),
    ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", &[TIME]),
    ("def f():\n    while True: pass\ntry:\n    f()\nfinally:\n    f()", &[TIME]),
    ("import itertools\nfor i in itertools.count(): pass", &[TIME]),
    ("import itertools\nsum(itertools.repeat(1))", &[TIME]),
    ("import itertools\nlist(itertools.cycle([1]))", &[TIME, MEMORY]),
    ("max(iter(int, 1))", &[TIME]),
    ("any(x for x in iter(int, 1))", &[TIME]),
    ("for i in range(10 ** 18): pass", &[TIME]),
    ("sum(range(10 ** 12))", &[TIME]),
    ("[x for x in range(10 ** 12) if False]", &[TIME]),
    ("x = [1]\nfor i in x: x.append(i)", &[TIME, MEMORY]),
    ("d = {0: 0}\nwhile True:\n    d[len(d)] = 0", &[TIME, MEMORY]),
    ("class A:\n    def __iter__(self): return self\n    def __next__(self): return 1\nlist(A())", &[TIME, MEMORY]),
    ("class A:\n    def __iter__(self): return self\n    def __next__(self): return 1\nfor x in A(): pass", &[TIME]),
    ("while True: print('x' * 1000)", &[TIME]),
    (
        "def g():\n    while True:\n        yield 1\nfor x in g(): pass",
        &[TIME, "not supported", "SyntaxError", "NotImplementedError"],
    ),
    ("import asyncio\nasync def f():\n    while True: pass\nasyncio.run(f())", &[TIME]),
    ("import asyncio\nasync def f():\n    await asyncio.sleep(100000)\nasyncio.run(f())", &["Error"]),
    ("import functools\nfunctools.reduce(lambda a, b: a, iter(int, 1))", &[TIME]),
    ("sorted(range(10 ** 8), key=lambda x: -x)", &[TIME, MEMORY]),
    ("while True:\n    try:\n        1 / 0\n    except ZeroDivisionError:\n        continue", &[TIME]),
    ("def f(n):\n    return f(n - 1) + f(n - 2) if n > 1 else n\nf(100)", &[TIME]),
    ("x = 0\nwhile x < 1:\n    x += 1e-300", &[TIME]),
    // Texts and numbers that take long.
    ("2 ** (2 ** 40)", &[MEMORY, TIME]),
    ("10 ** 10 ** 10", &[MEMORY, TIME]),
    ("x = 3\nwhile True: x = x * x", &[MEMORY, TIME]),
    ("1 << (1 << 40)", &[MEMORY, TIME, "OverflowError"]),
    ("pow(3, 10 ** 12)", &[MEMORY, TIME]),
    ("str(10 ** 1000000)", &["ValueError", MEMORY, TIME]),
    ("int('9' * 10000000)", &["ValueError", MEMORY, TIME]),
    ("import math\nmath.factorial(10 ** 9)", &[TIME, MEMORY, "OverflowError"]),
    ("import math\nmath.comb(10 ** 9, 5 * 10 ** 8)", &[TIME, MEMORY, "Error"]),
    ("import re\nre.match('(a+)+$', 'a' * 40 + 'b')", &[TIME, HARMLESS]),
    ("import re\nre.match(r'(a|aa)+\\1$', 'a' * 60 + 'b')", &[TIME, "PatternError", "Error"]),
    ("import re\nre.compile('(' * 10000 + ')' * 10000)", &["Error"]),
    ("import re\nre.compile('a{1000000000}')", &["Error", MEMORY]),
    ("import re\nre.compile('((((a{100}){100}){100}){100})')", &["Error", MEMORY]),
    ("'a' * 100 + '{:1000000000}'.format(1)", &["Error", MEMORY]),
    ("f'{1:1000000000}'", &["Error", MEMORY]),
    ("'%1000000000d' % 1", &["Error", MEMORY]),
    ("'a'.ljust(10 ** 10)", &[MEMORY]),
    ("'a'.center(10 ** 11)", &[MEMORY]),
    ("'a'.zfill(10 ** 11)", &[MEMORY]),
    ("('a' * 10 ** 6).replace('a', 'b' * 10 ** 6)", &[MEMORY]),
    ("('a,' * 10 ** 5).join(['b'] * 10 ** 5)", &[MEMORY]),
    ("'\\t'.expandtabs(10 ** 11)", &["OverflowError"]),
    ("round(1.5, 10 ** 10)\nround(10 ** 100, -10 ** 10)\n'a' * 10 ** 10", &[MEMORY, "Error"]),
    // Memory.
    ("'a' * 10 ** 10", &[MEMORY]),
    ("b'a' * 10 ** 10", &[MEMORY]),
    ("[0] * 10 ** 10", &[MEMORY]),
    ("(0,) * 10 ** 10", &[MEMORY]),
    ("list(range(10 ** 10))", &[MEMORY, TIME]),
    ("set(range(10 ** 10))", &[MEMORY, TIME]),
    ("{i: i for i in range(10 ** 10)}", &[MEMORY, TIME]),
    ("x = 'a'\nwhile True: x += x", &[MEMORY]),
    ("x = 'a'\nwhile True: x = f'{x}{x}'", &[MEMORY]),
    ("x = [0]\nwhile True: x = x + x", &[MEMORY, TIME]),
    ("x = []\nwhile True: x = [x, x]", &[TIME, MEMORY, DEPTH, "Error"]),
    ("x = []\nwhile True: x.extend([0] * 100000)", &[MEMORY, TIME]),
    ("x = ['lol']\nfor i in range(100): x = [x] * 10\nstr(x)", &[MEMORY, TIME, DEPTH]),
    ("x = ['lol']\nfor i in range(12): x = [x] * 10\nx", &[MEMORY, TIME, DEPTH, "Error"]),
    ("import json\nx = 'a'\nfor i in range(30): x = json.dumps([x, x])\nx", &[MEMORY, TIME]),
    ("import base64\nx = b'a' * 1000\nwhile True: x = base64.b64encode(x)", &[MEMORY, TIME]),
    ("bytes(10 ** 11)", &[MEMORY]),
    ("bytearray(10 ** 11)", &[MEMORY, "NameError"]),
    ("import collections\ncollections.deque(range(10 ** 10))", &[MEMORY, TIME]),
    ("import collections\ncollections.Counter(range(10 ** 10))", &[MEMORY, TIME]),
    ("import itertools\nlist(itertools.product(range(10 ** 4), repeat=3))", &[MEMORY, TIME, "Error"]),
    ("import itertools\nlist(itertools.permutations(range(20)))", &[MEMORY, TIME, "Error"]),
    ("x = {}\nfor i in range(10 ** 9): x[str(i) * 100] = i", &[MEMORY, TIME]),
    ("class A: pass\nx = []\nwhile True: x.append(A())", &[MEMORY, TIME]),
    ("x = [lambda: 1 for i in range(10 ** 9)]", &[MEMORY, TIME]),
    ("try:\n    'a' * 10 ** 10\nexcept BaseException:\n    pass\nwhile True: pass", &[MEMORY, TIME]),
    // Depth.
    ("def f(): return f()\nf()", &[DEPTH]),
    ("def f():\n    try:\n        f()\n    except RecursionError:\n        f()\nf()", &[TIME, DEPTH]),
    ("f = lambda: f()\nf()", &[DEPTH]),
    ("class A:\n    def __init__(self): A()\nA()", &[DEPTH]),
    ("class A:\n    def __repr__(self): return repr(self)\nrepr(A())", &[DEPTH]),
    ("class A:\n    def __eq__(self, other): return self == other\nA() == A()", &[DEPTH]),
    ("class A:\n    def __hash__(self): return hash(self)\nhash(A())", &[DEPTH]),
    ("x = []\nfor i in range(100000): x = [x]\nx == x[:]\nrepr(x)", &[DEPTH, MEMORY, HARMLESS]),
    ("x = ()\nfor i in range(100000): x = (x,)\nhash(x)", &[DEPTH, MEMORY]),
    ("x = {}\nfor i in range(100000): x = {'a': x}\nx", &["nested", DEPTH, "Error"]),
    ("import json\nx = []\nfor i in range(100000): x = [x]\njson.dumps(x)", &[DEPTH, "Error"]),
    ("import json\njson.loads('[' * 1000000)", &["Error"]),
    ("x = []\nx.append(x)\nx", &["contains itself"]),
    ("import functools\nf = int\nfor i in range(100000): f = functools.partial(f)\nf()", &[DEPTH, MEMORY, HARMLESS]),
    ("x = iter([1])\nfor i in range(100000): x = map(int, x)\nnext(x)", &[DEPTH, "Error", MEMORY, "nested"]),
    // Imports, and what an operating system has.
    ("import socket", &[IMPORT]),
    ("import subprocess", &[IMPORT]),
    ("import ctypes", &[IMPORT]),
    ("import random", &[IMPORT]),
    ("import time", &[IMPORT]),
    ("import importlib", &[IMPORT]),
    ("import urllib.request", &[IMPORT]),
    ("from threading import Thread", &[IMPORT]),
    ("import pickle", &[IMPORT]),
    ("open('/etc/passwd').read()", &[SYSTEM]),
    ("open('/tmp/escaped', 'w').write('x')", &[SYSTEM]),
    ("import os\nos.getenv('HOME')", &[SYSTEM]),
    ("import os\nos.environ['PATH']", &[SYSTEM, "Error"]),
    ("import os\nos.system('id')", &["AttributeError"]),
    ("import os\nos.listdir('/')", &[SYSTEM, "AttributeError"]),
    ("from pathlib import Path\nPath('/etc/passwd').read_text()", &[SYSTEM]),
    ("from pathlib import Path\nPath('/tmp/escaped').write_text('x')", &[SYSTEM]),
    ("from pathlib import Path\nlist(Path('/').iterdir())", &[SYSTEM]),
    ("from datetime import datetime\ndatetime.now()", &[SYSTEM]),
    ("from datetime import date\ndate.today()", &[SYSTEM]),
    ("import sys\nsys.exit(0)", &["Error", "SystemExit"]),
    ("import sys\nsys.modules['os'].system('id')", &["Error"]),
    ("import sys\nsys._getframe()", &["AttributeError"]),
    ("import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): return f()\nf()", &["Error"]),
    ("import gc\ngc.get_objects()", &[IMPORT, "AttributeError"]),
    // Tricks with names of two underscores.
    ("().__class__.__bases__[0].__subclasses__()", &["Error"]),
    ("''.__class__.__mro__", &["Error"]),
    ("(lambda: 0).__code__", &["AttributeError"]),
    ("(lambda: 0).__globals__['os']", &["AttributeError"]),
    ("call.__globals__", &["AttributeError"]),
    ("call.__self__", &["AttributeError"]),
    ("[].__reduce__()", &["AttributeError"]),
    ("__builtins__", &["NameError"]),
    ("__import__('os').system('id')", &["NameError", "Error"]),
    ("__loader__", &["NameError"]),
    ("eval('1')", &["NameError", "Error"]),
    ("exec('import os')", &["NameError", "Error"]),
    ("compile('1', 'f', 'eval')", &["NameError", "Error"]),
    ("globals()", &["NameError", "Error"]),
    ("vars()", &["NameError", "Error"]),
    ("breakpoint()", &["NameError", "Error"]),
    ("input()", &["NameError", "Error"]),
    ("memoryview(b'')", &["NameError", "Error"]),
    ("type('A', (), {'__del__': call})", &["which JSON cannot hold"]),
    ("getattr([], '__class__').__base__.__subclasses__()", &["Error"]),
    ("'{0.__class__.__mro__}'.format(1)", &["Error"]),
    ("raise SystemExit(0)", &["SystemExit", "RuntimeError"]),
    ("raise KeyboardInterrupt", &["KeyboardInterrupt"]),
    ("class A:\n    def __del__(self): call('x')\nA()\nwhile True: pass", &[TIME, "Error"]),
    // Calls without end.
    ("while True: call('x')", &["a program makes 100 calls at most"]),
    ("while True:\n    try:\n        call('x')\n    except BaseException: pass", &["a program makes 100 calls at most"]),
    ("while True: document('x')", &["a program makes 100 calls at most"]),
    ("parallel([later(call, 'x') for i in range(101)])", &["at most", "too many calls"]),
    ("while True: later(call, 'x')", &["too many calls are made later"]),
    ("x = 'a'\nwhile True: x = call('x', value=x + x)", &["at most", MEMORY, TIME]),
    ("call('x', value='a' * 40000000)\nwhile True: pass", &[TIME, MEMORY]),
    ("x = []\nx.append(x)\ncall('x', value=x)", &["value of call contains itself"]),
    ("call('x', value=call)", &["value of call has a function"]),
];

#[test]
fn hostile_programs_end_in_bounded_time_with_a_clear_error() {
    assert!(PROGRAMS.len() >= 100, "{} programs", PROGRAMS.len());
    let (next, faults) = (Mutex::new(PROGRAMS.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some((source, errors)) = next.lock().unwrap().next() else { break };
                    let begun = Instant::now();
                    let (finished, _) = execute(source, json!({}), LIMITS, |_| Ok(json!("")));
                    let took = begun.elapsed();
                    let shown = format!("{:.1} s  {source:?}\n        {:?}", took.as_secs_f32(), finished.result);
                    println!("{shown}");
                    let error = finished.result.map_or_else(|fault| fault.to_string(), |value| format!("no error, but {value}"));
                    // A program without an end meets the bound of memory first on a fast machine.
                    let bounds = [TIME_OF_INTERPRETER, MEMORY];
                    let is_bounded = errors.contains(&TIME) && bounds.iter().any(|bound| error.contains(bound));
                    let is_expected = is_bounded || errors.iter().any(|expected| error.contains(expected));
                    if !is_expected || took > MOST || error.len() > 20_000 {
                        faults.lock().unwrap().push(shown);
                    }
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), PROGRAMS.len(), faults.join("\n"));
    assert!(!std::path::Path::new("/tmp/escaped").exists());
}

/// Returns a text of blocks, each inside of the one before.
fn blocks(line: &str, times: usize) -> String {
    let mut text = String::new();
    for depth in 0..times {
        text.push_str(&" ".repeat(depth));
        text.push_str(line);
    }
    text + &" ".repeat(times) + "x"
}

#[test]
fn a_text_that_is_hard_to_read_is_refused() {
    let nested = |open: &str, close: &str, times: usize| format!("x = {}1{}", open.repeat(times), close.repeat(times));
    let texts = [
        "(".repeat(200_000),
        nested("(", ")", 100_000),
        nested("[", "]", 100_000),
        nested("{1: ", "}", 50_000),
        nested("lambda: ", "", 30_000),
        nested("-", "", 200_000),
        nested("not ", "", 60_000),
        nested("f(", ")", 80_000),
        nested("1 if ", " else 1", 20_000),
        format!("x = 1{}", "+1".repeat(120_000)),
        format!("x = a{}", ".a".repeat(120_000)),
        format!("x = a{}", "[0]".repeat(80_000)),
        format!("x = 1{}", "**1".repeat(80_000)),
        blocks("if 1:\n", 700),
        blocks("def f():\n", 300),
        format!("if 1: pass\n{}", "elif 1: pass\n".repeat(18_000)),
        format!("x = {}", "9".repeat(250_000)),
        format!("{}1{}", "f'{".repeat(10_000), "}'".repeat(10_000)),
        "\u{0}".repeat(1000),
        "\u{202e}x = 1".to_owned(),
        "x = 1 \\".to_owned(),
        "'''".to_owned(),
    ];
    for text in texts {
        let begun = Instant::now();
        let (finished, _) = execute(&text, json!({}), LIMITS, |_| Ok(json!("")));
        let start: String = text.chars().take(20).collect();
        println!("{:.1} s  {start:?} {:?}", begun.elapsed().as_secs_f32(), finished.result);
        assert!(finished.result.is_err(), "{start}");
        assert!(begun.elapsed() < MOST, "{start}");
    }
}
