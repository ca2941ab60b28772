//! The scope of a run: values that its calls share, and programs that end with it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Values that the calls of one run share while one process proceeds with the run.
///
/// The first call that asks for a value makes it. All values are dropped when the process stops proceeding with the run: at the
/// end of the run, at a cancellation, at a stop and at an error. Nothing is stored, so the next process begins without values. A
/// tool keeps here only what it can make again.
#[derive(Default)]
pub struct RunScope(Mutex<Values>);

/// Values by their types. A type that a tool keeps to itself is a name that no other tool can use.
#[derive(Default)]
struct Values {
    kept: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    /// Whether the process no longer proceeds with the run.
    is_over: bool,
}

impl RunScope {
    /// Returns the run's value of type `T`, which is made if there is none. After the end of the scope, each caller gets a value of its
    /// own: a thread that could not be stopped keeps nothing for the run.
    pub fn value<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.lock();
        if values.is_over {
            return Arc::default();
        }
        let kept = values.kept.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        Arc::clone(kept).downcast().expect("a value is kept under its own type")
    }

    /// Drops all values; called by the shell.
    pub fn end(&self) {
        let kept = {
            let mut values = self.lock();
            values.is_over = true;
            std::mem::take(&mut values.kept)
        };
        // Without the lock: a value may do anything when it is dropped.
        drop(kept);
    }

    fn lock(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes the command of a program before it starts. It gets the program's folder.
pub type Arrange<'a> = Box<dyn FnOnce(&Path, &mut std::process::Command) + Send + 'a>;

/// A program that was started for a tool. Dropping it ends the program with all processes that it started, and removes its folder.
/// They also end when the engine is killed.
pub struct RunProgram {
    /// The folder that it works in, which only this user can read.
    pub folder: PathBuf,
    /// Write end of its standard input. Taken at most once, like the others.
    pub stdin: Option<OwnedFd>,
    /// Read end of its standard output.
    pub stdout: Option<OwnedFd>,
    /// Read end of its standard error.
    pub stderr: Option<OwnedFd>,
    /// The shell's hold on its processes.
    _processes: Box<dyn Any + Send + Sync>,
}

impl RunProgram {
    /// Returns a program with these pipes (stdin, stdout, stderr), which ends when `processes` is dropped.
    pub fn new(folder: PathBuf, pipes: [OwnedFd; 3], processes: impl Send + Sync + 'static) -> Self {
        let [stdin, stdout, stderr] = pipes.map(Some);
        Self { folder, stdin, stdout, stderr, _processes: Box::new(processes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counted(Mutex<u32>);

    #[test]
    fn calls_share_a_value_until_the_scope_ends() {
        let scope = RunScope::default();
        *scope.value::<Counted>().0.lock().unwrap() += 1;
        *scope.value::<Counted>().0.lock().unwrap() += 1;
        let value = Arc::downgrade(&scope.value::<Counted>());
        assert_eq!(*value.upgrade().unwrap().0.lock().unwrap(), 2);
        scope.end();
        assert!(value.upgrade().is_none(), "the value is dropped");
        *scope.value::<Counted>().0.lock().unwrap() += 1;
        assert_eq!(*scope.value::<Counted>().0.lock().unwrap(), 0, "nothing is kept after the end");
    }
}
