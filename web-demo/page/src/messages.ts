/** Errors in words: what happened, and what helps. */

import type { DikastError } from 'dikast-web';

import { bytes, count } from './format.ts';

export interface Message {
  title: string;
  text: string;
  hint: string;
}

export function explain(error: DikastError): Message {
  const { info } = error;
  switch (info.kind) {
    case 'Unreachable':
      return {
        title: 'Nothing answered',
        text: `There is no answer from ${place(info.url)}.`,
        hint: 'Is the address right, is there a connection, and does the server allow other pages to read from it (CORS)?',
      };
    case 'HttpStatus':
      return info.status === 404
        ? {
            title: 'No such file',
            text: `${place(info.url)} does not exist on the server.`,
            hint: 'The address should be the folder that holds config.json, tokenizer.json and model.safetensors.',
          }
        : {
            title: `The server refused (${info.status})`,
            text: `It answered the request for ${place(info.url)} with status ${info.status}.`,
            hint: 'Some folders need an account or a permission that this page does not have.',
          };
    case 'NotACheckpoint':
      return {
        title: 'This is not a model',
        text: `${place(info.place)} is ${info.found}, not a file of a checkpoint.`,
        hint: 'Often this is the address of a page about a model; the address of the files themselves is needed.',
      };
    case 'Truncated':
      return {
        title: 'The file ends too early',
        text: `${place(info.place)} stopped after ${bytes(info.actual)}${info.expected > 0 ? ` of ${bytes(info.expected)}` : ''}.`,
        hint: 'Trying again continues where it stopped. If it stops at the same place, the file on the server is incomplete.',
      };
    case 'WrongSum':
      return {
        title: 'Not the file it should be',
        text: `The SHA-256 of ${place(info.place)} is not the one in its manifest.`,
        hint: 'It was damaged on the way, or the file on the server was changed. It is not used.',
      };
    case 'Checkpoint':
      return {
        title: 'The checkpoint is damaged or incomplete',
        text: `${info.item}: ${info.detail}`,
        hint: 'Nothing was loaded from it.',
      };
    case 'Unsupported':
      return info.device === 'this browser'
        ? {
            title: 'This browser cannot run the engine',
            text: `It has no ${info.need}.`,
            hint: 'A current version of Chrome, Edge, Firefox or Safari has it. Nothing was downloaded.',
          }
        : {
            title: 'Another kind of model',
            text: `The engine does not run this: ${info.need}.`,
            hint: 'For labels it runs GLiClass models with an mT5 encoder, for questions CLEF models. The weights were not downloaded.',
          };
    case 'NoAdapter':
      return { title: 'No WebGPU here', text: `${sentence(info.reason)}.`, hint: 'The CPU can answer instead.' };
    case 'Limits':
      return {
        title: 'Too much for this graphics device',
        text: `${info.device} lacks ${info.need}.`,
        hint: 'The CPU can answer instead.',
      };
    case 'OutOfMemory':
      if (concernsGpu(error)) {
        return {
          title: 'The graphics device has too little memory',
          text: `The model needs ${bytes(info.needed)} there.`,
          hint: 'Close other pages that draw much, or let the CPU answer instead.',
        };
      }
      return {
        title: 'Too large for this browser',
        text: `It needs ${bytes(info.needed)} on ${info.device}; ${bytes(Math.max(info.available, 0))} are there.`,
        hint: 'The command-line program runs large models.',
      };
    case 'TooLarge':
      return tooLarge(info.what, info.actual, info.limit);
    case 'InvalidRequest':
      return { title: 'This cannot be asked', text: `${info.field}: ${info.detail}`, hint: '' };
    case 'DeviceLost':
      return {
        title: 'The graphics device went away',
        text: `It was started again and did not stay: ${info.detail}`,
        hint: 'Trying again starts it once more; the CPU can answer instead.',
      };
    case 'Io':
      return {
        title: 'A file could not be read',
        text: `${info.path}: ${info.detail}`,
        hint: 'It may have been changed or moved since it was chosen. Choose the folder again.',
      };
    case 'Crashed':
      return { title: 'The engine stopped', text: info.detail, hint: 'The next answer starts it again.' };
    case 'Cancelled':
      return {
        title: 'Cancelled',
        text: 'Loading was stopped.',
        hint: 'What was downloaded is kept; trying again continues there.',
      };
    case 'Internal':
      return { title: 'A fault of this program', text: error.message, hint: '' };
  }
}

/** Whether the CPU would not have the same trouble. */
export function concernsGpu({ info }: DikastError): boolean {
  if (info.kind === 'OutOfMemory') return info.device !== 'WebAssembly memory' && info.device !== 'this machine';
  return ['NoAdapter', 'Limits', 'DeviceLost'].includes(info.kind);
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function tooLarge(what: string, actual: number, limit: number): Message {
  if (what === 'labels') {
    return {
      title: 'Too many labels',
      text: `${count(actual)} labels are over the limit of ${count(limit)}.`,
      hint: 'Remove some of them.',
    };
  }
  if (what === 'images') {
    return {
      title: 'Too many pictures',
      text: `${count(actual)} pictures are over the limit of ${count(limit)}.`,
      hint: 'Remove some of them.',
    };
  }
  if (what.startsWith('tokens of state')) {
    return {
      title: 'Too long for this model',
      text: `State, questions and pictures are ${count(actual)} tokens; the model reads ${count(limit)}.`,
      hint: 'Shorten the state, or ask fewer questions at once.',
    };
  }
  return {
    title: 'Too much at once',
    text: `${count(actual)} ${what} are over the limit of ${count(limit)}.`,
    hint: what.includes('token') ? 'Labels and text share the limit: shorten the text or remove labels.' : '',
  };
}

/** An address cut to what a person recognises. */
function place(address: string): string {
  try {
    const url = new URL(address);
    const file = url.pathname.split('/').filter(Boolean).at(-1) ?? '';
    return file === '' ? url.host : `${file} at ${url.host}`;
  } catch {
    return address;
  }
}
