"""Makes the pictures of docs/dashboard.md with a real browser: an estate that holds still, a rollout as it happens, and a
large estate, of which it also says how long everything took.

    python scripts/dashboard_screenshots.py [still] [live] [far]      needs chromium and chromedriver (make oracles)
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import program  # noqa: E402
from tests.unit.observe.dashboard.estates import claim, device_class, large, node, pod, slice_of  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
REGAUGE = (sys.executable, "-m", "regauge")
MOST_BYTES = 150_000
PATIENCE_S = 120.0
SIZE = (1440, 900)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars")
SCROLL = """
const done = arguments[0], grid = document.getElementById("grid"), frames = [];
let last = performance.now();
requestAnimationFrame(function step(now) {
  frames.push(now - last); last = now; grid.scrollTop = frames.length * 160;
  if (frames.length < 120) requestAnimationFrame(step); else done(frames.slice(2).sort((a, b) => a - b));
});
"""
FILTER = """
const done = arguments[1], text = document.getElementById("text"), began = performance.now();
text.value = arguments[0]; text.dispatchEvent(new Event("input"));
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
"""


class Camera:
    """A browser that takes pictures of pages."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, *, dark: bool = False) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get("about:blank")
        self.driver.get(url)
        self.until("return document.documentElement.dataset.ready === 'true'")

    def until(self, script: str) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not self.driver.execute_script(script):
            if time.monotonic() > ends:
                raise SystemExit(f"it did not come: {script}")
            time.sleep(0.1)

    def keys(self, *keys: str) -> None:
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()
            time.sleep(0.2)

    def take(self, name: str) -> None:
        time.sleep(0.5)
        place = PICTURES / f"{name}.png"
        place.write_bytes(self.driver.get_screenshot_as_png())
        size_bytes = place.stat().st_size
        print(f"{place.relative_to(ROOT)}: {size_bytes:,} bytes")
        if size_bytes > MOST_BYTES:
            raise SystemExit(f"more than {MOST_BYTES:,} bytes")


@contextmanager
def camera() -> Iterator[Camera]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(program("chromium"))
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={SIZE[0]},{SIZE[1]}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(str(program("chromedriver"))))
        try:
            yield Camera(driver)
        finally:
            driver.quit()


@contextmanager
def started(says: str, *arguments: str, directory: Path, **environment: str) -> Iterator[str]:
    """A `regauge` that runs while the block does; gives what it said that looks like `says`."""
    told = {**os.environ, **environment}
    command = subprocess.Popen([*REGAUGE, *arguments], stderr=subprocess.PIPE, text=True, env=told, cwd=directory)
    assert command.stderr is not None
    try:
        for line in command.stderr:
            found = re.search(says, line)
            if found:
                yield found[1]
                return
        raise SystemExit(f"regauge {' '.join(arguments)} ended early")
    finally:
        command.terminate()
        command.communicate()


def page_of(place: str, directory: Path) -> Any:
    return started(r"(http://\S+)", "dashboard", place, "--port", "0", directory=directory)


def motley() -> list[dict[str, Any]]:
    """Nodes on which everything occurs that the page has a sign for."""
    chance = random.Random(11)
    objects: list[dict[str, Any]] = [device_class(), *_counted(chance)]
    for number in range(24):
        name = f"node-{number:02d}"
        made = slice_of(name, 8)
        objects += [node(name, ("train", "infer")[number % 2]), made]
        for device in range(8):
            kind = chance.choices(
                ("free", "held", "reserved", "leaked", "bridge", "ill", "tainted"), (8, 14, 2, 1, 3, 1, 1)
            )[0]
            objects += _held(name, made["spec"]["devices"][device], kind)
    return objects


def _held(name: str, device: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    title = f"{name}-{device['name']}"
    if kind == "tainted":
        device["taints"] = [{"key": "gpu.example.com/ecc", "value": "pending", "effect": "NoSchedule"}]
    if kind in ("free", "tainted"):
        return []
    held = claim(title, [(name, device["name"])], title)
    if kind == "leaked":
        return [held]
    if kind == "ill":
        condition = {"type": "Ready", "status": "False", "reason": "XID", "message": "79: fell off the bus"}
        held["status"]["devices"] = [
            {"driver": "gpu.example.com", "pool": name, "device": device["name"], "conditions": [condition]}
        ]
    if kind == "bridge":
        user = pod(title, name)
        mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "gpu"}
        user["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": title, "requestMappings": [mapping]}
        return [held, user]
    return [held, pod(title, name, title, "Pending" if kind == "reserved" else "Running")]


def _counted(chance: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(8):
        name = f"old-{number}"
        made = node(name, "legacy")
        made["status"]["capacity"] = {"example.com/gpu": "8"}
        made["status"]["allocatable"]["example.com/gpu"] = "8"
        yield made
        user = pod(f"user-{name}", name)
        count = str(chance.randint(1, 8))
        user["spec"]["containers"][0]["resources"] = {
            "limits": {"example.com/gpu": count},
            "requests": {"example.com/gpu": count},
        }
        yield user


def still(shots: Camera, directory: Path) -> None:
    """All signs of the page, in both themes, and what waits in the sample estate."""
    dump = directory / "estate.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": motley()}))
    with page_of(dump.name, directory) as url:
        shots.open(url)
        shots.until("return document.getElementById('panel').innerText.indexOf('Still looking') < 0")
        shots.take("dashboard")
        shots.driver.set_window_size(1280, 640)
        shots.open(f"{url}#state=leaked,reserved&view=table&tab=findings", dark=True)
        shots.until("return document.querySelectorAll('#panel .item').length > 0")
        shots.keys("g", Keys.DOWN)
        shots.take("dashboard-table")
        shots.driver.set_window_size(*SIZE)
    with page_of("sample", directory) as url:
        shots.open(f"{url}#text=shared-h100", dark=True)
        shots.until("return document.querySelectorAll('#panel details').length > 0")
        shots.keys("w", Keys.TAB, Keys.TAB, Keys.ENTER, Keys.TAB, Keys.ENTER)
        shots.take("dashboard-waiting")


def live(shots: Camera, directory: Path) -> None:
    """A plan as it is carried out on `regauge up` with the sample estate."""
    state = directory / "up"
    up = ("up", "--estate", "sample", "--state", str(state), "--forget-after", "2")
    with started(r"KUBECONFIG=(\S+)", *up, directory=directory) as kubeconfig:
        plan = directory / "plan.yaml"
        environment = {**os.environ, "KUBECONFIG": kubeconfig}
        subprocess.run([*REGAUGE, "plan", "--write", str(plan)], check=True, env=environment, capture_output=True)
        with started(r"(http://\S+)", "dashboard", "--port", "0", directory=directory, KUBECONFIG=kubeconfig) as url:
            command = [*REGAUGE, "rollout", "run", str(plan), "--approve", "*"]
            rollout = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            shots.open(f"{url}#tab=rollouts")
            shots.until("return document.querySelectorAll('#panel details').length > 0")
            shots.driver.execute_script("document.querySelector('#panel details').open = true")
            shots.until("return document.querySelectorAll('.state.done').length >= 7")
            shots.until("return document.querySelectorAll('.item .state.acting').length > 0")
            shots.take("dashboard-rollout")
            rollout.wait(PATIENCE_S * 3)


def far(shots: Camera, directory: Path) -> None:
    """Forty thousand devices, with numbers."""
    dump = directory / "large.json"
    items = [one.object for one in large().all_documents()]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    with page_of(dump.name, directory) as url:
        shots.open(url)
        shots.until("return document.getElementById('panel').innerText.indexOf('Still looking') < 0")
        for _ in range(3):
            shots.open(url)
            entry = shots.driver.execute_script(
                "const paint = performance.getEntriesByName('first-contentful-paint')[0];"
                "return [paint.startTime, performance.getEntriesByName('devices drawn')[0].startTime]"
            )
            time.sleep(1)
            frames = shots.driver.execute_async_script(SCROLL)
            filters = [shots.driver.execute_async_script(FILTER, text) for text in ("work-00", "work-0001", "")]
            print(
                f"first paint {entry[0] / 1000:.2f} s, devices drawn {entry[1] / 1000:.2f} s; a frame of scrolling: median"
                f" {frames[len(frames) // 2]:.0f} ms, 95 of 100 within {frames[len(frames) * 95 // 100]:.0f} ms; filters "
                + ", ".join(f"{one:.0f} ms" for one in filters)
            )
        shots.take("dashboard-large")


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    wanted = sys.argv[1:] or ["still", "live", "far"]
    with tempfile.TemporaryDirectory(prefix="d") as directory, camera() as shots:
        for name in wanted:
            {"still": still, "live": live, "far": far}[name](shots, Path(directory))


if __name__ == "__main__":
    main()
