// Up to 32 rows of one sequence.
struct Task {
    query: u32, // first row
    query_end: u32,
    place: u32, // rows of the sequence before the first
    key: u32, // first row of the keys
    key_end: u32,
}
