"""Runs `dxgkit` on a driver, and what a run of `dxgkit verify` says of it, for scripts that try many."""
import json
import os
import re
import signal
import subprocess

# What a broken tool says on its way out.
INTERNAL = re.compile(r"(CHECK|malloc|free\(\)|double free or|corrupted|terminate called|Assertion|stack smashing|runtime error).*")
# A mistake of dxgkit, also where the end of its process has a place. A broken heap is the driver's doing.
OURS = re.compile(r"CHECK|terminate called|runtime error")
# The end of a process in `dxgkit verify` or `doctor`, and whether it says what the driver was doing.
ENDED = re.compile(r"(?:ended its process by signal|lost its process).*")
PLACED = re.compile(r" in [A-Za-z]+[.,]|; the last call of the driver was ")
NAMED, OTHERWISE, HANG, MISSED, TOOL = "named rule", "found otherwise", "hang", "not found", "dxgkit ended"


def run(command, folder, patience_s):
    """(exit code or None after `patience_s`, stdout, stderr). Nothing of it is left running."""
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=patience_s)
        code = process.returncode
    except subprocess.TimeoutExpired:
        code = None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    if code is None:
        out, err = process.communicate()
    return code, out.decode(errors="replace"), err.decode(errors="replace")


def classify(code, out, err):
    """(class, what was said) of one verification."""
    if code is None:
        return TOOL, "it did not end"
    internal = INTERNAL.search(err)
    internal = f": {internal.group(0)[:160]}" if internal else ""
    if code < 0 or code > 4:
        return TOOL, f"exit code {code}{internal}"
    if code == 2:
        return OTHERWISE, "refused: " + err.strip()[-160:]
    try:
        steps = json.loads(out)["steps"]
    except (ValueError, KeyError):
        return TOOL, f"exit code {code}, no report: {err[-160:]}"
    findings = [finding for step in steps for finding in step["findings"] if finding["severity"] != "warning"]
    ended = [finding["actual"] for finding in findings if ENDED.search(finding["actual"])]
    if ended:
        return (OTHERWISE if PLACED.search(ended[0]) and not OURS.search(err) else TOOL), ended[0] + internal
    if code == 0:
        warnings = sorted({finding["rule"] for step in steps for finding in step["findings"]})
        return MISSED, "warned: " + " ".join(warnings) if warnings else ""
    if any("made no progress" in finding["actual"] for finding in findings):
        return HANG, findings[-1]["actual"]
    if findings:
        return NAMED, findings[0]["rule"]
    failed = [f"{step['name']}: {step['text']}" for step in steps if step["outcome"] == "failed"]
    return OTHERWISE, (failed or ["?"])[0][:160]
