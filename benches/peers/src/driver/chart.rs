//! The chart: for each case a bar from the best peer's speed to ours, and a mark at the limit, on a
//! logarithmic axis.

use crate::report::time;
use crate::samples::{Measured, Standing, TIE};
use std::collections::BTreeMap;
use std::fmt::Write;

const ROW: f64 = 18.0;
const TOP: f64 = 64.0;
const LEFT: f64 = 150.0;
const WIDTH: f64 = 460.0;
const RIGHT: f64 = 360.0;
/// Speeds relative to the best peer at the ends of the axis.
const ENDS: (f64, f64) = (0.1, 100.0);

/// The position of a speed on the axis, clamped to its ends.
fn place(speed: f64) -> f64 {
    let (low, high) = (ENDS.0.log10(), ENDS.1.log10());
    LEFT + WIDTH * ((speed.log10() - low) / (high - low)).clamp(0.0, 1.0)
}

const STYLE: &str = "<style>
text { font: 11px ui-sans-serif, system-ui, sans-serif; fill: #333 } \
.title { font-size: 14px; font-weight: 600 } .small { fill: #777 } .right { text-anchor: end } \
.mid { text-anchor: middle }
.grid { stroke: #ddd } .one { stroke: #777 } .first { fill: #2a9d55 } .tie { fill: #d9a514 } \
.behind { fill: #d1495b } .limit { stroke: #3b6fd4; stroke-width: 2 } .band { fill: #f6f6f6 } \
.back { fill: #fff }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .small { fill: #999 } .grid { stroke: #333 } \
.band { fill: #1c1f24 } .back { fill: #14161a } }
</style>";

/// An SVG of the cases that have a peer.
pub fn draw(cases: &[String], measured: &BTreeMap<String, Measured>, threads: usize) -> String {
    let rows: Vec<_> = cases.iter().filter(|case| measured[*case].peer().is_some()).collect();
    let (width, height) = (LEFT + WIDTH + RIGHT, TOP + ROW * rows.len() as f64 + 30.0);
    let bottom = TOP + ROW * rows.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\">\n{STYLE}\n"
    );
    let mut put = |line: std::fmt::Arguments<'_>| _ = writeln!(svg, "{line}");
    put(format_args!("<rect class=\"back\" width=\"{width}\" height=\"{height}\"/>"));
    let plural = if threads > 1 { "s" } else { "" };
    put(format_args!(
        "<text class=\"title\" x=\"10\" y=\"22\">rankform's speed relative to the best peer of each case, \
         {threads} thread{plural}</text>"
    ));
    let Standing { cases: all, first, mean, .. } = Standing::of(cases, measured);
    put(format_args!(
        "<text class=\"small right\" x=\"{}\" y=\"22\">first or within 3 % in {first} of {all}; geometric \
         mean {mean:.2}×</text>",
        width - 10.0
    ));
    let legend = [("first", "faster"), ("tie", "within 3 %"), ("behind", "slower")];
    for (i, (class, text)) in legend.into_iter().enumerate() {
        let x = LEFT + 90.0 * i as f64;
        put(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"33\" width=\"10\" height=\"10\"/><text x=\"{}\" \
             y=\"42\">{text}</text>",
            x + 14.0
        ));
    }
    let x = LEFT + 270.0;
    put(format_args!(
        "<line class=\"limit\" x1=\"{x}\" y1=\"32\" x2=\"{x}\" y2=\"44\"/><text x=\"{}\" y=\"42\">physical \
         limit</text>",
        x + 6.0
    ));
    put(format_args!(
        "<text class=\"small\" x=\"{}\" y=\"58\">ours</text><text class=\"small\" x=\"{}\" y=\"58\">best \
         peer</text>",
        LEFT + WIDTH + 12.0,
        LEFT + WIDTH + 82.0
    ));
    for (i, case) in rows.iter().enumerate() {
        let y = TOP + ROW * i as f64;
        let middle = y + ROW / 2.0 + 4.0;
        if i % 2 == 0 {
            put(format_args!("<rect class=\"band\" x=\"0\" y=\"{y}\" width=\"{width}\" height=\"{ROW}\"/>"));
        }
        put(format_args!("<text class=\"right\" x=\"{}\" y=\"{middle}\">{case}</text>", LEFT - 10.0));
    }
    for speed in [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0] {
        let (x, class) = (place(speed), if speed == 1.0 { "one" } else { "grid" });
        put(format_args!(
            "<line class=\"{class}\" x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{bottom}\"/><text class=\"small \
             mid\" x=\"{x}\" y=\"{}\">{speed}×</text>",
            bottom + 16.0
        ));
    }
    for (i, case) in rows.iter().enumerate() {
        let of = &measured[*case];
        let y = TOP + ROW * i as f64;
        let middle = y + ROW / 2.0 + 4.0;
        let ours = of.ours().map_or("not yet".to_string(), |best| time(best.ns));
        let Some(peer) = of.peer() else { continue };
        if let Some(advantage) = of.advantage() {
            let class = if advantage >= 1.0 {
                "first"
            } else if advantage * TIE >= 1.0 {
                "tie"
            } else {
                "behind"
            };
            let (from, to) = (place(advantage.min(1.0)), place(advantage.max(1.0)));
            put(format_args!(
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\"/>",
                y + 4.0,
                (to - from).max(2.0),
                ROW - 8.0
            ));
        }
        if let Some(limit) = of.limit() {
            let x = place(peer.ns / limit.ns);
            put(format_args!(
                "<line class=\"limit\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{}\"/>",
                y + 2.0,
                y + ROW - 2.0
            ));
        }
        put(format_args!("<text x=\"{}\" y=\"{middle}\">{ours}</text>", LEFT + WIDTH + 12.0));
        put(format_args!(
            "<text class=\"small\" x=\"{}\" y=\"{middle}\">{} {}: {}</text>",
            LEFT + WIDTH + 82.0,
            time(peer.ns),
            escaped(&peer.peer),
            escaped(&peer.form)
        ));
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[test]
fn speeds_stand_in_order_and_inside() {
    assert_eq!((place(0.01), place(1e6)), (LEFT, LEFT + WIDTH));
    assert!(place(0.5) < place(1.0) && place(1.0) < place(2.0));
}
