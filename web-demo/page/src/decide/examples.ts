/** What the example buttons of the questions fill in. */

import sun from '../../../../models/clef-mini/eval_images/sun.png?inline';

import type { Asked } from './form.ts';
import type { PictureFile } from './pictures.ts';

export interface ExampleState {
  title: string;
  state: string;
  json: boolean;
  pictures?: PictureFile[];
  questions: Asked[];
}

export const EXAMPLES: readonly ExampleState[] = [
  {
    title: 'Support message',
    state:
      'Hi, my card shows two identical payments of 49.90 for last Tuesday. Please give me one of them back, I need the money for rent this week.',
    json: false,
    questions: [
      { id: 'refund', kind: 'noul', instructions: 'Is the customer asking for a refund?', lines: '' },
      {
        id: 'team',
        kind: 'choice',
        instructions: 'Which team should handle the message?',
        lines: 'technical: Errors, outages and login problems\nbilling: Charges, invoices and refunds\nsales: Prices and new plans',
      },
      {
        id: 'urgency',
        kind: 'score',
        instructions: 'How urgent is it?',
        lines: 'Can wait a month\nShould be answered this week\nCritical, answer within the hour',
      },
    ],
  },
  {
    title: 'Sensor as JSON',
    state: '{\n  "sensor": "cellar",\n  "temperature": 41.5,\n  "unit": "°C",\n  "alarm": true,\n  "door": "open"\n}',
    json: true,
    questions: [
      { id: 'alarm', kind: 'noul', instructions: 'Is the alarm on?', lines: '' },
      { id: 'door', kind: 'choice', instructions: 'How is the door?', lines: 'open\nclosed' },
    ],
  },
  {
    title: 'Picture',
    state: 'What is shown?',
    json: false,
    pictures: [{ name: 'sun.png', url: sun }],
    questions: [
      { id: 'color', kind: 'choice', instructions: 'What colour is the shape?', lines: 'yellow\nblue\nblack\ngreen' },
      { id: 'shape', kind: 'choice', instructions: 'Which shape is it?', lines: 'circle\nsquare\ntriangle' },
    ],
  },
];
