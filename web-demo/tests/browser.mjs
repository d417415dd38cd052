/** Headless Chromium. */

import { chromium } from 'playwright-core';

const ARGUMENTS = [
  '--no-sandbox',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
/** What gives the browser a WebGPU adapter on a machine without a graphics card. */
const SOFTWARE_WEBGPU = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];

/** A browser; with a software WebGPU adapter when asked for. */
export function launch({ webgpu = false } = {}) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: webgpu ? [...ARGUMENTS, ...SOFTWARE_WEBGPU] : ARGUMENTS,
  });
}
