//! This program, to be executed again as a process of its own.

use std::io;
use std::path::PathBuf;

/// Returns the path by which this program can be executed again; `None` if this code belongs to a library that was loaded into
/// another program.
///
/// Constructors that run before `main` see how the program was executed, so such a process needs no second file and no hook in `main`.
pub fn own_program() -> io::Result<Option<PathBuf>> {
    if cfg!(not(target_os = "linux")) {
        return std::env::current_exe().map(Some);
    }
    let here = own_program as fn() -> io::Result<Option<PathBuf>> as usize;
    let mapped = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let file = mapped.lines().find_map(|line| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        (address(from)? <= here && here < address(to)?).then(|| &line[line.find('/').unwrap_or(line.len())..])
    });
    // This link is the program that runs, even after its file was replaced.
    Ok(file.is_some_and(|file| std::path::Path::new(file) == program).then(|| "/proc/self/exe".into()))
}
