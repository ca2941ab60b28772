//! Pages that are written to harm: each call ends, and the next one works.

use serde_json::{Value, json};

use super::browse;
use super::site::{Answer, Site, page};

/// Returns the outcomes of calls on a site whose page `/` has this body. The page `/good` is harmless.
async fn against(body: &str, inputs: impl FnOnce(&Site) -> Vec<Value>) -> Vec<super::Outcome> {
    let site = Site::start([("/", page("Bad", body)), ("/good", page("Good", "good")), ("/never", Answer::Never)]);
    browse(&site, inputs(&site)).await
}

fn good(site: &Site) -> Value {
    json!({"action": "extract", "url": site.url("/good")})
}

#[track_caller]
fn assert_good(outcome: &super::Outcome) {
    assert_eq!(outcome.as_ref().map(|output| &output["text"]), Ok(&json!("good")));
}

#[tokio::test]
async fn a_page_that_never_loads_times_out() {
    let outcomes = against("<img src=/never>", |site| {
        vec![
            json!({"action": "navigate", "url": site.url("/never"), "timeout_seconds": 1}),
            json!({"action": "navigate", "url": site.url("/"), "timeout_seconds": 1}),
            good(site),
        ]
    })
    .await;
    for late in &outcomes[..2] {
        assert!(late.as_ref().unwrap_err().contains("could not be loaded: the page did not load within 1 s"), "{late:?}");
    }
    assert_good(&outcomes[2]);
}

#[tokio::test]
async fn dialogs_are_dismissed() {
    let outcomes = against("<script>alert(1); document.title = `${confirm('?')} ${prompt('?', 'x')}`</script>", |site| {
        vec![json!({"action": "navigate", "url": site.url("/")}), good(site)]
    })
    .await;
    assert_eq!(outcomes[0].as_ref().unwrap()["title"], "false null");
    assert_good(&outcomes[1]);
    let outcomes = against("<script>while (true) alert(1)</script>", |site| {
        vec![json!({"action": "navigate", "url": site.url("/"), "timeout_seconds": 1}), good(site)]
    })
    .await;
    assert!(outcomes[0].as_ref().unwrap_err().contains("did not load within 1 s"), "{:?}", outcomes[0]);
    assert_good(&outcomes[1]);
}

#[tokio::test]
async fn a_page_that_wants_to_be_kept_is_left() {
    let stays = "<button>x</button><script>onbeforeunload = event => { event.preventDefault(); return 'stay' }</script>";
    let outcomes =
        against(stays, |site| vec![json!({"action": "click", "url": site.url("/"), "selector": "button"}), good(site)]).await;
    assert!(outcomes[0].is_ok(), "{:?}", outcomes[0]);
    assert_good(&outcomes[1]);
}

#[tokio::test]
async fn a_script_without_an_end_is_stopped() {
    let outcomes = against("<p>still here", |site| {
        vec![
            json!({"action": "navigate", "url": site.url("/")}),
            json!({"action": "evaluate", "script": "while (true);", "timeout_seconds": 1}),
            json!({"action": "extract"}),
            json!({"action": "evaluate", "script": "new Promise(() => {})", "timeout_seconds": 1}),
            json!({"action": "extract"}),
        ]
    })
    .await;
    for (late, after) in [(&outcomes[1], &outcomes[2]), (&outcomes[3], &outcomes[4])] {
        assert!(late.as_ref().unwrap_err().contains("the script did not end within 1 s"), "{late:?}");
        assert_eq!(after.as_ref().unwrap()["text"], "still here");
    }
    let outcomes = against("<script>while (true);</script>", |site| {
        vec![json!({"action": "navigate", "url": site.url("/"), "timeout_seconds": 1}), good(site)]
    })
    .await;
    assert!(outcomes[0].as_ref().unwrap_err().contains("did not load within 1 s"), "{:?}", outcomes[0]);
    assert_good(&outcomes[1]);
}

#[tokio::test]
async fn results_are_bounded() {
    let huge = "<div id=a></div><script>a.textContent = 'x'.repeat(1000) + ' '; for (let i = 0; i < 10; i++) a.textContent += a.textContent</script>";
    let outcomes = against(huge, |site| {
        vec![
            json!({"action": "extract", "url": site.url("/")}),
            json!({"action": "evaluate", "script": "'x'.repeat(2000000)"}),
            json!({"action": "evaluate", "script": "'x'.repeat(40000000)"}),
            json!({"action": "evaluate", "script": "var deep = []; for (let i = 0; i < 200; i++) deep = [deep]; deep"}),
            json!({"action": "evaluate", "script": "'\\ud800'"}),
            json!({"action": "evaluate", "script": "console.log('x'.repeat(40000000)); document.title = 'y'.repeat(100000); 1"}),
            good(site),
        ]
    })
    .await;
    let text = outcomes[0].as_ref().unwrap();
    let text = text["text"].as_str().or(text["document"].as_str());
    assert!(text.is_none_or(|text| text.len() < 401_000), "{}", text.unwrap_or_default().len());
    assert!(outcomes[1].as_ref().unwrap_err().contains("has 2000002 bytes as JSON"), "{:?}", outcomes[1]);
    assert!(outcomes[2].as_ref().unwrap_err().contains("too large"), "{:?}", outcomes[2]);
    assert!(outcomes[3].is_err(), "{:?}", outcomes[3]);
    assert!(outcomes[4].as_ref().unwrap_err().contains("not valid JSON"), "half a character: {:?}", outcomes[4]);
    assert_eq!(outcomes[5].as_ref().unwrap()["title"].as_str().unwrap().len(), 1_000);
    assert_good(&outcomes[6]);
}

#[tokio::test]
async fn names_of_elements_hide_no_properties() {
    let clobbered = "<img name=title><img name=body><form name=querySelector><input name=innerText></form><p id=location>real";
    let outcomes = against(clobbered, |site| {
        vec![json!({"action": "extract", "url": site.url("/")}), json!({"action": "click", "selector": "form"})]
    })
    .await;
    let output = outcomes[0].as_ref().unwrap();
    assert_eq!((&output["title"], output["text"].as_str().unwrap().trim()), (&json!("Bad"), "real"));
    assert!(outcomes[1].is_ok(), "{:?}", outcomes[1]);
}

#[tokio::test]
async fn other_windows_are_closed() {
    let opens = "<button onclick=\"w = window.open('/good')\">open</button><a href=/good target=_blank rel=noopener>link</a>";
    let outcomes = against(opens, |site| {
        vec![
            json!({"action": "click", "url": site.url("/"), "selector": "button"}),
            json!({"action": "evaluate", "script": "w.closed"}),
            json!({"action": "click", "selector": "a"}),
            json!({"action": "extract", "selector": "a"}),
        ]
    })
    .await;
    assert_eq!(outcomes[1].as_ref().unwrap()["result"], true, "{outcomes:?}");
    assert_eq!(outcomes[3].as_ref().unwrap()["text"], "link");
}
