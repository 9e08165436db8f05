#!/usr/bin/env python3
"""Counts the prose of comments and pages: `tools/prose.py [-v] FILE…`.

Sentences that begin with What, Who or Where, and vague words per 100 words: what, who, such, so, thing(s), something, beside,
stand(s). Code, tables of code and quoted source are left out.
"""
import re, sys
VAGUE = {"what", "who", "whose", "such", "so", "thing", "things", "something", "beside", "stand", "stands", "stood"}
def prose(path):
    fence = False
    block = []
    for line in open(path, encoding="utf8"):
        if path.endswith(".md"):
            text = line.rstrip()
        else:
            m = re.match(r"^\s*(?:///|//!|//|\*)\s?(.*)$", line) if path.endswith((".rs", ".cuh", ".cu")) else re.match(r"^\s*#\s?(.*)$", line)
            if not m:
                m2 = re.match(r"^.*\s// ([A-Z][^\"]*)$", line)
                if block:
                    yield " ".join(block); block = []
                if m2:
                    yield m2.group(1)
                fence = False
                continue
            text = m.group(1)
        if text.lstrip().startswith("```"):
            fence = not fence
            continue
        if fence:
            continue
        if not text.strip() or re.match(r"^\s*(#|\||[-*] |\d+\. )", text):
            if block:
                yield " ".join(block)
            block = []
            t = re.sub(r"^\s*(#+|[-*]|\d+\.)\s*", "", text)
            if text.lstrip().startswith("|"):
                for cell in text.split("|"):
                    if cell.strip(): yield cell.strip()
                continue
            if t.strip(): block = [t]
            continue
        block.append(text.strip())
    if block:
        yield " ".join(block)
def main():
    args = sys.argv[1:]; verbose = "-v" in args; files = [a for a in args if a != "-v"]
    words = vague = sentences = headless = 0; long = 0
    for path in files:
        n = [0, 0, 0, 0]
        for text in prose(path):
            text = re.sub(r"`[^`]*`", "CODE", text)
            text = re.sub(r"\]\([^)]*\)", "]", text)
            for sentence in re.split(r"(?<=[.!?:;])\s+", text):
                w = re.findall(r"[A-Za-z'’-]+", sentence)
                if not w: continue
                n[2] += 1
                if w[0] in ("What", "Who", "Whose", "Where"):
                    n[3] += 1
                    if verbose: print(f"{path}: HEADLESS {sentence[:110]}")
                v = [x for x in w if x.lower() in VAGUE]
                n[0] += len(w); n[1] += len(v)
                if verbose and v: print(f"{path}: {'/'.join(v)}: {sentence[:150]}")
        wide = sum(len(l.rstrip("\n")) > 110 for l in open(path, encoding="utf8")) if path.endswith((".rs", ".cuh")) else 0
        long += wide
        words += n[0]; vague += n[1]; sentences += n[2]; headless += n[3]
        if verbose and wide: print(f"{path}: {wide} lines over 110 columns")
    print(f"{len(files)} files: {words} words, {100 * vague / max(words, 1):.2f} vague in 100; {sentences} sentences, {100 * headless / max(sentences, 1):.2f} % begin with What/Who/Where; {long} lines over 110 columns")
main()
