/** The page: labels for a text in one tab, typed questions in the other; what is asked on the left, the verdict on the right. */

import {
  type Classification,
  Classifier,
  DikastError,
  type Source,
  checkCompatibility,
  clearCache,
} from 'dikast-web';

import { Asker, PAUSE_MS } from './asker.ts';
import { Chips } from './chips.ts';
import { Questions } from './decide/tab.ts';
import { chooseDevice, chosenDevice, watchDevice } from './device.ts';
import { element, make } from './dom.ts';
import { EXAMPLES, type ExampleText } from './examples.ts';
import { showBrowser, showModel } from './facts.ts';
import { milliseconds } from './format.ts';
import { concernsGpu } from './messages.ts';
import { keepPage } from './offline.ts';
import { BUILTIN, initialSource, watchSources } from './source.ts';
import { showState } from './state.ts';
import { startTabs, tab } from './tabs.ts';
import { startTheme } from './theme.ts';
import { Verdict } from './verdict.ts';

interface Question {
  text: string;
  labels: readonly string[];
  single: boolean;
  threshold: number;
}

const text = element('text', HTMLTextAreaElement);
const threshold = element('threshold', HTMLInputElement);
const sourceNote = element('source-note', HTMLParagraphElement);
const verdict = new Verdict();
const chips = new Chips(() => changed());
const asker = new Asker<Question, Classification>({
  asked: () => verdict.bars.stale(true),
  answered: (answer) => classifier && verdict.judged(answer, classifier.info),
  failed: (error) => {
    const cpu = concernsGpu(error);
    verdict.failure(error, { retry: cpu || error.kind === 'Crashed', cpu, back: false });
  },
});

const questions = new Questions();
let classifier: Classifier | undefined;
let loading: { source: Source; controller: AbortController } | undefined;
let failedSource: Source | undefined;
/** Where the model in use came from. */
let current: Source = BUILTIN;

/** Loads a model; the one in use answers on until the new one is there. */
async function load(source: Source): Promise<void> {
  loading?.controller.abort();
  const controller = new AbortController();
  const mine = { source, controller };
  loading = mine;
  failedSource = undefined;
  sourceNote.textContent = '';
  showState('busy', 'Loading');
  asker.use(undefined);
  verdict.progress({ stage: 'program', file: '', done: 0, total: 0 });
  try {
    const loaded = await Classifier.load(source, {
      backend: chosenDevice(),
      signal: controller.signal,
      progress: (progress) => verdict.progress(progress),
    });
    if (loading !== mine) return loaded.dispose();
    classifier?.dispose();
    classifier = loaded;
    current = source;
    loading = undefined;
    ready(loaded, source);
  } catch (error) {
    if (loading !== mine) return;
    loading = undefined;
    failedSource = source;
    showState('failed', 'No model');
    if (!(error instanceof DikastError)) throw error;
    offerBack();
    const back = classifier !== undefined || source !== BUILTIN;
    verdict.failure(error, { retry: true, cpu: concernsGpu(error), back });
  }
}

function ready(loaded: Classifier, source: Source): void {
  asker.use(answerer(loaded));
  changed(0);
  // The header and the facts are those of the tab that is seen.
  if (tab() === 'questions') return;
  const where = loaded.info.backend === 'cpu' ? 'CPU' : 'GPU';
  showState('ready', `Ready on the ${where}`);
  showModel(loaded.info);
  element('builtin', HTMLButtonElement).hidden = source === BUILTIN;
  document.documentElement.dataset['model'] = loaded.info.name;
  void keepPage().then((kept) => {
    if (kept && tab() === 'labels' && loaded.info.origin.cached !== 'none') showState('ready', `Ready on the ${where}`, ', works offline');
  });
}

function answerer(loaded: Classifier) {
  return (question: Question, signal: AbortSignal): Promise<Classification> =>
    loaded.classify(question.text, question.labels, {
      multi_label: !question.single,
      threshold: question.threshold,
      truncation: 'text',
      signal,
    });
}

/** The way back from a failed load: the model that is still there, or the built-in one. */
function offerBack(): void {
  const name = classifier?.info.name;
  const button = element('failure-back', HTMLButtonElement);
  button.textContent = name === undefined ? 'Use the built-in model' : `Back to ${name}`;
  button.onclick = () => {
    failedSource = undefined;
    if (classifier) ready(classifier, current);
    else void load(BUILTIN);
  };
}

/** Something on the left changed, or the model did. */
function changed(pause = PAUSE_MS): void {
  const question: Question = {
    text: text.value,
    labels: [...chips.labels],
    single: element('mode-single', HTMLInputElement).checked,
    threshold: Number(threshold.value) / 100,
  };
  element('threshold-field', HTMLDivElement).classList.toggle('off', question.single);
  threshold.disabled = question.single;
  element('threshold-value', HTMLOutputElement).textContent = `${threshold.value} %`;
  for (const button of document.querySelectorAll<HTMLButtonElement>('#examples button')) {
    button.setAttribute('aria-pressed', String(button.dataset['text'] === question.text));
  }
  const missing = question.text.trim() === '' ? 'Write a text to judge.' : question.labels.length === 0 ? 'Name at least one label.' : '';
  if (missing === '') {
    asker.ask(question, pause);
  } else {
    asker.drop();
    if (!loading && !failedSource) verdict.placeholder(missing);
  }
}

function use(example: ExampleText): void {
  text.value = example.text;
  text.lang = example.language;
  chips.set(example.labels);
  element(example.single ? 'mode-single' : 'mode-multi', HTMLInputElement).checked = true;
  changed();
}

function exampleButton(example: ExampleText): HTMLLIElement {
  const language = make('span', { className: 'language', ariaHidden: 'true' }, example.language);
  const button = make('button', { type: 'button' }, language, make('span', { lang: example.language }, example.title));
  button.dataset['text'] = example.text;
  button.addEventListener('click', () => use(example));
  return make('li', {}, button);
}

/** Shows one of the tabs; each loads its model when it is first seen. */
async function showTab(): Promise<void> {
  document.documentElement.dataset['tab'] = tab();
  if (tab() === 'questions') return questions.show();
  if (classifier && !loading) return ready(classifier, current);
  if (!loading && !failedSource) await load(initialSource('model'));
}

/** What nobody foresaw still gets its message. */
function unforeseen(reason: unknown): void {
  const error = reason instanceof DikastError ? reason : new DikastError({ kind: 'Internal' }, String(reason));
  (tab() === 'questions' ? questions.card : verdict).failure(error, { retry: true, cpu: false, back: false });
  showState('failed', 'Stopped');
}

async function start(): Promise<void> {
  addEventListener('error', (event) => unforeseen(event.error ?? event.message));
  addEventListener('unhandledrejection', (event) => unforeseen(event.reason));
  startTheme();
  element('examples', HTMLUListElement).append(...EXAMPLES.map(exampleButton));
  text.addEventListener('input', () => changed());
  threshold.addEventListener('input', () => changed());
  for (const id of ['mode-single', 'mode-multi']) element(id, HTMLInputElement).addEventListener('change', () => changed());
  element('loading-cancel', HTMLButtonElement).addEventListener('click', () => loading?.controller.abort());
  element('failure-retry', HTMLButtonElement).addEventListener('click', () => {
    if (failedSource || !classifier) void load(failedSource ?? BUILTIN);
    else changed();
  });
  element('forget', HTMLButtonElement).addEventListener('click', () => {
    void clearCache().then(() => (sourceNote.textContent = 'Nothing is kept any more; the model in use stays until you leave.'));
  });
  watchDevice(() => void (tab() === 'questions' ? questions.again() : load(loading?.source ?? failedSource ?? current)));
  element('failure-cpu', HTMLButtonElement).addEventListener('click', () => {
    chooseDevice('cpu');
    void load(failedSource ?? current);
  });
  watchSources((source) => void (tab() === 'questions' ? questions.take(source) : load(source)));
  const first = EXAMPLES[0];
  if (first) use(first);

  startTabs(() => void showTab());
  await showTab();
  // Measured from the navigation on, for whoever looks.
  document.documentElement.dataset['ready'] = milliseconds(performance.now());
  // Looking for a graphics device takes long enough to be worth waiting with.
  showBrowser(await checkCompatibility());
}

void start();
