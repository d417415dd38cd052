/** Numbers for people. */

export function percent(score: number): string {
  const hundredths = score * 100;
  if (hundredths > 0 && hundredths < 0.1) return '< 0.1 %';
  return `${hundredths.toFixed(1)} %`;
}

export function bytes(count: number): string {
  if (count < 1e6) return `${Math.round(count / 1e3)} kB`;
  if (count < 1e9) return `${(count / 1e6).toFixed(1)} MB`;
  return `${(count / 1e9).toFixed(2)} GB`;
}

export function milliseconds(time: number): string {
  return time < 1000 ? `${Math.round(time)} ms` : `${(time / 1000).toFixed(1)} s`;
}

export function count(number: number): string {
  return number.toLocaleString('en');
}
