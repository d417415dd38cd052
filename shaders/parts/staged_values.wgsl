// Tiles of real values in the types in which they are multiplied.
alias Xs = vec4<X>;
alias Ws = vec4<W>;

// What a sum is multiplied by at the end.
const BACK: f32 = 1.0;

// Four k of four rows, and of four columns.
struct QuadX {
    k0: Xs,
    k1: Xs,
    k2: Xs,
    k3: Xs,
}

struct QuadW {
    k0: Ws,
    k1: Ws,
    k2: Ws,
    k3: Ws,
}

fn quad_x(one: RawX, two: RawX, three: RawX, four: RawX) -> QuadX {
    let a = vec4<X>(round_x(one));
    let b = vec4<X>(round_x(two));
    let c = vec4<X>(round_x(three));
    let d = vec4<X>(round_x(four));
    return QuadX(
        vec4<X>(a.x, b.x, c.x, d.x),
        vec4<X>(a.y, b.y, c.y, d.y),
        vec4<X>(a.z, b.z, c.z, d.z),
        vec4<X>(a.w, b.w, c.w, d.w),
    );
}

fn quad_w(one: Word, two: Word, three: Word, four: Word) -> QuadW {
    let a = vec4<W>(round_w(decode(one)));
    let b = vec4<W>(round_w(decode(two)));
    let c = vec4<W>(round_w(decode(three)));
    let d = vec4<W>(round_w(decode(four)));
    return QuadW(
        vec4<W>(a.x, b.x, c.x, d.x),
        vec4<W>(a.y, b.y, c.y, d.y),
        vec4<W>(a.z, b.z, c.z, d.z),
        vec4<W>(a.w, b.w, c.w, d.w),
    );
}

fn wide_x(v: Xs) -> vec4<f32> {
    return vec4<f32>(v);
}

fn wide_w(v: Ws) -> vec4<f32> {
    return vec4<f32>(v);
}
