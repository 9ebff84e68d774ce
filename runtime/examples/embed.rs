//! Embeds texts and compares them: `embed MODEL.gguf TEXT TEXT...` prints the cosine of each with the first.

use hrx::{Model, ModelOptions};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, texts @ ..] = args.as_slice() else {
        return Err("usage: embed MODEL.gguf TEXT TEXT...".into());
    };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (text, cosine) in texts.iter().zip(cosines(Path::new(path), &texts, &ModelOptions::default())?) {
        println!("{cosine:7.4}  {text}");
    }
    Ok(())
}

/// The cosine of the angle between each text's embedding and the first one's.
pub fn cosines(path: &Path, texts: &[&str], options: &ModelOptions) -> Result<Vec<f64>, Box<dyn Error>> {
    let model = Model::open(path, options)?;
    let embeddings = texts.iter().map(|text| model.embed(text)).collect::<Result<Vec<_>, _>>()?;
    // Embeddings have length 1, so the dot product is the cosine.
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>();
    for e in &embeddings {
        let length = dot(e, e).sqrt();
        if (length - 1.0).abs() > 1e-5 {
            return Err(format!("an embedding of length {length}, not 1").into());
        }
    }
    Ok(embeddings.iter().map(|e| dot(e, &embeddings[0])).collect())
}
