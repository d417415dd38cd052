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
    title: 'Film review',
    text: 'The movie was boring and far too long.',
    labels: ['positive', 'negative'],
    single: true,
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
    title: 'Cuisine',
    text: 'Faites revenir les oignons dans le beurre, puis ajoutez le vin blanc.',
    labels: ['cooking', 'politics', 'travel', 'health'],
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
