//! Largest sizes accepted from a request, checked before anything is allocated for it.
