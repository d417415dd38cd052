// Elementwise functions by the host's number: 0 none, 1 GELU with erf, 2 GELU with tanh, 3 ReLU.
fn activate(kind: u32, x: vec4<f32>) -> vec4<f32> {
    switch kind {
        case 1u: {
            return gelu_erf(x);
        }
        case 2u: {
            return gelu_tanh(x);
        }
        case 3u: {
            return max(x, vec4<f32>());
        }
        default: {
            return x;
        }
    }
}

// 0.5 x (1 + erf(x / √2)) = 0.5 x erfc(-x / √2). The fit of erfc has a relative error under 1.2e-7 everywhere
// (Numerical Recipes, 6.2), so nothing cancels where x is negative.
fn gelu_erf(x: vec4<f32>) -> vec4<f32> {
    let z = abs(x) * 0.70710678;
    let t = 1.0 / (1.0 + 0.5 * z);
    let p = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806
        + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
    let erfc = t * exp(p - z * z);
    return 0.5 * x * select(erfc, 2.0 - erfc, x > vec4<f32>());
}

// 0.5 x (1 + tanh u) = x / (1 + exp(-2u)); drivers may compute tanh itself to 11 bits only. The bound keeps exp finite.
fn gelu_tanh(x: vec4<f32>) -> vec4<f32> {
    let u = 0.7978846 * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(min(-2.0 * u, vec4<f32>(80.0))));
}
