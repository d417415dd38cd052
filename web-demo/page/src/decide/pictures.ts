/** The pictures of a request: dropped, picked or pasted, shown small, removed one by one. */

import { element, make } from '../dom.ts';
import { bytes } from '../format.ts';

export interface PictureFile {
  name: string;
  /** A `data:` URL. */
  url: string;
}

/** The engine's limit; a larger file is not even read. */
const LARGEST = 4 << 20;
/** What the engine decodes. */
const TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];

export class Pictures {
  readonly #list = element('d-pictures', HTMLUListElement);
  readonly #note = element('d-picture-note', HTMLParagraphElement);
  readonly #changed: () => void;
  #files: PictureFile[] = [];

  constructor(changed: () => void) {
    this.#changed = changed;
    const input = element('d-picture', HTMLInputElement);
    input.addEventListener('change', () => {
      void this.add([...(input.files ?? [])]).then(() => (input.value = ''));
    });
  }

  get files(): readonly PictureFile[] {
    return this.#files;
  }

  /** These instead of those there are. */
  set(files: readonly PictureFile[]): void {
    this.#files = [...files];
    this.#note.textContent = '';
    this.#show();
  }

  async add(files: readonly File[]): Promise<void> {
    this.#note.textContent = '';
    for (const file of files) {
      if (!TYPES.includes(file.type)) {
        this.#note.textContent = `${file.name} is no picture that is read here; PNG, JPEG, WebP and GIF are.`;
      } else if (file.size > LARGEST) {
        this.#note.textContent = `${file.name} has ${bytes(file.size)}; a picture may have ${bytes(LARGEST)}.`;
      } else {
        try {
          this.#files.push({ name: file.name, url: await dataUrl(file) });
        } catch (error) {
          this.#note.textContent = `${file.name} could not be read: ${String(error)}`;
        }
      }
    }
    this.#show();
    this.#changed();
  }

  #show(): void {
    this.#list.replaceChildren(...this.#files.map((file) => this.#item(file)));
  }

  #item(file: PictureFile): HTMLLIElement {
    const remove = make('button', { type: 'button', title: 'Remove' }, make('img', { src: file.url, alt: '' }), '×');
    remove.setAttribute('aria-label', `${file.name}, remove`);
    remove.addEventListener('click', () => {
      this.#files = this.#files.filter((other) => other !== file);
      this.#note.textContent = '';
      this.#show();
      this.#changed();
    });
    return make('li', {}, remove);
  }
}

/** Whether all of these are pictures, and not a model. */
export function arePictures(files: readonly File[]): boolean {
  return files.length > 0 && files.every(({ type }) => type.startsWith('image/'));
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => resolve(reader.result as string));
    reader.addEventListener('error', () => reject(reader.error ?? new Error('not readable')));
    reader.readAsDataURL(file);
  });
}
