"""Drives Debian's Chromium over its debugging pipe: real mouse and key input, no network, no driver package."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class Browser:
    def __init__(self, width=1400, height=1000):
        self.profile = tempfile.TemporaryDirectory()
        to_browser_read, self.write_end = os.pipe()
        self.read_end, from_browser_write = os.pipe()
        # The browser reads commands on descriptor 3 and answers on 4.
        high_read, high_write = 60, 61
        os.dup2(to_browser_read, high_read, inheritable=True)
        os.dup2(from_browser_write, high_write, inheritable=True)
        os.close(to_browser_read)
        os.close(from_browser_write)
        arguments = [
            shutil.which("chromium"), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--mute-audio", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
            "--disable-extensions", "--disable-dev-shm-usage", f"--window-size={width},{height}", f"--user-data-dir={self.profile.name}",
            "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(["/bin/bash", "-c", f'exec "$@" 3<&{high_read} 4>&{high_write}', "bash", *arguments], pass_fds=(high_read, high_write),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(high_read)
        os.close(high_write)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (EOFError, BrokenPipeError):
            pass
        self.process.wait(timeout=60)
        os.close(self.write_end)
        os.close(self.read_end)
        self.profile.cleanup()

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser did not answer")
            block = os.read(self.read_end, 1 << 20)
            if not block:
                raise EOFError("the browser has gone")
            self.buffer += block
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, timeout=120, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f'{method}: {answer["error"]["message"]}')
                return answer["result"]
            self.events.append(answer)

    def open(self, path, address=""):
        self.events.clear()
        self.call("Page.navigate", url="about:blank")  # else an address with another # is no new page
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive(time.monotonic() + 120))
        self.events.clear()
        self.call("Page.navigate", url=(path if path.startswith("http:") else "file://" + os.path.abspath(path)) + address)
        deadline = time.monotonic() + 120
        while not any(event["method"] == "Page.loadEventFired" for event in self.events if "method" in event):
            self.events.append(self.receive(deadline))
        self.evaluate("new Promise((done) => { const look = () => window.dxgkit ? done(true) : requestAnimationFrame(look); look(); })")
        self.settle()

    def settle(self):
        """Until two frames have been drawn since."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f'{expression}: {result["exceptionDetails"]}')
        return result["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", buttons=0, clickCount=1)
        self.settle()

    def drag(self, x, y, dx, dy):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for step in range(1, 6):
            self.mouse("mouseMoved", x + dx * step / 5, y + dy * step / 5, button="left", buttons=1)
        self.mouse("mouseReleased", x + dx, y + dy, button="left", buttons=0, clickCount=1)
        self.settle()

    def wheel(self, x, y, delta, control=False):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta, modifiers=2 if control else 0)
        self.settle()

    def key(self, key, text=""):
        # The browser itself acts on keys by their code.
        code = {"ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code, code=key if code else "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code, code=key if code else "")
        self.settle()

    def type(self, text):
        for letter in text:
            self.key(letter, letter)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.settle()

    def prefer(self, scheme):
        """What the system says of dark and light."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def click_on(self, node):
        """Scrolls the element (an expression) into view and clicks its middle."""
        self.click(*self.evaluate(f"(() => {{ const e = {node}; e.scrollIntoView({{ block: 'center' }}); const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()"))

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as output:
            output.write(base64.b64decode(data))

    def errors(self):
        """Script errors and messages of the console since the page was opened."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in kinds]

    def requests(self):
        urls = [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]  # a picture of the page itself
