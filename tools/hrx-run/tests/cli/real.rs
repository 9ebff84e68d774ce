//! Conversations with the two real models, through a pipe, where they are present.

use crate::support::{command, ran, ran_with_input};
use hrx_tests::golden::real_model_file;

const CHAT: [&str; 5] = ["--chat", "--temp", "0", "-n", "24"];
const TEXT: [&str; 4] = ["--temp", "0", "-n", "24"];

#[test]
fn smollm2_answers_by_its_own_template() {
    let Some(file) = real_model_file("SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    let said = ran_with_input(&mut command(&file, &CHAT), b"What is the capital of France?\nAnd of Italy?\n");
    assert!(!said.err.contains("warning"), "{}", said.err);
    let answers = said.text();
    assert!(answers.contains("Paris") && answers.contains("Rome"), "{answers}");
    // The first answer is what the model writes after the prompt that its template gives.
    let prompt = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
                  <|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n";
    let first = ran(&mut command(&file, &[&TEXT[..], &["-p", prompt]].concat())).text();
    assert!(!first.is_empty() && answers.starts_with(&first), "{first:?} {answers:?}");
}

#[test]
fn gemma_without_a_template_gets_its_turns() {
    let Some(file) = real_model_file("gemma-3-270m-q4_k_m.gguf") else { return };
    let said = ran_with_input(&mut command(&file, &CHAT), b"What is the capital of France?\nAnd of Italy?\n");
    assert!(said.err.contains("the file has no chat template") && said.err.contains("called gemma"), "{}", said.err);
    let answers = said.text();
    let prompt = "<start_of_turn>user\nWhat is the capital of France?<end_of_turn>\n<start_of_turn>model\n";
    let first = ran(&mut command(&file, &[&TEXT[..], &["-p", prompt]].concat())).text();
    assert!(!first.is_empty() && answers.starts_with(&first), "{first:?} {answers:?}");
    let single = ran(&mut command(&file, &[&CHAT[..], &["-p", "What is the capital of France?"]].concat())).text();
    assert_eq!(single, first + "\n", "one message is the first turn");
}
