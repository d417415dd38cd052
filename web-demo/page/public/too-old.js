// Runs only in browsers that cannot run the page's own script.
document.getElementById('loading-what').textContent =
  'This browser is too old for the page: it needs JavaScript modules and WebAssembly SIMD. A current version of any browser has both.';
document.getElementById('loading-bar').hidden = true;
