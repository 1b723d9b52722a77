//! A plot for each shape: bars of throughput, grouped by the number of streams, with lines from least to greatest.

use std::fmt::Write;

use super::{Record, Report};

const HEIGHT: f64 = 320.0;
const BAR: f64 = 18.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 50.0;
const LEGEND: f64 = 170.0;

/// Colours that are told apart by the colour-blind too.
const COLOURS: [&str; 7] = [
    "#999999", "#0072b2", "#56b4e9", "#009e73", "#d55e00", "#e69f00", "#cc79a7",
];

pub fn plot(report: &Report, shape: &str) -> String {
    let records: Vec<&Record> = report.dropping(shape).collect();
    let mut labels: Vec<String> = Vec::new();
    let mut streams: Vec<usize> = Vec::new();
    for record in &records {
        if !labels.contains(&record.label()) {
            labels.push(record.label());
        }
        if !streams.contains(&record.streams) {
            streams.push(record.streams);
        }
    }
    let greatest = records
        .iter()
        .map(|record| record.measured.gib_s.max)
        .fold(0.1, f64::max);
    let step = step(greatest);
    let scale = HEIGHT / ((greatest / step).ceil() * step);
    let group = BAR * (labels.len() as f64 + 1.0);
    let width = LEFT + group * streams.len() as f64 + LEGEND;
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = draw(
        &mut svg,
        &Plot {
            title: format!("{shape}: GiB/s of logical Arrow bytes, by number of streams"),
            machine: report.setting.place_and_date(),
            records,
            labels,
            streams,
            step,
            scale,
            group,
            width,
        },
    );
    svg
}

struct Plot<'a> {
    title: String,
    machine: String,
    records: Vec<&'a Record>,
    labels: Vec<String>,
    streams: Vec<usize>,
    step: f64,
    scale: f64,
    group: f64,
    width: f64,
}

/// A round number of which about five reach the greatest value.
fn step(greatest: f64) -> f64 {
    let rough = greatest / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

fn draw(svg: &mut String, plot: &Plot) -> std::fmt::Result {
    let bottom = TOP + HEIGHT;
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{:.0}" height="{:.0}" font-family="sans-serif" font-size="12">"#,
        plot.width,
        bottom + 50.0
    )?;
    writeln!(
        svg,
        r##"<rect width="100%" height="100%" fill="#ffffff"/>"##
    )?;
    writeln!(
        svg,
        r#"<text x="{LEFT}" y="24" font-size="15">{}</text>"#,
        escape(&plot.title)
    )?;
    writeln!(
        svg,
        r##"<text x="{LEFT}" y="{:.1}" fill="#666666" font-size="10">{}</text>"##,
        bottom + 40.0,
        escape(&plot.machine)
    )?;
    let right = plot.width - LEGEND;
    let mut value = 0.0;
    while value * plot.scale <= HEIGHT + 0.5 {
        let y = bottom - value * plot.scale;
        writeln!(
            svg,
            r##"<line x1="{LEFT}" x2="{right:.1}" y1="{y:.1}" y2="{y:.1}" stroke="#dddddd"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"##,
            LEFT - 8.0,
            y + 4.0,
            (value * 1000.0).round() / 1000.0
        )?;
        value += plot.step;
    }
    for (place, streams) in plot.streams.iter().enumerate() {
        let middle = LEFT + plot.group * (place as f64 + 0.5);
        writeln!(
            svg,
            r#"<text x="{middle:.1}" y="{:.1}" text-anchor="middle">{streams}</text>"#,
            bottom + 18.0
        )?;
    }
    for record in &plot.records {
        bar(svg, plot, record)?;
    }
    for (place, label) in plot.labels.iter().enumerate() {
        let y = TOP + 20.0 * place as f64;
        writeln!(
            svg,
            r#"<rect x="{:.1}" y="{y:.1}" width="12" height="12" fill="{}"/><text x="{:.1}" y="{:.1}">{}</text>"#,
            right + 14.0,
            colour(place),
            right + 32.0,
            y + 10.0,
            escape(label)
        )?;
    }
    writeln!(svg, "</svg>")
}

fn bar(svg: &mut String, plot: &Plot, record: &Record) -> std::fmt::Result {
    let place = |of: Option<usize>| of.unwrap_or_default();
    let series = place(
        plot.labels
            .iter()
            .position(|label| *label == record.label()),
    );
    let group = place(
        plot.streams
            .iter()
            .position(|&count| count == record.streams),
    );
    let x = LEFT + plot.group * group as f64 + BAR * (series as f64 + 0.5);
    let bottom = TOP + HEIGHT;
    let rates = &record.measured.gib_s;
    let height = rates.median * plot.scale;
    writeln!(
        svg,
        r#"<rect x="{x:.1}" y="{:.1}" width="{:.1}" height="{height:.1}" fill="{}"><title>{}: {:.2}</title></rect>"#,
        bottom - height,
        BAR - 2.0,
        colour(series),
        escape(&record.label()),
        rates.median
    )?;
    let middle = x + BAR / 2.0 - 1.0;
    writeln!(
        svg,
        r##"<line x1="{middle:.1}" x2="{middle:.1}" y1="{:.1}" y2="{:.1}" stroke="#222222"/>"##,
        bottom - rates.min * plot.scale,
        bottom - rates.max * plot.scale
    )
}

fn colour(series: usize) -> &'static str {
    COLOURS
        .get(series % COLOURS.len())
        .copied()
        .unwrap_or("#000000")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_that_drops_batches_has_a_bar_and_a_place_in_the_legend() {
        let svg = plot(&super::super::json::tests::report(), "numeric");
        assert_eq!(svg.matches("<title>").count(), 4);
        assert!(svg.contains(">lightstream ordered</text>") && !svg.contains("fresh"));
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn steps_are_round() {
        assert_eq!((step(4.6), step(0.9), step(25.0)), (1.0, 0.2, 5.0));
    }
}
