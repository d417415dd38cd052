/** Where a model comes from: the built-in one, an address, a dropped or picked folder. */

import { type Source, droppedFiles } from 'dikast-web';
import builtinDecider from 'virtual:default-decider';
import builtin from 'virtual:default-model';

import { element } from './dom.ts';

export const BUILTIN: Source = builtin;
export const BUILTIN_DECIDER: Source = builtinDecider;

/** The source that the page's own address asks for: `?model=ADDRESS`, `?decider=ADDRESS`, otherwise a built-in model. */
export function initialSource(key: 'model' | 'decider'): Source {
  return new URLSearchParams(location.search).get(key) ?? (key === 'model' ? BUILTIN : BUILTIN_DECIDER);
}

/** Calls `chosen` with every source that a person chooses. */
export function watchSources(chosen: (source: Source) => void): void {
  const address = element('address', HTMLInputElement);
  element('address-form', HTMLFormElement).addEventListener('submit', (event) => {
    event.preventDefault();
    chosen(address.value.trim());
  });
  const folder = element('folder', HTMLInputElement);
  folder.addEventListener('change', () => {
    if (folder.files?.length) chosen([...folder.files]);
    folder.value = '';
  });
  element('builtin', HTMLButtonElement).addEventListener('click', () => chosen(BUILTIN));
  watchDrops(chosen);
}

function watchDrops(chosen: (source: Source) => void): void {
  const veil = element('veil', HTMLDivElement);
  // Elements inside the page are entered and left all the time; only the balance says where the pointer is.
  let inside = 0;
  const isFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes('Files') ?? false;
  const show = (by: number): void => {
    inside = Math.max(inside + by, 0);
    veil.hidden = inside === 0;
  };
  addEventListener('dragenter', (event) => {
    if (isFiles(event)) show(1);
  });
  addEventListener('dragleave', (event) => {
    if (isFiles(event)) show(-1);
  });
  addEventListener('dragover', (event) => {
    if (isFiles(event)) event.preventDefault();
  });
  addEventListener('drop', (event) => {
    if (!isFiles(event) || !event.dataTransfer) return;
    event.preventDefault();
    show(-Infinity);
    void droppedFiles(event.dataTransfer).then(chosen);
  });
}
