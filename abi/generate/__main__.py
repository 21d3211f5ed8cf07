"""Regenerates abi/include from abi/wddm-layout.json and abi/umd-callbacks.json.

usage: python3 abi/generate [--check]

--check writes nothing and fails if a committed header differs from what would be written.
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True

import facts as facts_module  # noqa: E402
import headers  # noqa: E402
import versions  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    facts = facts_module.load()
    umd_facts = facts_module.load_umd()
    include = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "include")
    texts = headers.HeaderWriter(facts).write_all()
    texts["dxgkit/abi_versions.h"] = versions.write(facts)
    texts.update(headers.HeaderWriter(umd_facts).write_umd())
    texts["dxgkit/hresults.h"] = headers.hresults(umd_facts)
    stale = []
    for name, text in texts.items():
        path = os.path.join(include, name)
        if options.check:
            with open(path, encoding="utf-8") as file:
                if file.read() != text:
                    stale.append(name)
            continue
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    for name in stale:
        print("abi/include/%s is not what the generator writes: run python3 abi/generate" % name)
    print("abi headers: %d generated files %s" %
          (len(texts), "compared" if options.check else "written"))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
