//! Names of tables: from the names of files, so that an agent can guess them.
//!
//! The same documents always get the same names. Documents whose names would collide all get longer ones, so no
//! document's name depends on the order in which they were written.

use std::collections::BTreeMap;

use baton_types::path::DocumentPath;

/// Words that SQLite would not read as a table's name without quotes, as far as files are likely to be called so.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "add", "all", "alter", "and", "as", "between", "by", "case", "check", "commit", "create", "default", "delete",
    "distinct", "drop", "else", "except", "exists", "foreign", "from", "group", "having", "in", "index", "insert", "into",
    "is", "isnull", "join", "limit", "not", "notnull", "null", "on", "or", "order", "primary", "references", "returning",
    "select", "set", "table", "then", "to", "transaction", "union", "unique", "update", "using", "values", "when", "where",
];

/// Returns the name of the table of each path, in the order of `paths`.
pub(super) fn table_names(paths: &[&DocumentPath]) -> Vec<String> {
    let candidates: Vec<[String; 3]> = paths.iter().map(|path| candidates(path.as_str())).collect();
    let mut level = vec![0_usize; paths.len()];
    loop {
        let mut holders: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, names) in candidates.iter().enumerate() {
            holders.entry(names[level[index]].to_lowercase()).or_default().push(index);
        }
        let crowded: Vec<usize> = holders.into_values().filter(|group| group.len() > 1).flatten().collect();
        let rising: Vec<usize> = crowded.iter().copied().filter(|index| level[*index] < 2).collect();
        if rising.is_empty() {
            return numbered(candidates.iter().zip(&level).map(|(names, level)| names[*level].clone()).collect());
        }
        for index in rising {
            level[index] += 1;
        }
    }
}

/// Returns the names of the tables of a workbook's sheets. A sheet that is alone has the name of the workbook.
pub(super) fn sheet_names(book: &str, titles: &[&str]) -> Vec<String> {
    match titles {
        [_] => vec![book.to_owned()],
        _ => numbered(titles.iter().map(|title| identifier(&format!("{book}_{title}"))).collect()),
    }
}

/// Returns the names that a path may get, from the shortest: file name, whole path, whole path with its extension.
fn candidates(path: &str) -> [String; 3] {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| if stem.is_empty() { file } else { stem });
    let long = if folder.is_empty() { stem.to_owned() } else { format!("{folder}/{stem}") };
    [identifier(stem), identifier(&long), identifier(path)]
}

/// Makes `text` a word that SQL reads without quotes.
fn identifier(text: &str) -> String {
    let word: String = text.chars().map(|character| if character.is_alphanumeric() { character } else { '_' }).collect();
    let lower = word.to_lowercase();
    let needs_prefix = word.starts_with(|first: char| first.is_numeric())
        || lower.starts_with("sqlite_")
        || word.chars().all(|character| character == '_')
        || RESERVED.contains(&lower.as_str());
    if needs_prefix { format!("t_{word}") } else { word }
}

/// Numbers the names that are still the same.
pub(super) fn numbered(names: Vec<String>) -> Vec<String> {
    let mut taken = std::collections::BTreeSet::new();
    let unique = |name: String| {
        let mut candidate = name.clone();
        let mut count = 1;
        while !taken.insert(candidate.to_lowercase()) {
            count += 1;
            candidate = format!("{name}_{count}");
        }
        candidate
    };
    names.into_iter().map(unique).collect()
}

/// Whether `sql` mentions `name` as a word, quoted or not; case does not count.
pub(super) fn mentions(sql: &str, name: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    sql.split(|character| !is_word(character)).any(|word| word.to_lowercase() == name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> Vec<String> {
        let paths: Vec<DocumentPath> = paths.iter().map(|path| DocumentPath::parse(path).unwrap()).collect();
        table_names(&paths.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_table_is_named_after_its_file() {
        assert_eq!(names(&["sales_raw.csv", "data/iowa-electricity.csv"]), ["sales_raw", "iowa_electricity"]);
    }

    #[test]
    fn names_that_sql_would_misread_get_a_prefix() {
        let odd = names(&["order.csv", "2024.csv", "sqlite_master.csv", "%%.csv", "Größe 1.csv", ".csv"]);
        assert_eq!(odd, ["t_order", "t_2024", "t_sqlite_master", "t___", "Größe_1", "_csv"]);
    }

    #[test]
    fn colliding_names_all_get_longer_ones_whatever_their_order() {
        assert_eq!(names(&["a/x.csv", "b/x.csv", "c/y.csv"]), ["a_x", "b_x", "y"]);
        assert_eq!(names(&["b/x.csv", "a/x.csv"]), ["b_x", "a_x"]);
        assert_eq!(names(&["x.csv", "x.json"]), ["x_csv", "x_json"]);
        assert_eq!(names(&["a-b.csv", "a b.csv"]), ["a_b_csv", "a_b_csv_2"]);
    }

    #[test]
    fn a_mention_is_a_whole_word() {
        assert!(mentions("SELECT * FROM Sales_Raw s", "sales_raw"));
        assert!(mentions("SELECT * FROM \"sales_raw\"", "sales_raw"));
        assert!(!mentions("SELECT * FROM sales_raw_2", "sales_raw"));
    }
}
