/** The browser's WebGPU adapter, looked at from the page and from the worker alike. */

/** An adapter, or why there is none. */
export type FoundAdapter =
  | { available: true; adapter: string; features: string[]; software: boolean }
  | { available: false; reason: string };

/** Looks for the adapter that the engine would use. Never throws. */
export async function findAdapter(): Promise<FoundAdapter> {
  if (!('gpu' in navigator) || !navigator.gpu) {
    const reason = globalThis.isSecureContext ? 'this browser has no WebGPU' : 'the page is not served securely';
    return { available: false, reason };
  }
  try {
    const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
    if (!adapter) return { available: false, reason: 'the browser offers no adapter' };
    const { vendor, architecture, description, isFallbackAdapter } = adapter.info;
    const name = [vendor, description || architecture].filter(Boolean).join(' ');
    return {
      available: true,
      adapter: name || 'unnamed adapter',
      features: [...adapter.features].sort(),
      // The processor plays the device: slower than its own vector instructions.
      software: isFallbackAdapter || architecture === 'swiftshader',
    };
  } catch (error) {
    return { available: false, reason: String(error) };
  }
}
