/* Search from the file system: browsers start no worker there, so the search runs in a hidden frame instead. */
(function () {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = this.onmessageerror = this.onerror = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      this.waiting = [];
      inside.postMessage = (data) => this.tell(data);
      inside.importScripts = (...urls) => Promise.all(urls.map((one) => this.load(inside, one)));
      this.load(inside, url).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    load(inside, url) {
      return new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.src = String(url);
        script.onload = resolve;
        script.onerror = reject;
        inside.document.body.appendChild(script);
      });
    }

    tell(data) {
      setTimeout(() => {
        const event = new MessageEvent("message", { data });
        if (this.onmessage) this.onmessage(event);
        this.dispatchEvent(event);
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();
