//! Addresses that must not be asked, in every spelling: none makes a connection.

use super::*;

/// Addresses that must never be requested, in many spellings. `{port}` is an allowed port with a listener, so only the
/// judgement of the address prevents the connection.
const LITERALS: [&str; 41] = [
    "http://127.0.0.1:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f.1:{port}/",
    "http://0x7f000001:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://017700000001:{port}/",
    "http://0:{port}/",
    "http://0.0.0.0:{port}/",
    "http://[::1]:{port}/",
    "http://[::]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[64:ff9b::127.0.0.1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://[2001:0:7f00:1::]:{port}/",
    "http://[fe80::1]:{port}/",
    "http://[fe80::1%25lo]:{port}/",
    "http://[fd00:ec2::254]:{port}/",
    "http://169.254.169.254:{port}/latest/meta-data/",
    "http://0xa9fea9fe:{port}/latest/meta-data/",
    "http://metadata.google.internal:{port}/computeMetadata/v1/",
    "http://100.64.0.1:{port}/",
    "http://100.100.100.200:{port}/",
    "http://168.63.129.16:{port}/",
    "http://10.0.0.1:{port}/",
    "http://172.16.0.1:{port}/",
    "http://192.168.0.1:{port}/",
    "http://224.0.0.1:{port}/",
    "http://255.255.255.255:{port}/",
    "http://localhost:{port}/",
    "http://localhost.:{port}/",
    "http://LOCALHOST:{port}/",
    "http://printer.local:{port}/",
    "http://a@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}#@example.com/",
    "http://①②⑦.⓪.⓪.①:{port}/",
];

/// Addresses that are refused before they are resolved.
const OTHERS: [&str; 17] = [
    "http://127.0.0.1:22/",
    "http://example.com:22/",
    "http://example.com:6379/",
    "http://user:password@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http://exam\nple.com/",
    "http://exam\tple.com/",
    " http://example.com/",
    "http://",
    "//example.com/",
    "example.com",
    "gopher://127.0.0.1:6379/_INFO",
    "file:///etc/passwd",
    "ftp://example.com/",
    "data:text/html,hello",
    "javascript:alert(1)",
    "unix:/var/run/docker.sock",
];

#[tokio::test]
async fn no_spelling_of_a_private_address_makes_a_connection() {
    let site = Site::start(|_| vec![Piece::text("200 OK", "text/html", "secret")]).await;
    let names = Names::default();
    let mut fetcher = fetcher(&[], &[site.port], quick(), &names);
    let literals = LITERALS.map(|url| url.replace("{port}", &site.port.to_string()));
    for url in literals.iter().map(String::as_str).chain(OTHERS) {
        match fetcher.page(url).await {
            Err(FetchError::Refused(_)) => {}
            other => panic!("{url:?} gave {other:?}"),
        }
    }
    println!(
        "{} addresses refused, {} connections, {} names looked up",
        LITERALS.len() + OTHERS.len(),
        site.connections(),
        names.looks()
    );
    assert_eq!((site.connections(), names.looks()), (0, 0));
    // The same server is reached where it is allowed: it would have been.
    page_of(&site, quick()).await.unwrap();
    assert_eq!(site.connections(), 1);
}

#[tokio::test]
async fn a_name_with_one_private_address_makes_no_connection() {
    let site = Site::start(|_| vec![Piece::text("200 OK", "text/html", "secret")]).await;
    let hidden: [&[&str]; 7] = [
        &["127.0.0.1"],
        &["1.1.1.1", "127.0.0.1"],
        &["127.0.0.1", "1.1.1.1"],
        &["2606:4700:4700::1111", "::1"],
        &["::ffff:127.0.0.1"],
        &["64:ff9b::7f00:1"],
        &["8.8.8.8", "8.8.4.4", "169.254.169.254"],
    ];
    for addresses in hidden {
        let names = Names::default().with("rebind.example", &[addresses]);
        let refused = fetcher(&[], &[site.port], quick(), &names).page(&format!("http://rebind.example:{}/", site.port)).await;
        assert!(matches!(refused, Err(FetchError::Refused(Refusal::PrivateAddress { .. }))), "{addresses:?}: {refused:?}");
        assert_eq!(names.looks(), 1);
    }
    assert_eq!(site.connections(), 0);
    println!("{} sets of addresses refused, 0 connections", hidden.len());
}

/// A name that is public when it is judged and this machine a moment later: the connection is offered what was judged.
#[tokio::test]
async fn the_connection_goes_to_the_addresses_that_were_judged() {
    let names = Names::default().with("rebind.example", &[&["1.1.1.1", "2606:4700:4700::1111"], &["127.0.0.1"]]);
    let mut fetcher = fetcher(&[], &[], quick(), &names);
    let url = guard::parse("http://rebind.example/").unwrap();
    fetcher.look_at(&url).await.unwrap();
    let connector = fetcher.vetted.clone();
    for _ in 0..3 {
        let offered: Vec<_> = connector.resolve("rebind.example".parse().unwrap()).await.unwrap().map(|it| it.ip()).collect();
        assert_eq!(offered, ["1.1.1.1".parse::<IpAddr>().unwrap(), "2606:4700:4700::1111".parse().unwrap()]);
    }
    assert_eq!(names.looks(), 1);
    assert!(connector.resolve("other.example".parse().unwrap()).await.is_err(), "nobody judged this name");
    // The next hop looks again, and is refused.
    let refused = fetcher.look_at(&url).await.unwrap_err();
    assert!(matches!(refused, FetchError::Refused(Refusal::PrivateAddress { .. })), "{refused}");
}

#[tokio::test]
async fn a_host_that_is_allowed_on_one_port_is_judged_on_the_others() {
    let (front, back) = (
        Site::start(|_| vec![Piece::text("200 OK", "text/html", "public")]).await,
        Site::start(|_| vec![Piece::text("200 OK", "text/html", "secret")]).await,
    );
    let names = Names::default().with("search.example", &[&["127.0.0.1"]]);
    let mut fetcher = fetcher(&[&format!("search.example:{}", front.port)], &[back.port], quick(), &names);
    fetcher.page(&format!("http://search.example:{}/", front.port)).await.unwrap();
    let refused = fetcher.page(&format!("http://search.example:{}/", back.port)).await.unwrap_err();
    assert!(matches!(refused, FetchError::Refused(Refusal::PrivateAddress { .. })), "{refused}");
    assert_eq!((front.connections(), back.connections()), (1, 0));
}

#[tokio::test]
async fn a_name_without_an_address_is_told() {
    let error = fetcher(&[], &[], quick(), &Names::default()).page("http://nowhere.example/").await.unwrap_err();
    assert_eq!(error.to_string(), "nowhere.example has no address: no such name");
}

/// The environment may name proxies, which would look names up themselves. The test runs itself again with such an
/// environment, since one that is running must not be changed.
#[tokio::test]
async fn no_proxy_of_the_environment_is_asked() {
    const MARK: &str = "BATON_TEST_PROXIED_SITE";
    if let Ok(port) = std::env::var(MARK) {
        let names = Names::default().with("site.example", &[&["127.0.0.1"]]);
        let mut fetcher = fetcher(&[&format!("site.example:{port}")], &[], quick(), &names);
        fetcher.page(&format!("http://site.example:{port}/")).await.unwrap();
        return;
    }
    let site = Site::start(|_| vec![Piece::text("200 OK", "text/html", "page")]).await;
    let proxy = Site::start(|_| vec![Piece::text("200 OK", "text/html", "from the proxy")]).await;
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
    again.args(["no_proxy_of_the_environment_is_asked", "--nocapture"]).env(MARK, site.port.to_string());
    for variable in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        again.env(variable, &address);
    }
    let output = again.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!((site.connections(), proxy.connections()), (1, 0));
}
