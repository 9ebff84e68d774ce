// Prints which ids llama.cpp was fed one at a time, and writes its logits; own_goldens runs it.
//
//     logits MODEL N_CTX KV OUT N_DECODE ID... [/ ID...]
//
// Feeds the ids before the slash in one batch, then N_DECODE ids one at a time: those behind the slash, else the best one
// of each last row. OUT gets a float32 row for each id that was fed. KV is f32 (a cache of float32, no flash attention) or
// f16 (llama.cpp's defaults).
#include "llama.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static void fail(const std::string & what) {
    fprintf(stderr, "logits: %s\n", what.c_str());
    exit(1);
}

// Runs the ids, which begin at `position`, and appends a row for each.
static void feed(llama_context * ctx, const std::vector<llama_token> & ids, int position, int n_vocab, std::vector<float> & rows) {
    llama_batch batch = llama_batch_init(ids.size(), 0, 1);
    for (size_t i = 0; i < ids.size(); i++) {
        batch.token[i]     = ids[i];
        batch.pos[i]       = position + i;
        batch.n_seq_id[i]  = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i]    = true;
    }
    batch.n_tokens = ids.size();
    if (llama_decode(ctx, batch) != 0) {
        fail("a batch was refused");
    }
    for (size_t i = 0; i < ids.size(); i++) {
        const float * row = llama_get_logits_ith(ctx, i);
        rows.insert(rows.end(), row, row + n_vocab);
    }
    llama_batch_free(batch);
}

int main(int argc, char ** argv) {
    if (argc < 7) {
        fail("MODEL N_CTX KV OUT N_DECODE ID... [/ ID...]");
    }
    const int n_decode = atoi(argv[5]);
    std::vector<llama_token> prompt, forced;
    bool behind = false;
    for (int i = 6; i < argc; i++) {
        if (!strcmp(argv[i], "/")) {
            behind = true;
        } else {
            (behind ? forced : prompt).push_back(atoi(argv[i]));
        }
    }
    if (behind && (int) forced.size() != n_decode) {
        fail("behind the slash are not N_DECODE ids");
    }

    // Errors alone.
    llama_log_set([](ggml_log_level level, const char * text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) {
            fputs(text, stderr);
        }
    }, nullptr);
    ggml_backend_load_all();
    auto model_params = llama_model_default_params();
    // The processor's matrix tiles want whole blocks of rows, and are not there in every sandbox that says so.
    model_params.use_extra_bufts = false;
    llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (!model) {
        fail(std::string("cannot load ") + argv[1]);
    }
    auto params = llama_context_default_params();
    params.n_ctx = atoi(argv[2]);
    params.n_threads = params.n_threads_batch = 1;
    if (!strcmp(argv[3], "f32")) {
        params.type_k = params.type_v = GGML_TYPE_F32;
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    } else if (strcmp(argv[3], "f16")) {
        fail("KV is f32 or f16");
    }
    llama_context * ctx = llama_init_from_model(model, params);
    if (!ctx) {
        fail("no context");
    }

    const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    std::vector<float> rows;
    feed(ctx, prompt, 0, n_vocab, rows);
    for (int i = 0; i < n_decode; i++) {
        auto last = rows.end() - n_vocab;
        llama_token id = behind ? forced[i] : (llama_token) (std::max_element(last, rows.end()) - last);
        printf("%d ", id);
        feed(ctx, { id }, prompt.size() + i, n_vocab, rows);
    }
    printf("\n");

    FILE * out = fopen(argv[4], "wb");
    if (!out || fwrite(rows.data(), sizeof(float), rows.size(), out) != rows.size() || fclose(out)) {
        fail(std::string("cannot write ") + argv[4]);
    }
    llama_free(ctx);
    llama_model_free(model);
    return 0;
}
