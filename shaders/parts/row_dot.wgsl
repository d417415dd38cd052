// The product of a row of `left` and a row of `right`, by all invocations of a workgroup.
// From the step: params.{width, stride}, left, right. With reduce.wgsl and mask.wgsl.
fn row_dot(lane: u32, left_row: u32, right_row: u32) -> f32 {
    var sum = 0.0;
    for (var i = lane; i < params.stride; i += LANES) {
        let elements = inside(params.width, i);
        let a = head(left[left_row * params.stride + i], elements);
        sum += dot(a, head(right[right_row * params.stride + i], elements));
    }
    return sum_lanes(lane, sum);
}
