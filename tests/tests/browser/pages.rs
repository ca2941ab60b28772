//! The actions, each on a page that needs it.

use serde_json::{Value, json};

use super::site::{Answer, Site, page};
use super::{browse, job, run};

#[tokio::test]
async fn a_page_is_read_after_its_scripts_have_run() {
    let site = Site::start([(
        "/",
        page("Prices", "<h1 id=a>old</h1><script>document.getElementById('a').textContent = 'Bread: 3 €'</script>"),
    )]);
    let outcomes = browse(
        &site,
        vec![
            json!({"action": "launch"}),
            json!({"action": "navigate", "url": site.url("/")}),
            json!({"action": "extract"}),
            json!({"action": "get_content", "selector": "h1"}),
            json!({"action": "extract", "selector": "h2"}),
            json!({"action": "extract", "selector": "h1[["}),
            json!({"action": "close"}),
            json!({"action": "extract"}),
        ],
    )
    .await;
    let place = json!({"success": true, "url": site.url("/"), "title": "Prices", "error": null});
    assert_eq!(outcomes[0], Ok(json!({"success": true, "error": null})));
    assert_eq!(outcomes[1], Ok(place));
    assert_eq!(outcomes[2].as_ref().unwrap()["text"], "Bread: 3 €");
    assert_eq!(outcomes[3].as_ref().unwrap()["text"], "Bread: 3 €");
    assert!(outcomes[4].as_ref().unwrap_err().contains("no element matches h2"), "{outcomes:?}");
    assert!(outcomes[5].as_ref().unwrap_err().contains("h1[[ is not a CSS selector"), "{outcomes:?}");
    assert_eq!(outcomes[6], Ok(json!({"success": true, "error": null})));
    assert!(outcomes[7].as_ref().unwrap_err().contains("no page is open"), "{outcomes:?}");
}

#[tokio::test]
async fn a_form_is_filled_in_and_sent() {
    let form = "<form action=/found><label>Name <input name=q></label><button>Search</button></form>\
                <div style='height:3000px'></div><button id=far onclick=\"this.textContent += '!'\">Far</button>\
                <button id=under>Under</button><div style='position:fixed;inset:0;display:none' id=cover>Cookies</div>\
                <p hidden id=hidden>x</p>";
    let site = Site::start([("/", page("Form", form)), ("/found", page("Found", "<p>3 results"))]);
    let outcomes = browse(
        &site,
        vec![
            json!({"action": "type", "url": site.url("/"), "selector": "input", "text": "Käse 日本"}),
            json!({"action": "evaluate", "script": "document.querySelector('input').value"}),
            json!({"action": "click", "selector": "#far"}),
            json!({"action": "extract", "selector": "#far"}),
            json!({"action": "click", "selector": "#hidden"}),
            json!({"action": "type", "selector": "h1, p", "text": "x"}),
            json!({"action": "evaluate", "script": "document.querySelector('#cover').style.display = 'block'"}),
            json!({"action": "click", "selector": "#under"}),
            json!({"action": "evaluate", "script": "document.querySelector('#cover').remove()"}),
            json!({"action": "click", "selector": "form button"}),
            json!({"action": "wait_for", "text": "3 results"}),
            json!({"action": "type", "url": site.url("/"), "selector": "input", "text": "more\n"}),
        ],
    )
    .await;
    let [typed, value, far, far_text, hidden, no_input, _, covered, _, sent, waited, entered] = outcomes.as_slice() else {
        panic!()
    };
    assert_eq!(typed.as_ref().unwrap()["title"], "Form");
    assert_eq!(value.as_ref().unwrap()["result"], "Käse 日本");
    assert_eq!(far.as_ref().unwrap()["clicked"], "button#far \"Far\"");
    assert_eq!(far_text.as_ref().unwrap()["text"], "Far!");
    assert!(hidden.as_ref().unwrap_err().contains("#hidden is not visible"));
    assert!(no_input.as_ref().unwrap_err().contains("takes no text"));
    assert!(covered.as_ref().unwrap_err().contains("#under is covered by div#cover \"Cookies\""), "{covered:?}");
    assert_eq!(sent.as_ref().unwrap()["clicked"], "button \"Search\"");
    assert_eq!(sent.as_ref().unwrap()["title"], "Found");
    assert_eq!(waited.as_ref().unwrap()["url"], site.url("/found?q=K%C3%A4se+%E6%97%A5%E6%9C%AC"));
    assert_eq!(entered.as_ref().unwrap()["url"], site.url("/found?q=more"));
}

#[tokio::test]
async fn scripts_give_values_and_errors() {
    let site = Site::start([("/", page("Values", "<script>var shared = {n: 7}</script>"))]);
    let evaluate = |script: &str| json!({"action": "evaluate", "script": script});
    let scripts = [
        "shared.n + 1",
        "({a: [1, null, 'x']})",
        "await Promise.resolve('later')",
        "undefined",
        "NaN",
        "1 +",
        "null.x",
        "window",
    ];
    let mut inputs = vec![json!({"action": "navigate", "url": site.url("/")})];
    inputs.extend(scripts.iter().map(|script| evaluate(script)));
    let outcomes = browse(&site, inputs).await;
    let result = |number: usize| outcomes[number].as_ref().map(|output| output["result"].clone());
    assert_eq!(result(1), Ok(json!(8)));
    assert_eq!(result(2), Ok(json!({"a": [1, null, "x"]})));
    assert_eq!(result(3), Ok(json!("later")));
    assert_eq!(result(4), Ok(Value::Null));
    assert_eq!(result(5), Ok(json!("NaN")));
    assert!(result(6).unwrap_err().contains("the script failed: SyntaxError"), "{:?}", outcomes[6]);
    assert!(result(7).unwrap_err().contains("the script failed: TypeError: Cannot read properties of null"), "{:?}", outcomes[7]);
    assert!(result(8).is_err(), "a window is no value");
}

#[tokio::test]
async fn what_appears_later_is_waited_for() {
    let late = "<p id=state>empty</p><script>setTimeout(() => { state.innerHTML = '<b class=new>ready now</b>' }, 300)</script>";
    let site = Site::start([("/", page("Late", late))]);
    let outcomes = browse(
        &site,
        vec![
            json!({"action": "wait_for", "url": site.url("/"), "selector": ".new", "text": "ready"}),
            json!({"action": "wait_for", "selector": ".never", "timeout_seconds": 1}),
            json!({"action": "wait_for", "text": "ready now"}),
        ],
    )
    .await;
    assert_eq!(outcomes[0].as_ref().unwrap()["title"], "Late");
    assert!(outcomes[1].as_ref().unwrap_err().contains(".never did not appear within 1 s"), "{outcomes:?}");
    assert!(outcomes[2].is_ok());
}

#[tokio::test]
async fn a_screenshot_is_a_document_with_versions() {
    let site = Site::start([("/", page("Red", "<body style='background:#c00000;margin:0'><h1 style='color:white'>Stop</h1>"))]);
    let shot = json!({"action": "screenshot", "url": site.url("/"), "path": "shots/page.png"});
    let job = job(&[site.address.to_string()]).load();
    let (outcomes, finished) = run(job, vec![shot.clone(), shot, json!({"action": "screenshot", "path": "../x.png"})]).await;
    let first = outcomes[0].as_ref().unwrap();
    assert_eq!((&first["path"], &first["title"]), (&json!("shots/page.png"), &json!("Red")));
    assert!(outcomes[2].as_ref().unwrap_err().contains("../x.png"), "{:?}", outcomes[2]);
    let documents = finished.run.documents();
    let path = baton_types::path::DocumentPath::parse("shots/page.png").unwrap();
    let shot = documents.get(&path).unwrap().current();
    assert_eq!((shot.version, shot.content.mime_type.as_str()), (2, "image/png"));
    assert_eq!(first["size"], shot.content.size_bytes, "the same page has the same picture");
}

#[tokio::test]
async fn a_document_of_the_run_is_a_page() {
    let html = "<title>Report</title><link rel=stylesheet href=style.css><h1>Total</h1><p id=n>?</p><script src=more/fill.js></script>\
                <script>fetch('secret.csv').then(r => r.text(), e => 'refused').then(t => document.title += ': ' + t)</script>";
    let job = job(&[])
        .document("pages/report.html", html)
        .document("pages/style.css", "h1 { color: rgb(1, 2, 3) }")
        .document("pages/more/fill.js", "document.getElementById('n').textContent = '42'")
        .document("pages/secret.csv", "a,b")
        .load();
    let (outcomes, _) = run(
        job,
        vec![
            json!({"action": "extract", "url": "document:pages/report.html"}),
            json!({"action": "evaluate", "script": "getComputedStyle(document.querySelector('h1')).color"}),
            json!({"action": "wait_for", "selector": "title", "text": "x", "timeout_seconds": 1}),
            json!({"action": "extract"}),
            json!({"action": "navigate", "url": "document:pages/missing.html"}),
        ],
    )
    .await;
    let page = outcomes[0].as_ref().unwrap();
    assert_eq!((&page["url"], &page["text"]), (&json!("document:pages/report.html"), &json!("Total\n\n42")));
    assert_eq!(outcomes[1].as_ref().unwrap()["result"], "rgb(1, 2, 3)");
    assert_eq!(outcomes[3].as_ref().unwrap()["title"], "Report: refused", "a page cannot read other documents");
    assert!(outcomes[4].as_ref().unwrap_err().contains("there is no document pages/missing.html"), "{:?}", outcomes[4]);
}

#[tokio::test]
async fn a_call_that_lacks_what_its_action_needs_starts_no_browser() {
    let (outcomes, _) = run(
        job(&[]).load(),
        vec![
            json!({"action": "navigate"}),
            json!({"action": "click"}),
            json!({"action": "type", "selector": "a"}),
            json!({"action": "evaluate"}),
            json!({"action": "screenshot"}),
            json!({"action": "extract"}),
            json!({"action": "extract", "url": "https://example.com/", "timeout_seconds": 0}),
        ],
    )
    .await;
    let reasons: Vec<&str> = outcomes.iter().map(|outcome| outcome.as_ref().unwrap_err().as_str()).collect();
    for (reason, expected) in
        reasons.iter().zip(["`url`", "`selector`", "`text`", "`script`", "`path`", "no page is open", "between 1 and 120"])
    {
        assert!(reason.contains(expected), "{reason}");
    }
}

#[tokio::test]
async fn a_download_is_refused() {
    let site = Site::start([("/file", Answer::Download), ("/", page("Page", "<a href=/file>get</a>"))]);
    let outcomes = browse(
        &site,
        vec![
            json!({"action": "navigate", "url": site.url("/file")}),
            json!({"action": "click", "url": site.url("/"), "selector": "a"}),
            json!({"action": "extract"}),
        ],
    )
    .await;
    assert!(outcomes[0].as_ref().unwrap_err().contains("could not be loaded"), "{:?}", outcomes[0]);
    assert_eq!(outcomes[2].as_ref().unwrap()["text"], "get", "{outcomes:?}");
}
