//! The lines about what was slow: a few in a second, and then a count of those that were left out.

use super::life::{Life, Stage};
use quorate_types::{Span, Time};

/// So many lines pass within [`WINDOW`].
const LINES: u32 = 5;
const WINDOW: Span = Span::from_secs(1);

/// Writes the lines.
#[derive(Debug)]
pub(super) struct Lines {
    /// The service, as the configuration names it.
    service: String,
    since: Option<Time>,
    shown: u32,
    hidden: u64,
}

impl Lines {
    pub(super) fn new(service: String) -> Self {
        Self { service, since: None, shown: 0, hidden: 0 }
    }

    /// Whether lines were left out of which the log does not say yet how many.
    pub(super) const fn owe_count(&self) -> bool {
        self.hidden > 0
    }

    /// Begins another window, if the last one is over. Gives how many lines were left out in it.
    fn turns(&mut self, now: Time) -> u64 {
        if self.since.is_some_and(|since| now.since(since) < WINDOW) {
            return 0;
        }
        (self.since, self.shown) = (Some(now), 0);
        std::mem::take(&mut self.hidden)
    }

    /// Says how many lines were left out, if the last window is over.
    pub(super) fn count(&mut self, now: Time) {
        let left_out = self.turns(now);
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "{left_out} more lines about slow requests were left out: at most {LINES} are written in a second"
            );
        }
    }

    /// Whether another line may be written now.
    fn allows(&mut self, now: Time) -> bool {
        self.count(now);
        let may = self.shown < LINES;
        self.shown += u32::from(may);
        self.hidden += u64::from(!may);
        may
    }

    /// The execution of a batch was slow.
    pub(super) fn execution(&mut self, now: Time, life: &Life, took: Span) {
        let Some(place) = life.place.filter(|_| self.allows(now)) else { return };
        tracing::warn!(
            client = first_client(life),
            number = first_number(life),
            also = others(life),
            seq = place.seq.number(),
            service = self.service,
            requests = place.count,
            bytes = place.bytes,
            took_ms = millis(took),
            leads = place.proposed,
            "execution was slow"
        );
    }

    /// The requests of a batch waited for long.
    pub(super) fn request(&mut self, now: Time, life: &Life, took: Span) {
        let Some(place) = life.place.filter(|_| self.allows(now)) else { return };
        let mut each = [None; 6];
        life.stages().for_each(|(stage, began, ended)| each[stage as usize] = Some(ended.since(began)));
        let ms = |stage: Stage| each[stage as usize].map(millis);
        // What is beside the others, or not over, held nobody up for longer than agreement did.
        let longest = life.stages().filter(|(stage, ..)| *stage != Stage::Log);
        let longest =
            longest.max_by_key(|(_, began, ended)| ended.since(*began)).map(|(stage, ..)| stage.name());
        tracing::warn!(
            client = first_client(life),
            number = first_number(life),
            also = others(life),
            seq = place.seq.number(),
            instance = place.instance.number(),
            view = place.view.number(),
            service = self.service,
            requests = place.count,
            bytes = place.bytes,
            took_ms = millis(took),
            admit_ms = ms(Stage::Admit),
            order_ms = ms(Stage::Order),
            log_ms = ms(Stage::Log),
            merge_ms = ms(Stage::Merge),
            execute_ms = ms(Stage::Execute),
            reply_ms = ms(Stage::Reply),
            longest,
            "a request waited for long"
        );
    }
}

/// Milliseconds, down to a microsecond.
fn millis(span: Span) -> f64 {
    (span.nanos() / 1000) as f64 / 1000.0
}

fn first_client(life: &Life) -> Option<u64> {
    life.asked.first()?.client.map(|client| client.number())
}

fn first_number(life: &Life) -> Option<u64> {
    life.asked.first().map(|asked| asked.number.number())
}

/// The requests behind the first, each as its client and its number, as far as they are named.
fn others(life: &Life) -> Option<String> {
    let name = |asked: &super::life::Asked| {
        let client = asked.client.map_or_else(|| "?".to_owned(), |client| client.number().to_string());
        format!("{client}:{}", asked.number.number())
    };
    let names: Vec<String> = life.asked.iter().skip(1).map(name).collect();
    (!names.is_empty()).then(|| names.join(" "))
}
