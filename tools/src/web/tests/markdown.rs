//! HTML as readers see it: what comes out, what is left out, and that it ends.

use super::*;

fn markdown(html: &str) -> String {
    of_html(html, &Url::parse("https://example.com/a/b").unwrap(), 1 << 20).text
}

#[test]
fn a_page_reads_as_its_readers_see_it() {
    let page = "<!doctype html><html><head><title> A &amp;\n page </title><style>p{}</style></head><body><nav>Home</nav>
        <h1>Prices <em>today</em></h1><p>All <b>in US dollars</b>, see <a href='../c?x=1#y'>the list</a>.<br>Ask us.</p>
        <script>if (a < b) alert('<p>no</p>')</script>
        <ul><li>one<li>two <ul><li>deep</li></ul></li></ul><ol><li>first</li><li><p>second</p></li></ol>
        <blockquote><p>said</p><p>so</p></blockquote><pre>let a = `x`;\n  b &lt; c</pre><p>a <code>x_y</code> b</p>
        <table><tr><th>Item<th>US$</tr><tr><td>A|B</td><td><p>1</p></td></tr></table><hr><img src=x alt='a chart'></body>";
    let base = Url::parse("https://example.com/a/b").unwrap();
    let read = of_html(page, &base, 1 << 20);
    assert_eq!(read.title, "A & page");
    let expected = "# Prices *today*\n\nAll **in US dollars**, see [the list](https://example.com/c?x=1#y).\nAsk us.\n\n- one\n- two\n  - deep\n\n\
                    1. first\n2. second\n\n> said\n>\n> so\n\n```\nlet a = `x`;\n  b < c\n```\n\na `x_y` b\n\n\
                    | Item | US$ |\n| --- | --- |\n| A\\|B | 1 |\n\n---\n\n(image: a chart)";
    assert_eq!(read.text, expected);
}

#[test]
fn what_nobody_sees_and_what_leads_elsewhere_is_left_out() {
    assert_eq!(markdown("a<p hidden>b<div style='x:y; DISPLAY : none'>c</div><span aria-hidden=true>d</span>"), "a");
    assert_eq!(markdown("a<div style='display:none'>x<div>y</div>z</div>b"), "ab");
    assert_eq!(markdown("i\u{e0041}g\u{200b}n\u{202e}ore"), "ignore");
    assert_eq!(
        markdown("<a href='javascript:alert(1)'>a</a> <a href='data:x'>b</a> <a href=/(x)>c</a>"),
        "a b [c](https://example.com/%28x%29)"
    );
    assert_eq!(markdown("# no [x](y) heading\n<p>- a *b*"), "\\# no \\[x\\](y) heading\n\n\\- a \\*b\\*");
}

#[test]
fn a_page_of_any_shape_ends_and_stays_small() {
    let deep = "<div><blockquote><ul><li>".repeat(50_000) + "end";
    let text = markdown(&deep);
    assert!(text.ends_with("end") && text.len() < 200, "{} bytes", text.len());
    // Of this, a tree would have a billion nodes.
    let open = (0..30_000).map(|number| format!("<b id={number}><i>")).collect::<Vec<_>>().concat();
    let text = markdown(&(open + &"<p>x".repeat(30_000)));
    assert!(text.len() < 100_000, "{} bytes", text.len());
    let attributes = (0..200_000).map(|number| format!(" a{number}")).collect::<Vec<_>>().concat();
    assert_eq!(markdown(&format!("<p{attributes}>x")), "x");
    for garbage in ["<", "</", "<!--", "<a href", "&#xfffffff;", "<table><tr><td><table><tr>", "</li></ul></b></table>"] {
        markdown(&garbage.repeat(1_000));
    }
    let cut = of_html(&"<p>word".repeat(1_000), &Url::parse("http://a.example").unwrap(), 100);
    assert!(cut.truncated && cut.text.len() <= 100);
}
