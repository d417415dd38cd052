/** The labels as chips: typed, pasted, walked through and removed by keyboard. */

import { element, make } from './dom.ts';

export class Chips {
  readonly #list = element('chip-list', HTMLUListElement);
  readonly #input = element('label-input', HTMLInputElement);
  readonly #note = element('label-note', HTMLParagraphElement);
  readonly #changed: () => void;
  #labels: string[] = [];

  constructor(changed: () => void) {
    this.#changed = changed;
    this.#input.addEventListener('keydown', (event) => this.#onInputKey(event));
    this.#input.addEventListener('input', () => {
      this.note('');
      if (/[,;\n]/.test(this.#input.value)) this.#take();
    });
    this.#input.addEventListener('paste', (event) => this.#onPaste(event));
    this.#input.addEventListener('blur', () => this.#take());
    this.#list.addEventListener('keydown', (event) => this.#onChipKey(event));
    element('chips', HTMLDivElement).addEventListener('click', (event) => {
      if (event.target === event.currentTarget || event.target === this.#list) this.#input.focus();
    });
  }

  get labels(): readonly string[] {
    return this.#labels;
  }

  set(labels: readonly string[]): void {
    this.#labels = [...labels];
    this.note('');
    this.#list.replaceChildren(...labels.map((label) => this.#chip(label)));
  }

  note(text: string): void {
    this.#note.textContent = text;
  }

  /** Takes what stands in the input, and forgets it there. */
  #take(): void {
    const typed = this.#input.value;
    this.#input.value = '';
    this.#add(split(typed));
  }

  #add(labels: string[]): void {
    const fresh: string[] = [];
    const known = new Set(this.#labels);
    const twice: string[] = [];
    for (const label of labels) {
      if (known.has(label)) twice.push(label);
      else fresh.push(label);
      known.add(label);
    }
    if (twice.length > 0) {
      const what = twice.length === 1 ? `“${twice[0]}” is` : `${twice.length} of these labels are`;
      this.note(`${what} already there. Each label can stand once: the same label twice would split its score.`);
    }
    if (fresh.length === 0) return;
    this.#labels.push(...fresh);
    this.#list.append(...fresh.map((label) => this.#chip(label)));
    this.#changed();
  }

  #remove(index: number): void {
    this.#labels.splice(index, 1);
    this.#list.children[index]?.remove();
    this.note('');
    this.#changed();
    this.#focus(Math.min(index, this.#labels.length));
  }

  #chip(label: string): HTMLLIElement {
    const button = make('button', { type: 'button', title: 'Remove' }, label);
    button.setAttribute('aria-label', `${label}, remove`);
    button.append(make('span', { ariaHidden: 'true', className: 'cross' }, '×'));
    // One stop for the Tab key; the arrow keys do the rest.
    button.tabIndex = -1;
    const item = make('li', {}, button);
    button.addEventListener('click', () => this.#remove([...this.#list.children].indexOf(item)));
    return item;
  }

  /** The chip at an index, or the input after the last. */
  #focus(index: number): void {
    const chip = this.#list.children[index]?.querySelector('button');
    (chip ?? this.#input).focus();
  }

  #onInputKey(event: KeyboardEvent): void {
    if (event.isComposing) return;
    const atStart = this.#input.selectionStart === 0 && this.#input.selectionEnd === 0;
    if (event.key === 'Enter') {
      event.preventDefault();
      this.#take();
    } else if (atStart && (event.key === 'Backspace' || event.key === 'ArrowLeft') && this.#labels.length > 0) {
      event.preventDefault();
      this.#focus(this.#labels.length - 1);
    }
  }

  #onChipKey(event: KeyboardEvent): void {
    const index = [...this.#list.children].findIndex((item) => item.contains(document.activeElement));
    if (index < 0) return;
    const to: Record<string, number> = {
      ArrowLeft: Math.max(index - 1, 0),
      ArrowRight: index + 1,
      Home: 0,
      End: this.#labels.length,
    };
    const target = to[event.key];
    if (event.key === 'Delete' || event.key === 'Backspace') {
      event.preventDefault();
      this.#remove(index);
    } else if (target !== undefined) {
      event.preventDefault();
      this.#focus(target);
    }
  }

  #onPaste(event: ClipboardEvent): void {
    const labels = split(event.clipboardData?.getData('text') ?? '');
    if (labels.length < 2) return;
    event.preventDefault();
    this.#add(labels);
  }
}

function split(text: string): string[] {
  return text
    .split(/[,;\n]/)
    .map((label) => label.trim())
    .filter((label) => label !== '');
}
