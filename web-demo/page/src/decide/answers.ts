/** The answers: a card a question, a bar an option. */

import type { Answer, Decision, Json } from 'dikast-web';

import { element, make } from '../dom.ts';
import { percent } from '../format.ts';
import type { Asked } from './form.ts';

interface Bar {
  name: string;
  probability: number;
  chosen: boolean;
}

export class Answers {
  readonly #list = element('d-answers', HTMLOListElement);
  readonly #response = element('d-response', HTMLPreElement);

  /** @param text the response as it came */
  show(decision: Decision, text: string, questions: readonly Asked[]): void {
    const items = questions.map((asked) => {
      const answer = decision.answers[asked.id];
      return answer ? item(asked, answer) : make('li');
    });
    this.#list.replaceChildren(...items);
    this.#response.textContent = JSON.stringify(JSON.parse(text), null, 2);
    this.stale(false);
  }

  /** Says that what is shown belongs to an earlier request. */
  stale(stale: boolean): void {
    this.#list.classList.toggle('stale', stale);
  }
}

/** An answer in a few words. */
export function short(answer: Answer): string {
  switch (answer.type) {
    case 'noul':
      return `${answer.noul >= 0.5 ? 'yes' : 'no'} ${percent(Math.max(answer.noul, 1 - answer.noul))}`;
    case 'choice':
      return answer.choice;
    case 'score':
      return answer.score.toFixed(2);
  }
}

function item(asked: Asked, answer: Answer): HTMLLIElement {
  const title = make('span', { className: 'question-title' }, asked.instructions.trim() || asked.id);
  const result = make('span', { className: 'result' }, summary(answer));
  const rows = bars(answer).map(row);
  const made = make('li', {}, make('div', { className: 'answer-head' }, title, result), make('ul', { className: 'bars' }, ...rows));
  made.dataset['id'] = asked.id;
  return made;
}

function summary(answer: Answer): string {
  return answer.type === 'noul' ? short(answer) : `${short(answer)} · confidence ${percent(answer.confidence)}`;
}

function bars(answer: Answer): Bar[] {
  switch (answer.type) {
    case 'noul':
      return [
        { name: 'yes', probability: answer.noul, chosen: answer.noul >= 0.5 },
        { name: 'no', probability: 1 - answer.noul, chosen: answer.noul < 0.5 },
      ];
    case 'choice':
      return Object.entries(answer.probabilities).map(([name, probability]) => ({
        name,
        probability,
        chosen: name === answer.choice,
      }));
    case 'score': {
      const best = Math.max(...Object.values(answer.probabilities));
      return Object.entries(answer.probabilities).map(([level, probability]) => ({
        name: `${level} · ${words(answer.legend[level])}`,
        probability,
        chosen: probability === best,
      }));
    }
  }
}

function words(level: Json | undefined): string {
  return typeof level === 'string' ? level : JSON.stringify(level);
}

function row({ name, probability, chosen }: Bar): HTMLLIElement {
  const fill = make('span', { className: 'fill' });
  fill.style.transform = `scaleX(${Math.max(probability, 0.004)})`;
  const track = make('span', { className: 'track', ariaHidden: 'true' }, fill);
  const value = make('span', { className: 'value' }, percent(probability));
  const item = make('li', {}, make('span', { className: 'name', title: name }, name), value, track);
  item.classList.toggle('chosen', chosen);
  item.dataset['option'] = name;
  item.dataset['probability'] = String(probability);
  return item;
}
