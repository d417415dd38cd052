/** Where the model should run: a person's choice, kept for the next visit. */

import type { Backend } from 'dikast-web';

import { element } from './dom.ts';

export type Device = Backend | 'auto';

const KEY = 'dikast-device';
const DEVICES: readonly Device[] = ['auto', 'webgpu', 'cpu'];

/** The choice in force. */
export function chosenDevice(): Device {
  return DEVICES.find((device) => radio(device).checked) ?? 'auto';
}

/** Makes a choice as if by hand. */
export function chooseDevice(device: Device): void {
  radio(device).checked = true;
  try {
    localStorage.setItem(KEY, device);
  } catch {
    // It holds for this visit.
  }
}

/** Brings back the earlier choice, and calls `changed` after every other one. */
export function watchDevice(changed: () => void): void {
  radio(kept()).checked = true;
  for (const device of DEVICES) {
    radio(device).addEventListener('change', () => {
      chooseDevice(device);
      changed();
    });
  }
}

function kept(): Device {
  try {
    const value = localStorage.getItem(KEY);
    return DEVICES.find((device) => device === value) ?? 'auto';
  } catch {
    return 'auto';
  }
}

function radio(device: Device): HTMLInputElement {
  return element(`device-${device}`, HTMLInputElement);
}
