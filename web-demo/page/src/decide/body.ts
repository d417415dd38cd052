/** The form as a System One body, and that as something to paste elsewhere. */

import type { Asked } from './form.ts';
import type { PictureFile } from './pictures.ts';

/** What is asked, as the form has it. */
export interface Input {
  state: string;
  /** Whether the state is JSON; text otherwise. */
  json: boolean;
  pictures: readonly PictureFile[];
  questions: readonly Asked[];
}

/** A body, or what is missing before there can be one. */
export type Body = { text: string } | { missing: string };

/** Texts instead of objects: numbers stay as they were written, and questions in their order. */
export function body({ state, json, pictures, questions }: Input, model: string): Body {
  if (state.trim() === '' && pictures.length === 0) return { missing: 'Write what the questions are about, or add a picture.' };
  if (questions.length === 0) return { missing: 'Add a question.' };
  const ids = new Set<string>();
  const entries: string[] = [];
  for (const asked of questions) {
    if (asked.id === '') return { missing: 'Every question needs a name.' };
    if (ids.has(asked.id)) return { missing: `Two questions are called “${asked.id}”.` };
    ids.add(asked.id);
    const entry = question(asked);
    if ('missing' in entry) return entry;
    entries.push(`    ${JSON.stringify(asked.id)}: ${entry.text}`);
  }
  let written = JSON.stringify(state);
  if (json) {
    try {
      JSON.parse(state);
    } catch (error) {
      return { missing: `This is not JSON: ${(error as Error).message}` };
    }
    written = state.trim();
  }
  const parts = [`"model": ${JSON.stringify(model)}`, `"state": ${written}`, `"questions": {\n${entries.join(',\n')}\n  }`];
  if (pictures.length > 0) parts.push(`"images": [\n    ${pictures.map(({ url }) => JSON.stringify(url)).join(',\n    ')}\n  ]`);
  return { text: `{\n  ${parts.join(',\n  ')}\n}` };
}

function question({ id, kind, instructions, lines }: Asked): Body {
  const parts = [`"type": "${kind}"`];
  if (instructions.trim() !== '') parts.push(`"instructions": ${JSON.stringify(instructions.trim())}`);
  const items = listed(lines);
  if (kind === 'choice') {
    const options = new Map(items.map(option));
    if (items.length === 0) return { missing: `“${id}” needs options to choose from.` };
    if (options.size < items.length) return { missing: `“${id}” has an option twice.` };
    const entries = [...options].map(([name, text]) => `${JSON.stringify(name)}: ${JSON.stringify(text)}`);
    parts.push(`"criteria": {${entries.join(', ')}}`);
  } else if (kind === 'score') {
    if (items.length === 0) return { missing: `“${id}” needs levels.` };
    parts.push(`"criteria": ${JSON.stringify(items)}`);
  }
  return { text: `{${parts.join(', ')}}` };
}

/** The lines that are not empty. */
export function listed(lines: string): string[] {
  return lines
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

function option(line: string): [string, string | null] {
  const at = line.indexOf(': ');
  return at > 0 ? [line.slice(0, at), line.slice(at + 2).trim()] : [line, null];
}

/** The request as a shell command against a local server. */
export function curl(body: string): string {
  return `curl http://localhost:8080/v1/systemone -H 'content-type: application/json' --data-binary @- <<'JSON'\n${body}\nJSON\n`;
}

/** The request as a program with this package. */
export function typescript(body: string): string {
  return [
    "import { Decider } from 'dikast-web';",
    '',
    "const decider = await Decider.load('/models/clef-mini/');",
    `const decision = await decider.decide(${body});`,
    'console.log(decision.answers);',
    '',
  ].join('\n');
}
