//! XLSX: each sheet as CSV, with the values that its formulas had when the file was saved.

use std::io::Cursor;

use calamine::{Data, DataRef, ExcelDateTime, Reader as _, Xlsx};

use super::{MAX_TEXT_BYTES, TextForm};

/// The most cells that a sheet may have as CSV, empty ones included.
const MAX_CELLS: usize = 8 << 20;

/// Returns the text.
pub(super) fn read(content: &[u8]) -> Result<TextForm, String> {
    let mut book = Xlsx::new(Cursor::new(content)).map_err(|error| format!("it is damaged: {error}"))?;
    let mut form = TextForm::default();
    let mut unread = Vec::new();
    for name in book.sheet_names() {
        match sheet(&mut book, &name) {
            Ok(Sheet { csv, is_cut }) => {
                let is_whole = form.push_section(name.clone(), &format!("# {}\n\n", one_line(&name)), &csv);
                if is_cut {
                    form.add_note(&format!("Sheet {name} is cut."));
                }
                if !is_whole {
                    break;
                }
            }
            // A sheet may be a chart alone.
            Err(_) => unread.push(name),
        }
    }
    if form.sections.is_empty() {
        return Err("no sheet of it can be read".to_owned());
    }
    if !unread.is_empty() {
        form.add_note(&format!("These sheets have no cells that can be read: {}.", unread.join(", ")));
    }
    Ok(form)
}

struct Sheet {
    csv: String,
    is_cut: bool,
}

/// Returns the rows that have a value, each with all columns between the first and the last one of the sheet that has a value.
fn sheet(book: &mut Xlsx<Cursor<&[u8]>>, name: &str) -> Result<Sheet, String> {
    let mut cells = book.worksheet_cells_reader(name).map_err(|error| error.to_string())?;
    let mut rows: Vec<(u32, Vec<(u32, String)>)> = Vec::new();
    let (mut first, mut last, mut bytes, mut is_cut) = (u32::MAX, 0, 0, false);
    while let Some(cell) = cells.next_cell().map_err(|error| error.to_string())? {
        let value = value(cell.get_value());
        if value.is_empty() {
            continue;
        }
        let (row, column) = cell.get_position();
        let (wider_first, wider_last) = (first.min(column), last.max(column));
        bytes += value.len();
        if rows.last().is_none_or(|(number, _)| *number != row) {
            rows.push((row, Vec::new()));
        }
        // A sheet may be sparse: cells are bounded by what they become as CSV.
        let width = (wider_last - wider_first) as usize + 1;
        if bytes > MAX_TEXT_BYTES || rows.len() * width > MAX_CELLS {
            is_cut = true;
            break;
        }
        (first, last) = (wider_first, wider_last);
        if let Some((_, row)) = rows.last_mut() {
            row.push((column, value));
        }
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    for (_, row) in rows {
        let mut record = vec![String::new(); last.saturating_sub(first) as usize + 1];
        for (column, value) in row {
            record[(column - first) as usize] = value;
        }
        writer.write_record(&record).map_err(|error| error.to_string())?;
    }
    let csv = writer.into_inner().map_err(|error| error.to_string())?;
    Ok(Sheet { csv: String::from_utf8(csv).map_err(|error| error.to_string())?, is_cut })
}

/// Returns a value as text: numbers as they are, dates as ISO 8601.
fn value(value: &DataRef<'_>) -> String {
    match value {
        DataRef::Empty => String::new(),
        DataRef::String(text) => text.trim().to_owned(),
        DataRef::SharedString(text) => text.trim().to_owned(),
        DataRef::DateTime(moment) => moment_text(moment),
        DataRef::Error(error) => error.to_string(),
        DataRef::Bool(is_true) => if *is_true { "true" } else { "false" }.to_owned(),
        other => Data::from(other.clone()).to_string(),
    }
}

/// Returns a moment as a date, a time or both; a duration as `hours:minutes:seconds`.
fn moment_text(moment: &ExcelDateTime) -> String {
    if moment.is_duration() {
        let seconds = (moment.as_f64() * 86_400.0).round() as i64;
        let (sign, seconds) = (if seconds < 0 { "-" } else { "" }, seconds.unsigned_abs());
        return format!("{sign}{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, _) = moment.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    let time = format!("{hour:02}:{minute:02}:{second:02}");
    match (moment.as_f64(), hour, minute, second) {
        (_, 0, 0, 0) => date,
        // A time of a day that has no date.
        (serial, ..) if serial < 1.0 => time,
        _ => format!("{date}T{time}"),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
