//! The sizes of parts and requests, in bytes of text and in tokens (≈).

use super::Part;
use crate::entry::Notice;
use crate::estimate::text_tokens;
use crate::json::Json;
use crate::model::{ModelRequest, ToolDefinition};

/// Bytes that the frame of a message, call or document adds to its text.
pub const FRAME_BYTES: u64 = 64;

/// Returns the tokens of a whole request: a provider's count before it answers.
pub fn request_tokens(request: &ModelRequest) -> u64 {
    let tool = |tool: &ToolDefinition| tool.id.as_str().len() + tool.description.len() + tool.input_schema.text().len();
    let parts = || request.messages.iter().flat_map(|message| &message.parts);
    let texts: usize = parts().map(|part| part_bytes(part) + FRAME_BYTES as usize).sum();
    let tools: usize = request.tools.iter().map(|definition| tool(definition)).sum();
    let documents: u64 = parts()
        .map(|part| match part {
            Part::Document(version) => version.content.token_count,
            Part::Conflict { current, with_changes: true, .. } => current.content.token_count,
            _ => 0,
        })
        .sum();
    text_tokens((request.system.len() + tools + texts) as u64) + documents
}

/// Returns about the number of bytes of text in `part`, without documents.
pub fn part_bytes(part: &Part) -> usize {
    let text = |json: &Json| json.text().len();
    match part {
        Part::Request(text)
        | Part::Text(text)
        | Part::Notice(Notice::Steer { text })
        | Part::Summary { text, .. }
        | Part::Instruction { text, .. } => text.len(),
        Part::Notice(notice @ (Notice::LimitsLeft(_) | Notice::InputChanged(_) | Notice::NotAccepted { .. })) => {
            notice.text().len()
        }
        Part::Question { question, answer_schema, .. } => question.len() + text(answer_schema),
        Part::Attempt { reason, .. } => reason.len(),
        Part::Items(kept) => text(kept),
        Part::Call { asked, .. } => asked.tool.len() + text(&asked.input),
        Part::Result { result, said, .. } => {
            result.as_ref().map_or(0, |result| result.output.text().len())
                + said.iter().map(|said| said.question.len() + text(&said.answer)).sum::<usize>()
        }
        Part::TaskResult(ended) => {
            ended.result.output.text().len()
                + ended.said.iter().map(|said| said.question.len() + text(&said.answer)).sum::<usize>()
        }
        Part::Document(_) | Part::Pointer(_) | Part::Repeated(_) | Part::Conflict { .. } | Part::Notice(_) => 64,
    }
}
