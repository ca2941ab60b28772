//! The readers of breadcrumbs: the whole matrix of visibility and sensitivity, on every store.

use std::sync::Arc;

use baton_breadcrumb::{Author, BreadcrumbError};
use baton_store::{Store, StoreError, Update};
use baton_types::breadcrumb::{BreadcrumbChange, NewBreadcrumb, Sensitivity, Viewer, Visibility};
use baton_types::id::BreadcrumbId;
use baton_types::principal::Principal;
use serde_json::json;

use crate::breadcrumbs::{ann, change, create, find, new, project, refusal, verdict, words};
use crate::support::at;

promises!(everyone_sees_what_the_matrix_allows);

/// Tries the whole matrix: every reader with every visibility and sensitivity.
async fn everyone_sees_what_the_matrix_allows(store: Arc<dyn Store>) {
    let viewer = |principal: Principal, name: &str, may_read_pii| Viewer { principal, project: project(name), may_read_pii };
    let bot = |name: &str| Principal::Agent(name.into());
    #[rustfmt::skip]
    let viewers = [
        ("the owner, an agent",           viewer(bot("owner"), "p", false)),
        ("the owner, may read pii",       viewer(bot("owner"), "p", true)),
        ("another agent of the project",  viewer(bot("other"), "p", false)),
        ("another that may read pii",     viewer(bot("other"), "p", true)),
        ("an agent of another project",   viewer(bot("other"), "q", true)),
        ("the owner's id elsewhere",      viewer(bot("owner"), "q", true)),
        ("a person",                      viewer(Principal::person("ann"), "q", true)),
        ("a program",                     viewer(Principal::program("nightly"), "q", true)),
    ];
    // One letter for each viewer, in their order: `y` reads, `-` does not.
    #[rustfmt::skip]
    let matrix = [
        (Visibility::Public,  Sensitivity::Low,    "yyyyyyyy"),
        (Visibility::Public,  Sensitivity::Pii,    "-y-yyyyy"),
        (Visibility::Public,  Sensitivity::Secret, "------yy"),
        (Visibility::Team,    Sensitivity::Low,    "yyyy--yy"),
        (Visibility::Team,    Sensitivity::Pii,    "-y-y--yy"),
        (Visibility::Team,    Sensitivity::Secret, "------yy"),
        (Visibility::Private, Sensitivity::Low,    "yy----yy"),
        (Visibility::Private, Sensitivity::Pii,    "-y----yy"),
        (Visibility::Private, Sensitivity::Secret, "------yy"),
    ];
    let owner = Author::of(viewers[1].1.clone());
    for (row, (visibility, sensitivity, expected)) in matrix.into_iter().enumerate() {
        let id = format!("r{row}");
        // An agent cannot create a secret record, so a person makes it secret.
        let made = if sensitivity == Sensitivity::Secret { Sensitivity::Pii } else { sensitivity };
        let content = NewBreadcrumb { visibility, sensitivity: made, ..new(&format!("needle {row}"), json!({"row": row})) };
        create(&*store, &id, content, &owner).await.expect("new");
        if made != sensitivity {
            let secret = BreadcrumbChange { sensitivity: Some(sensitivity), ..BreadcrumbChange::default() };
            change(&*store, &id, secret, &ann()).await.expect("a person's change");
        }
        for ((name, viewer), expected) in viewers.iter().zip(expected.chars()) {
            let (expected, what) = (expected == 'y', format!("{visibility:?} {sensitivity:?}: {name}"));
            assert_eq!(find(&*store, &id, viewer).await.is_some(), expected, "find, {what}");
            let id = BreadcrumbId::new(id.as_str());
            let history = store.breadcrumbs().history(&id, viewer, 9, at(3_000)).await.expect("readable");
            assert_eq!(!history.is_empty(), expected, "history, {what}");
            let of_row = words(&format!("needle {row}"));
            let found = store.breadcrumbs().search(&of_row, viewer, at(3_000)).await.expect("readable");
            assert_eq!(found.breadcrumbs.iter().any(|record| record.id == id), expected, "search, {what}");
            assert_eq!(found.total, found.breadcrumbs.len() as u64, "nothing unseen is counted, {what}");
            let read = store.breadcrumbs().read(&id, viewer, at(3_000)).await.expect("readable");
            assert_eq!(read.is_some(), expected, "read, {what}");
            let by = Author::of(viewer.clone());
            let update = Update { id, change: verdict(true), expected: Some(99), by, key: None, at: at(3_000) };
            let refused = store.breadcrumbs().change(update).await.expect_err("never the version");
            let is_known = matches!(refused, StoreError::Breadcrumb(BreadcrumbError::VersionMismatch { .. }));
            assert_eq!(is_known, expected, "change, {what}");
        }
    }
    // A private record of a person is that person's alone.
    create(&*store, "diary", NewBreadcrumb { visibility: Visibility::Private, ..new("diary", json!({})) }, &ann())
        .await
        .expect("new");
    for (name, viewer) in &viewers {
        assert_eq!(find(&*store, "diary", viewer).await.is_some(), *name == "a person", "{name}");
    }
    assert!(find(&*store, "diary", &viewer(Principal::person("bob"), "p", true)).await.is_none());
    // An agent of another project reads what is public, and changes nothing of it.
    let stranger = Author::of(viewers[4].1.clone());
    let title = BreadcrumbChange { title: Some("mine".into()), ..BreadcrumbChange::default() };
    assert!(refusal(change(&*store, "r0", title, &stranger).await).to_string().contains("another project"));
}
