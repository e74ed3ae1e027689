# SPDX-License-Identifier: MIT
# run.py PHONOGRAPH: the page of `phonograph view` in a headless browser, as a user works with it. 77: there is no browser, or no D3 in the build.
import os
import shutil
import subprocess
import sys
import tempfile

import browser
import checks
import records


def view(program, folder, name, made, **environment):
    path = records.write(os.path.join(folder, name + ".json"), made)
    page = os.path.join(folder, name + ".html")
    done = subprocess.run([program, "view", path, "-o", page], capture_output=True, text=True, errors="replace", env={**os.environ, **environment})
    if "node-d3" in done.stderr:
        print("skipped: this build has no D3: the page was not opened")
        sys.exit(77)
    assert done.returncode in (0, 1), done.stderr
    return page if done.returncode == 0 else None


def main():
    program, chromium = sys.argv[1], browser.find()
    if not chromium:
        print("skipped: no chromium was found: the page of phonograph view was not opened")
        return 77
    if not shutil.which("dot"):
        print("skipped: no dot was found: drawings that Graphviz placed were not looked at")
    folder, failed = tempfile.mkdtemp(prefix="phonograph-view-"), 0
    try:
        page = browser.Browser(chromium)
    except (OSError, RuntimeError, TimeoutError) as error:
        if os.geteuid() == 0:
            raise
        print(f"skipped: chromium does not start as this user ({error}): the page of phonograph view was not opened")
        return 77
    try:
        for check in checks.all_of_them():
            if len(sys.argv) > 2 and check.__name__ not in sys.argv[2:]:
                continue
            page.prefer(color_scheme="light", reduced_motion="reduce")
            try:
                check(page, lambda name, made, **environment: view(program, folder, name, made, **environment))
                print(f"passed: {check.__name__}")
            except (AssertionError, RuntimeError, TimeoutError) as error:
                failed += 1
                print(f"FAILED: {check.__name__}: {type(error).__name__}: {error}")
                trace = error.__traceback__
                while trace:
                    print(f"  {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}")
                    trace = trace.tb_next
    finally:
        page.close()
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
