#!/usr/bin/env python3
"""Records how texts are cut into words, for every pre-tokenizer that llama.cpp knows (needs the package tokenizers).

    pretokenizer_cases.py LLAMA_CPP BUILD VOCABULARY.gguf > runtime/tests/pretokenizer-cases.json

LLAMA_CPP is its source, BUILD a build of it with shared libraries in BUILD/bin and the configured headers in BUILD/src,
VOCABULARY any byte-pair vocabulary (golden/tokenizers/ggml-vocab-gpt-2.gguf.zst, unpacked). Names come from its source.
Names with the same words and the same flags make one group; lengths are in code points.

Flags are llama.cpp's, and so are the words but for the names in REWRITTEN: there it has other expressions than the models'
own tokenizer.json, or does not take white space beyond ASCII as such, and the words are those of Hugging Face's tokenizers
with the models' expressions, which llama.cpp's source quotes.
"""
import ast
import json
import pathlib
import re
import subprocess
import sys
import tempfile

TEXTS = [
    "",
    " ",
    "   ",
    "\n",
    "\t\t x",
    "a\n\n\nb \n c  \r\n\r\n d   ",
    "Hello world",
    "  Hello,   WORLD!  ",
    "I'll I'LL we've WE'VE it's IT'S don't 'tis ''s 'Re",
    "HelloWorld helloWORLD ABCdef aBcDe XMLHttpRequest",
    "0 12 345 6789 12345678901 1,234,567.89 1e-10",
    "abc123def456 x1y2 v1.2.3",
    "١٢٣٤٥ ４５６７８ Ⅷ ½²",
    "été naïve ÀÉÎ ÀÉÎx façade ΑΒΓ αβγ Здравствуй МИР",
    "e\u0301te\u0301 n\u0303 \u0301x",
    "你好，世界！这是2024年。",
    "漢字かなカナ交じり文ABC 한국어 텍스트 ㄱㄴ",
    "ไทยภาษา ລາວ ខ្មែរ မြန်မာ",
    "हिन्दी में लिखा বাংলা తెలుగు",
    "العربية ١٢٣ עברית",
    "🙂🙃 👨‍👩‍👧 ⚡x ✅",
    "!@#$%^&*()_+-=[]{}|;':\",./<>?`~",
    "a.b,c;d:e!f?g (h) [i] {j} <k> \"l\" 'm'",
    "$x == `y` && z || ~w ^ v + u < t > s = r",
    "/usr/bin/env -S --flag=1 http://a.b/c?d=e#f",
    "def f(x):\n    return x * 2  # comment\n\n\nclass A:\n\tpass\n",
    "\u00a0x\u2003y\u3000z\u200bw\u0085v",
    "foo/\nbar //\r\n\n baz",
    "don’t “quote” — dash … ‘x’",
    "x" * 5 + " " * 9 + "y" + " " * 33 + "z",
    "<sentinel:12> IMGIMGABCZ <|im_start|>user",
    "Türkiye'nin İstanbul'da ılık",
    "ǅ ǅabc ʰa ªb ﬁn",
    "!hello .world -Foo #Bar _baz",
    "1st 2nd 3RD 10TH 100km/h",
    "a  b   c    d     e",
    "\n \n  \n   x\n",
    "㐀𠀀豈 一a龥 々〆",
    "，。！？；：、（）《》「」",
    "𝔘𝔫𝔦 Ω K Å ℃ ™ ©",
    "end. ",
    "end.\n",
]
# The expressions of llama.cpp's source under this case; None for Kimi-K2's, which it describes only.
REWRITTEN = {
    "deepseek-llm": "DEEPSEEK_LLM",
    "deepseek-coder": "DEEPSEEK_CODER",
    "youtu": "YOUTU",
    "tekken": "TEKKEN",
    "tiny_aya": "TINY_AYA",
    "cohere2moe": "TINY_AYA",
    "superbpe": "SUPERBPE",
    "kimi-k2": None,
} | {name: "GPT4O" for name in ("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2")}
UPPER, LOWER = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]")
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI_K2 = [
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SHORT}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SHORT}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
]
NOT_CAUSAL = {"whitespace", "mmbert"}


def expressions(text, case):
    """Those of a case of llama.cpp's source; of an original and an adapted one the original."""
    if case is None:
        return KIMI_K2
    block = text[text.index(f"case LLAMA_VOCAB_PRE_TYPE_{case}:") :]
    block = block[: block.index("break;")]
    quoted = re.compile(r'"(?:[^"\\]|\\.)*"')
    comments = [line for line in block.split("\n") if line.strip().startswith("//")]
    found = [m for line in comments for m in quoted.findall(line)]
    found = found or [m for line in block.split("\n") for m in quoted.findall(line)]
    return [ast.literal_eval(m) for m in found]


def own_words(patterns):
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Sequence, Split

    cut = Sequence([Split(Regex(p), "isolated") for p in patterns])
    return [[str(len(piece)) for piece, _ in cut.pre_tokenize_str(t)] for t in TEXTS]


def main(source, build, vocabulary):
    source, build = pathlib.Path(source).resolve(), pathlib.Path(build).resolve()
    text = (source / "src/llama-vocab.cpp").read_text(encoding="utf-8")
    names = list(dict.fromkeys(re.findall(r'tokenizer_pre == "([^"]+)"', text)))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "names").write_text("".join(n + "\n" for n in names), encoding="utf-8")
        (folder / "texts").write_bytes(b"".join(t.encode() + b"\0" for t in TEXTS))
        include = [f"-I{source / d}" for d in ("src", "include", "ggml/include")] + [f"-I{build / 'src'}"]
        here = pathlib.Path(__file__).with_name("pretokenizer_words.cpp")
        libraries = [f"-L{build / 'bin'}", f"-Wl,-rpath,{build / 'bin'}", "-lllama", "-lggml", "-lggml-base"]
        defines = ["-DNDEBUG", "-DGGML_SHARED", "-DLLAMA_SHARED"]
        program = folder / "words"
        subprocess.run(["g++", "-std=c++17", *defines, *include, here, *libraries, "-o", program], check=True)
        arguments = [program, vocabulary, folder / "names", folder / "texts"]
        lines = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.split("\n")
    groups = {}
    at = 0
    while at < len(lines) and lines[at]:
        kind, name, *flags = lines[at].split(" ")
        if kind == "refused":
            raise SystemExit(f"llama.cpp refuses {name}")
        # Its lines for empty words say nothing; `-` is a text that its regular expressions fail on.
        words = [[n for n in line.split() if n != "0"] for line in lines[at + 1 : at + 1 + len(TEXTS)]]
        at += 1 + len(TEXTS)
        if name in NOT_CAUSAL:
            continue
        if name in REWRITTEN:
            words = own_words(expressions(text, REWRITTEN[name]))
        key = json.dumps([flags, words])
        group = dict(zip(("ignore_merges", "add_bos", "clean_spaces", "byte_level"), (f == "1" for f in flags)))
        group = groups.setdefault(key, {"names": [], **group, "words": [" ".join(w) for w in words]})
        group["names"].append(name)
    # A group a line keeps the file small and its changes readable.
    print('{"texts":', json.dumps(TEXTS, ensure_ascii=True) + ",")
    print('"groups": [')
    print(",\n".join(json.dumps(g, ensure_ascii=True, separators=(",", ":")) for g in groups.values()))
    print("]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
