//! Documents as text, made by hand, hostile ones included.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use baton_tool::ToolContext;
use baton_tool::testing::block_on;
use baton_types::json::Json;
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

/// Calls the function of tool `id`, which succeeds.
fn output(context: &ToolContext, id: &str, input: Value) -> Value {
    let function = baton_tool::registered_functions().into_iter().find(|function| function.id == id).expect("the tool is linked");
    let answer = block_on((function.invoke)(context, &Json::from(input)));
    answer.unwrap_or_else(|error| panic!("{id}: {error}")).value()
}

fn read(path: &str, content: &[u8]) -> Result<DocumentText, String> {
    let context = ToolContext::for_test().with_document(path, content).build();
    block_on(text_of(&context, path)).map_err(|error| error.message)
}

fn form(path: &str, content: &[u8]) -> TextForm {
    match read(path, content) {
        Ok(DocumentText::Form(_, form)) => TextForm { text: form.text.clone(), note: form.note.clone(), sections: Vec::new() },
        Ok(DocumentText::Own(_)) => panic!("{path} was read as it is"),
        Err(reason) => panic!("{reason}"),
    }
}

/// Returns a PDF whose pages show these lines each.
pub(crate) fn pdf(pages: &[&[&str]]) -> Vec<u8> {
    let mut objects = vec!["<< /Type /Catalog /Pages 2 0 R >>".to_owned(), String::new()];
    objects.push("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned());
    let mut kids = String::new();
    for lines in pages {
        let mut content = "BT /F1 12 Tf 72 720 Td".to_owned();
        for line in *lines {
            write!(content, " ({line}) Tj 0 -14 Td").unwrap();
        }
        content.push_str(" ET");
        let page = objects.len() + 1;
        write!(kids, "{page} 0 R ").unwrap();
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
            page + 1
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
    }
    objects[1] = format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", pages.len());
    let mut file = "%PDF-1.4\n".to_owned();
    let mut offsets = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        write!(file, "{} 0 obj\n{object}\nendobj\n", number + 1).unwrap();
    }
    let table = file.len();
    write!(file, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    for offset in &offsets {
        writeln!(file, "{offset:010} 00000 n ").unwrap();
    }
    write!(file, "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n", objects.len() + 1).unwrap();
    file.into_bytes()
}

fn package(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut package = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        package.start_file(*name, SimpleFileOptions::default()).unwrap();
        package.write_all(content).unwrap();
    }
    package.finish().unwrap().into_inner()
}

fn docx(body: &str) -> Vec<u8> {
    let document = format!("<w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>");
    let styles = "<w:styles xmlns:w=\"w\"><w:style w:styleId=\"berschrift2\"><w:name w:val=\"heading 2\"/></w:style></w:styles>";
    package(&[("word/document.xml", document.as_bytes()), ("word/styles.xml", styles.as_bytes())])
}

/// Returns a workbook with these sheets: names, and rows as XML.
pub(crate) fn xlsx(sheets: &[(&str, &str)]) -> Vec<u8> {
    let (mut list, mut relations) = (String::new(), String::new());
    let mut parts = Vec::new();
    for (at, (name, rows)) in sheets.iter().enumerate() {
        let id = at + 1;
        write!(list, "<sheet name=\"{name}\" sheetId=\"{id}\" r:id=\"rId{id}\"/>").unwrap();
        write!(relations, "<Relationship Id=\"rId{id}\" Type=\"{OFFICE}/worksheet\" Target=\"worksheets/sheet{id}.xml\"/>")
            .unwrap();
        let sheet = format!("<worksheet xmlns=\"{MAIN}\"><sheetData>{rows}</sheetData></worksheet>");
        parts.push((format!("xl/worksheets/sheet{id}.xml"), sheet));
    }
    parts.push((
        "xl/workbook.xml".to_owned(),
        format!("<workbook xmlns=\"{MAIN}\" xmlns:r=\"{OFFICE}\"><sheets>{list}</sheets></workbook>"),
    ));
    parts.push((
        "xl/_rels/workbook.xml.rels".to_owned(),
        format!("<Relationships xmlns=\"{PACKAGE}\">{relations}</Relationships>"),
    ));
    let root = format!(
        "<Relationships xmlns=\"{PACKAGE}\"><Relationship Id=\"rId1\" Type=\"{OFFICE}/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>"
    );
    parts.push(("_rels/.rels".to_owned(), root));
    let styles =
        format!("<styleSheet xmlns=\"{MAIN}\"><cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/></cellXfs></styleSheet>");
    parts.push(("xl/styles.xml".to_owned(), styles));
    package(&parts.iter().map(|(name, content)| (name.as_str(), content.as_bytes())).collect::<Vec<_>>())
}

const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006/relationships";

#[test]
fn a_pdf_is_read_page_by_page() {
    let file = pdf(&[&["Quarterly report", "Revenue grew."], &["Appendix"]]);
    let Ok(DocumentText::Form(Format::Pdf, form)) = read("a.pdf", &file) else { panic!("it cannot be read") };
    let pages: Vec<_> = form.sections.iter().map(|page| (page.title.as_str(), &form.text[page.range.clone()])).collect();
    assert_eq!(pages, [("page 1", "Quarterly report\nRevenue grew.\n"), ("page 2", "Appendix\n")]);
    assert_eq!(form.note, None);
}

#[test]
fn a_pdf_without_text_says_so() {
    assert_eq!(form("a.pdf", &pdf(&[&[]])).note.as_deref(), Some("No text was found. The pages may be images."));
}

#[test]
fn a_docx_is_read_as_markdown() {
    let p = |properties: &str, text: &str| format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>");
    let item = "<w:numPr><w:ilvl w:val=\"0\"/><w:numId w:val=\"1\"/></w:numPr>";
    let cell = |text: &str| format!("<w:tc>{}</w:tc>", p("", text));
    let table =
        format!("<w:tbl><w:tr>{}{}</w:tr><w:tr>{}{}</w:tr></w:tbl>", cell("Region"), cell("Units"), cell("A|B"), cell("3"));
    let deleted = "<w:p><w:del><w:r><w:delText>gone</w:delText><w:t>gone</w:t></w:r></w:del></w:p>";
    let body = [
        p("<w:pStyle w:val=\"berschrift2\"/>", "Sales &amp; costs"),
        p("", "Sm&#246;rg&lt;1&gt;"),
        p(item, "first"),
        p(item, "second"),
        deleted.to_owned(),
        p("", "After"),
        table,
    ];
    let text = form("a.docx", &docx(&body.concat())).text;
    assert_eq!(
        text,
        "## Sales & costs\n\nSmörg<1>\n\n- first\n- second\n\nAfter\n\n| Region | Units |\n| --- | --- |\n| A\\|B | 3 |\n\n"
    );
}

#[test]
fn a_table_after_a_list_item_is_a_block_of_its_own() {
    let item = "<w:p><w:pPr><w:numPr><w:ilvl w:val=\"0\"/></w:numPr></w:pPr><w:r><w:t>item</w:t></w:r></w:p>";
    let table = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc></w:tr></w:tbl>";
    let text = form("a.docx", &docx(&[item, item, table, item].concat())).text;
    assert_eq!(text, "- item\n- item\n\n| cell |\n| --- |\n\n- item\n");
}

#[test]
fn an_xlsx_is_read_as_the_csv_of_each_sheet() {
    let cell = |at: &str, text: &str| format!("<c r=\"{at}\" t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let rows = format!(
        "<row r=\"2\">{}{}{}</row><row r=\"9\"><c r=\"B9\"><v>4.5</v></c><c r=\"C9\" s=\"1\"><v>45000</v></c><c r=\"D9\" t=\"b\"><v>1</v></c></row>",
        cell("B2", "units"),
        cell("C2", "day, local"),
        cell("D2", "paid")
    );
    let file = xlsx(&[("Q3", &rows), ("Empty", "")]);
    let Ok(DocumentText::Form(Format::Xlsx, form)) = read("a.xlsx", &file) else { panic!("it cannot be read") };
    assert_eq!(form.text, "# Q3\n\nunits,\"day, local\",paid\n4.5,2023-03-15,true\n\n# Empty\n\n\n\n");
    assert_eq!(form.sections[1].title, "Empty");
    assert!(form.sections[1].range.is_empty());
}

#[test]
fn what_cannot_be_read_is_an_error_with_its_reason() {
    let reason = |path: &str, content: &[u8]| read(path, content).err().expect("an error");
    assert_eq!(
        reason("a.png", b"\x89PNG\r\n\x1a\n\xff"),
        "document a.png is image/png; text, PDF, DOCX and XLSX can be read as text"
    );
    assert!(reason("a.pdf", b"%PDF-1.7\xff").starts_with("document a.pdf cannot be read as PDF: it is damaged"));
    assert!(reason("a.docx", b"PK\x03\x04\xff").contains("it is not a ZIP archive"));
    assert!(reason("b.docx", &package(&[("other.xml", b"<a/>")])).ends_with("it has no part word/document.xml"));
    assert!(reason("a.xlsx", &package(&[("other.xml", b"<a/>")])).starts_with("document a.xlsx cannot be read as XLSX: "));
    let half = docx("<w:p>");
    assert!(reason("c.docx", &half[..half.len() / 2]).contains("it is not a ZIP archive"));
}

#[test]
fn hostile_documents_end_their_reader_and_nothing_else() {
    let reason = |path: &str, content: &[u8]| read(path, content).err().expect("an error");
    let bomb = package(&[("word/document.xml", &vec![b' '; 129 << 20])]);
    assert!(bomb.len() < 1 << 20);
    assert_eq!(reason("bomb.docx", &bomb), "document bomb.docx cannot be read as DOCX: word/document.xml has more than 128 MiB");
    // A list that claims to have more strings than memory can hold.
    let strings = format!("<sst xmlns=\"{MAIN}\" uniqueCount=\"100000000000\"></sst>");
    let mut claims = ZipWriter::new_append(Cursor::new(xlsx(&[("S", "")]))).unwrap();
    claims.start_file("xl/sharedStrings.xml", SimpleFileOptions::default()).unwrap();
    claims.write_all(strings.as_bytes()).unwrap();
    let claims = claims.finish().unwrap().into_inner();
    assert!(reason("claims.xlsx", &claims).contains("its reader failed"), "{}", reason("claims.xlsx", &claims));
    // Brackets deep enough to exhaust a stack.
    let deep = format!("%PDF-1.4\n1 0 obj\n{}\nendobj\ntrailer\n<< /Root 1 0 R >>\n", "[".repeat(1 << 20));
    assert!(reason("deep.pdf", deep.as_bytes()).starts_with("document deep.pdf cannot be read as PDF: "));
}

#[test]
fn a_document_that_ends_early_and_a_stray_cell_are_noted() {
    let half = "<w:document xmlns:w=\"w\"><w:body><w:p><w:r><w:t>whole</w:t></w:r></w:p><w:p><w:r><w:t>lost te";
    let half = form("half.docx", &package(&[("word/document.xml", half.as_bytes())]));
    assert!(half.text.starts_with("whole\n"), "{}", half.text);
    assert_eq!(half.note.as_deref(), Some("The document is damaged: its text ends early."));
    let mut rows: Vec<String> = (1..=2_000).map(|row| format!("<row r=\"{row}\"><c r=\"A{row}\"><v>1</v></c></row>")).collect();
    rows[1_999] = "<row r=\"2000\"><c r=\"A2000\"><v>1</v></c><c r=\"XFD2000\"><v>2</v></c></row>".to_owned();
    let stray = form("stray.xlsx", &xlsx(&[("S", &rows.concat())]));
    assert_eq!(stray.note.as_deref(), Some("Sheet S is cut."));
    assert!(stray.text.lines().filter(|line| *line == "1").count() >= 1_999, "the rows before it are read");
}

#[test]
fn deep_xml_and_sparse_sheets_are_read_within_bounds() {
    let deep = docx(&format!("{}<w:p><w:r><w:t>core</w:t></w:r></w:p>{}", "<a>".repeat(300_000), "</a>".repeat(300_000)));
    assert_eq!(form("deep.docx", &deep).text, "core\n\n");
    let rows: Vec<String> = (1..=600)
        .map(|row| format!("<row r=\"{row}\"><c r=\"A{row}\"><v>1</v></c><c r=\"XFD{row}\"><v>2</v></c></row>"))
        .collect();
    assert_eq!(form("sparse.xlsx", &xlsx(&[("S", &rows.concat())])).note.as_deref(), Some("Sheet S is cut."));
}

fn workbook() -> Vec<u8> {
    let text = |at: &str, text: &str| format!("<c r=\"{at}\" t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let rows = |units: u32| {
        let head = format!("<row r=\"1\">{}{}</row>", text("A1", "region; code"), text("B1", "units"));
        format!("{head}<row r=\"2\">{}<c r=\"B2\"><v>{units}</v></c></row>", text("A2", "North"))
    };
    xlsx(&[("Q3", &rows(3)), ("Q4 plan", &rows(5)), ("Empty", "")])
}

#[test]
fn load_to_context_reads_a_pdf_by_page_block_and_line() {
    let context = ToolContext::for_test().with_document("a.pdf", pdf(&[&["One", "Two"], &["Three"]])).build();
    let load = |input: Value| output(&context, "load_to_context", input);
    let page = load(json!({"path": "a.pdf", "page": 2}));
    assert_eq!((&page["text"], &page["pages_count"]), (&json!("Three\n"), &json!(2)));
    assert_eq!(load(json!({"path": "a.pdf", "block_id": "0"}))["text"], "One\nTwo\n");
    let lines = load(json!({"path": "a.pdf", "from_line": 2, "to_line": 2}));
    assert_eq!((&lines["text"], &lines["last_line"]), (&json!("Two\n"), &json!(2)));
    assert_eq!(context.take_effects().reads.len(), 1);
    let whole = load(json!({"path": "a.pdf", "with_blocks": true}));
    assert_eq!((&whole["type"], &whole["pages_count"], &whole["blocks_count"]), (&json!("document"), &json!(2), &json!(2)));
    assert_eq!(whole["blocks"][1], json!({"block_id": "1", "block_type": "page", "preview": "page 2: Three"}));
    assert!(whole["note"].as_str().unwrap().contains("read the text by page"), "{whole}");
    assert_eq!(context.take_effects().loads.len(), 1, "models with PDF input get the bytes");
    let damaged = ToolContext::for_test().with_document("a.pdf", b"%PDF-1.7\xff").build();
    let error = output(&damaged, "load_to_context", json!({"path": "a.pdf", "page": 1}));
    assert!(error["error"].as_str().unwrap().starts_with("document a.pdf cannot be read as PDF: it is damaged"), "{error}");
    assert!(output(&damaged, "load_to_context", json!({"path": "a.pdf"}))["note"].as_str().unwrap().contains("it is damaged"));
}

#[test]
fn load_to_context_shows_the_text_of_what_no_model_is_shown() {
    let context = ToolContext::for_test().with_document("b.xlsx", workbook()).with_document("c.docx", docx("<w:p/>")).build();
    let whole = output(&context, "load_to_context", json!({"path": "b.xlsx", "with_blocks": true}));
    assert_eq!(whole["type"], "part");
    assert!(whole["text"].as_str().unwrap().starts_with("# Q3\n\nregion; code,units\nNorth,3\n\n# Q4 plan\n"), "{whole}");
    assert_eq!(whole["blocks"][1]["preview"], "Q4 plan: region; code,units North,5");
    let sheet = output(&context, "load_to_context", json!({"path": "b.xlsx", "block_id": "1"}));
    assert_eq!(sheet["text"], "region; code,units\nNorth,5\n");
    assert_eq!(output(&context, "load_to_context", json!({"path": "c.docx"}))["note"], "No text was found.");
    let effects = context.take_effects();
    assert_eq!((effects.reads.len(), effects.loads.len()), (2, 0));
}

#[test]
fn search_documents_finds_the_page_and_the_sheet() {
    let context = ToolContext::for_test()
        .with_document("a.pdf", pdf(&[&["One"], &["The North grew."]]))
        .with_document("b.xlsx", workbook())
        .with_document("c.docx", b"PK\x03\x04\xff")
        .build();
    let found = output(&context, "search_documents", json!({"query": "north"}));
    assert_eq!(found["matches"][0]["snippets"], json!([{"line": 3, "section": "page 2", "text": "The North grew."}]));
    let sheets: Vec<_> =
        found["matches"][1]["snippets"].as_array().unwrap().iter().map(|place| place["section"].clone()).collect();
    assert_eq!(sheets, ["Q3", "Q4 plan"]);
    assert_eq!(found["unread"][0]["path"], "c.docx");
    assert!(found["unread"][0]["reason"].as_str().unwrap().contains("it is not a ZIP archive"), "{found}");
}

#[test]
fn the_sheets_of_a_workbook_are_tables() {
    let context = ToolContext::for_test()
        .with_document("book.xlsx", workbook())
        .with_document("book_Q3.csv", "units\n9\n")
        .with_document(
            "one.xlsx",
            xlsx(&[("Only", "<row r=\"1\"><c r=\"A1\"><v>1</v></c></row><row r=\"2\"><c r=\"A2\"><v>7</v></c></row>")]),
        )
        .build();
    let rows = |sql: &str| output(&context, "query_data", json!({"sql": sql}))["rows"].clone();
    assert_eq!(rows("SELECT units FROM \"book_Q4_plan\""), json!([{"units": 5}]));
    assert_eq!(rows("SELECT \"1\" AS n FROM one"), json!([{"n": 7}]));
    let named = output(&context, "query_data", json!({"sql": "SELECT units FROM book_Q3", "documents": ["book.xlsx"]}));
    assert_eq!(named["rows"], json!([{"units": 3}]));
    let tables: Vec<_> = named["tables"].as_array().unwrap().iter().map(|table| table["table"].clone()).collect();
    assert_eq!(tables, ["book_Q3", "book_Q4_plan"], "an empty sheet is no table");
}

#[test]
fn ask_data_reads_the_text_of_a_pdf() {
    let context = ToolContext::for_test()
        .with_document("a.pdf", pdf(&[&["The North grew by 12 percent."]]))
        .with_document("scan.pdf", pdf(&[&[]]))
        .with_model(|ask| {
            let parts = format!("{:?}", ask.messages[0].parts);
            assert!(parts.contains("The North grew by 12 percent."), "{parts}");
            assert!(parts.contains("scan.pdf"), "a PDF without text is sent as a document: {parts}");
            Err(baton_tool::ToolError::new("seen"))
        })
        .build();
    let function = baton_tool::registered_functions().into_iter().find(|function| function.id == "ask_data").unwrap();
    let input = Json::from(json!({"file_paths": ["a.pdf", "scan.pdf"], "question": "How much?", "model": "m"}));
    assert_eq!(block_on((function.invoke)(&context, &input)).unwrap_err().message, "seen");
}
