# SPDX-License-Identifier: MIT
# browser.py: a headless Chromium, driven through a pair of pipes by its own protocol.
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SPECIAL = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, "Escape": 27, " ": 32}


def find():
    return os.environ.get("PH_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page at a time. What it logs as errors and throws is kept in `complaints`."""

    def __init__(self, program, size=(1440, 1000)):
        self.folder = tempfile.mkdtemp(prefix="phonograph-browser-")
        to_read, self.to_write = os.pipe()
        self.from_read, to_write = os.pipe()
        flags = ["--headless=new", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-sync", "--disable-extensions",
                 "--disable-component-update", "--no-default-browser-check", "--mute-audio", "--hide-scrollbars", "--remote-debugging-pipe",
                 "--force-device-scale-factor=1", f"--window-size={size[0]},{size[1]}", f"--user-data-dir={self.folder}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")

        def place_pipes():
            high = [os.dup(to_read), os.dup(to_write)]  # neither is 3 or 4 by chance
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen([program, *flags, "about:blank"], preexec_fn=place_pipes, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.answers, self.complaints, self.requests, self.page = b"", 0, {}, [], [], None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.page = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)  # what further calls name the page by
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        try:
            os.close(self.to_write)
            os.close(self.from_read)
            self.process.terminate()
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- the protocol: JSON texts that a zero byte ends ----

    def receive(self, seconds):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_read], [], [], seconds)
            if not ready:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.from_read, 1 << 20)
            if not got:
                raise RuntimeError("the browser has ended")
            self.buffer += got
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        if "id" in message:
            self.answers[message["id"]] = message
        else:
            self.note(message["method"], message["params"])

    def note(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"a dialog: {params['message']}")

    def call(self, method, seconds=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.page:
            message.update(self.page)
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while self.number not in self.answers:
            self.receive(seconds)
        answer = self.answers.pop(self.number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    # ---- what a user does ----

    def open(self, path):
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def wait(self, expression, seconds=20):
        end = time.monotonic() + seconds
        while not self.value(f"Boolean({expression})"):
            if time.monotonic() > end:
                raise AssertionError(f"never true: {expression}; complaints: {self.complaints}")
            time.sleep(0.02)

    def key(self, key, modifiers=0):
        """modifiers: 1 Alt, 2 Control, 8 Shift."""
        code = SPECIAL.get(key, ord(key.upper()) if len(key) == 1 else 0)
        event = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        text = "\r" if key == "Enter" else key if len(key) == 1 else None
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def mouse(self, x, y, kind="click", **more):
        if kind == "click":
            for what in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", clickCount=1)
        else:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def box(self, selector):
        return self.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'nearest'}});"
                          " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height] })()")

    def click(self, selector):
        x, y, width, height = self.box(selector)
        self.mouse(x + width / 2, y + height / 2)

    def prefer(self, **features):
        """prefer(color_scheme="dark", reduced_motion="reduce")"""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-" + name.replace("_", "-"), "value": value} for name, value in features.items()])

    def picture(self, path, **clip):
        more = {"clip": {**clip, "scale": 1}} if clip else {}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"]))
