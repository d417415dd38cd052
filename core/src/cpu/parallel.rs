//! Threads where there are any: independent pieces of an output, each computed the same way on one thread or many.

/// Calls `work(index, piece)` for consecutive pieces of `out`, `len` elements each (the last may be shorter).
pub(super) fn chunks<T: Send>(out: &mut [T], len: usize, work: impl Fn(usize, &mut [T]) + Sync + Send) {
    if out.is_empty() || len == 0 {
        return;
    }
    #[cfg(feature = "native")]
    {
        use rayon::prelude::*;
        out.par_chunks_mut(len).enumerate().for_each(|(i, piece)| work(i, piece));
    }
    #[cfg(not(feature = "native"))]
    out.chunks_mut(len).enumerate().for_each(|(i, piece)| work(i, piece));
}

/// Calls `work(task, piece)` for tasks that own consecutive pieces of `out`, given with their lengths.
pub(super) fn pieces<K: Sync + Send, T: Send>(
    out: &mut [T],
    tasks: Vec<(K, usize)>,
    work: impl Fn(&K, &mut [T]) + Sync + Send,
) {
    let mut rest = out;
    let mut split = Vec::with_capacity(tasks.len());
    for (task, len) in tasks {
        let (piece, tail) = rest.split_at_mut(len);
        split.push((task, piece));
        rest = tail;
    }
    #[cfg(feature = "native")]
    {
        use rayon::prelude::*;
        split.into_par_iter().for_each(|(task, piece)| work(&task, piece));
    }
    #[cfg(not(feature = "native"))]
    split.into_iter().for_each(|(task, piece)| work(&task, piece));
}

/// Calls `work` for each task.
pub(super) fn each<K: Send>(tasks: Vec<K>, work: impl Fn(K) + Sync + Send) {
    #[cfg(feature = "native")]
    {
        use rayon::prelude::*;
        tasks.into_par_iter().for_each(work);
    }
    #[cfg(not(feature = "native"))]
    tasks.into_iter().for_each(work);
}

/// Threads used.
pub(super) fn threads() -> usize {
    #[cfg(feature = "native")]
    return rayon::current_num_threads();
    #[cfg(not(feature = "native"))]
    1
}
