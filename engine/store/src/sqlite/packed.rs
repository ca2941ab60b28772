//! The text of a batch as it is stored: compressed, since a commit writes whole pages and each costs time.
//!
//! A batch is short, and most of its bytes are names of fields, which are in every batch. So it is compressed with [`USUAL`], a text
//! that has them: the parts that a batch has in common with it become references. The checksum and the link of a row are made of its
//! text, so they do not depend on how it is stored.

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict, uncompressed_size};
use rusqlite::types::ValueRef;

use crate::rows::{self, EntryRow};
use crate::{Batch, StoreError};

/// An invented batch with the most usual entries, the rarer ones first. It is part of the format of the file: a text that was
/// compressed with another one cannot be read.
const USUAL: &[u8] = include_bytes!("usual.json");

/// A row whose text is compressed.
pub(super) type PackedRow = EntryRow<Vec<u8>>;

/// The most bytes of text that one compressed byte can become, by the format of LZ4 blocks.
const MOST_BYTES_EACH: usize = 255;

/// The most bytes of a row's text. A row takes no further entry from 32 KiB on, so this bounds one entry: the answer of a model has at
/// most 32 MiB, and an output that is this long should be a document. A short file may have many long rows, so it is no higher.
const MOST_BYTES: usize = 256 << 20;

/// Returns the rows of `batch`, each with its text as it is stored.
pub(super) fn rows_of(batch: &Batch) -> Result<Vec<PackedRow>, StoreError> {
    let packed = |row: EntryRow| {
        let EntryRow { first, last, tasks, text, body } = row;
        Ok(EntryRow { first, last, tasks, text: pack(&text)?, body })
    };
    rows::of_batch(batch).into_iter().map(packed).collect()
}

/// Returns `text` as it is stored: its length (4 bytes, little-endian), and an LZ4 block. Refuses a text that [`unpack`] would refuse.
pub(super) fn pack(text: &str) -> Result<Vec<u8>, StoreError> {
    if text.len() > MOST_BYTES {
        return Err(StoreError::TooLong { size: text.len(), limit: MOST_BYTES });
    }
    Ok(compress_prepend_size_with_dict(text.as_bytes(), USUAL))
}

/// Returns the text of a value that [`pack`] made, or the reason why it cannot be read: a file that was received may have any value.
pub(super) fn unpack(stored: ValueRef<'_>) -> Result<String, String> {
    let damaged = |why: &dyn std::fmt::Display| format!("the stored bytes cannot be decompressed: {why}");
    let packed = stored.as_blob().map_err(|error| damaged(&error))?;
    let (size, block) = uncompressed_size(packed).map_err(|error| damaged(&error))?;
    // Checked first, since memory for the whole text is allocated before the block is read.
    if size > block.len().saturating_mul(MOST_BYTES_EACH).min(MOST_BYTES) {
        return Err(damaged(&format!("{} bytes cannot become {size}", block.len())));
    }
    let text = decompress_size_prepended_with_dict(packed, USUAL).map_err(|error| damaged(&error))?;
    if text.len() != size {
        return Err(damaged(&format!("they become {} bytes, not {size}", text.len())));
    }
    String::from_utf8(text).map_err(|error| damaged(&error))
}

#[cfg(test)]
mod tests {
    use baton_types::id::ContentHash;

    use super::*;
    use crate::sqlite::FORMAT_VERSION;

    fn unpacked(packed: &[u8]) -> Result<String, String> {
        unpack(ValueRef::Blob(packed))
    }

    #[test]
    fn a_text_is_read_as_it_was_packed() {
        let usual = std::str::from_utf8(USUAL).expect("JSON is UTF-8");
        let long = "Umsatz in Zürich, und so weiter. ".repeat(4_000);
        for text in ["", "[]", "é", usual, &long, &usual[1_000..]] {
            let packed = pack(text).expect("not too long");
            assert_eq!(unpacked(&packed).expect("as packed"), text);
        }
    }

    #[test]
    fn a_usual_batch_needs_less_than_half_of_its_bytes() {
        let text = concat!(
            r#"[[7,1700000000000000,{"budget_settled":{"task":"0/2.1","turn":4,"reserved_tokens":812,"#,
            r#""usage":{"input_tokens":412,"output_tokens":9,"estimated":true}}}],"#,
            r#"[7,1700000000000000,{"call_started":{"task":"0/2.1","call":"0/2.1/4.1","tool":"look_up","tool_type":"function_tool"}}],"#,
            r#"[8,1700000000000000,{"model_requested":{"task":"0/2.1","turn":5,"model":"m","input_tokens":430,"reserved_tokens":830}}]]"#,
        );
        let packed = pack(text).expect("not too long");
        assert!(packed.len() * 2 < text.len(), "{} of {} bytes", packed.len(), text.len());
    }

    #[test]
    fn what_was_not_packed_is_refused() {
        let right = pack("[[1,2,{}]]").expect("not too long");
        let too_long = [&u32::MAX.to_le_bytes()[..], &right[4..]].concat();
        let too_short = [&3_u32.to_le_bytes()[..], &right[4..]].concat();
        // A reference to bytes before the usual text.
        let far = [&64_u32.to_le_bytes()[..], &[0x0f, 0xff, 0xff, 45, 0]].concat();
        let not_text = [&1_u32.to_le_bytes()[..], &[0x10, 0xff]].concat();
        for damaged in [&b""[..], b"[[", b"\x05\0\0\0", &too_long, &too_short, &right[..right.len() - 1], &far, &not_text] {
            let refused = unpacked(damaged).expect_err("damaged");
            assert!(refused.contains("cannot be decompressed"), "{refused}");
        }
        assert!(unpacked(&too_long).expect_err("a long text").contains("cannot become"));
        assert!(unpack(ValueRef::Text(b"[]")).is_err());
    }

    #[test]
    fn a_text_that_would_not_be_read_is_not_written() {
        let too_long = " ".repeat(MOST_BYTES + 1);
        assert!(matches!(pack(&too_long), Err(StoreError::TooLong { .. })));
        // A block of so many bytes can become more, but not in a store.
        let forged = [&(too_long.len() as u32).to_le_bytes()[..], &vec![0; MOST_BYTES / 128]].concat();
        assert!(unpacked(&forged).expect_err("too long").contains("cannot become"));
    }

    #[test]
    fn the_usual_text_changes_only_with_the_format() {
        let hash = ContentHash::of(USUAL).to_string()[..16].to_owned();
        assert_eq!((FORMAT_VERSION, hash.as_str()), (17, "c4197f373aab7293"));
    }
}
