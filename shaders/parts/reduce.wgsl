// Reductions over the invocations of a workgroup, in an order that depends on LANES alone: sixteenths first, then all. Few
// barriers matter more than few operations. Uniform control flow only; every invocation gets the result.
override LANES: u32 = 64u; // a multiple of sixteen
override SIXTEENTH: u32 = LANES / 16u;

var<workgroup> partial: array<f32, LANES>;
var<workgroup> largest: array<u32, LANES>;

fn sum_lanes(lane: u32, value: f32) -> f32 {
    partial[lane] = value;
    workgroupBarrier();
    // An invocation reads and then writes elements of its own only.
    if (lane < SIXTEENTH) {
        var sum = partial[lane];
        for (var i = 1u; i < 16u; i++) {
            sum += partial[lane + i * SIXTEENTH];
        }
        partial[lane] = sum;
    }
    workgroupBarrier();
    var sum = partial[0];
    for (var i = 1u; i < SIXTEENTH; i++) {
        sum += partial[i];
    }
    workgroupBarrier();
    return sum;
}

fn max_lanes(lane: u32, value: u32) -> u32 {
    largest[lane] = value;
    workgroupBarrier();
    if (lane < SIXTEENTH) {
        var most = largest[lane];
        for (var i = 1u; i < 16u; i++) {
            most = max(most, largest[lane + i * SIXTEENTH]);
        }
        largest[lane] = most;
    }
    workgroupBarrier();
    var most = largest[0];
    for (var i = 1u; i < SIXTEENTH; i++) {
        most = max(most, largest[i]);
    }
    workgroupBarrier();
    return most;
}
