//! Runs whose pinned configs this version of the program does not accept: another version started them.

use std::sync::Arc;

use baton_store::{Batch, NewRun, SqliteStore, Store};
use baton_types::entry::{Entry, Recorded};
use baton_types::id::{ContentHash, RunId};

use crate::support::Folder;

/// Copies the newest run under the id `foreign`, as if its configs had a key that this version does not know.
fn copy_with_unknown_key(folder: &Folder) {
    let copied = async {
        let store = SqliteStore::open(folder.path().join(".baton/baton.db")).unwrap();
        let run = store.runs().await.unwrap().remove(0);
        let mut entries: Vec<Recorded> =
            store.entries(&run.id, 0, 1_000).await.unwrap().into_iter().map(|entry| (*entry).clone()).collect();
        let Entry::RunStarted(started) = &mut entries[0].entry else { panic!("a run begins with its start") };
        let sources = store.content(started.configs).await.unwrap().unwrap();
        let sources = String::from_utf8(sources.to_vec()).unwrap().replace("system_prompt", "system_prompts").into_bytes();
        started.configs = ContentHash::of(&sources);
        started.run = RunId::new("foreign");
        store.put_content(started.configs, sources.into()).await.unwrap();
        store
            .create(NewRun { id: RunId::new("foreign"), job: run.job, at: run.created, past: None, trigger: None })
            .await
            .unwrap();
        let epoch = store.take_over(&RunId::new("foreign"), "process 0", 0).await.unwrap();
        let mut batch = Batch::new(RunId::new("foreign"), epoch, 0);
        batch.entries = entries.into_iter().map(Arc::new).collect();
        batch.releases = true;
        store.append(batch).await.unwrap();
    };
    tokio::runtime::Runtime::new().unwrap().block_on(copied);
}

#[test]
fn a_run_of_another_version_is_refused_with_the_commands_that_read_it() {
    let folder = Folder::new();
    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    copy_with_unknown_key(&folder);
    folder.baton(&["ps"]).exits(0).says("foreign");
    folder.baton(&["timeline", "foreign"]).exits(0).says("Revenue or units?");
    folder.baton(&["doc", "ls", "foreign"]).exits(0);
    let commands: [&[&str]; 7] = [
        &["show", "foreign"],
        &["graph", "foreign"],
        &["answer", "foreign", "units"],
        &["pause", "foreign"],
        &["cancel", "foreign"],
        &["steer", "foreign", "Hurry"],
        &["resume", "foreign"],
    ];
    for command in commands {
        let refused =
            folder.baton(command).exits(2).tells("run foreign was started with configs that this program no longer accepts");
        refused.tells("unknown key \"system_prompts\"").tells("baton timeline foreign · baton doc ls foreign");
    }
}

#[test]
fn a_question_is_found_by_its_number_beside_a_run_of_another_version() {
    let folder = Folder::new();
    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    let run = folder.last_run();
    copy_with_unknown_key(&folder);
    assert_eq!(folder.last_run(), "foreign");
    folder
        .baton(&["answer", "Q1", "units", "--no-resume"])
        .exits(0)
        .tells("run foreign is skipped")
        .says("the answer to Q1 is in the inbox, until the run continues: units");
    folder.baton(&["resume", &run]).exits(0).says("units");
}
