// A compiled kernel between the emulated compiler and the emulated driver: the mark, eight bytes of size, a shared library.
#pragma once

namespace emulated {
constexpr char IMAGE_MARK[16] = {'D', 'I', 'K', 'A', 'S', 'T', ' ', 'E', 'M', 'U', 'L', 'A', 'T', 'E', 'D', '\n'};
}
