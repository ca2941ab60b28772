//! Tools over data: a document's rows queried, a result drawn.
//!
//! Not here: documents themselves (the files family) and single values (the utility family).

mod ask;
mod chart;
mod delimited;
mod exchange;
mod json_rows;
mod names;
mod parts;
mod query;
mod sqlite;
mod table;

pub use chart::{ChartKind, ChartOutput};
pub use query::{QueryOutput, TableOutput};
