//! Promises of every store, and further promises of the store on disk.

#[macro_use]
mod every_store;

mod breadcrumb_definitions;
mod breadcrumb_readers;
mod breadcrumb_vectors;
mod breadcrumbs;
mod breadcrumbs_at_scale;
mod breadcrumbs_on_postgres;
mod copying;
mod disk;
mod group_commit;
mod groups_on_postgres;
mod keeping;
mod lost;
mod postgres;
mod promises;
mod received;
mod retention;
mod support;
mod ticks;
mod triggers;
