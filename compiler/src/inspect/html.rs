//! Reports as one page of HTML that needs nothing else: styles and drawings are in it, scripts are not.

use super::class::Class;
use super::report::{Inspection, KernelReport, Line, Region};
use super::svg;
use super::text::{facts, reach_meaning, region_name, roofline_steps, sums};
use std::fmt::Write;

/// Text as HTML shows it.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Names in damaged files can have any.
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.2em; margin-top: 2em; overflow-wrap: anywhere; } h3 { font-size: 1em; }
table { border-collapse: collapse; margin: .5em 0 1em; } .wide { overflow-x: auto; }
td, th { padding: .1em .8em .1em 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.code td { border: 0; padding: 0 .8em 0 0; white-space: pre; font: 13px/1.4 ui-monospace, monospace; }
.code tr:hover { background: var(--soft); } .code .remark { white-space: normal; font-family: system-ui, sans-serif; }
.offset, .kind { color: #888; } .bar { border-left: 3px solid #69c8; margin-left: 3px; padding-left: 6px; }
.valu { color: #2a7ab0; } .matrix { color: #a04bb8; } .mem { color: #b0542a; } .lds { color: #3f8f4f; }
.wait { color: #b08a00; } .scalar { color: #888; } .conflict { color: #c03030; font-weight: 600; }
.roofline { width: 100%; max-width: 720px; } .roofline text { font: 11px system-ui, sans-serif; fill: currentColor; }
.grid { stroke: var(--line); } .memory { stroke: #b0542a; stroke-width: 2; } .peak { stroke: #2a7ab0; stroke-width: 2; }
.drop { stroke: currentColor; stroke-dasharray: 3 3; opacity: .5; } .point { fill: #c03030; }
";

impl Inspection {
    /// The report as a page.
    pub fn html(&self) -> String {
        let title = match &self.kernels[..] {
            [one] => one.name.clone(),
            several => format!("{} kernels for {}", several.len(), self.target),
        };
        let mut page = Page(String::new());
        page.line("<!doctype html>");
        page.line("<html lang=\"en\"><head><meta charset=\"utf-8\">");
        page.line("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
        page.line(&format!("<title>{}</title><style>{STYLE}</style></head><body>", escape(&title)));
        let generation = self.generation.as_ref().map_or(String::new(), |g| format!(", {g}"));
        let version = self.code_object_version;
        let heading = format!("{}{generation}, code object version {version}", self.target);
        page.line(&format!("<h1>{}</h1>", escape(&heading)));
        if self.kernels.len() > 1 {
            page.line("<ul>");
            for (i, k) in self.kernels.iter().enumerate() {
                page.line(&format!("<li><a href=\"#kernel{i}\">{}</a></li>", escape(&k.name)));
            }
            page.line("</ul>");
        }
        self.kernels.iter().enumerate().for_each(|(i, k)| page.kernel(i, k));
        page.line("</body></html>");
        page.0
    }
}

struct Page(String);

impl Page {
    fn line(&mut self, text: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{text}");
    }

    fn kernel(&mut self, number: usize, k: &KernelReport) {
        self.line(&format!("<h2 id=\"kernel{number}\">{}</h2>", escape(&k.name)));
        self.line("<table>");
        for (label, value) in facts(k) {
            self.line(&format!("<tr><th>{}</th><td>{}</td></tr>", escape(label), escape(&value)));
        }
        self.line("</table>");
        if !k.notes.is_empty() {
            self.line("<ul>");
            k.notes.iter().for_each(|note| self.line(&format!("<li>{}</li>", escape(note))));
            self.line("</ul>");
        }
        self.roofline(k);
        self.mix(k);
        self.memory(k);
        self.code(k);
    }

    fn roofline(&mut self, k: &KernelReport) {
        let Some(r) = &k.roofline else { return };
        self.line("<h3>Roofline, if nothing else takes time and waves share no bytes</h3>");
        self.0.push_str(&svg::roofline(r));
        self.line("<ol>");
        roofline_steps(k, r).iter().for_each(|step| self.line(&format!("<li>{}</li>", escape(step))));
        self.line("</ol>");
    }

    fn mix(&mut self, k: &KernelReport) {
        let cell = |text: &str| format!("<td class=\"n\">{}</td>", escape(text));
        self.line("<h3>Instructions, each wave and pass</h3><div class=\"wide\"><table>");
        let names: String = k.regions.iter().map(|r| format!("<th class=\"n\">{}</th>", escape(&nested(r)))).collect();
        self.line(&format!("<tr><th></th>{names}</tr>"));
        let all: String = k.regions.iter().map(|r| cell(&r.instructions.to_string())).collect();
        self.line(&format!("<tr><th>all</th>{all}</tr>"));
        for class in Class::ALL.iter().filter(|c| k.regions.iter().any(|r| r.mix.contains_key(c))) {
            let count = |r: &Region| cell(&r.mix.get(class).map_or(String::new(), u32::to_string));
            let cells: String = k.regions.iter().map(count).collect();
            self.line(&format!("<tr><th>{}</th>{cells}</tr>", escape(class.name())));
        }
        let of_regions: Vec<_> = k.regions.iter().map(sums).collect();
        let mut labels: Vec<&str> = Vec::new();
        for (label, _) in of_regions.iter().flatten().filter(|(_, n)| *n > 0) {
            if !labels.contains(label) {
                labels.push(label);
            }
        }
        for label in labels {
            let value =
                |sums: &Vec<(&'static str, u64)>| sums.iter().find(|(l, _)| *l == label).map(|(_, n)| n.to_string());
            let cells: String = of_regions.iter().map(|sums| cell(&value(sums).unwrap_or_default())).collect();
            self.line(&format!("<tr><th>{}</th>{cells}</tr>", escape(label)));
        }
        self.line("</table></div>");
    }

    fn memory(&mut self, k: &KernelReport) {
        if !k.groups.is_empty() {
            self.line("<h3>Lines of the cache, each wave</h3><table>");
            self.line(
                "<tr><th>where</th><th>instructions</th><th>what</th><th class=\"n\">bytes</th>\
                       <th class=\"n\">lines</th><th class=\"n\">used</th></tr>",
            );
            for g in &k.groups {
                let lines = match (g.lines.least, g.lines.most) {
                    (least, most) if least == most => most.to_string(),
                    (least, most) => format!("{least} to {most}"),
                };
                self.line(&format!(
                    "<tr><td>{}</td><td>{} {}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{lines}</td>\
                     <td class=\"n\">{:.0}%</td></tr>",
                    escape(&region_name(&k.regions[g.region])),
                    g.offsets.len(),
                    escape(g.class.name()),
                    escape(g.resource.as_deref().unwrap_or_default()),
                    g.distinct_bytes,
                    100.0 * g.used
                ));
            }
            self.line("</table>");
        }
        if !k.reaches.is_empty() {
            self.line("<h3>Memory of a workgroup, each line once</h3><table>");
            for r in &k.reaches {
                let cells = [r.resource.as_str(), r.class.name(), &reach_meaning(r)].map(escape);
                self.line(&format!("<tr><td>{}</td></tr>", cells.join("</td><td>")));
            }
            self.line("</table>");
        }
    }

    fn code(&mut self, k: &KernelReport) {
        self.line("<h3>Code</h3><div class=\"wide\"><table class=\"code\">");
        for l in &k.listing {
            let bars = "<span class=\"bar\"></span>".repeat(l.depth as usize);
            let kind = l.class.map_or("no instruction", Class::name);
            let (remark, conflict) = remark(k, l);
            let class = if conflict { "remark conflict" } else { "remark" };
            self.line(&format!(
                "<tr><td class=\"offset n\">{:#x}</td><td class=\"kind\">{}</td><td>{bars}<span class=\"{}\">{}</span></td>\
                 <td class=\"{class}\">{}</td></tr>",
                l.offset,
                escape(kind),
                l.class.map_or("", colour),
                escape(&l.text),
                escape(&remark)
            ));
        }
        self.line("</table></div>");
    }
}

/// What is to be said of a line, and whether it is of bank conflicts.
fn remark(k: &KernelReport, line: &Line) -> (String, bool) {
    let conflict = k.lds.iter().any(|a| a.offset == line.offset && a.cycles > a.best_cycles);
    (line.remark.clone().unwrap_or_default(), conflict)
}

/// A region's name with how deep it is.
fn nested(region: &Region) -> String {
    let depth = region.of.as_ref().map_or(0, |l| l.depth as usize);
    format!("{}{}", "› ".repeat(depth.saturating_sub(1)), region_name(region))
}

/// The style of a kind of instructions.
fn colour(class: Class) -> &'static str {
    match class {
        Class::Matrix => "matrix",
        c if c.is_valu() => "valu",
        Class::VmemLoad | Class::VmemStore | Class::VmemAtomic | Class::Image | Class::Smem => "mem",
        Class::ScratchLoad | Class::ScratchStore => "mem",
        Class::LdsRead | Class::LdsWrite | Class::LdsAtomic | Class::LdsLanes => "lds",
        Class::Wait | Class::Barrier => "wait",
        _ => "scalar",
    }
}
