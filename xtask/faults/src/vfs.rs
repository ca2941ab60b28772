//! The layer between SQLite and the system's files: every call goes through to SQLite's own layer, and what changes a
//! watched file is recorded or made to fail on the way.
//!
//! SQLite's interface is C: a table of functions per layer, one per open file, and memory that SQLite allocates for both. So
//! this file is `unsafe` throughout, and everything that thinks is elsewhere.
#![expect(unsafe_code, reason = "SQLite takes a layer of files only through its C interface")]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

use crate::disk::{Disk, Operation};

/// A file as SQLite holds it for us. The same file as the layer below holds it follows in the same memory.
#[repr(C)]
struct LayeredFile {
    base: sqlite3_file,
    /// Created by `Box::into_raw` when the file is opened; null if the file is not watched.
    watched: *mut Watched,
}

/// A file that is watched.
struct Watched {
    disk: Arc<Disk>,
    name: String,
    /// Whether the layer below syncs the folder when it syncs the file the next time: it does so once for logs that it made.
    syncs_folder: AtomicBool,
}

/// Bytes that a write which fails still gets to the disk are whole sectors of this size.
const SECTOR: c_int = 512;

/// Makes this layer the one by which every connection of this process opens files, from now on. Repeating it does nothing.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: SQLite initialises itself at this call. Its default layer lives as long as the process and is only read.
        let (below, base) = unsafe {
            let below = ffi::sqlite3_vfs_find(std::ptr::null());
            (below, below.as_ref().copied().expect("SQLite has a layer for this system"))
        };
        let layer = Box::new(sqlite3_vfs {
            szOsFile: size_of::<LayeredFile>() as c_int + base.szOsFile,
            pNext: std::ptr::null_mut(),
            zName: c"baton-faults".as_ptr(),
            pAppData: below.cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            // The other functions of SQLite's layer for Unix look at nothing of the layer but the length of paths.
            ..base
        });
        // SAFETY: the layer is never freed, its name is static, and its functions keep SQLite's rules (see each).
        let registered = unsafe { ffi::sqlite3_vfs_register(Box::into_raw(layer), 1) };
        assert_eq!(registered, ffi::SQLITE_OK, "SQLite takes the layer");
    });
}

/// Returns the file of the layer below.
///
/// # Safety
///
/// `file` is one that SQLite made for this layer.
unsafe fn below(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: SQLite allocated `szOsFile` bytes, so the file below begins where ours ends; 16 bytes keep the alignment of 8.
    unsafe { file.cast::<LayeredFile>().add(1).cast() }
}

/// Returns the file's watcher, if it is watched.
///
/// # Safety
///
/// `file` is one that [`open`] opened and that was not closed since.
unsafe fn watched<'a>(file: *mut sqlite3_file) -> Option<&'a Watched> {
    // SAFETY: the pointer is null or was made from a box that `close` frees, and SQLite closes no file that it still uses.
    unsafe { (*file.cast::<LayeredFile>()).watched.as_ref() }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    path: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives memory of `szOsFile` bytes, and calls `close` if and only if `pMethods` is set, as the layer below
    // expects too: ours is set when its is. The layer itself and its `pAppData` are those of `install`.
    unsafe {
        let disk = if path.is_null() { None } else { Disk::of(Path::new(OsStr::from_bytes(CStr::from_ptr(path).to_bytes()))) };
        let is_new = disk.is_some() && !Path::new(OsStr::from_bytes(CStr::from_ptr(path).to_bytes())).exists();
        let layered = file.cast::<LayeredFile>();
        (*layered).base.pMethods = std::ptr::null();
        (*layered).watched = std::ptr::null_mut();
        let real = (*vfs).pAppData.cast::<sqlite3_vfs>();
        let code = ((*real).xOpen.expect("every layer opens"))(real, path, below(file), flags, out);
        if !(*below(file)).pMethods.is_null() {
            (*layered).base.pMethods = &raw const METHODS;
            if let Some((disk, name)) = disk {
                if is_new && code == ffi::SQLITE_OK {
                    disk.note(Operation::Create { file: name.clone() });
                }
                let is_log = flags & (ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL) != 0;
                let syncs_folder = AtomicBool::new(is_new && is_log);
                (*layered).watched = Box::into_raw(Box::new(Watched { disk, name, syncs_folder }));
            }
        }
        code
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, path: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: SQLite gives a path that ends with a zero byte; the layer below is the one of `install`.
    unsafe {
        let real = (*vfs).pAppData.cast::<sqlite3_vfs>();
        let perform = || ((*real).xDelete.expect("every layer deletes"))(real, path, sync_folder);
        match Disk::of(Path::new(OsStr::from_bytes(CStr::from_ptr(path).to_bytes()))) {
            Some((disk, file)) => disk.attempt(Operation::Delete { file, durable: sync_folder != 0 }, perform, |code| code),
            None => perform(),
        }
    }
}

/// Calls a method of the file below.
macro_rules! call_below {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let file = below($file);
        ((*(*file).pMethods).$method.expect("SQLite's layer for Unix has every method"))(file $(, $argument)*)
    }};
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once; the box was made by `open` and is nowhere else.
    unsafe {
        let code = call_below!(file, xClose);
        let layered = file.cast::<LayeredFile>();
        if !(*layered).watched.is_null() {
            drop(Box::from_raw((*layered).watched));
            (*layered).watched = std::ptr::null_mut();
        }
        code
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, data: *const c_void, amount: c_int, offset: sqlite3_int64) -> c_int {
    // SAFETY: SQLite gives `amount` readable bytes; the file is open.
    unsafe {
        let perform = |amount| call_below!(file, xWrite, data, amount, offset);
        let Some(Watched { disk, name, .. }) = watched(file) else { return perform(amount) };
        let bytes = std::slice::from_raw_parts(data.cast::<u8>(), amount as usize).to_vec();
        let operation = Operation::Write { file: name.clone(), offset: offset as u64, bytes };
        disk.attempt(
            operation,
            || perform(amount),
            |code| {
                // A write that fails may have got half way.
                let half = amount / 2 / SECTOR * SECTOR;
                if half > 0 {
                    let _half_written = perform(half);
                }
                code
            },
        )
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        let perform = || call_below!(file, xTruncate, size);
        let Some(Watched { disk, name, .. }) = watched(file) else { return perform() };
        disk.attempt(Operation::Truncate { file: name.clone(), size: size as u64 }, perform, |code| code)
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        let Some(Watched { disk, name, syncs_folder }) = watched(file) else { return call_below!(file, xSync, flags) };
        let operation = Operation::Sync { file: name.clone(), folder: syncs_folder.swap(false, Ordering::Relaxed) };
        // The system's flush is left out: what a loss of power leaves is made from the log, and the trials would wait for disks.
        disk.attempt(operation, || ffi::SQLITE_OK, |code| code)
    }
}

/// Methods that only go through.
macro_rules! through {
    ($($name:ident = $method:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => { $(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $kind)*) -> $result {
            // SAFETY: the file is open, and SQLite's arguments are handed on as they are.
            unsafe { call_below!(file, $method $(, $argument)*) }
        }
    )* };
}

through! {
    read = xRead(data: *mut c_void, amount: c_int, offset: sqlite3_int64) -> c_int;
    file_size = xFileSize(size: *mut sqlite3_int64) -> c_int;
    lock = xLock(level: c_int) -> c_int;
    unlock = xUnlock(level: c_int) -> c_int;
    check_reserved_lock = xCheckReservedLock(out: *mut c_int) -> c_int;
    file_control = xFileControl(operation: c_int, argument: *mut c_void) -> c_int;
    sector_size = xSectorSize() -> c_int;
    device_characteristics = xDeviceCharacteristics() -> c_int;
    shm_map = xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int;
    shm_lock = xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int;
    shm_barrier = xShmBarrier() -> ();
    shm_unmap = xShmUnmap(delete: c_int) -> c_int;
    fetch = xFetch(offset: sqlite3_int64, amount: c_int, out: *mut *mut c_void) -> c_int;
    unfetch = xUnfetch(offset: sqlite3_int64, page: *mut c_void) -> c_int;
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};
