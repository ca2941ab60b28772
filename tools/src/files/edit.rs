//! `edit_file_block`: one block of a text document, every other byte left as it is.

use baton_macros::tool;
use baton_tool::{PendingWrite, ToolContext, ToolError, parse_path};
use baton_types::document::DocumentVersion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::blocks::{self, BlockType, Change, Changed};
use super::doc_type;

/// Change of a block.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Operation {
    /// Some of its fields change.
    Update,
    /// A new block is inserted.
    Add,
    /// Another block takes its place.
    Replace,
    /// It is removed.
    Delete,
}

#[derive(Debug, Serialize)]
struct Edited {
    success: bool,
    operation: Operation,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Changes one block of the document at `path`. What cannot be done is an answer and not a failure.
#[tool(preview = edited_text)]
async fn edit_file_block(
    context: &ToolContext,
    path: String,
    operation: Operation,
    block_id: Option<String>,
    block_type: Option<BlockType>,
    new_data: Option<Map<String, Value>>,
    position: Option<u32>,
) -> Result<Edited, ToolError> {
    let request = Request { operation, block_id: block_id.clone(), block_type, new_data, position };
    Ok(match change(context, &path, request).await {
        Ok(changed) => Edited {
            success: true,
            operation,
            block_id: Some(changed.id.to_string()),
            blocks_count: Some(changed.count),
            error: None,
        },
        Err(reason) => Edited { success: false, operation, block_id, blocks_count: None, error: Some(reason) },
    })
}

#[derive(Deserialize)]
struct Request {
    operation: Operation,
    block_id: Option<String>,
    block_type: Option<BlockType>,
    new_data: Option<Map<String, Value>>,
    position: Option<u32>,
}

/// Makes the change and collects the write, or returns the reason for a refusal.
async fn change(context: &ToolContext, path: &str, request: Request) -> Result<Changed, String> {
    let change = understand(request)?;
    let version = context.document(path).map_err(|error| error.message)?;
    let content = context.read(path).await.map_err(|error| error.message)?;
    let changed = changed(&change, version, &content)?;
    let path = parse_path(path).map_err(|error| error.message)?;
    let mut write = PendingWrite::new(path, changed.text.as_bytes());
    // The bytes of a document under an odd name may not give its type away.
    write.mime_type = Some(version.content.mime_type.clone());
    context.write(write).map_err(|error| error.message)?;
    Ok(changed)
}

/// Returns the document `version` with the content `content`, changed.
fn changed(change: &Change, version: &DocumentVersion, content: &[u8]) -> Result<Changed, String> {
    let path = &version.path;
    let text = std::str::from_utf8(content).map_err(|_| format!("{path} is not text, so it has no blocks"))?;
    blocks::edit(text, doc_type(content, version), change).map_err(|reason| format!("{path} was not changed: {reason}"))
}

/// Returns the text that a call with `input` makes of the document `version`, or why it changes nothing.
fn edited_text(input: &Value, version: &DocumentVersion, content: &[u8]) -> Result<String, String> {
    let request = Request::deserialize(input).map_err(|error| error.to_string())?;
    changed(&understand(request)?, version, content).map(|changed| changed.text)
}

/// Returns the change that the parameters describe together.
fn understand(request: Request) -> Result<Change, String> {
    let Request { operation, block_id, block_type, new_data, position } = request;
    if position.is_some() && operation != Operation::Add {
        return Err("position is for add; the other operations take block_id".to_owned());
    }
    let id = |block_id: &str| {
        block_id.trim().parse::<usize>().map_err(|_| format!("{block_id:?} is not a block id; ids are numbers such as \"3\""))
    };
    match (operation, block_id, block_type, new_data) {
        (Operation::Update, Some(block_id), _, Some(data)) => Ok(Change::Update { id: id(&block_id)?, data }),
        (Operation::Update, ..) => Err("update needs block_id and new_data".to_owned()),
        (Operation::Replace, Some(block_id), Some(block_type), Some(data)) => {
            Ok(Change::Replace { id: id(&block_id)?, block_type, data })
        }
        (Operation::Replace, ..) => Err("replace needs block_id, block_type and new_data".to_owned()),
        (Operation::Add, _, Some(block_type), Some(data)) => {
            Ok(Change::Add { position: position.map(|position| position as usize), block_type, data })
        }
        (Operation::Add, ..) => Err("add needs block_type and new_data".to_owned()),
        (Operation::Delete, Some(block_id), ..) => Ok(Change::Delete { id: id(&block_id)? }),
        (Operation::Delete, ..) => Err("delete needs block_id".to_owned()),
    }
}
