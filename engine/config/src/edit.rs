//! Changing the files of a job by places in them, and telling how two sets of files differ.

use std::collections::BTreeMap;

use baton_types::config::Origin;
use baton_types::limits::Limits;
use serde_json::{Map, Value};

use crate::loader::stem;
use crate::source::{Role, Source, Sources};

/// Why a value cannot be put where it should go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditFault {
    /// The place names no file.
    #[error("{place} does not name a config value; expected job.KEY, agents.ID.KEY, tools.ID.KEY or configs.ID.KEY{}", there_are(.known))]
    NoFile {
        /// The place.
        place: String,
        /// Known names.
        known: Vec<String>,
    },
    /// A quotation mark has no other.
    #[error("{place} cannot be read: a key that begins with a quotation mark must end with one, before a dot or the end")]
    OpenQuote {
        /// The place.
        place: String,
    },
    /// The file cannot be changed by keys.
    #[error("{path} is not a JSON object")]
    NotJson {
        /// The file.
        path: String,
    },
    /// The place leads through something that has no keys.
    #[error("{place} cannot be set: {at} is {found}")]
    NoPlace {
        /// The place.
        place: String,
        /// The part of it that leads nowhere.
        at: String,
        /// Kind of the present value.
        found: &'static str,
    },
}

fn there_are(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; known: {}", known.join(", ")) }
}

impl Sources {
    /// Sets `value` at `place`: `job.KEY`, `agents.ID.KEY`, `tools.ID.KEY` or `configs.ID.KEY`. A key may continue with `.KEY` into
    /// objects and with a number into lists. Quote a key that contains dots: `job.models."a-1.5".price`. `null`
    /// removes the present value. The file is rewritten, so places in it may move.
    ///
    /// Whether the files still make a job is the loader's to say.
    pub fn set(&mut self, place: &str, value: Value) -> Result<(), EditFault> {
        let parts = parts(place).ok_or_else(|| EditFault::OpenQuote { place: place.to_owned() })?;
        let mut parts = parts.into_iter();
        let (kind, no_file) = (parts.next().unwrap_or_default(), |known| EditFault::NoFile { place: place.to_owned(), known });
        let source = match kind {
            "job" => self.file_mut(Role::Job, None),
            "agents" | "tools" | "configs" => {
                let id = parts.next().unwrap_or_default();
                let roles: &[Role] = match kind {
                    "agents" => &[Role::Agent, Role::SharedAgent],
                    "configs" => &[Role::Configuration, Role::SharedConfiguration],
                    _ => &[Role::Tool, Role::SharedTool, Role::BuiltinTool],
                };
                let role = roles.iter().find(|role| self.of(**role).any(|source| stem(&source.path) == id));
                let Some(role) = role else {
                    let known =
                        roles.iter().flat_map(|role| self.of(*role)).map(|source| stem(&source.path).to_owned()).collect();
                    return Err(no_file(known));
                };
                self.file_mut(*role, Some(id))
            }
            _ => None,
        };
        let keys: Vec<&str> = parts.collect();
        let Some(source) = source.filter(|_| keys.iter().all(|key| !key.is_empty()) && !keys.is_empty()) else {
            return Err(no_file(Vec::new()));
        };
        let mut file: Value = serde_json::from_str(&source.text).unwrap_or_default();
        if !file.is_object() {
            return Err(EditFault::NotJson { path: source.path.clone() });
        }
        put(&mut file, &keys, value).map_err(|(depth, found)| EditFault::NoPlace {
            place: place.to_owned(),
            at: keys[..depth].join("."),
            found,
        })?;
        source.text = serde_json::to_string_pretty(&file).expect("JSON always serialises");
        source.origin = source.origin.max(Origin::Person);
        if let ("job", ["limits", limits @ ..]) = (kind, keys.as_slice()) {
            self.outdo_run_limits(limits.first().copied());
        }
        Ok(())
    }

    /// Removes the `limit` of the run's start, or all of them, since the job's own was set.
    fn outdo_run_limits(&mut self, limit: Option<&str>) {
        let Some(source) = self.of(Role::RunLimits).next() else { return };
        let mut form: Value = serde_json::from_str(&source.text).unwrap_or_default();
        if let (Some(limit), Some(limits)) = (limit, form["limits"].as_object_mut()) {
            limits.shift_remove(limit);
        }
        let left = limit.and_then(|_| serde_json::from_value::<Limits>(form["limits"].take()).ok());
        self.limit_run(&left.unwrap_or_default());
    }

    /// Returns the differences of these files from `before`: a line for each, with the keys whose values changed.
    pub fn changes_from(&self, before: &Self) -> Vec<String> {
        let by_name = |sources: &Self| -> BTreeMap<(Role, String), String> {
            sources.files().map(|source| ((source.role, source.path.clone()), source.text.clone())).collect()
        };
        let (was, is) = (by_name(before), by_name(self));
        let mut changes = Vec::new();
        for ((role, path), text) in &is {
            match was.get(&(*role, path.clone())) {
                None => changes.push(format!("{path} is new")),
                Some(earlier) if earlier == text => {}
                Some(earlier) => match (object(earlier), object(text)) {
                    (Some(earlier), Some(now)) => {
                        let keys: Vec<&str> = changed_keys(&earlier, &now);
                        if !keys.is_empty() {
                            changes.push(format!("{path}: {}", keys.join(", ")));
                        }
                    }
                    _ => changes.push(format!("{path} changed")),
                },
            }
        }
        changes.extend(was.keys().filter(|name| !is.contains_key(name)).map(|(_, path)| format!("{path} was removed")));
        changes
    }

    fn file_mut(&mut self, role: Role, id: Option<&str>) -> Option<&mut Source> {
        self.files_mut().find(|source| source.role == role && id.is_none_or(|id| stem(&source.path) == id))
    }
}

/// Returns the parts of `place` between its dots, without the quotation marks of those that have them; `None` if one is missing.
fn parts(place: &str) -> Option<Vec<&str>> {
    let (mut parts, mut rest) = (Vec::new(), place);
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        parts.push(part);
        match after.strip_prefix('.') {
            Some(more) => rest = more,
            None => return after.is_empty().then_some(parts),
        }
    }
}

fn object(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok()
}

fn changed_keys<'a>(before: &'a Map<String, Value>, now: &'a Map<String, Value>) -> Vec<&'a str> {
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    now.keys().filter(|key| before.get(*key) != now.get(*key)).chain(gone).map(String::as_str).collect()
}

/// Sets `value` under `keys`. An error has the number of keys that lead to a value without keys, and the kind of that
/// value.
fn put(target: &mut Value, keys: &[&str], value: Value) -> Result<(), (usize, &'static str)> {
    let Some((last, above)) = keys.split_last() else { return Ok(()) };
    let mut target = target;
    for (depth, key) in above.iter().enumerate() {
        target = match target {
            Value::Object(object) => object.entry((*key).to_owned()).or_insert_with(|| Value::Object(Map::new())),
            Value::Array(list) => {
                let index = key.parse::<usize>().ok();
                index.and_then(|index| list.get_mut(index)).ok_or((depth, "a list without that index"))?
            }
            _ => return Err((depth, "no object or list")),
        };
    }
    match target {
        Value::Object(object) if value.is_null() => {
            object.shift_remove(*last);
        }
        Value::Object(object) => {
            object.insert((*last).to_owned(), value);
        }
        Value::Array(list) => match last.parse::<usize>() {
            Ok(index) if index < list.len() && value.is_null() => {
                list.remove(index);
            }
            Ok(index) if index < list.len() => list[index] = value,
            Ok(index) if index == list.len() && !value.is_null() => list.push(value),
            _ => return Err((above.len(), "a list without that index")),
        },
        _ => return Err((above.len(), "no object or list")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn files() -> Sources {
        let mut sources = Sources::default();
        sources.add(Role::Job, "job.json", json!({"job_id": "j", "limits": {"turns": 5}}).to_string());
        sources.add(Role::Agent, "agents/lead.json", json!({"agent_id": "lead", "tools": ["echo", "handoff"]}).to_string());
        sources.add(Role::Prompt, "prompts/lead.md", "Lead.");
        sources.add(Role::BuiltinTool, "tool-configs/echo.json", json!({"tool_id": "echo"}).to_string());
        sources
    }

    #[test]
    fn values_are_set_and_removed_by_place_and_told_by_file_and_key() {
        let before = files();
        let mut now = files();
        now.set("job.limits.turns", json!(7)).unwrap();
        now.set("agents.lead.system_prompt", json!("Lead well.")).unwrap();
        now.set("agents.lead.tools.0", Value::Null).unwrap();
        now.set("agents.lead.settings.max_tokens", json!(50)).unwrap();
        now.set("tools.echo.description", json!("Says it again.")).unwrap();
        let lead: Value = serde_json::from_str(&now.of(Role::Agent).next().unwrap().text).unwrap();
        assert_eq!(
            lead,
            json!({"agent_id": "lead", "tools": ["handoff"], "system_prompt": "Lead well.", "settings": {"max_tokens": 50}})
        );
        assert_eq!(
            now.changes_from(&before),
            ["job.json: limits", "agents/lead.json: tools, system_prompt, settings", "tool-configs/echo.json: description"]
        );
        assert!(before.changes_from(&files()).is_empty());
    }

    #[test]
    fn a_key_with_dots_stands_in_quotation_marks() {
        let mut files = files();
        files.set(r#"job.models."a-1.5".price.input"#, json!(3)).unwrap();
        files.set(r#"agents."lead".settings."x.y""#, json!(true)).unwrap();
        let of = |role| serde_json::from_str::<Value>(&files.of(role).next().unwrap().text).unwrap();
        assert_eq!(of(Role::Job)["models"], json!({"a-1.5": {"price": {"input": 3}}}));
        assert_eq!(of(Role::Agent)["settings"], json!({"x.y": true}));
        for broken in [r#"job.models."a-1.5.price"#, r#"job.models."a-1"5.price"#, r#"job.""#] {
            assert!(files.set(broken, json!(1)).unwrap_err().to_string().contains("quotation mark"), "{broken}");
        }
    }

    #[test]
    fn a_limit_that_is_set_later_stands_in_place_of_that_of_the_start() {
        let mut files = files();
        files.limit_run(&Limits { tokens: Some(1_000), cost_usd: Some(0.5), ..Limits::default() });
        let of_run = |files: &Sources| files.of(Role::RunLimits).next().map(|source| source.text.clone());
        files.set("job.limits.tokens", json!(2_000)).unwrap();
        assert_eq!(of_run(&files).as_deref(), Some(r#"{"limits":{"cost_usd":0.5}}"#));
        files.set("job.description", json!("Counts.")).unwrap();
        let mut others = super::tests::files();
        others.keep_of_start(&files);
        assert_eq!(of_run(&others), of_run(&files));
        others.set("job.limits", json!({})).unwrap();
        assert_eq!(of_run(&others), None);
    }

    #[test]
    fn a_place_that_leads_nowhere_says_what_there_is() {
        let mut files = files();
        let fault = |files: &mut Sources, place: &str| files.set(place, json!(1)).unwrap_err().to_string();
        assert!(fault(&mut files, "agents.led.model").contains("known: lead"));
        assert!(fault(&mut files, "agents.lead").contains("expected job.KEY"));
        assert!(fault(&mut files, "model").contains("expected job.KEY"));
        assert!(fault(&mut files, "job.limits.turns.most").contains("limits.turns is no object"));
        assert!(fault(&mut files, "agents.lead.tools.9").contains("tools is a list without that index"));
    }
}
