/** What the example buttons fill in. */

export interface ExampleText {
  language: string;
  title: string;
  text: string;
  labels: string[];
  single: boolean;
}

export const EXAMPLES: readonly ExampleText[] = [
  {
    language: 'en',
    title: 'News desk',
    text: 'NASA launched a spacecraft to study Mars.',
    labels: ['space', 'politics', 'sports', 'business'],
    single: true,
  },
  {
    language: 'en',
    title: 'Support inbox',
    text: 'I was charged twice for my order and nobody answers my emails.',
    labels: ['billing', 'shipping', 'technical support', 'praise'],
    single: true,
  },
  {
    language: 'en',
    title: 'Hotel review',
    text: 'The hotel room was lovely, but breakfast was cold and the staff were rude.',
    labels: ['hotel', 'food', 'complaint', 'weather', 'travel'],
    single: false,
  },
  {
    language: 'de',
    title: 'Nachrichten',
    text: 'Der Bundestag hat nach langer Debatte ein neues Gesetz beschlossen.',
    labels: ['politics', 'sports', 'food', 'science'],
    single: true,
  },
  {
    language: 'fr',
    title: 'Santé',
    text: 'Le nouveau vaccin protège les enfants contre la maladie.',
    labels: ['health', 'politics', 'travel', 'sports'],
    single: true,
  },
  {
    language: 'es',
    title: 'Deportes',
    text: 'El equipo ganó el partido con un gol en el último minuto.',
    labels: ['sports', 'music', 'economy', 'weather'],
    single: true,
  },
  {
    language: 'ru',
    title: 'Погода',
    text: 'Завтра ожидается сильный снег и мороз.',
    labels: ['weather', 'sports', 'politics', 'technology'],
    single: true,
  },
  {
    language: 'zh',
    title: '科技',
    text: '这家公司发布了一款新的智能手机。',
    labels: ['technology', 'food', 'sports', 'travel'],
    single: true,
  },
];
