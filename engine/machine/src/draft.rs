//! The decision in progress, and the changes that a rule may make: an entry, a few entries that belong together, or the next
//! step.
//!
//! An entry is applied when it is appended, so a rule always reads the current state of the run.

use baton_render::goes_to_user;
use baton_types::entry::{Conflict, Output};
use smallvec::SmallVec;

use crate::agent;
use crate::prelude::*;
use crate::requests::AnsweredRequest;
use crate::rules::after;
use crate::task::Streak;

/// The decision in progress: the run, the entries and effects so far, and the steps that are left.
pub(super) struct Draft<'run> {
    pub(super) at: Timestamp,
    /// The number of the decision.
    number: u64,
    pub(super) run: &'run mut Run,
    pub(super) decision: Decision,
    /// The steps that are left. The loop in `settle` takes them from the end.
    pub(super) steps: SmallVec<[Step; 4]>,
    /// The tasks to advance when no step is left, because their turns may have become complete.
    pub(super) changed: SmallVec<[TaskIndex; 8]>,
    /// The number of tasks among them that have been advanced.
    pub(super) advanced: usize,
}

/// A call of a turn in progress: its task, and its index among the calls of the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallAt {
    pub(super) task: TaskIndex,
    pub(super) index: usize,
}

/// The fields of a result that few calls have.
#[derive(Default)]
pub(super) struct FinishDetails {
    /// The conflicts of its writes.
    pub(super) conflicts: Vec<Conflict>,
    /// The documents that it read.
    pub(super) read: Vec<DocumentRef>,
    /// The author of a delivered result.
    pub(super) delivered_by: Option<Box<Principal>>,
    /// The text that its code printed.
    pub(super) printed: Option<Box<str>>,
    /// The earlier call of its request, whose result it has.
    pub(super) result_of: Option<CallId>,
}

/// Read access for rules.
impl<'run> Draft<'run> {
    pub(super) fn new(run: &'run mut Run, at: Timestamp) -> Self {
        let number = run.shared.decision + 1;
        Self { at, number, run, decision: Decision::default(), steps: SmallVec::new(), changed: SmallVec::new(), advanced: 0 }
    }

    pub(super) fn task(&self, task: TaskIndex) -> &Task {
        &self.run.graph[task]
    }

    pub(super) fn id(&self, task: TaskIndex) -> TaskId {
        self.task(task).id.clone()
    }

    /// Returns the calls of the turn in progress, which must exist.
    pub(super) fn calls(&self, task: TaskIndex) -> &OpenCalls {
        let task = self.task(task);
        task.phase.calls().unwrap_or_else(|| panic!("task {} has no turn in progress", task.id))
    }

    pub(super) fn call(&self, call: CallAt) -> &OpenCall {
        &self.calls(call.task)[call.index]
    }

    /// Returns the tool of `call`, which must exist, with the configuration that the call names.
    pub(super) fn tool(&self, call: CallAt) -> Arc<Tool> {
        let (agent, asked) = (self.task(call.task).agent(), &self.call(call).asked);
        let tool = self.run.configs.tool_of(agent, asked);
        Arc::clone(tool.unwrap_or_else(|| panic!("the configs of the run have no tool {}", asked.tool)))
    }

    /// Returns the call whose code made `call`.
    pub(super) fn outer(&self, call: CallAt) -> Option<CallAt> {
        let open = self.call(call);
        let (outer, _) = open.id.outer().filter(|_| open.is_inner())?;
        Some(CallAt { index: self.calls(call.task).index_of(&outer)?, ..call })
    }

    /// Returns the call that created `task`, or that the question `task` is about; `None` for the root.
    pub(super) fn originating(&self, task: TaskIndex) -> Option<CallAt> {
        let caller = self.run.graph.caller_of(task)?;
        let call = self.task(task).id.originating_call();
        Some(CallAt { task: caller, index: self.calls(caller).position_of(&call) })
    }

    /// Returns the agent that holds `task`.
    pub(super) fn agent(&self, task: TaskIndex) -> &Arc<Agent> {
        self.run.agent_of(task)
    }

    /// Whether the agent of `call` gets its result.
    pub(super) fn returns_to_agent(&self, call: CallAt, tool: &Tool, envelope: Option<AfterExecution>) -> bool {
        let open = self.call(call);
        let asked = &open.asked;
        !open.is_inner()
            && after::after(envelope, asked, tool) != AfterExecution::Terminate
            && !goes_to_user(asked, tool.tool_type)
    }

    /// Returns the approver that `call` still needs, if any. An approval of another input or tool definition does not count.
    pub(super) fn approver(&self, call: CallAt, tool: &Tool) -> Option<Approver> {
        let open = self.call(call);
        match open.approved() {
            Some(call_hash) => (tool.call_hash(&open.asked.input) != call_hash).then(|| self.approver_again(call, tool)),
            None if self.task(call.task).kind == TaskKind::Question => None,
            None => self.run.approver_of(call.task, tool).map(|(approver, _)| approver),
        }
    }

    /// Returns the approver of a call that changed after the approval question: a person if its config requires no approval
    /// now.
    pub(super) fn approver_again(&self, call: CallAt, tool: &Tool) -> Approver {
        self.run.approver_of(call.task, tool).map_or(Approver::Person, |(approver, _)| approver)
    }
}

/// Changes by rules.
impl Draft<'_> {
    /// Appends an entry.
    pub(super) fn push(&mut self, entry: Entry) {
        let recorded = Arc::new(Recorded { seq: self.run.shared.seq + 1, decision: self.number, at: self.at, entry });
        self.run.apply(&recorded);
        self.decision.entries.push(recorded);
    }

    /// Adds a step that follows from the rule, after those that the rule has added so far.
    pub(super) fn then(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Refuses a call with `error`.
    pub(super) fn refuse(&mut self, call: CallAt, error: CallError) {
        let task = self.id(call.task);
        let open = self.call(call);
        let (tool, tool_type) = (ToolId::new(open.asked.tool.as_str()), open.tool_type);
        let call = open.id.clone();
        let result = open.is_inner().then(|| Arc::new(CallResult::error(CallStatus::Failed, error.clone())));
        self.push(Entry::CallRefused(CallRefused { task, call: call.clone(), tool, tool_type, error }));
        if let Some(result) = result {
            self.return_to_code(call, result);
        }
    }

    /// Gives the code that made `call` its result, if it still runs.
    fn return_to_code(&mut self, call: CallId, result: Arc<CallResult>) {
        if call.outer().is_some_and(|(outer, _)| self.run.running_function(&outer).is_some()) {
            self.decision.effects.push(Effect::Return { call, result });
        }
    }

    /// Refuses every call of a turn that executes nothing, with the reason `why`.
    pub(super) fn refuse_all(&mut self, task: TaskIndex, why: &str) {
        for index in 0..self.calls(task).len() {
            self.refuse(CallAt { task, index }, CallError::new(ErrorCode::TurnDiscarded, why));
        }
    }

    /// Gives a call its result, with the fields that decide the end of the turn.
    pub(super) fn finish(&mut self, call: CallAt, result: impl Into<Arc<CallResult>>, envelope: Option<AfterExecution>) {
        self.finish_as(call, result.into(), envelope, FinishDetails::default());
    }

    /// Gives a call the result of the `earlier` call of its request.
    pub(super) fn finish_repeated(&mut self, call: CallAt, earlier: &AnsweredRequest) {
        let details = FinishDetails { result_of: Some(earlier.call.clone()), ..FinishDetails::default() };
        self.finish_as(call, Arc::clone(&earlier.result), None, details);
    }

    /// Gives a call its result, with `details`.
    pub(super) fn finish_as(
        &mut self,
        call: CallAt,
        result: Arc<CallResult>,
        envelope: Option<AfterExecution>,
        details: FinishDetails,
    ) {
        self.end_inner(call);
        let result = self.run.with_unknown_of_code(call.task, &self.call(call).id, result);
        let FinishDetails { conflicts, read, delivered_by, printed, result_of } = details;
        let tool = self.tool(call);
        let (task, open) = (self.task(call.task), self.call(call));
        let (id, call, tool_type) = (task.id.clone(), open.id.clone(), tool.tool_type);
        let returned = open.is_inner().then(|| (call.clone(), Arc::clone(&result)));
        let output = goes_to_user(&open.asked, tool_type).then(|| Output {
            task: id.clone(),
            call: call.clone(),
            status: result.status,
            output: result.output.clone(),
        });
        let entry = CallFinished {
            task: id,
            tool: tool.id.clone(),
            tool_type,
            after: after::after(envelope, &open.asked, &tool),
            repeat: if returned.is_some() { 0 } else { repeat(task.work().streak.as_ref(), open.original(), &result) },
            said: task.said_during(&call),
            call,
            result,
            delivered_by,
            result_of,
            conflicts,
            read,
            printed,
        };
        self.push(Entry::CallFinished(entry));
        if let Some(output) = output {
            self.push(Entry::Output(output));
        }
        if let Some((call, result)) = returned {
            self.return_to_code(call, result);
        }
    }

    /// Ends the calls without a result that the code of `outer` made. The end of each ends those that came of it.
    pub(super) fn end_inner(&mut self, outer: CallAt) {
        if !self.call(outer).is_calling() {
            return;
        }
        for index in self.calls(outer.task).unfinished_of(outer.index) {
            let call = CallAt { index, ..outer };
            let open = self.call(call);
            let error = CallError::new(ErrorCode::Cancelled, "the code that made the call has ended");
            let result = CallResult::error(CallStatus::Cancelled, error.clone());
            let live = |id: TaskId| self.run.graph.find_live(&id);
            let worked_on_by = match open.stage {
                CallStage::Approval => live(open.id.approval(open.approvals())),
                CallStage::Doubt => live(open.id.outcome()),
                // A function has no task.
                CallStage::Running { .. } => live(open.id.attempt(open.next_attempt())),
                _ => None,
            };
            let (is_waiting, has_code) = (open.stage == CallStage::Waiting, open.is_running() && open.is_function());
            if let Some(task) = worked_on_by {
                self.then(Step::end(task, result));
            } else if is_waiting {
                self.refuse(call, error);
            } else {
                if has_code {
                    let stopped = open.id.clone();
                    self.settle_asks(call.task, Some(&stopped), Used::Reservation);
                    self.decision.effects.push(Effect::StopCall { call: stopped });
                }
                let result = self.stopped(call, error);
                self.finish(call, result, None);
            }
        }
    }

    /// Returns the result of `call`, which `error` ends before its time. Code that may not be repeated may have acted already, so
    /// its outcome is unknown.
    pub(super) fn stopped(&self, call: CallAt, error: CallError) -> Arc<CallResult> {
        let open = self.call(call);
        if open.is_running() && open.is_function() && self.tool(call).effect.acts_each_time() {
            return outcome::unknown(Some(&error.message)).into();
        }
        open.with_attempts(CallResult::error(CallStatus::Cancelled, error))
    }

    /// Records that `call` begins, with `documents`; `target` is the holder of the task that it creates.
    pub(super) fn start(&mut self, call: CallAt, tool: &Tool, documents: Vec<DocumentRef>, target: Option<Holder>) {
        let (task, open) = (self.id(call.task), self.call(call));
        let (id, asked) = (open.id.clone(), &open.asked.input);
        let effective = (!tool.arguments.is_empty()).then(|| tool.effective_input(asked, &self.agent(call.task).id, &id));
        let input = effective.filter(|input| input != asked);
        let envs = tool.arguments.envs.clone();
        let (tool, tool_type) = (tool.id.clone(), tool.tool_type);
        self.push(Entry::CallStarted(CallStarted { task, call: id, tool, tool_type, documents, target, input, envs }));
    }

    /// Lets the executor of `tool` run `call`.
    pub(super) fn execute(&mut self, call: CallAt, tool: &Tool) {
        let (agent, task, open) = (self.agent(call.task).id.clone(), self.id(call.task), self.call(call));
        let (call, input) = (open.id.clone(), tool.effective_input(&open.asked.input, &agent, &open.id));
        self.decision.effects.push(Effect::Execute { task, agent, call, tool: tool.id.clone(), input });
    }

    /// Records an event that arrived too late, or whose task is unknown. Nothing else of the event is applied.
    pub(super) fn record_late(&mut self, task: &TaskId, what: String) {
        let task = self.run.task(task).map(|task| task.id.clone());
        self.control(task, ControlAction::Late { what }, Principal::Engine);
    }

    /// Records something that happened to `task`, or to the run, from outside its turns.
    pub(super) fn control(&mut self, task: Option<TaskId>, action: ControlAction, by: Principal) {
        self.push(Entry::Control(Control { task, action, by }));
    }

    /// Closes `question`, the question of `task`.
    pub(super) fn close_question(&mut self, task: TaskIndex, question: &Question, how: QuestionEnd) {
        self.push(Entry::QuestionClosed(QuestionClosed { task: self.id(task), number: question.number, how }));
    }

    /// Writes a new version of a document for `call`.
    pub(super) fn write_for(&mut self, write: Write, call: CallAt) -> Arc<DocumentVersion> {
        let created_by = Principal::Agent(self.agent(call.task).id.clone());
        let by = (self.id(call.task), self.call(call).id.clone());
        self.write(write, Some(created_by), Some(by))
    }

    /// Writes a new version of a document. The caller must have compared its base with the current version. The job's
    /// own documents have no creator, and documents of people belong to no call.
    pub(super) fn write(
        &mut self,
        write: Write,
        created_by: Option<Principal>,
        by: Option<(TaskId, CallId)>,
    ) -> Arc<DocumentVersion> {
        let current = self.run.shared.documents.get(&write.path).map(|document| Arc::clone(document.current()));
        let base = current.as_ref().map(|current| current.version);
        let (task, call) = by.unzip();
        let version = Arc::new(DocumentVersion {
            path: write.path,
            version: base.unwrap_or(0) + 1,
            base,
            content: write.content,
            description: write
                .description
                .or_else(|| current.as_ref().map(|current| current.description.clone()))
                .unwrap_or_default(),
            tags: write.tags.or_else(|| current.as_ref().map(|current| current.tags.clone())).unwrap_or_default(),
            task,
            call,
            created_by,
            at: self.at,
        });
        self.push(Entry::DocumentWritten(Arc::clone(&version)));
        version
    }
}

impl Run {
    /// Returns the agent that holds `task`. The holder must not be a person.
    pub(super) fn agent_of(&self, task: TaskIndex) -> &Arc<Agent> {
        let task = &self.graph[task];
        let id = task.agent().unwrap_or_else(|| panic!("a person holds task {}", task.id));
        agent(&self.configs, id)
    }

    /// Returns the place of `call`, if its function is running.
    pub(super) fn running_function(&self, call: &CallId) -> Option<CallAt> {
        self.open_call(call, |call| call.is_running() && call.is_function())
    }

    /// Returns the place of `call`, if it is suspended.
    pub(super) fn suspended_call(&self, call: &CallId) -> Option<CallAt> {
        self.open_call(call, |call| call.stage == CallStage::Suspended)
    }

    fn open_call(&self, call: &CallId, is_meant: impl FnOnce(&OpenCall) -> bool) -> Option<CallAt> {
        let task = self.graph.find(call.task_text())?;
        let calls = self.graph[task].phase.calls()?;
        let index = calls.index_of(call)?;
        is_meant(&calls[index]).then_some(CallAt { task, index })
    }
}

/// Returns the number of times in a row that this call gave this result for this input, including this time.
fn repeat(streak: Option<&Streak>, asked: &ModelCall, result: &CallResult) -> u32 {
    match streak {
        Some(streak) if streak.is_of(asked) && streak.is_same(result) => streak.count + 1,
        _ => 1,
    }
}
