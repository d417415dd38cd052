// Before the first paint, so that a chosen theme does not flash.
(() => {
  try {
    const theme = localStorage.getItem('dikast-theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // No storage, no choice.
  }
})();
