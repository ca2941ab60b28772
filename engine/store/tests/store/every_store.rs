//! Tests of a promise on every store.

/// Makes of each promise a test with the store in memory, one with the store on disk and one with the store in PostgreSQL.
macro_rules! promises {
    ($($name:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
            async fn $name() {
                super::$name(std::sync::Arc::new(baton_store::MemoryStore::new())).await;
            })*
        }
        mod on_disk {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
            async fn $name() {
                let crate::support::OnDisk { store, folder } = crate::support::OnDisk::new();
                super::$name(std::sync::Arc::new(store)).await;
                drop(folder);
            })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
            async fn $name() {
                let database = crate::support::postgres().database();
                super::$name(std::sync::Arc::new(crate::support::on_postgres(&database).await)).await;
            })*
        }
    };
}
