declare module 'virtual:default-model' {
  import type { RemoteSource } from 'dikast-web';
  const model: Required<RemoteSource> & { base: string };
  export default model;
}
declare module 'virtual:default-decider' {
  import type { RemoteSource } from 'dikast-web';
  const model: Required<RemoteSource> & { base: string };
  export default model;
}
