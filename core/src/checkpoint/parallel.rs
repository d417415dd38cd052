//! Two loops that use all cores where there are threads, and one where there are none.

/// `f` of every item, in order.
pub(super) fn map<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    #[cfg(feature = "native")]
    {
        use rayon::prelude::*;
        items.par_iter().map(f).collect()
    }
    #[cfg(not(feature = "native"))]
    {
        items.iter().map(f).collect()
    }
}

/// The answer of the first item, in order, that has one.
pub(super) fn first<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> Option<R> + Sync + Send) -> Option<R> {
    #[cfg(feature = "native")]
    {
        use rayon::prelude::*;
        items.par_iter().find_map_first(f)
    }
    #[cfg(not(feature = "native"))]
    {
        items.iter().find_map(f)
    }
}
