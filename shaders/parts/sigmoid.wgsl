// 1 / (1 + e⁻ˣ); the bound keeps exp finite.
fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(min(-x, 80.0)));
}
