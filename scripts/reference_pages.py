"""Pages of the site that are generated: each rule, each bug check, and, with the tool, its commands and what is supported.

All texts are the rulebook's and the tool's own; the layout is here.
"""
import json
import pathlib
import re
import subprocess

LEVELS = {"K": "dxgkit itself", "M": "the miniport", "T": "whoever calls"}
CALL_OF_SITUATION = "situations.json"


def code(text):
    return f"```\n{text.rstrip()}\n```\n"


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def plain(text):
    """Text of the rulebook in Markdown: what looks like markup is none. Numbered steps are a list."""
    text = re.sub(r"([<>*_\\`\[\]])", r"\\\1", text)
    return re.sub(r"(?:(?<=\s)|^)(\d)\. (?=[A-Z])", r"\n\1. ", text).strip() if text.startswith("1. ") else text


class Rulebook:
    def __init__(self, root):
        rules = root / "rules"
        self.areas = sorted((json.loads(path.read_text()) for path in rules.glob("[A-Z]*.json")), key=lambda area: area["order"])
        self.explained = {name: text for path in (rules / "explain").glob("*.json") for name, text in json.loads(path.read_text()).items()}
        self.bug_checks = json.loads((rules / "bug_checks.json").read_text())["bug_checks"]
        self.situations = json.loads((rules / CALL_OF_SITUATION).read_text())["situations"]
        pages = json.loads((rules / "pages.json").read_text())
        self.addresses = {title: pages["base"] + path for title, path in pages["pages"].items()}
        self.base = pages["base"]
        self.names = {rule["id"] for area in self.areas for rule in area["rules"]}

    def linked(self, text):
        """The text with its rule ids as links to the pages beside it."""
        return re.sub(r"\b[A-Z]+-\d\d\b", lambda match: f"[{match[0]}]({match[0]}.md)" if match[0] in self.names else match[0], text)

    def rule_page(self, rule):
        name, more = rule["id"], self.explained.get(rule["id"], {})
        out = [f"# {name}\n", f"Who must keep it: {LEVELS[rule['who']]}. {rule['level']}.\n", self.linked(plain(rule["statement"])) + "\n"]
        for title, member in (("Why", "why"), ("How to fix it", "fix")):
            if more.get(member):
                out.append(f"## {title}\n\n{self.linked(plain(more[member]))}\n")
        for title, member in (("Wrong", "wrong"), ("Right", "right")):
            if more.get(member):
                out.append(f"## {title}\n\n{code(more[member])}")
        out.append(f"## What shows it\n\n`{rule['observed']}`\n")
        shown = [one for one in self.situations if name in one["rules"]]
        if shown:
            out.append("## Situations that try it\n\n| Situation | When |\n|---|---|\n" +
                       "".join(f"| `{one['id']}` | {cell(plain(one['when']))} |\n" for one in shown))
        told = [check for check in self.bug_checks if name in check["rules"] or any(name in value["rules"] for value in check["values"])]
        if told:
            out.append("## Bug checks\n\n" + "".join(f"- [{check['code']} {check['name']}]({check['code']}.md)\n" for check in told))
        sources = []
        for source in rule["sources"]:
            title = source.partition(" (")[0]
            address = self.addresses.get(source) or self.addresses.get(title.strip())
            sources.append(f"- [{plain(source)}]({address})" if address else f"- {plain(source)}")
        if rule["our_choice"]:
            sources.append("- Part of it is dxgkit's own choice, because no page states it.")
        out.append("## Pages\n\n" + "\n".join(sources) + "\n")
        return "\n".join(out)

    def area_page(self, area):
        rows = "".join(f"| [{rule['id']}]({rule['id']}.md) | {LEVELS[rule['who']]} | {cell(plain(rule['statement']))} |\n" for rule in area["rules"])
        return f"# {area['area']}: {plain(area['title'])}\n\n| Rule | Whose duty | Statement |\n|---|---|---|\n{rows}"

    def bug_check_page(self, check):
        out = [f"# {check['code']} {check['name']}\n", plain(check["meaning"]) + "\n"]
        out.append("## Parameters\n\n" + "".join(f"{i}. {plain(text)}\n" for i, text in enumerate(check["parameters"], 1)))
        out.append("## Likely causes\n\n" + "".join(f"- {plain(text)}\n" for text in check["causes"]))
        if check["values"]:
            rows = "".join(f"| {value['value']} | {'`' + value['name'] + '`' if value['name'] else ''} | {cell(plain(value['meaning']))} "
                           f"| {self.linked(' '.join(value['rules']))} |\n" for value in check["values"])
            out.append(f"## Values of parameter 1\n\n| Value | Name | Meaning | Rules |\n|---|---|---|---|\n{rows}")
        if check["rules"]:
            out.append("## Rules\n\n" + "".join(f"- [{name}]({name}.md)\n" for name in check["rules"]))
        out.append(f"## Page\n\n[{check['name']}]({self.base}{check['page']})\n")
        return "\n".join(out)

    def pages(self):
        """Paths and texts, all in one folder; and the paths for the navigation."""
        out = {f"book/{rule['id']}.md": self.rule_page(rule) for area in self.areas for rule in area["rules"]}
        out |= {f"book/{check['code']}.md": self.bug_check_page(check) for check in self.bug_checks}
        navigation = []
        for area in self.areas:
            out[f"book/{area['area']}.md"] = self.area_page(area)
            navigation.append(f"book/{area['area']}.md")
        rows = "".join(f"| [{check['code']}]({check['code']}.md) | `{check['name']}` | {cell(plain(check['meaning']))} |\n" for check in self.bug_checks)
        out["book/bug-checks.md"] = f"# Bug checks\n\n| Code | Name | Meaning |\n|---|---|---|\n{rows}"
        return out, navigation + ["book/bug-checks.md"]


def tool_pages(tool):
    """The commands with their options, and what is supported: the tool's own words."""
    def said(*arguments):
        return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True).stdout

    top = said("--help")
    listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", top, re.MULTILINE)[1]
    commands = re.findall(r"^  (\S+) +(.*)$", listed, re.MULTILINE)
    assert commands, "dxgkit --help lists no commands"
    out = {"book/commands.md": "# Commands\n\n| Command | What it does |\n|---|---|\n" +
           "".join(f"| [{name}](command-{name}.md) | {cell(plain(text))} |\n" for name, text in commands if name != "help")}
    out |= {f"book/command-{name}.md": f"# dxgkit {name}\n\n{code(said(name, '--help'))}" for name, _ in commands if name != "help"}
    titles = {"ddis": "Driver entries", "callbacks": "Callbacks that a driver gets", "imports": "Exports of the NT kernel that a driver may import",
              "functions": "D3DKMT functions"}
    tables = json.loads(said("support", "--json"))
    text = "# What is supported\n\nWhat is refused answers `STATUS_NOT_SUPPORTED`, or is never called.\n"
    for key, rows in tables.items():
        text += f"\n## {titles.get(key, key)}\n\n| Name | Support | What of it |\n|---|---|---|\n"
        text += "".join(f"| `{row['name']}` | {row['support']} | {cell(plain(row['note']))} |\n" for row in rows)
    out["book/support.md"] = text
    return out, ["book/commands.md", "book/support.md"]


def interface(root, out):
    """The public headers by doxygen, as a site of its own in the folder. The lines it warned with."""
    settings = {
        "PROJECT_NAME": "dxgkit", "PROJECT_BRIEF": '"the public headers"', "INPUT": root / "include/dxgkit", "RECURSIVE": "YES", "OUTPUT_DIRECTORY": out,
        "HTML_OUTPUT": ".", "GENERATE_LATEX": "NO", "JAVADOC_AUTOBRIEF": "YES", "EXTRACT_ALL": "NO", "EXTRACT_STATIC": "YES", "WARN_IF_UNDOCUMENTED": "NO",
        "WARN_NO_PARAMDOC": "NO", "QUIET": "YES", "STRIP_FROM_PATH": root / "include", "STRIP_FROM_INC_PATH": root / "include",
        "FULL_PATH_NAMES": "YES", "SORT_MEMBER_DOCS": "NO", "HIDE_UNDOC_MEMBERS": "NO", "SHOW_USED_FILES": "NO", "HTML_TIMESTAMP": "NO",
        "MARKDOWN_SUPPORT": "YES", "AUTOLINK_SUPPORT": "NO", "HAVE_DOT": "NO", "MACRO_EXPANSION": "YES", "BUILTIN_STL_SUPPORT": "YES",
    }
    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    done = subprocess.run(["doxygen", "-"], input=text, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode != 0 and not said:
        said = [f"doxygen ended with exit code {done.returncode}"]
    return said


def write(pages, folder):
    for name, text in pages.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
