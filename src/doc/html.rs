//! A document as HTML. What upstreams wrote is text: all of it goes through [`escaped`].

use std::fmt::Write;

use super::{Bar, Chart, Doc, DocBlock, Grid, Head, Phrase, Phrases, Section, Share, Tone};
use ingest_base::plain::{count, plain};

/// Text as HTML shows it, without characters that mislead.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in plain(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// The document, a section for each part.
pub fn html(doc: &Doc) -> String {
    doc.parts.iter().map(part).collect()
}

/// A part. It has the address of its heading.
pub fn part(part: &Section) -> String {
    let has_bar = part
        .blocks
        .iter()
        .any(|block| matches!(block, DocBlock::Bar(_)));
    let (element, level) = if part.is_item {
        ("article", 3)
    } else {
        ("section", 2)
    };
    let class = if has_bar { " class=\"limit\"" } else { "" };
    let mut out = format!("<{element}{class}>");
    if let Some(heading) = &part.heading {
        let id = match part.is_item {
            true => String::new(),
            false => format!(
                " id=\"{}\"",
                escaped(&heading.to_lowercase().replace(' ', "-"))
            ),
        };
        out += &format!("<h{level}{id}>{}</h{level}>", escaped(heading));
    }
    let name = part.heading.as_deref().unwrap_or("Table");
    out.extend(part.blocks.iter().map(|block| match block {
        DocBlock::Line(line) => format!("<p>{}</p>", words(line)),
        DocBlock::Grid(one) => table(one, name),
        DocBlock::Bar(one) => bar(one),
        DocBlock::Chart(one) => chart(one),
        DocBlock::Source(text) => source(text, name),
    }));
    out + &format!("</{element}>")
}

fn words(words: &Phrases) -> String {
    words.phrases.iter().map(phrase).collect()
}

fn phrase(phrase: &Phrase) -> String {
    let text = escaped(&phrase.text);
    let text = match phrase.tone {
        Tone::Found => format!("<mark>{text}</mark>"),
        tone => match class(tone) {
            "" => text,
            class => format!("<span class=\"{class}\">{text}</span>"),
        },
    };
    match phrase.to.as_ref().map(|to| to.address()) {
        Some(page) if page.starts_with('/') => format!("<a href=\"{}\">{text}</a>", escaped(page)),
        Some(web) => format!("<a href=\"{}\" rel=\"noreferrer\">{text}</a>", escaped(web)),
        None => text,
    }
}

const fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain | Tone::Found => "",
        Tone::Good => "good",
        Tone::Warn => "warn",
        Tone::Bad => "bad",
        Tone::Quiet => "quiet",
    }
}

fn source(text: &str, name: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(escaped).collect();
    let (name, lines) = (escaped(name), lines.join("\n"));
    format!("<pre tabindex=\"0\" role=\"region\" aria-label=\"{name}\">{lines}</pre>")
}

/// The most columns that a phone has room for.
const FITTING: usize = 2;

/// A table. It scrolls by itself where the screen is narrow; the keyboard reaches it, since only then it can be scrolled. On a
/// phone one of many columns is a list of rows, where each cell has the head of its column beside it. The roles are those of its
/// elements, which browsers forget where the style sheet stacks them.
fn table(table: &Grid, name: &str) -> String {
    let class = |column: &Head| {
        if column.is_number {
            " class=\"number\""
        } else {
            ""
        }
    };
    let heads = table.columns.iter().map(|column| {
        let (class, head) = (class(column), escaped(&head(column)));
        format!("<th scope=\"col\" role=\"columnheader\"{class}>{head}</th>")
    });
    let rows = table.rows.iter().map(|row| {
        let cells = table.columns.iter().zip(row).map(|(column, cell)| {
            let (class, head, cell) = (class(column), escaped(&head(column)), words(cell));
            match matches!(&*cell, "" | "-") {
                true => "<td role=\"cell\" class=\"none\">-</td>".to_owned(),
                false => {
                    format!(
                        "<td role=\"cell\"{class} data-head=\"{head}\"><span>{cell}</span></td>"
                    )
                }
            }
        });
        format!("<tr role=\"row\">{}</tr>", cells.collect::<String>())
    });
    let stacked = match table.columns.len() > FITTING {
        true => " class=\"stacked\"",
        false => "",
    };
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table role=\"table\"{stacked}><thead role=\"rowgroup\">\
         <tr role=\"row\">{}</tr></thead><tbody role=\"rowgroup\">{}</tbody></table></div>",
        escaped(name),
        heads.collect::<String>(),
        rows.collect::<String>()
    )
}

/// `LAST COMPLETE` is `Last complete`. A column without a head says how it stands.
fn head(column: &Head) -> String {
    let head = column.head;
    let (first, rest) = head.split_at_checked(1).unwrap_or(("S", "TATE"));
    (first.to_owned() + &rest.to_lowercase()).replace("(utc)", "(UTC)")
}

/// The size of a picture in its own units; the style sheet stretches it. It has no text, which would shrink with the screen: what
/// it shows is beside it in words.
const WIDTH: u64 = 960;
const HEIGHT: u64 = 240;

fn scaled(part: u64, whole: u64, length: u64) -> u64 {
    let scaled = u128::from(part) * u128::from(length) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(length).min(length)
}

const fn share(share: Share) -> &'static str {
    match share {
        Share::Used => "used",
        Share::Unmetered => "unmetered",
        Share::Free => "free",
        Share::Closed => "closed",
        Share::Unknown => "unknown",
        Share::Headroom => "headroom",
    }
}

/// What the colours of bars mean.
pub fn legend<'b>(bars: impl Iterator<Item = &'b Bar>) -> String {
    let mut shown: Vec<Share> = bars
        .flat_map(|bar| &bar.shares)
        .map(|(share, _)| *share)
        .collect();
    shown.sort_unstable();
    shown.dedup();
    let items = shown
        .iter()
        .map(|one| format!("<li><i class=\"{}\"></i>{}</li>", share(*one), one.word()));
    format!("<ul class=\"legend\">{}</ul>", items.collect::<String>())
}

/// A limit in a line: its name, its bar, its figures.
fn bar(bar: &Bar) -> String {
    let whole = bar.shares.iter().map(|(_, units)| units).sum::<u64>();
    let mut from = 0_u64;
    let rects = bar.shares.iter().map(|(kind, units)| {
        let (x, to) = (scaled(from, whole, WIDTH), from.saturating_add(*units));
        from = to;
        // At least 2 wide: a few units of a large limit are seen.
        let width = scaled(to, whole, WIDTH).saturating_sub(x).max(2);
        let class = share(*kind);
        format!("<rect class=\"{class}\" x=\"{x}\" y=\"0\" width=\"{width}\" height=\"16\"/>")
    });
    let rects: String = rects.collect();
    let said = bar
        .shares
        .iter()
        .map(|(share, units)| format!("{} {}", count(*units), share.word()));
    let said = said.collect::<Vec<_>>().join(", ");
    format!(
        "<h3>{}</h3><svg class=\"bar\" viewBox=\"0 0 {WIDTH} 16\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{rects}</svg>\
         <p class=\"figures\">{}</p>",
        phrase(&bar.name),
        escaped(&format!("{}: {said}", bar.name.text)),
        words(&bar.figures)
    )
}

/// The most columns of a chart.
const MOST_COLUMNS: usize = 120;
/// The colours of the style sheet. The series beyond them share the last one.
const COLOURS: usize = 8;

/// Series upon series in each column, with the values in words: a screen reader and a touch of a column get those of each.
fn chart(chart: &Chart) -> String {
    let series = in_colours(&chart.series);
    let places = chart.gathered(MOST_COLUMNS);
    let most = places.iter().map(|at| chart.total(*at)).max();
    let most = most.unwrap_or_default();
    let top = most.max(chart.line.unwrap_or_default()).max(1);
    let last = series.iter().map(|(name, units)| {
        let last = units.last().copied().unwrap_or_default();
        format!("{name} {}", count(last))
    });
    let last: Vec<String> = last.collect();
    let enforced = chart.line.map(|units| format!("enforced {}", count(units)));
    let label = format!(
        "{}; most {}; last {}{}",
        chart.caption,
        count(most),
        last.join(", "),
        enforced
            .iter()
            .map(|text| format!("; {text}"))
            .collect::<String>()
    );
    let mut out = format!(
        "<figure><figcaption>{}</figcaption><div class=\"plot\"><p class=\"values\"><span>{}</span>",
        escaped(&chart.caption),
        count(top)
    );
    if top > 1 {
        _ = write!(out, "<span>{}</span>", count(top / 2));
    }
    _ = write!(
        out,
        "<span>0</span></p><svg class=\"day\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        escaped(&label)
    );
    for y in [0, HEIGHT / 2, HEIGHT] {
        out += &line("axis", y);
    }
    let number = places.len();
    for (place, at) in places.iter().enumerate() {
        let time = chart.times.get(*at).map_or("", String::as_str);
        let units = series
            .iter()
            .map(|(name, units)| (&**name, units.get(*at).copied()));
        let units: Vec<(&str, u64)> = units
            .map(|(name, units)| (name, units.unwrap_or(0)))
            .collect();
        out += &column(&units, (place as u64, number as u64), top, time);
    }
    out += &chart.line.map_or_else(String::new, |units| {
        line("enforced", HEIGHT - scaled(units, top, HEIGHT))
    });
    out += "</svg><p class=\"ends\">";
    for at in [0, number / 2, number.saturating_sub(1)] {
        let time = places.get(at).and_then(|at| chart.times.get(*at));
        _ = write!(
            out,
            "<span>{}</span>",
            escaped(time.map_or("", String::as_str))
        );
    }
    out += "</p></div><ul class=\"legend\">";
    for (place, words) in last.iter().enumerate() {
        _ = write!(out, "<li><i class=\"c{place}\"></i>{}</li>", escaped(words));
    }
    if let Some(enforced) = enforced {
        _ = write!(out, "<li><i class=\"enforced\"></i>{enforced}</li>");
    }
    out + "</ul></figure>"
}

fn line(class: &str, y: u64) -> String {
    format!("<line class=\"{class}\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>")
}

/// A column, from the axis up, with what it shows in words. Whatever was spent is at least visible.
fn column(units: &[(&str, u64)], (place, of): (u64, u64), top: u64, time: &str) -> String {
    let (x, end) = (scaled(place, of, WIDTH), scaled(place + 1, of, WIDTH));
    let gap = ((end - x) / 10).min(2);
    let (x, width) = (x + gap, (end - x).saturating_sub(2 * gap));
    let mut below = 0_u64;
    let (mut said, mut rects) = (Vec::new(), String::new());
    for (colour, (name, units)) in units
        .iter()
        .enumerate()
        .filter(|(_, (_, units))| *units > 0)
    {
        said.push(format!("{name} {}", count(*units)));
        let from = scaled(below, top, HEIGHT);
        below = below.saturating_add(*units);
        let height = (scaled(below, top, HEIGHT) - from).max(3);
        let y = (HEIGHT - from).saturating_sub(height);
        _ = write!(
            rects,
            "<rect class=\"c{colour}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        );
    }
    let title = escaped(&format!("{time}: {}", said.join(", ")));
    match said.is_empty() {
        true => String::new(),
        false => format!("<g><title>{title}</title>{rects}</g>"),
    }
}

/// The series with the most units, and what the others have together.
fn in_colours(series: &[(String, Vec<u64>)]) -> Vec<(String, Vec<u64>)> {
    let mut series = series.to_vec();
    series.sort_by_key(|(_, units)| std::cmp::Reverse(units.iter().sum::<u64>()));
    if series.len() <= COLOURS {
        return series;
    }
    let others = series.split_off(COLOURS - 1);
    let mut together: Vec<u64> = Vec::new();
    for (_, units) in others {
        together.resize(together.len().max(units.len()), 0);
        for (sum, units) in together.iter_mut().zip(units) {
            *sum = sum.saturating_add(units);
        }
    }
    series.push(("other jobs".to_owned(), together));
    series
}
