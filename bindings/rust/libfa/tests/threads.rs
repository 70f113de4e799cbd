//! Ops that threads share, and threads that are lent: every way gives the same bits, and no pool can do harm.
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use libfa::{BackwardArgs, DType, ForwardArgs, Mask, Op, OpBuilder, Tasks, TensorMut, TensorRef, Workspace};

const QUERIES: [usize; 4] = [2, 150, 4, 32];
const KEYS: [usize; 4] = [2, 150, 2, 32];

fn builder() -> OpBuilder {
    Op::builder(DType::F32, 32).mask(Mask::Causal)
}

fn outcome(op: &Op) -> Vec<u32> {
    static INPUTS: OnceLock<[Vec<f32>; 3]> = OnceLock::new();
    let numbers = |count: usize, step: f32| (0..count).map(|i| (i as f32 * step).sin()).collect();
    let [q, k, v] =
        INPUTS.get_or_init(|| [numbers(2 * 150 * 128, 0.1), numbers(2 * 150 * 64, 0.2), numbers(2 * 150 * 64, 0.3)]);
    let mut out = vec![f32::NAN; q.len()];
    let tensor = TensorRef::new;
    let (q, k, v) = (tensor(q, QUERIES).unwrap(), tensor(k, KEYS).unwrap(), tensor(v, KEYS).unwrap());
    op.forward(&mut ForwardArgs::new(q, k, v, TensorMut::new(&mut out, QUERIES).unwrap())).unwrap();
    out.into_iter().map(f32::to_bits).collect()
}

fn expected() -> &'static Vec<u32> {
    static EXPECTED: OnceLock<Vec<u32>> = OnceLock::new();
    EXPECTED.get_or_init(|| outcome(&builder().num_threads(1).build().unwrap()))
}

#[test]
fn what_crosses_threads() {
    fn crosses<T: Send + Sync>() {}
    crosses::<Op>();
    crosses::<ForwardArgs>();
    crosses::<BackwardArgs>();
    crosses::<TensorRef>();
    crosses::<TensorMut>();
    crosses::<Workspace>();
    crosses::<libfa::Error>();
}

#[test]
fn one_op_from_many_threads() {
    let op = builder().num_threads(2).build().unwrap();
    let expected = expected();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..3).for_each(|_| assert_eq!(&outcome(&op), expected)));
        }
    });
}

#[test]
fn pools_of_the_host() {
    let used = Arc::new(AtomicUsize::new(0));
    let count = used.clone();
    let scoped = move |tasks: &Tasks| {
        assert!(!tasks.is_empty());
        count.fetch_add(tasks.len(), Ordering::Relaxed);
        std::thread::scope(|scope| (0..tasks.len()).for_each(|i| drop(scope.spawn(move || tasks.run(i)))));
    };
    let op = builder().num_threads(4).parallel_for(scoped).build().unwrap();
    assert_eq!(&outcome(&op), expected());
    assert!(used.load(Ordering::Relaxed) > 1, "the pool was used");
    drop(op);
    assert_eq!(Arc::strong_count(&used), 1, "the op owned the pool");
}

#[test]
fn pools_that_are_wrong() {
    let pools: [fn(&Tasks); 3] = [
        |_| {},                                                               // runs nothing
        |tasks| (0..2 * tasks.len()).for_each(|i| tasks.run(i / 2)),          // runs everything twice
        |tasks| (0..tasks.len()).rev().step_by(2).for_each(|i| tasks.run(i)), // leaves out half
    ];
    for pool in pools {
        assert_eq!(&outcome(&builder().num_threads(3).parallel_for(pool).build().unwrap()), expected());
    }
}

#[test]
fn pools_that_panic() {
    let calls = AtomicUsize::new(0);
    let pool = move |tasks: &Tasks| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            tasks.run(tasks.len()); // no such task
        }
    };
    let op = builder().num_threads(3).parallel_for(pool).build().unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| outcome(&op))).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().unwrap(), "task 3 of 3");
    assert_eq!(&outcome(&op), expected(), "the op goes on");
}

#[cfg(feature = "rayon")]
#[test]
fn pools_of_rayon() {
    assert_eq!(&outcome(&builder().rayon().num_threads(3).build().unwrap()), expected());
    let used = Arc::new(AtomicUsize::new(0));
    let count = used.clone();
    let started = move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(3).start_handler(started).build().unwrap());
    let op = builder().rayon_pool(pool.clone()).build().unwrap();
    assert_eq!(&outcome(&op), expected());
    pool.install(|| assert_eq!(&outcome(&op), expected(), "from a thread of the pool itself"));
    assert!(used.load(Ordering::Relaxed) > 0);
}
