//! Possible states of a folder after a loss of power: everything that was synced, and any part of the rest.
//!
//! Each operation on a file since its last sync may be kept, lost or (a write) torn, in any combination: a disk guarantees
//! nothing before a sync. Sectors of 512 bytes are whole, and bytes that were not written are as they were; SQLite counts on
//! both (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`).

use std::collections::BTreeMap;
use std::path::Path;

use crate::disk::Operation;
use crate::random::Random;

/// Size in bytes that a disk writes as a whole.
const SECTOR: u64 = 512;

/// The files of a folder, on the way through a log of what was done to them.
#[derive(Clone, Debug, Default)]
pub struct Platter {
    files: BTreeMap<String, File>,
}

#[derive(Clone, Debug, Default)]
struct File {
    /// Durable content; `None` if the file may not even exist.
    durable: Option<Vec<u8>>,
    /// Operations since then.
    pending: Vec<Operation>,
}

impl Platter {
    /// Returns the content of all operations, as if nothing were lost.
    pub fn whole(&self) -> Image {
        let mut image = BTreeMap::new();
        for (name, file) in &self.files {
            let mut bytes = file.durable.clone();
            file.pending.iter().for_each(|operation| apply(&mut bytes, operation, |_| true));
            image.extend(bytes.map(|bytes| (name.clone(), bytes)));
        }
        Image(image)
    }

    /// Takes the next operation of the log.
    pub fn push(&mut self, operation: &Operation) {
        let name = match operation {
            Operation::Create { file }
            | Operation::Write { file, .. }
            | Operation::Truncate { file, .. }
            | Operation::Sync { file, .. }
            | Operation::Delete { file, .. } => file,
        };
        let file = self.files.entry(name.clone()).or_default();
        match operation {
            Operation::Sync { folder, .. } => {
                for operation in std::mem::take(&mut file.pending) {
                    apply(&mut file.durable, &operation, |_| true);
                }
                if *folder {
                    self.files.values_mut().for_each(File::sync_name);
                }
            }
            Operation::Delete { durable: true, .. } => *file = File::default(),
            _ => file.pending.push(operation.clone()),
        }
    }

    /// Returns a possible state after a loss of power now, chosen by `random`.
    pub fn image(&self, random: &mut Random) -> Image {
        // Sometimes everything is lost or kept, which is what most disks do.
        let mood = random.below(8);
        let mut image = BTreeMap::new();
        for (name, file) in &self.files {
            let mut bytes = file.durable.clone();
            for operation in &file.pending {
                let (lost, whole) = match (mood, random.below(3)) {
                    (0, _) | (2.., 0) => (true, false),
                    (_, kind) => (false, mood == 1 || kind == 1),
                };
                match operation {
                    // The name still means the old file, and what was done to a new one of that name is lost with it.
                    Operation::Delete { .. } if lost => break,
                    _ if lost => {}
                    _ => apply(&mut bytes, operation, |_| whole || random.coin()),
                }
            }
            if let Some(bytes) = bytes {
                image.insert(name.clone(), bytes);
            }
        }
        Image(image)
    }
}

impl File {
    /// Makes durable whether the file is there, and which one of that name it is.
    fn sync_name(&mut self) {
        if let Some(last) = self.pending.iter().rposition(|operation| matches!(operation, Operation::Delete { .. })) {
            self.durable = None;
            self.pending.drain(..=last);
        }
        if let Some(created) = self.pending.iter().position(|operation| matches!(operation, Operation::Create { .. })) {
            self.durable.get_or_insert_default();
            self.pending.remove(created);
        }
    }
}

/// Does `operation`; of a write only the sectors that are `kept`.
fn apply(file: &mut Option<Vec<u8>>, operation: &Operation, mut kept: impl FnMut(u64) -> bool) {
    match operation {
        Operation::Create { .. } => drop(file.get_or_insert_default()),
        Operation::Write { offset, bytes, .. } => {
            let end = offset + bytes.len() as u64;
            let mut from = *offset;
            while from < end {
                let to = end.min((from / SECTOR + 1) * SECTOR);
                if kept(from / SECTOR) {
                    let file = file.get_or_insert_default();
                    if (file.len() as u64) < to {
                        file.resize(to as usize, 0);
                    }
                    file[from as usize..to as usize].copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
                }
                from = to;
            }
        }
        Operation::Truncate { size, .. } => file.get_or_insert_default().resize(*size as usize, 0),
        Operation::Sync { .. } => {}
        Operation::Delete { .. } => *file = None,
    }
}

/// The files that a loss of power left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(pub BTreeMap<String, Vec<u8>>);

impl Image {
    /// Reads the files of a folder that SQLite keeps in it, without the index of its log, which is made anew.
    pub fn of(folder: &Path) -> std::io::Result<Self> {
        let mut files = BTreeMap::new();
        for file in folder.read_dir()? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            if !name.ends_with("-shm") {
                files.insert(name, std::fs::read(file.path())?);
            }
        }
        Ok(Self(files))
    }

    /// Writes the files into a folder.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        self.0.iter().try_for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, byte: u8, count: usize) -> Operation {
        Operation::Write { file: "f".into(), offset, bytes: vec![byte; count] }
    }

    #[test]
    fn what_was_synced_stays_and_the_rest_may_be_anything_of_what_was_written() {
        let file = || "f".to_owned();
        let mut platter = Platter::default();
        for operation in [
            Operation::Create { file: file() },
            write(0, 1, 1024),
            Operation::Sync { file: file(), folder: false },
            write(256, 2, 1024),
        ] {
            platter.push(&operation);
        }
        let (mut torn, mut whole, mut lost) = (0, 0, 0);
        for seed in 0..1_000 {
            let Image(files) = platter.image(&mut Random::new(seed));
            let bytes = &files["f"];
            assert_eq!(bytes[..256], [1; 256], "bytes that were not written are as they were");
            let sectors = [&bytes[256..512], &bytes[512..1024], bytes.get(1024..).unwrap_or_default()];
            for sector in sectors {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is whole");
            }
            match sectors.map(|sector| sector.first() == Some(&2)) {
                [true, true, true] => whole += 1,
                [false, false, false] => lost += 1,
                _ => torn += 1,
            }
        }
        assert!(torn > 100 && whole > 100 && lost > 100, "{torn} {whole} {lost}");
    }

    #[test]
    fn a_file_that_was_never_synced_may_be_missing_and_a_deleted_one_may_come_back() {
        let file = || "f".to_owned();
        let mut platter = Platter::default();
        platter.push(&Operation::Create { file: file() });
        platter.push(&write(0, 1, 10));
        let there =
            |platter: &Platter| (0..100).filter(|seed| platter.image(&mut Random::new(*seed)).0.contains_key("f")).count();
        assert!((1..100).contains(&there(&platter)));
        platter.push(&Operation::Sync { file: file(), folder: false });
        assert_eq!(there(&platter), 100);
        platter.push(&Operation::Delete { file: file(), durable: false });
        assert!((1..100).contains(&there(&platter)));
        platter.push(&Operation::Sync { file: "another".into(), folder: true });
        assert_eq!(there(&platter), 0, "its folder was synced");
    }
}
