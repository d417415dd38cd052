// Reductions over the invocations of a workgroup, in an order that depends on LANES alone.
override LANES: u32 = 64u; // a power of two

var<workgroup> partial: array<f32, LANES>;

// The sum of every invocation's value, the same in all of them. Uniform control flow only.
fn sum_lanes(lane: u32, value: f32) -> f32 {
    partial[lane] = value;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if (lane < half) {
            partial[lane] += partial[lane + half];
        }
        workgroupBarrier();
    }
    let sum = partial[0];
    workgroupBarrier();
    return sum;
}
