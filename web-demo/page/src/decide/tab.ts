/** The tab of typed questions: its model, what is asked, and the answers. */

import { Decider, type Decision, DikastError, type Source } from 'dikast-web';

import { Asker } from '../asker.ts';
import { Card } from '../card.ts';
import { chooseDevice, chosenDevice } from '../device.ts';
import { element, make } from '../dom.ts';
import { showDecider } from '../facts.ts';
import { count, milliseconds } from '../format.ts';
import { concernsGpu } from '../messages.ts';
import { keepPage } from '../offline.ts';
import { BUILTIN_DECIDER, initialSource } from '../source.ts';
import { showState } from '../state.ts';
import { tab } from '../tabs.ts';
import { Answers, short } from './answers.ts';
import { type Input, body, curl, typescript } from './body.ts';
import { EXAMPLES, type ExampleState } from './examples.ts';
import { QuestionForm } from './form.ts';
import { Pictures, arePictures } from './pictures.ts';

/** An answer takes longer than one to a short text, so a longer pause in typing is waited for. */
const PAUSE_MS = 250;

interface Sent {
  text: string;
  input: Input;
}

interface Got {
  decision: Decision;
  /** The response as it came. */
  text: string;
}

export class Questions {
  readonly card = new Card('d-', element('d-answers', HTMLOListElement));
  readonly #answers = new Answers();
  readonly #form = new QuestionForm(() => this.#changed());
  readonly #pictures = new Pictures(() => this.#changed());
  readonly #state = element('d-state', HTMLTextAreaElement);
  readonly #asker = new Asker<Sent, Got>({
    asked: () => this.#answers.stale(true),
    answered: (got, { input }) => this.#answered(got, input),
    failed: (error) => {
      const cpu = concernsGpu(error);
      this.card.failure(error, { retry: cpu || error.kind === 'Crashed', cpu, back: false });
    },
  });
  #decider: Decider | undefined;
  #loading: AbortController | undefined;
  #failed = false;
  #source = initialSource('decider');

  constructor() {
    element('d-examples', HTMLUListElement).append(...EXAMPLES.map((example) => this.#exampleButton(example)));
    this.#state.addEventListener('input', () => this.#changed());
    this.#state.addEventListener('paste', (event) => this.#onPaste(event));
    for (const id of ['d-as-text', 'd-as-json']) {
      element(id, HTMLInputElement).addEventListener('change', () => this.#changed());
    }
    element('d-loading-cancel', HTMLButtonElement).addEventListener('click', () => this.#loading?.abort());
    element('d-failure-retry', HTMLButtonElement).addEventListener('click', () => {
      if (this.#failed || !this.#decider) void this.#load();
      else this.#changed(0);
    });
    element('d-failure-cpu', HTMLButtonElement).addEventListener('click', () => {
      chooseDevice('cpu');
      void this.#load();
    });
    element('d-failure-back', HTMLButtonElement).addEventListener('click', () => {
      this.#source = BUILTIN_DECIDER;
      void this.#load();
    });
    this.#copies('d-copy-curl', curl);
    this.#copies('d-copy-typescript', typescript);
    const first = EXAMPLES[0];
    if (first) this.#use(first);
  }

  /** The tab was opened. */
  async show(): Promise<void> {
    if (this.#decider && !this.#loading) this.#ready(this.#decider);
    else if (!this.#loading && !this.#failed) await this.#load();
  }

  /** Loads the model again, where it runs having changed. */
  async again(): Promise<void> {
    await this.#load();
  }

  /** Takes dropped files, or an address: pictures belong to the request, anything else is a model. */
  async take(source: Source): Promise<void> {
    if (Array.isArray(source) && arePictures(source)) return this.#pictures.add(source);
    this.#source = source;
    await this.#load();
  }

  async #load(): Promise<void> {
    this.#loading?.abort();
    const controller = new AbortController();
    this.#loading = controller;
    this.#failed = false;
    showState('busy', 'Loading');
    this.#asker.use(undefined);
    this.card.progress({ stage: 'program', file: '', done: 0, total: 0 });
    try {
      const loaded = await Decider.load(this.#source, {
        backend: chosenDevice(),
        signal: controller.signal,
        progress: (progress) => this.card.progress(progress),
      });
      if (this.#loading !== controller) return loaded.dispose();
      this.#decider?.dispose();
      this.#decider = loaded;
      this.#loading = undefined;
      this.#ready(loaded);
    } catch (error) {
      if (this.#loading !== controller) return;
      this.#loading = undefined;
      this.#failed = true;
      showState('failed', 'No model');
      if (!(error instanceof DikastError)) throw error;
      this.card.failure(error, { retry: true, cpu: concernsGpu(error), back: this.#source !== BUILTIN_DECIDER });
    }
  }

  #ready(loaded: Decider): void {
    this.#asker.use(async ({ text }, signal) => {
      const start = performance.now();
      const response = await loaded.decideJson(text, { signal });
      const decision = { ...(JSON.parse(response) as Decision), x_timing: { engine_ms: performance.now() - start } };
      return { decision, text: response };
    });
    this.#changed(0);
    if (tab() !== 'questions') return;
    const where = loaded.info.backend === 'cpu' ? 'CPU' : 'GPU';
    showState('ready', `Ready on the ${where}`);
    showDecider(loaded.info);
    document.documentElement.dataset['decider'] = loaded.info.name;
    element('builtin', HTMLButtonElement).hidden = true;
    void keepPage().then((kept) => {
      const offline = kept && loaded.info.origin.cached !== 'none' && tab() === 'questions';
      if (offline) showState('ready', `Ready on the ${where}`, ', works offline');
    });
  }

  #answered({ decision, text }: Got, input: Input): void {
    if (!this.#decider) return;
    this.#answers.show(decision, text, input.questions);
    const where = this.#decider.info.backend === 'cpu' ? 'CPU' : 'GPU';
    const tokens = count(decision.usage.input_tokens);
    const said = Object.entries(decision.answers).map(([id, answer]) => `${id}: ${short(answer)}`);
    this.card.answer(`${milliseconds(decision.x_timing.engine_ms)} · ${tokens} tokens · ${where}`, '', said.join(', '));
  }

  get #input(): Input {
    return {
      state: this.#state.value,
      json: element('d-as-json', HTMLInputElement).checked,
      pictures: this.#pictures.files,
      questions: this.#form.questions,
    };
  }

  /** The model's name in a request that is to be pasted elsewhere. */
  get #model(): string {
    return this.#decider?.info.name ?? 'clef-mini';
  }

  #changed(pause = PAUSE_MS): void {
    const input = this.#input;
    const made = body(input, this.#model);
    for (const id of ['d-copy-curl', 'd-copy-typescript']) element(id, HTMLButtonElement).disabled = 'missing' in made;
    element('d-copy-note', HTMLParagraphElement).textContent = '';
    if ('text' in made) {
      this.#asker.ask({ text: made.text, input }, pause);
    } else {
      this.#asker.drop();
      if (!this.#loading && !this.#failed) this.card.placeholder(made.missing);
    }
  }

  /** What is pasted into an empty field and is JSON becomes JSON; pictures become pictures. */
  #onPaste(event: ClipboardEvent): void {
    const files = [...(event.clipboardData?.files ?? [])];
    if (arePictures(files)) {
      event.preventDefault();
      void this.#pictures.add(files);
      return;
    }
    const all = this.#state.selectionStart === 0 && this.#state.selectionEnd === this.#state.value.length;
    if (!all) return;
    element(isTree(event.clipboardData?.getData('text') ?? '') ? 'd-as-json' : 'd-as-text', HTMLInputElement).checked = true;
  }

  #use(example: ExampleState): void {
    this.#state.value = example.state;
    element(example.json ? 'd-as-json' : 'd-as-text', HTMLInputElement).checked = true;
    this.#pictures.set(example.pictures ?? []);
    this.#form.set(example.questions);
    this.#changed(0);
  }

  #exampleButton(example: ExampleState): HTMLLIElement {
    const button = make('button', { type: 'button' }, example.title);
    button.addEventListener('click', () => this.#use(example));
    return make('li', {}, button);
  }

  #copies(id: string, form: (body: string) => string): void {
    element(id, HTMLButtonElement).addEventListener('click', () => {
      const made = body(this.#input, this.#model);
      if ('missing' in made) return;
      const note = element('d-copy-note', HTMLParagraphElement);
      navigator.clipboard.writeText(form(made.text)).then(
        () => (note.textContent = 'Copied.'),
        () => (note.textContent = 'The browser did not allow copying.'),
      );
    });
  }
}

function isTree(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null;
  } catch {
    return false;
  }
}
