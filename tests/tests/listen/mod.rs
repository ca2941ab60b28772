//! Agents and requests of tools that are records: a listener answers each of them once.

mod agents;
mod desk;
mod requests;
mod triggers;
