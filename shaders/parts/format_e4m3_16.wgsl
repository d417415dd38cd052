// A weight stored as E4M3, read sixteen elements at once.
alias Word = vec4<u32>;
