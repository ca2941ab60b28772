//! Readers and writers of a record.

use std::collections::BTreeSet;

use baton_types::breadcrumb::{Breadcrumb, Sensitivity, Viewer, Visibility};
use baton_types::id::{ProjectId, RunId, ToolId};
use baton_types::principal::Principal;

/// The writer of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The writer, as a reader.
    pub viewer: Viewer,
    /// The tools that exist for it: no agent may name one in a `tool:` tag.
    pub tools: BTreeSet<ToolId>,
    /// Whether a person has agreed to its judgement of a record.
    pub may_judge: bool,
    /// Whether it may set tags that route a record. The engine may, where it writes for an agent.
    pub may_route: bool,
    /// The run of the call that writes: triggers of its record continue the chain of this run.
    pub run: Option<RunId>,
}

impl Author {
    /// Returns a person or a program that works in `project`.
    pub fn outside(principal: Principal, project: ProjectId) -> Self {
        let viewer = Viewer { principal, project, may_read_pii: true };
        Self { may_judge: true, ..Self::of(viewer) }
    }

    /// Returns a writer without further rights.
    pub fn of(viewer: Viewer) -> Self {
        Self { viewer, tools: BTreeSet::new(), may_judge: false, may_route: false, run: None }
    }
}

/// The fields of a record that decide who may read it.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// See [`Breadcrumb::owner`].
    pub owner: &'a Principal,
    /// See [`Breadcrumb::project`].
    pub project: &'a ProjectId,
    /// See [`Breadcrumb::visibility`].
    pub visibility: Visibility,
    /// See [`Breadcrumb::sensitivity`].
    pub sensitivity: Sensitivity,
}

impl<'a> From<&'a Breadcrumb> for Access<'a> {
    fn from(record: &'a Breadcrumb) -> Self {
        let Breadcrumb { owner, project, visibility, sensitivity, .. } = record;
        Self { owner, project, visibility: *visibility, sensitivity: *sensitivity }
    }
}

/// Whether `viewer` may read the record.
///
/// Persons, programs and the engine read all records of a store that they can open, except for the private records of other
/// persons. Agents read by the record's visibility and sensitivity: no agent reads `secret`, not even the owner.
pub fn may_read<'a>(viewer: &Viewer, record: impl Into<Access<'a>>) -> bool {
    let Access { owner, project, visibility, sensitivity } = record.into();
    if !viewer.is_model() {
        let is_foreign = matches!(owner, Principal::Person(_)) && *owner != viewer.principal;
        return visibility != Visibility::Private || !is_foreign;
    }
    let is_visible = match visibility {
        Visibility::Public => true,
        Visibility::Team => *project == viewer.project,
        // An agent of the same id in another project is another agent.
        Visibility::Private => *project == viewer.project && *owner == viewer.principal,
    };
    let is_harmless = match sensitivity {
        Sensitivity::Low => true,
        Sensitivity::Pii => viewer.may_read_pii,
        Sensitivity::Secret => false,
    };
    is_visible && is_harmless
}

/// Whether `viewer` may change the record: it may read it, and an agent works in its project.
pub fn may_write(viewer: &Viewer, record: &Breadcrumb) -> bool {
    may_read(viewer, record) && (!viewer.is_model() || record.project == viewer.project)
}
