//! The threads of the crate rayon, lent to the library.
use std::sync::Arc;

use ::rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use crate::{OpBuilder, Tasks};

fn run(tasks: &Tasks<'_>) {
    (0..tasks.len()).into_par_iter().with_max_len(1).for_each(|i| tasks.run(i));
}

#[cfg_attr(docsrs, doc(cfg(feature = "rayon")))]
impl OpBuilder {
    /// Work is done by rayon: by the pool that a call is made in, else by its global one. Sets
    /// [`num_threads`](Self::num_threads) to the threads of the current pool.
    pub fn rayon(self) -> Self {
        self.num_threads(::rayon::current_num_threads()).parallel_for(run)
    }

    /// Work is done by this pool of rayon's. Sets [`num_threads`](Self::num_threads) to its threads.
    pub fn rayon_pool(self, pool: Arc<::rayon::ThreadPool>) -> Self {
        let threads = pool.current_num_threads();
        self.num_threads(threads).parallel_for(move |tasks: &Tasks| pool.install(|| run(tasks)))
    }
}
