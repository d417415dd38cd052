#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    dikast_server::fuzzing::decisions(bytes);
});
