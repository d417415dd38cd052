// What the emulated driver writes into a CUtensorMap, and the emulated copy engine reads: a matrix and a box of it.
#pragma once

namespace emulated {

struct MatrixMap {
    static constexpr unsigned long long MARK = 0x70616D2078697274ull;
    unsigned long long mark, address, columns, rows, pitch; // pitch in bytes
    unsigned element, box_columns, box_rows;                // bytes of an element; rows of a box are 128 bytes, swizzled
};
static_assert(sizeof(MatrixMap) <= 128, "a CUtensorMap");

} // namespace emulated
