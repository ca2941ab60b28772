//! Pages that send on: every hop is judged as the first one was.

use super::*;

const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

#[tokio::test]
async fn no_redirect_leads_to_a_private_address() {
    let secret = Site::start(|_| vec![Piece::text("200 OK", "text/html", "secret")]).await;
    let targets = [
        format!("http://127.0.0.1:{}/", secret.port),
        format!("http://2130706433:{}/", secret.port),
        format!("http://0x7f.1:{}/", secret.port),
        format!("http://[::1]:{}/", secret.port),
        format!("http://[::ffff:127.0.0.1]:{}/", secret.port),
        format!("http://localhost:{}/", secret.port),
        format!("http://inside.example:{}/", secret.port),
        format!("http://a@good.example:{}/", secret.port),
        format!("//127.0.0.1:{}/", secret.port),
        "//169.254.169.254/latest/meta-data/".to_owned(),
        "http://metadata.google.internal/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1:6379/_INFO".to_owned(),
        "data:text/html,hello".to_owned(),
    ];
    let names = Names::default().with("good.example", &[&["127.0.0.1"]]).with("inside.example", &[&["127.0.0.1"]]);
    let (mut asked, mut reached) = (0, 0);
    for (number, target) in targets.iter().enumerate() {
        for hops in 1..=5_usize {
            let status = STATUSES[(number + hops) % STATUSES.len()];
            let target = target.clone();
            let site = Site::start(move |request| {
                let hop: usize = request.split(['/', ' ']).nth(2).and_then(|hop| hop.parse().ok()).unwrap_or(0);
                let next = if hop + 1 >= hops { target.clone() } else { format!("/{}", hop + 1) };
                vec![Piece::redirect(status, &next)]
            })
            .await;
            let host = format!("good.example:{}", site.port);
            let mut fetcher = fetcher(&[&host], &[secret.port], quick(), &names);
            let refused = fetcher.page(&format!("http://{host}/0")).await;
            assert!(matches!(refused, Err(FetchError::Refused(_))), "{status} to hop {hops}: {refused:?}");
            assert_eq!(site.connections(), hops);
            asked += 1;
            reached += secret.connections();
        }
    }
    println!("{asked} chains of redirects refused, {reached} connections to where they lead");
    assert_eq!(reached, 0);
}

#[tokio::test]
async fn a_page_is_found_after_five_redirects_and_not_after_six() {
    let site = Site::start(|request| {
        let left: usize = request.split(['/', ' ']).nth(2).and_then(|left| left.parse().ok()).unwrap_or(0);
        match left {
            0 => vec![Piece::text("200 OK", "text/plain", "here")],
            left => vec![Piece::redirect(302, &format!("/{}", left - 1))],
        }
    })
    .await;
    let host = format!("127.0.0.1:{}", site.port);
    let mut fetcher = fetcher(&[&host], &[], quick(), &Names::default());
    let page = fetcher.page(&format!("http://{host}/5")).await.unwrap();
    assert_eq!((page.url.path(), page.body.as_slice(), site.connections()), ("/0", &b"here"[..], 6));
    let endless = fetcher.page(&format!("http://{host}/6")).await.unwrap_err();
    assert_eq!(endless, FetchError::Redirects { host: "127.0.0.1".to_owned(), most: 5 });
    assert_eq!(site.connections(), 12);
}

#[test]
fn a_hop_never_goes_from_https_to_http() {
    let page = Url::parse("https://example.com/a/b?c").unwrap();
    assert_eq!(next_hop(&page, "http://example.com/"), Err(Refusal::Downgrade));
    assert_eq!(next_hop(&page, "//other.example/x").unwrap().as_str(), "https://other.example/x");
    assert_eq!(next_hop(&page, "../x").unwrap().as_str(), "https://example.com/x");
    assert!(matches!(next_hop(&page, "https://[::1"), Err(Refusal::NoUrl { .. })));
}
