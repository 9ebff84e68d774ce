//! A roofline as a drawing.

use super::html::escape;
use super::report::Roofline;
use super::text::short;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 50.0;

/// Decades between two numbers and around them, on a logarithmic axis.
struct Axis {
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: &[f64], from: f64, to: f64) -> Axis {
        let logs = values.iter().filter(|v| v.is_finite() && **v > 0.0).map(|v| v.log10());
        let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), l| (low.min(l), high.max(l)));
        // Without a number there is still a decade.
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        let low = (low - 0.1).floor() as i32;
        Axis { low, high: ((high + 0.1).ceil() as i32).max(low + 1), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        (self.low..=self.high).map(|d| {
            let value = 10_f64.powi(d);
            (value, self.at(value))
        })
    }

    fn ends(&self) -> (f64, f64) {
        (10_f64.powi(self.low), 10_f64.powi(self.high))
    }
}

/// The roofs of a board with a kernel's point under them, as an SVG element.
pub fn roofline(r: &Roofline) -> String {
    let peaks: Vec<(f64, &str)> = [(r.vector_peak, "vector f32"), (r.matrix_peak, "matrix instructions")]
        .into_iter()
        .filter_map(|(peak, name)| Some((peak?, name)))
        .collect();
    // GB/s times operations a byte are Gop/s.
    let ridges = peaks.iter().map(|(peak, _)| peak / r.bandwidth);
    let x_values: Vec<f64> = ridges.chain(r.intensity).chain([0.1]).collect();
    let y_values: Vec<f64> =
        peaks.iter().map(|(peak, _)| *peak).chain(r.attainable).chain([r.bandwidth * 0.1]).collect();
    let x = Axis::new(&x_values, LEFT, WIDTH - RIGHT);
    let y = Axis::new(&y_values, HEIGHT - BOTTOM, TOP);
    let mut svg = format!(
        "<svg class=\"roofline\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Roofline of {}\">\n",
        escape(&r.board)
    );
    let mut draw = |element: String| {
        svg.push_str(&element);
        svg.push('\n');
    };
    for (value, at) in x.decades() {
        draw(format!(
            "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{:.1}\"/>",
            HEIGHT - BOTTOM
        ));
        draw(format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM + 16.0,
            tick(value)
        ));
    }
    for (value, at) in y.decades() {
        draw(format!("<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\"/>", WIDTH - RIGHT));
        draw(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT - 6.0, at + 4.0, tick(value)));
    }
    let (left, right) = x.ends();
    let highest = peaks.iter().map(|(peak, _)| *peak).fold(f64::MIN, f64::max);
    // Memory's roof goes up to the highest of the others, and starts where it comes into view.
    let end = if peaks.is_empty() { right } else { (highest / r.bandwidth).min(right) };
    let start = left.max(y.ends().0 / r.bandwidth);
    draw(line("memory", &x, &y, (start, start * r.bandwidth), (end, end * r.bandwidth)));
    let middle = (start * end).sqrt();
    let (at_x, at_y) = (x.at(middle) + 8.0, y.at(middle * r.bandwidth) + 16.0);
    draw(format!("<text x=\"{at_x:.1}\" y=\"{at_y:.1}\">{} GB/s</text>", short(r.bandwidth)));
    for (peak, name) in &peaks {
        draw(line("peak", &x, &y, (peak / r.bandwidth, *peak), (right, *peak)));
        let text = format!("{} Gop/s, {name}", short(*peak));
        draw(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            WIDTH - RIGHT - 4.0,
            y.at(*peak) - 5.0
        ));
    }
    if let (Some(intensity), Some(attainable)) = (r.intensity, r.attainable) {
        let (px, py) = (x.at(intensity), y.at(attainable));
        draw(format!(
            "<line class=\"drop\" x1=\"{px:.1}\" y1=\"{py:.1}\" x2=\"{px:.1}\" y2=\"{:.1}\"/>",
            HEIGHT - BOTTOM
        ));
        draw(format!("<circle class=\"point\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"5\"/>"));
        let text = format!("{} op/B, {} Gop/s: {}", short(intensity), short(attainable), r.bound.name());
        let anchor = if px > WIDTH / 2.0 { "end" } else { "start" };
        let aside = if px > WIDTH / 2.0 { -10.0 } else { 10.0 };
        draw(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>", px + aside, py + 18.0));
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    draw(format!("<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">operations a byte</text>", HEIGHT - 10.0));
    let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    draw(format!("<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">Gop/s</text>"));
    svg.push_str("</svg>\n");
    svg
}

fn line(class: &str, x: &Axis, y: &Axis, from: (f64, f64), to: (f64, f64)) -> String {
    let [x1, x2] = [from.0, to.0].map(|v| x.at(v));
    let [y1, y2] = [from.1, to.1].map(|v| y.at(v));
    format!("<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>")
}

/// A power of ten.
fn tick(value: f64) -> String {
    if value >= 1.0 { format!("{value:.0}") } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::Bound;

    fn place(intensity: Option<f64>, attainable: Option<f64>) -> Roofline {
        Roofline {
            board: "A <board>".into(),
            bandwidth: 100.0,
            bandwidth_measured: false,
            clock_mhz: 1000,
            cus: 10,
            vector_peak: Some(10_000.0),
            matrix_peak: None,
            region: 0,
            ops: 1,
            bytes: 1,
            bytes_distinct: true,
            intensity,
            memory_cycles: 1.0,
            issue_cycles: 1.0,
            matrix_cycles: None,
            bound: Bound::Memory,
            attainable,
        }
    }

    /// The numbers of an attribute, of all elements of a class.
    fn numbers(svg: &str, class: &str, attribute: &str) -> Vec<f64> {
        let of_class = svg.lines().filter(|l| l.contains(&format!("class=\"{class}\"")));
        let value = |line: &str| line.split(&format!(" {attribute}=\"")).nth(1)?.split('"').next()?.parse().ok();
        of_class.filter_map(value).collect()
    }

    #[test]
    fn a_point_bound_by_memory_lies_on_its_roof() {
        let svg = roofline(&place(Some(1.0), Some(100.0)));
        let [x1, y1, x2, y2] = ["x1", "y1", "x2", "y2"].map(|a| numbers(&svg, "memory", a)[0]);
        let (px, py) = (numbers(&svg, "point", "cx")[0], numbers(&svg, "point", "cy")[0]);
        let on_roof = y1 + (px - x1) / (x2 - x1) * (y2 - y1);
        assert!((py - on_roof).abs() < 0.5, "{py} {on_roof}");
        // The roofs meet.
        assert_eq!((x2, y2), (numbers(&svg, "peak", "x1")[0], numbers(&svg, "peak", "y1")[0]));
        assert!(svg.contains("A &lt;board&gt;") && !svg.contains("<board>"));
    }

    #[test]
    fn without_operations_there_is_no_point() {
        let svg = roofline(&place(None, None));
        assert!(!svg.contains("circle") && svg.contains("class=\"memory\""));
    }

    #[test]
    fn odd_numbers_are_drawn_within_the_frame() {
        for (intensity, attainable) in [(1e-30, 1e-30), (1e30, 1e30), (f64::MIN_POSITIVE, 1.0)] {
            let svg = roofline(&place(Some(intensity), Some(attainable)));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            let (px, py) = (numbers(&svg, "point", "cx")[0], numbers(&svg, "point", "cy")[0]);
            assert!((LEFT..=WIDTH).contains(&px) && (0.0..=HEIGHT).contains(&py), "{px} {py}");
        }
    }
}
