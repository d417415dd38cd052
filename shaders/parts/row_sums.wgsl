// Sums over a row of `x`, by all invocations of its workgroup.
// From the step: params.{width, stride}, x. With reduce.wgsl and mask.wgsl.

// The sum of a row's elements.
fn row_sum(lane: u32, base: u32) -> f32 {
    var sum = 0.0;
    for (var i = lane; i < params.stride; i += LANES) {
        sum += dot(head(x[base + i], inside(params.width, i)), vec4<f32>(1.0));
    }
    return sum_lanes(lane, sum);
}

// The sum of the squares of a row's distances from `center`.
fn row_squares(lane: u32, base: u32, center: f32) -> f32 {
    var squares = 0.0;
    for (var i = lane; i < params.stride; i += LANES) {
        let v = head(x[base + i] - center, inside(params.width, i));
        squares += dot(v, v);
    }
    return sum_lanes(lane, squares);
}
