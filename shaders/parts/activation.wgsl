// Elementwise functions by the host's number: 0 none, 1 GELU with erf, 2 GELU with tanh, 3 ReLU, 4 SiLU.
//
// A driver may turn a product and a sum into one fused multiply-add, and does so in one loop and not in another. So that
// all loops give the same bits, every such pair is an explicit fma here, and a value comes as two factors, which the step
// multiplies or adds something to.
struct Factors {
    a: vec4<f32>,
    b: vec4<f32>,
}

fn activate(kind: u32, x: vec4<f32>) -> Factors {
    switch kind {
        case 1u: {
            return gelu_erf(x);
        }
        case 2u: {
            return gelu_tanh(x);
        }
        case 3u: {
            return Factors(max(x, vec4<f32>()), vec4<f32>(1.0));
        }
        case 4u: {
            return Factors(x, 1.0 / (1.0 + exp(min(-x, vec4<f32>(80.0)))));
        }
        default: {
            return Factors(x, vec4<f32>(1.0));
        }
    }
}

// 0.5 x (1 + erf(x / √2)) = 0.5 x erfc(-x / √2). The fit of erfc has a relative error under 1.2e-7 everywhere
// (Numerical Recipes, 6.2), so nothing cancels where x is negative.
fn gelu_erf(x: vec4<f32>) -> Factors {
    let z = abs(x) * 0.70710678;
    let t = 1.0 / fma(vec4<f32>(0.5), z, vec4<f32>(1.0));
    var p = fma(t, vec4<f32>(0.17087277), vec4<f32>(-0.82215223));
    p = fma(t, p, vec4<f32>(1.48851587));
    p = fma(t, p, vec4<f32>(-1.13520398));
    p = fma(t, p, vec4<f32>(0.27886807));
    p = fma(t, p, vec4<f32>(-0.18628806));
    p = fma(t, p, vec4<f32>(0.09678418));
    p = fma(t, p, vec4<f32>(0.37409196));
    p = fma(t, p, vec4<f32>(1.00002368));
    p = fma(t, p, vec4<f32>(-1.26551223));
    let e = exp(fma(-z, z, p));
    return Factors(0.5 * x, select(t * e, fma(-t, e, vec4<f32>(2.0)), x > vec4<f32>()));
}

// 0.5 x (1 + tanh u) = x / (1 + exp(-2u)); drivers may compute tanh itself to 11 bits only. The bound keeps exp finite.
fn gelu_tanh(x: vec4<f32>) -> Factors {
    let u = 0.7978846 * fma(0.044715 * x * x, x, x);
    return Factors(x, 1.0 / (1.0 + exp(min(-2.0 * u, vec4<f32>(80.0)))));
}
