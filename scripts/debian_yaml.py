"""`from debian_yaml import yaml`: PyYAML of Debian's package python3-yaml, whatever Python the caller runs in.

Import it before sys.argv is changed: under another Python the program begins again under Debian's, with the same arguments.
"""
import os
import sys

try:
    import yaml
except ModuleNotFoundError:  # another Python stands before Debian's, which has the package python3-yaml
    if sys.executable == "/usr/bin/python3":
        raise
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
