// Prints how llama.cpp cuts texts into words, for every pre-tokenizer name given; pretokenizer_cases.py builds and runs it.
//
//     pretokenizer_words VOCABULARY.gguf NAMES TEXTS
//
// NAMES has a name a line, TEXTS each text with a byte 0 after it. For each name a line
// `name NAME IGNORE_MERGES ADD_BOS CLEAN_SPACES BYTE_LEVEL`, or `refused NAME`, then for each text a line of the words' lengths in
// code points, or `-` where its regular expressions fail. The vocabulary is any byte-pair one; its pre-tokenizer is overridden.
#include "llama-vocab.cpp"

#include <fstream>
#include <iostream>
#include <iterator>

static std::string read(const char * path) {
    std::ifstream in(path, std::ios::binary);
    return { std::istreambuf_iterator<char>(in), {} };
}

int main(int argc, char ** argv) {
    if (argc != 4) {
        return 2;
    }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    std::vector<std::string> texts;
    std::string all = read(argv[3]);
    for (size_t at = 0; at < all.size();) {
        size_t end = all.find('\0', at);
        texts.push_back(all.substr(at, end - at));
        at = end + 1;
    }
    std::ifstream names(argv[2]);
    for (std::string name; std::getline(names, name);) {
        llama_model_kv_override overrides[2] = {};
        overrides[0].tag = LLAMA_KV_OVERRIDE_TYPE_STR;
        snprintf(overrides[0].key, sizeof overrides[0].key, "tokenizer.ggml.pre");
        snprintf(overrides[0].val_str, sizeof overrides[0].val_str, "%s", name.c_str());
        auto params = llama_model_default_params();
        params.vocab_only = true;
        params.kv_overrides = overrides;
        llama_model * model = llama_model_load_from_file(argv[1], params);
        if (!model) {
            std::cout << "refused " << name << "\n";
            continue;
        }
        const llama_vocab * vocab = llama_model_get_vocab(model);
        llm_tokenizer_bpe tokenizer(*vocab);
        std::cout << "name " << name << " " << vocab->get_ignore_merges() << " " << vocab->get_add_bos() << " "
                  << vocab->get_clean_spaces() << " " << tokenizer.byte_encode << "\n";
        for (const auto & text : texts) {
            try {
                std::string line;
                for (const auto & word : unicode_regex_split(text, tokenizer.regex_exprs, false)) {
                    line += std::to_string(unicode_cpts_from_utf8(word).size()) + " ";
                }
                std::cout << line << "\n";
            } catch (const std::exception &) {
                std::cout << "-\n";
            }
        }
        llama_model_free(model);
    }
}
