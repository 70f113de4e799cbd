//! The host's own threads: fa_parallel_for as a trait whose implementations may be wrong without harm. A task that they leave
//! out is run for them, one that they run twice runs once, and a panic goes round the C library.
use std::any::Any;
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};

use fa_sys::FA_MAX_THREADS;

/// A pool of threads. Closures `Fn(&Tasks)` are one.
pub trait ParallelFor: Send + Sync {
    /// Calls [`Tasks::run`] for every number below [`Tasks::len`], on any thread and in any order. Tasks never wait for one
    /// another.
    fn run(&self, tasks: &Tasks<'_>);
}

impl<F: Fn(&Tasks<'_>) + Send + Sync> ParallelFor for F {
    fn run(&self, tasks: &Tasks<'_>) {
        self(tasks);
    }
}

/// The work that a call hands to a pool.
pub struct Tasks<'a> {
    task: unsafe extern "C" fn(*mut c_void, i64),
    context: *mut c_void,
    count: usize,
    begun: [AtomicU64; FA_MAX_THREADS as usize / 64], // a bit for each task
    borrow: std::marker::PhantomData<&'a ()>,
}

// fa.h: tasks may be run on any thread, at the same time.
unsafe impl Send for Tasks<'_> {}
unsafe impl Sync for Tasks<'_> {}

impl Tasks<'_> {
    /// The number of tasks.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Runs task number `i`, unless that was done.
    ///
    /// # Panics
    /// When there is no such task.
    pub fn run(&self, i: usize) {
        assert!(i < self.count, "task {i} of {}", self.count);
        let bit = 1 << (i % 64);
        if self.begun[i / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            unsafe { (self.task)(self.context, i as i64) }
        }
    }
}

/// The target of fa_desc.parallel_for_user.
pub(crate) struct Host {
    pub pool: Box<dyn ParallelFor>,
}

thread_local! {
    static PANIC: Cell<Option<Box<dyn Any + Send>>> = const { Cell::new(None) };
}

/// fa_desc.parallel_for.
pub(crate) unsafe extern "C" fn parallel_for(host: *mut c_void, task: fa_sys::fa_task, context: *mut c_void, n: i64) {
    let (Some(task), Ok(count)) = (task, usize::try_from(n)) else { return };
    let host = unsafe { &*host.cast::<Host>() };
    let begun = [const { AtomicU64::new(0) }; FA_MAX_THREADS as usize / 64];
    let tasks = Tasks { task, context, count, begun, borrow: std::marker::PhantomData };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| host.pool.run(&tasks))) {
        PANIC.set(Some(panic));
    }
    for i in 0..count {
        tasks.run(i);
    }
}

/// Goes on with the panic of a pool, if there was one in a call of this thread.
pub(crate) fn resume_panic() {
    if let Some(panic) = PANIC.take() {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn count(context: *mut c_void, i: i64) {
        let runs = unsafe { &*context.cast::<[AtomicU64; 100]>() };
        runs[i as usize].fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn every_task_runs_once_whatever_the_pool_does() {
        let pools: [fn(&Tasks); 4] = [
            |_| {},
            |tasks| (0..tasks.len()).for_each(|i| tasks.run(i)),
            |tasks| (0..3 * tasks.len()).for_each(|i| tasks.run(i / 3)),
            |tasks| (0..=tasks.len()).rev().step_by(2).for_each(|i| tasks.run(i)), // panics
        ];
        for pool in pools {
            let mut host = Host { pool: Box::new(pool) };
            let runs = [const { AtomicU64::new(0) }; 100];
            let context = (&raw const runs).cast_mut().cast();
            unsafe { parallel_for((&raw mut host).cast(), Some(count), context, 100) };
            assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1), "{runs:?}");
        }
        assert!(catch_unwind(resume_panic).is_err());
        resume_panic(); // is over
    }
}
