/** The questions as a form: one card each, of one of three types. */

import { element, make } from '../dom.ts';

export type Kind = 'noul' | 'choice' | 'score';

/** A question as the form has it. */
export interface Asked {
  id: string;
  kind: Kind;
  instructions: string;
  /** Options of a choice, levels of a scale, one a line: `name` or, for an option, `name: description`. */
  lines: string;
}

const KINDS: Record<Kind, string> = { noul: 'Yes or no', choice: 'Choice', score: 'Scale' };
const LINES: Record<Exclude<Kind, 'noul'>, string> = {
  choice: 'Options, one a line; “name: description” if a name does not say it all',
  score: 'Levels, one a line, lowest first',
};

export class QuestionForm {
  readonly #list = element('d-questions', HTMLOListElement);
  readonly #changed: () => void;
  #cards: QuestionCard[] = [];

  constructor(changed: () => void) {
    this.#changed = changed;
    element('d-add', HTMLButtonElement).addEventListener('click', () => {
      const taken = new Set(this.questions.map(({ id }) => id));
      let number = this.#cards.length + 1;
      while (taken.has(`question${number}`)) number += 1;
      this.#add({ id: `question${number}`, kind: 'noul', instructions: '', lines: '' }).focus();
      this.#changed();
    });
  }

  get questions(): Asked[] {
    return this.#cards.map((card) => card.asked);
  }

  set(questions: readonly Asked[]): void {
    this.#cards = [];
    this.#list.replaceChildren();
    for (const question of questions) this.#add(question);
  }

  #add(question: Asked): QuestionCard {
    const card = new QuestionCard(question, this.#changed, () => {
      this.#cards = this.#cards.filter((other) => other !== card);
      card.item.remove();
      element('d-add', HTMLButtonElement).focus();
      this.#changed();
    });
    this.#cards.push(card);
    this.#list.append(card.item);
    return card;
  }
}

class QuestionCard {
  readonly item: HTMLLIElement;
  readonly #id = make('input', { type: 'text', className: 'id', autocomplete: 'off', spellcheck: false });
  readonly #kind = make('select');
  readonly #instructions = make('input', { type: 'text', autocomplete: 'off', placeholder: 'What is asked' });
  readonly #lines = make('textarea', { rows: 3, spellcheck: false });
  readonly #linesLabel = make('span');
  readonly #linesField: HTMLLabelElement;

  constructor(question: Asked, changed: () => void, removed: () => void) {
    for (const [kind, name] of Object.entries(KINDS)) this.#kind.append(make('option', { value: kind }, name));
    this.#id.value = question.id;
    this.#kind.value = question.kind;
    this.#instructions.value = question.instructions;
    this.#lines.value = question.lines;
    this.#id.setAttribute('aria-label', 'Name of the question');
    this.#kind.setAttribute('aria-label', 'Type of the question');
    this.#instructions.setAttribute('aria-label', 'Question');
    const remove = make('button', { type: 'button', className: 'link', title: 'Remove' }, '×');
    remove.setAttribute('aria-label', 'Remove this question');
    remove.addEventListener('click', removed);
    this.#linesField = make('label', {}, this.#linesLabel, this.#lines);
    const head = make('div', { className: 'question-head' }, this.#id, this.#kind, remove);
    this.item = make('li', { className: 'question' }, head, this.#instructions, this.#linesField);
    this.item.addEventListener('input', () => {
      this.#show();
      changed();
    });
    this.#show();
  }

  get asked(): Asked {
    const kind = this.#kind.value as Kind;
    return { id: this.#id.value, kind, instructions: this.#instructions.value, lines: this.#lines.value };
  }

  focus(): void {
    this.#instructions.focus();
  }

  #show(): void {
    const { kind } = this.asked;
    this.#linesField.hidden = kind === 'noul';
    if (kind !== 'noul') this.#linesLabel.textContent = LINES[kind];
  }
}
