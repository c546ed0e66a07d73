//! One run as a picture: a page of its own that draws processes as lines, messages as arrows between them, lives, leaders and
//! faults, with the trace below. Wheel: zoom; drag: move.

use crate::plan::Plan;
use crate::trace::{Trace, name};
use crate::world::Report;
use std::fmt::Write as _;

/// More messages than this are not drawn.
const ARROWS_MAX: usize = 20_000;
const WIDTH: f64 = 1400.0;
const ROW: f64 = 70.0;

const STYLE: &str = "body{font:14px sans-serif;margin:1em;background:#fff;color:#222}svg{border:1px solid #ccc;width:100%;\
height:70vh;cursor:grab}pre{font-size:12px;max-height:40vh;overflow:auto;border:1px solid #ccc;padding:.5em}\
.up{stroke:#2a7;stroke-width:4}.line{stroke:#ccc;stroke-width:1}.arrow{stroke:#58c;stroke-width:.6;opacity:.5}\
.fault{stroke:#c33;stroke-width:1;stroke-dasharray:4 3}.leader{fill:#e90}.dies{fill:#c33}.halt{fill:#000}\
text{font-size:12px;fill:#222}";

const SCRIPT: &str = "const s=document.querySelector('svg');let v=s.viewBox.baseVal,d=null;\
s.onwheel=e=>{e.preventDefault();const f=e.deltaY<0?.8:1.25,r=s.getBoundingClientRect(),\
x=v.x+v.width*(e.clientX-r.left)/r.width;v.x=x-(x-v.x)*f;v.width*=f};\
s.onmousedown=e=>{d=[e.clientX,v.x]};onmouseup=()=>{d=null};\
onmousemove=e=>{if(d)v.x=d[1]-(e.clientX-d[0])*v.width/s.getBoundingClientRect().width}";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The page of a run whose trace kept everything.
pub fn page(plan: &Plan, report: &Report, trace: &Trace) -> String {
    let size = plan.replicas + plan.clients;
    let end = report.time.max(1) as f64;
    let x = |at: u64| 60.0 + (WIDTH - 80.0) * at as f64 / end;
    let y = |who: usize| 40.0 + ROW * who as f64;
    let mut svg = String::new();
    for who in 0..size {
        let _ = writeln!(
            svg,
            "<line class=line x1={:.1} y1={y} x2={:.1} y2={y} /><text x=10 y={}>{}</text>",
            x(0),
            x(report.time),
            y(who) + 4.0,
            name(who, plan.replicas),
            y = y(who)
        );
    }
    lives(&mut svg, plan, report, trace, x, y);
    for arrow in trace.arrows.iter().take(ARROWS_MAX) {
        let _ = writeln!(
            svg,
            "<line class=arrow x1={:.2} y1={} x2={:.2} y2={}><title>{} bytes from {} to {}</title></line>",
            x(arrow.sent.0),
            y(arrow.sent.1),
            x(arrow.got.0),
            y(arrow.got.1),
            arrow.bytes,
            name(arrow.sent.1, plan.replicas),
            name(arrow.got.1, plan.replicas)
        );
    }
    marks(&mut svg, size, trace, x, y);
    let verdict = match &report.failure {
        None => "no checker found anything".to_owned(),
        Some(failure) => format!("{}: {}", failure.checker, failure.text),
    };
    format!(
        "<!doctype html><meta charset=utf-8><title>seed {seed}</title><style>{STYLE}</style>\
         <h1>seed {seed}</h1><p>{}</p><p><b>{}</b></p>\
         <svg viewBox='0 0 {WIDTH} {}' preserveAspectRatio=none>{svg}</svg>\
         <p>{} of {} messages are drawn. Orange: leads. Red: dies. Black: halts. Dashed: a fault begins.</p><pre>{}</pre>\
         <script>{SCRIPT}</script>",
        escape(&plan.summary()),
        escape(&verdict),
        40.0 + ROW * size as f64,
        trace.arrows.len().min(ARROWS_MAX),
        trace.arrows.len(),
        escape(&shown(trace)),
        seed = report.seed,
    )
}

/// The lines that people look for first; frames and disk work are in the picture, or in `--trace all`.
fn shown(trace: &Trace) -> String {
    let mut main = trace.clone();
    main.lines.retain(|line| !["frame", "send", "disk", "load"].contains(&line.what));
    main.text()
}

fn lives(
    svg: &mut String,
    plan: &Plan,
    report: &Report,
    trace: &Trace,
    x: impl Fn(u64) -> f64,
    y: impl Fn(usize) -> f64,
) {
    for who in 0..plan.replicas {
        let mut begun = None;
        let of_it = trace.lines.iter().filter(|line| line.who == Some(who));
        let ends = of_it.filter_map(|line| match line.what {
            "start" => Some((line.at, true)),
            "dies" => Some((line.at, false)),
            _ => None,
        });
        for (at, starts) in ends.chain([(report.time, false)]) {
            if let (false, Some(from)) = (starts, begun.take()) {
                let _ = writeln!(
                    svg,
                    "<line class=up x1={:.2} y1={y} x2={:.2} y2={y} />",
                    x(from),
                    x(at),
                    y = y(who)
                );
            }
            begun = starts.then_some(at);
        }
    }
}

fn marks(svg: &mut String, size: usize, trace: &Trace, x: impl Fn(u64) -> f64, y: impl Fn(usize) -> f64) {
    for line in &trace.lines {
        let title = escape(&line.text);
        let leads = line.who.is_some_and(|who| line.text.contains(&format!("leader: Some(r{}),", who + 1)));
        let class = match line.what {
            "fault" => {
                let _ = writeln!(
                    svg,
                    "<line class=fault x1={x:.2} y1=10 x2={x:.2} y2={}><title>{title}</title></line>",
                    y(size - 1) + 20.0,
                    x = x(line.at)
                );
                continue;
            }
            "event" if line.text.starts_with("Leader") && leads => "leader",
            "dies" => "dies",
            "halt" => "halt",
            _ => continue,
        };
        let _ = writeln!(
            svg,
            "<circle class={class} cx={:.2} cy={} r=5><title>{title}</title></circle>",
            x(line.at),
            line.who.map_or(0.0, &y)
        );
    }
}
