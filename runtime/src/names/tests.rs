use super::*;
use std::fs;
use tempfile::TempDir;

/// A folder with stores of every kind.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn places(&self) -> Places {
        Places {
            ollama: vec![self.0.path().join("ollama")],
            hugging_face: vec![self.0.path().join("hub")],
            lm_studio: vec![self.0.path().join("studio")],
            llama_cpp: vec![self.0.path().join("cache")],
        }
    }

    /// A layer of Ollama's, as its manifest lists it.
    fn layer(&self, kind: &str, digit: char, content: &str) -> String {
        let hash = digit.to_string().repeat(64);
        self.write(&format!("ollama/blobs/sha256-{hash}"), content);
        let media = format!("application/vnd.ollama.image.{kind}");
        format!(r#"{{"mediaType":"{media}","digest":"sha256:{hash}","size":{}}}"#, content.len())
    }

    fn manifest(&self, path: &str, layers: &[String]) -> PathBuf {
        let json = format!(r#"{{"schemaVersion":2,"config":{{}},"layers":[{}]}}"#, layers.join(","));
        self.write(&format!("ollama/manifests/{path}"), json)
    }

    fn find(&self, name: &str) -> Found {
        self.places().find(name).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn error(&self, name: &str) -> String {
        match self.places().find(name) {
            Ok(found) => panic!("{name}: {found:?}"),
            Err(e) => e.to_string(),
        }
    }
}

#[test]
fn a_file_is_itself_and_so_is_a_path_that_is_no_name() {
    let home = Home::new();
    let file = home.write("model.gguf", "x");
    let found = home.find(file.to_str().unwrap());
    assert_eq!((found.path, found.keeper), (file, Keeper::File));
    for path in ["/nowhere/model.gguf", "./model", "../m", "~/m", "a//b", "a/../b", ""] {
        assert_eq!(home.find(path).path, Path::new(path), "{path}: opening it says what is wrong");
    }
}

#[test]
fn ollamas_models_are_found_by_name_and_tag_with_their_parameters() {
    let home = Home::new();
    let model = home.layer("model", 'a', "GGUF one");
    let params = home.layer("params", 'b', r#"{"stop":["<|x|>",""],"temperature":0.5,"top_k":7,"num_ctx":2048}"#);
    let system = home.layer("system", 'c', "Be brief.");
    let template = home.layer("template", 'd', "{{ .Prompt }}");
    home.manifest("registry.ollama.ai/library/smollm2/135m", &[model.clone(), params, system, template]);
    let found = home.find("smollm2:135m");
    assert_eq!(fs::read(&found.path).unwrap(), b"GGUF one");
    assert_eq!(found.keeper, Keeper::Ollama);
    let wanted = Defaults {
        stop: vec!["<|x|>".into()],
        temperature: Some(0.5),
        top_k: Some(7),
        system: Some("Be brief.".into()),
        ..Defaults::default()
    };
    assert_eq!(found.defaults, wanted);
    assert_eq!(home.find("smollm2").name, "smollm2:135m", "it is the only one");

    let other = home.layer("model", 'e', "GGUF two");
    home.manifest("registry.ollama.ai/library/smollm2/1.7b", std::slice::from_ref(&other));
    let error = home.error("smollm2");
    assert!(error.contains("`smollm2` may be any of 2: smollm2:1.7b, smollm2:135m"), "{error}");
    home.manifest("registry.ollama.ai/library/smollm2/latest", &[other]);
    assert_eq!(home.find("smollm2").name, "smollm2:latest");

    home.manifest("registry.ollama.ai/me/mine/latest", std::slice::from_ref(&model));
    home.manifest("hf.co/Org/Repo-GGUF/Q8_0", &[model]);
    assert_eq!(home.find("me/mine").name, "me/mine:latest");
    for name in ["hf.co/Org/Repo-GGUF:Q8_0", "Org/Repo-GGUF:q8_0", "Org/Repo-GGUF"] {
        assert_eq!(home.find(name).name, "hf.co/Org/Repo-GGUF:Q8_0", "{name}");
    }
}

#[test]
fn parameters_take_what_ollama_takes() {
    let parsed = ollama::parse_params(br#"{"top_k":-1,"temperature":1,"num_gpu":99,"min_p":null}"#).unwrap();
    assert_eq!(parsed, Defaults { top_k: Some(0), temperature: Some(1.0), ..Defaults::default() });
    assert!(ollama::parse_params(br#"{"temperature":"hot"}"#).unwrap_err().contains("no parameters of Ollama"));
}

#[test]
fn a_damaged_store_is_said_with_the_file() {
    let home = Home::new();
    let model = home.layer("model", 'a', "GGUF");
    let dir = "registry.ollama.ai/library/m";
    let manifest = |tag: &str, layers: &[String]| home.manifest(&format!("{dir}/{tag}"), layers);
    manifest("adapted", &[model.clone(), home.layer("adapter", 'b', "x")]);
    manifest("empty", &[]);
    manifest("short", &[model.replace("\"size\":4", "\"size\":5")]);
    manifest("gone", &[model.replace("aaaa", "ffff")]);
    manifest("evil", &[model.replace("sha256:aaaa", "sha256:../a")]);
    manifest("params", &[model.clone(), home.layer("params", 'c', "[]")]);
    home.write(&format!("ollama/manifests/{dir}/json"), "{");
    home.write(&format!("ollama/manifests/{dir}/long"), vec![b' '; 2 << 20]);
    for (tag, words) in [
        ("adapted", "m:adapted has an adapter"),
        ("empty", "m:empty has no model in GGUF"),
        ("short", "the layer has 4 bytes, and its manifest says 5"),
        ("gone", "the layer can't be read: No such file"),
        ("evil", "is no SHA-256 digest"),
        ("params", "no parameters of Ollama"),
        ("json", "no manifest of Ollama"),
        ("long", "has more than 1048576 bytes"),
    ] {
        let error = home.error(&format!("m:{tag}"));
        assert!(error.contains(words) && error.starts_with(home.0.path().to_str().unwrap()), "{tag}: {error}");
    }
}

#[test]
fn hugging_faces_cache_is_read_at_the_branch_main() {
    let home = Home::new();
    let repo = "hub/models--Org--Tiny-GGUF";
    home.write(&format!("{repo}/refs/main"), "abc123\n");
    home.write(&format!("{repo}/snapshots/old/tiny-Q2_K.gguf"), "");
    let snapshot = format!("{repo}/snapshots/abc123");
    let q4 = home.write(&format!("{snapshot}/tiny-Q4_K_M.gguf"), "");
    home.write(&format!("{snapshot}/tiny-IQ4_K.gguf"), "");
    home.write(&format!("{snapshot}/mmproj-Q4_K_M.gguf"), "");
    home.write(&format!("{snapshot}/README.md"), "");
    let split = home.write(&format!("{snapshot}/F16/tiny-F16-00001-of-00002.gguf"), "");
    home.write(&format!("{snapshot}/F16/tiny-F16-00002-of-00002.gguf"), "");
    for name in [
        "Org/Tiny-GGUF:Q4_K_M",
        "org/tiny-gguf:q4_k_m",
        "hf.co/Org/Tiny-GGUF:Q4_K_M",
        "Tiny-GGUF:Q4_K_M",
        "Org/Tiny-GGUF/tiny-Q4_K_M.gguf",
        "tiny-Q4_K_M",
        "tiny-Q4_K_M.gguf",
    ] {
        let found = home.find(name);
        assert_eq!((found.path, found.keeper), (q4.clone(), Keeper::HuggingFace), "{name}");
    }
    assert_eq!(home.find("Org/Tiny-GGUF:F16").path, split);
    let error = home.error("Org/Tiny-GGUF");
    assert!(error.contains("any of 3: Org/Tiny-GGUF/F16/tiny-F16-00001-of-00002.gguf, Org/Tiny-GGUF/tiny-IQ4_K.gguf"));
    for name in ["Org/Tiny-GGUF:Q4_K", "Org/Tiny-GGUF:Q2_K", "Org/Tiny-GGUF/mmproj-Q4_K_M.gguf", "Other/Tiny-GGUF"] {
        let error = home.error(name);
        assert!(error.contains(&format!("no file and no model named `{name}`")), "{error}");
        assert!(error.contains("hub (Hugging Face)") && error.contains("studio (LM Studio, which is not there)"));
    }
    // Without a branch main there is whatever was downloaded.
    fs::remove_file(home.0.path().join(repo).join("refs/main")).unwrap();
    assert_eq!(home.find("Org/Tiny-GGUF:Q2_K").keeper, Keeper::HuggingFace);
    home.write(&format!("{repo}/refs/main"), "../../../escape");
    assert_eq!(home.find("Org/Tiny-GGUF:Q2_K").keeper, Keeper::HuggingFace);
    home.write("hub/models--nobodys/snapshots/1/n.gguf", "");
    assert_eq!(home.find("nobodys").name, "nobodys/n.gguf");
}

#[test]
fn folders_of_lm_studio_and_llama_cpp_are_read() {
    let home = Home::new();
    let studio = home.write("studio/Org/Repo-GGUF/m-Q8_0.gguf", "");
    assert_eq!(home.find("Org/Repo-GGUF").path, studio);
    assert_eq!(home.find("m-Q8_0").name, "Org/Repo-GGUF/m-Q8_0.gguf");
    let flat = home.write("cache/ggml-org_gemma-GGUF_gemma-Q4_0.gguf", "");
    home.write("cache/ggml-org_gemma-GGUF_gemma-Q8_0.gguf", "");
    for name in ["ggml-org/gemma-GGUF:Q4_0", "GGML-org/gemma-GGUF/gemma-Q4_0.gguf", "ggml-org_gemma-GGUF_gemma-Q4_0"] {
        assert_eq!(home.find(name).path, flat, "{name}");
    }
    // The same repository in two places: files tell the candidates apart.
    home.write("hub/models--Org--Repo-GGUF/snapshots/1/m-Q8_0.gguf", "");
    let error = home.error("Org/Repo-GGUF");
    assert!(error.contains("hub/models--Org") && error.contains("studio/Org"), "{error}");
    #[cfg(unix)]
    {
        // Unless they are one file.
        let copy = home.0.path().join("hub/models--Org--Repo-GGUF/snapshots/1/m-Q8_0.gguf");
        fs::remove_file(&copy).unwrap();
        std::os::unix::fs::symlink(&studio, &copy).unwrap();
        assert_eq!(home.find("Org/Repo-GGUF").path.canonicalize().unwrap(), studio.canonicalize().unwrap());
    }
}

#[test]
fn places_follow_the_variables_of_the_programs() {
    let places = |set: &[(&str, &str)]| {
        let of = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v));
        Places::from_variables(of)
    };
    let home = places(&[("HOME", "/h")]);
    assert_eq!(home.ollama[0], Path::new("/h/.ollama/models"));
    assert_eq!(home.hugging_face, [Path::new("/h/.cache/huggingface/hub")]);
    assert_eq!(home.lm_studio, [Path::new("/h/.lmstudio/models"), Path::new("/h/.cache/lm-studio/models")]);
    assert_eq!(home.llama_cpp, [Path::new("/h/.cache/llama.cpp")]);
    let set = places(&[("HOME", "/h"), ("OLLAMA_MODELS", "/o"), ("HF_HOME", "/hf"), ("XDG_CACHE_HOME", "/c")]);
    assert_eq!((set.ollama, set.hugging_face), (vec!["/o".into()], vec![PathBuf::from("/hf/hub")]));
    assert_eq!(set.llama_cpp, [Path::new("/c/llama.cpp")]);
    let hub = places(&[("HF_HUB_CACHE", "/hub"), ("HF_HOME", "/hf"), ("LLAMA_CACHE", "/l")]);
    assert_eq!(hub.hugging_face, [Path::new("/l"), Path::new("/hub")]);
    let nothing = places(&[]).find("smollm2").unwrap_err().to_string();
    assert!(nothing.contains("/usr/share/ollama"), "{nothing}");
}

#[cfg(unix)]
#[test]
fn links_to_nothing_are_no_models() {
    let home = Home::new();
    let repo = "hub/models--Org--Tiny-GGUF/snapshots/1";
    let model = home.write(&format!("{repo}/tiny-Q8_0.gguf"), "");
    let dangling = model.with_file_name("tiny-Q4_0.gguf");
    std::os::unix::fs::symlink("../../blobs/gone", &dangling).unwrap();
    // A link to a folder above makes a walk that never ends, but for its depth.
    std::os::unix::fs::symlink("..", model.with_file_name("up")).unwrap();
    assert_eq!(home.find("Org/Tiny-GGUF:Q8_0").path, model);
    assert_eq!(home.find("Org/Tiny-GGUF").path, model, "the other one is not there");
    for name in ["Org/Tiny-GGUF:Q4_0", "tiny-Q4_0"] {
        let error = home.error(name);
        let words = "tiny-Q4_0.gguf: it is a link to ../../blobs/gone, where nothing is; download the model again";
        assert!(error.ends_with(words), "{error}");
    }
}

#[test]
fn a_folder_may_be_called_as_a_model_is() {
    let home = Home::new();
    assert_eq!(home.find("src").keeper, Keeper::File, "a folder of this crate: opening it says what is wrong");
    let model = home.layer("model", 'a', "GGUF");
    home.manifest("registry.ollama.ai/library/src/latest", &[model.replace("sha256:", "sha256-")]);
    assert_eq!(home.find("src").keeper, Keeper::Ollama);
}
