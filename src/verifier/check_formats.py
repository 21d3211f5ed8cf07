#!/usr/bin/env python3
"""check_formats.py sarif|junit FILE: what the schemas of these formats ask, as far as this project writes them."""
import json
import re
import sys
import xml.etree.ElementTree


def check(condition, text):
    if not condition:
        sys.exit("not valid: " + text)


def keys(thing, allowed, needed=(), where=""):
    check(isinstance(thing, dict), f"{where} is no object")
    for name in thing:
        check(name in allowed, f"{where} has the unknown property {name}")
    for name in needed:
        check(name in thing, f"{where} lacks {name}")


def text_of(message, where):
    keys(message, {"text", "markdown"}, ("text",), where)
    check(isinstance(message["text"], str) and message["text"], f"{where}.text is empty")


def uri(value, where):
    check(re.fullmatch(r"[A-Za-z0-9/_.~%-]+", value), f"{where}: {value!r} is no URI reference")


def location(place, where):
    keys(place, {"physicalLocation", "logicalLocations", "message"}, (), where)
    physical = place.get("physicalLocation")
    if physical is not None:
        keys(physical, {"artifactLocation", "region", "address"}, ("artifactLocation",), where)
        uri(physical["artifactLocation"]["uri"], where)
        if "region" in physical:
            check(physical["region"]["startLine"] >= 1, f"{where}: startLine")
        if "address" in physical:
            keys(physical["address"], {"relativeAddress", "fullyQualifiedName"}, (), where)
            check(isinstance(physical["address"]["relativeAddress"], int), f"{where}: relativeAddress")
    for logical in place.get("logicalLocations", []):
        keys(logical, {"fullyQualifiedName", "kind", "name"}, (), where)


def check_sarif(text):
    log = json.loads(text)
    keys(log, {"$schema", "version", "runs"}, ("version", "runs"), "the log")
    check(log["version"] == "2.1.0", "version")
    check(len(log["runs"]) == 1, "one run")
    run = log["runs"][0]
    keys(run, {"tool", "invocations", "artifacts", "results"}, ("tool", "results"), "the run")
    driver = run["tool"]["driver"]
    keys(driver, {"name", "rules", "version"}, ("name",), "the tool")
    rules = driver["rules"]
    check(len({rule["id"] for rule in rules}) == len(rules), "a rule is there twice")
    for rule in rules:
        keys(rule, {"id", "shortDescription", "help", "properties"}, ("id",), "a rule")
        for part in ("shortDescription", "help"):
            if part in rule:
                text_of(rule[part], rule["id"])
    for invocation in run["invocations"]:
        keys(invocation, {"commandLine", "executionSuccessful", "toolExecutionNotifications"}, ("executionSuccessful",), "an invocation")
        check(isinstance(invocation["executionSuccessful"], bool), "executionSuccessful")
        for note in invocation["toolExecutionNotifications"]:
            keys(note, {"level", "message"}, ("message",), "a notification")
            text_of(note["message"], "a notification")
    for artifact in run["artifacts"]:
        uri(artifact["location"]["uri"], "an artifact")
    for result in run["results"]:
        keys(result, {"ruleId", "ruleIndex", "level", "message", "locations", "stacks", "suppressions", "properties"}, ("message",), "a result")
        check(result["level"] in ("none", "note", "warning", "error"), "level")
        check(rules[result["ruleIndex"]]["id"] == result["ruleId"], "ruleIndex does not lead to ruleId")
        text_of(result["message"], "a result")
        for place in result["locations"]:
            location(place, "a location")
        for suppression in result.get("suppressions", []):
            keys(suppression, {"kind", "status", "justification"}, ("kind",), "a suppression")
            check(suppression["kind"] in ("inSource", "external"), "the kind of a suppression")
            check(suppression["status"] in ("accepted", "underReview", "rejected"), "the status of a suppression")
        for stack in result.get("stacks", []):
            keys(stack, {"message", "frames"}, ("frames",), "a stack")
            for frame in stack["frames"]:
                keys(frame, {"location", "module"}, (), "a frame")
                location(frame["location"], "a frame")


def check_junit(text):
    root = xml.etree.ElementTree.fromstring(text)
    check(root.tag == "testsuites", "the root")
    for suite in root:
        check(suite.tag == "testsuite", "a suite")
        cases = list(suite)
        check(int(suite.get("tests")) == len(cases), "the number of tests")
        for name, tag in (("failures", "failure"), ("skipped", "skipped")):
            check(int(suite.get(name)) == sum(case.find(tag) is not None for case in cases), name)
        for case in cases:
            check(case.tag == "testcase" and case.get("name") and case.get("classname"), "a case")


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8", newline="") as file:
        {"sarif": check_sarif, "junit": check_junit}[sys.argv[1]](file.read())
