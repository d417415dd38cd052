/** WebGPU devices in a worker, and how they fail when a test says so. */

/**
 * Text to put before the worker's own. `hardware`: the adapter does not look like software. `refuse`: no device is
 * granted. `memory`: memory runs out at the first buffer. `doomed`: every device is destroyed as soon as it is there.
 */
export function devices(settings = {}) {
  return `{
    const settings = ${JSON.stringify(settings)};
    const devices = [];
    if (globalThis.GPUAdapter) {
      const { requestDevice } = GPUAdapter.prototype;
      GPUAdapter.prototype.requestDevice = async function (...asked) {
        if (settings.refuse) throw new DOMException('a limit is not granted', 'OperationError');
        const device = await requestDevice.apply(this, asked);
        devices.push(device);
        if (settings.doomed) device.destroy();
        return device;
      };
      const { createBuffer } = GPUDevice.prototype;
      GPUDevice.prototype.createBuffer = function (descriptor) {
        const error = settings.memory && new GPUOutOfMemoryError('none left');
        if (error) this.dispatchEvent(new GPUUncapturedErrorEvent('uncapturederror', { error }));
        return createBuffer.call(this, descriptor);
      };
      const look = (name, value) => Object.defineProperty(GPUAdapterInfo.prototype, name, { get: () => value });
      if (settings.hardware) {
        look('architecture', 'invented');
        look('isFallbackAdapter', false);
      }
    }
    addEventListener('message', (event) => {
      const { data } = event;
      if (data.test === undefined) return;
      event.stopImmediatePropagation();
      Object.assign(settings, data.test);
      if (data.test.destroy) for (const device of devices) device.destroy();
      postMessage({ devices: devices.length });
    });
  }`;
}

/** Runs in the page before anything else: keeps its workers for {@link tell}. */
export function keepWorkers() {
  window.workers = [];
  window.Worker = class extends Worker {
    constructor(...given) {
      super(...given);
      window.workers.push(this);
    }
  };
}

/** Tells the newest worker `{destroy: true}` or other settings; how many devices it has had. */
export function tell(page, test) {
  return page.evaluate(
    (test) =>
      new Promise((resolve) => {
        const worker = window.workers.at(-1);
        worker.addEventListener('message', ({ data }) => data.devices !== undefined && resolve(data.devices));
        worker.postMessage({ test });
      }),
    test,
  );
}
