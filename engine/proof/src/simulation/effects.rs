//! Effects of tools on the outside world, by idempotency key (`no_effect_twice`).

use std::collections::BTreeMap;

use baton_types::config::EffectClass;
use baton_types::id::CallId;
use baton_types::json::Json;

use crate::script::Execution;

/// Everything that calls did outside.
#[derive(Default)]
pub(super) struct Effects {
    by_key: BTreeMap<CallId, Effect>,
}

struct Effect {
    input: Json,
    /// Number of starts of an executor.
    started: u32,
    /// Number of visible effects.
    visible: u32,
}

impl Effects {
    /// Records that an executor of a call of `class` starts; `finished` is true if the call has a durable result. An
    /// error describes a violation.
    pub(super) fn start(&mut self, execution: &Execution, class: EffectClass, finished: bool) -> Result<(), String> {
        let call = &execution.call;
        let new = || Effect { input: execution.input.clone(), started: 0, visible: 0 };
        let effect = self.by_key.entry(call.clone()).or_insert_with(new);
        effect.started += 1;
        if effect.input != execution.input {
            return Err(format!("{call} was started again with another input"));
        }
        if class == EffectClass::AtMostOnce && effect.started > 1 {
            return Err(format!("{call} may run once at most and was started {} times", effect.started));
        }
        if finished && effect.started > 1 {
            return Err(format!("{call} has its result and was started again"));
        }
        Ok(())
    }

    /// Records the effect of an executor. A keyed one has its effect once. An idempotent one repeats it without a
    /// visible difference.
    pub(super) fn happen(&mut self, call: &CallId, class: EffectClass) -> Result<(), String> {
        let Some(effect) = self.by_key.get_mut(call) else { return Err(format!("{call} happens and was never started")) };
        match class {
            EffectClass::Pure => {}
            EffectClass::Idempotent | EffectClass::Keyed => effect.visible = 1,
            EffectClass::AtMostOnce => effect.visible += 1,
        }
        if effect.visible > 1 {
            return Err(format!("{call} happened {} times", effect.visible));
        }
        Ok(())
    }

    /// Records the effect of a tool service. However often it gets the command of a call, it has one.
    pub(super) fn serve(&mut self, call: &CallId) -> Result<(), String> {
        let new = || Effect { input: Json::null(), started: 1, visible: 0 };
        let effect = self.by_key.entry(call.clone()).or_insert_with(new);
        effect.visible += 1;
        if effect.visible > 1 { Err(format!("{call} happened {} times at its service", effect.visible)) } else { Ok(()) }
    }
}
