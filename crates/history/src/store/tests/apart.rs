//! Rows of probes and benchmarks change no figure of clients: every answer is the same with and without them.

use super::rollup::{GROUPS, RACES, of_cells, roll, windows, written};
use super::world::{self, DAYS, NOW_US, START_US};
use super::*;
use crate::report::question::from_pairs;
use crate::report::races::{self, RacesQuestion};
use crate::report::{costs, distribution, figures, incidents, series, stats};
use crate::store::columns::{DAY_US, HOUR_US, first_race_id};
use photofinish_facts::record::{RaceSource, sample};

/// Records of probes and benchmarks: all over the world's time, and before, between and after its rows.
fn apart() -> Vec<Record> {
    let mut records = world::records(99, RACES);
    let with_race: Vec<String> = records
        .iter()
        .filter(|record| matches!(record, Record::Race(_)))
        .map(|record| record.race_id().unwrap().to_owned())
        .collect();
    // An attempt without its race counts as a client's.
    records.retain(|record| with_race.iter().any(|id| Some(id.as_str()) == record.race_id()));
    let source = |id: &str| if id.ends_with(['0', '1', '2', '3']) { RaceSource::Probe } else { RaceSource::Bench };
    let moved = |id: &str| id.replace("-8000-", "-9000-");
    for record in &mut records {
        match record {
            Record::Race(race) => {
                (race.source, race.race_id) = (source(&race.race_id), moved(&race.race_id));
                race.left_out = Some("x/y@breaker".to_owned());
            }
            Record::Attempt(attempt) => attempt.race_id = moved(&attempt.race_id),
            Record::Run(_) | Record::Incident(_) => {}
        }
    }
    let alone = [-2 * DAY_US, -1, 3 * HOUR_US, DAY_US + 4 * HOUR_US, NOW_US - START_US - 1_000];
    for (n, after_us) in (1..).zip(alone) {
        let (at_us, number) = (START_US + after_us, 800_000 + n);
        let race_id = format!("{}-7000-9000-{number:012x}", first_race_id(at_us));
        let of_race =
            RaceRecord { race_id: race_id.clone(), started_at: at_us, ..sample::race_of(RaceSource::Probe, 0) };
        records.extend([race(of_race), attempt(AttemptRecord { race_id, ..sample::won(0) })]);
    }
    records
}

fn question<Q: clap::Args>(query: &str) -> Q {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    from_pairs(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()).unwrap()
}

/// What the reports answer to many questions, as text.
pub(super) fn answers(path: &Path, more: &str) -> Vec<(String, String)> {
    let (exact, cells) = (StoreReader::open(path).unwrap(), of_cells(path));
    let mut answers = Vec::new();
    for window in windows() {
        let asked = format!("{window}{more}");
        for reader in [&exact, &cells] {
            for by in GROUPS.iter().step_by(5) {
                let asked = format!("by={by}&{asked}");
                let stats = stats::ask(reader, &question::<stats::StatsQuestion>(&asked), NOW_US).unwrap();
                let objects = figures::objects(&question::<stats::StatsQuestion>(&asked).by, &stats.groups);
                let whole =
                    (stats.span_us, stats.attempts, stats.without_attempts, stats.running, stats.coverage.rolled_until);
                answers.push((asked, format!("{objects:?} {whole:?} {:?}", stats.whole_hours)));
            }
            let of_series = question::<series::SeriesQuestion>(&asked);
            let lines = series::ask(reader, &of_series, NOW_US).unwrap();
            answers.push((format!("series {asked}"), format!("{:?}", series::objects(&of_series, &lines))));
            let config = photofinish_config::parse("", "config.toml".as_ref(), &|_| None).unwrap();
            let cost = costs::ask(reader, &question(&asked), NOW_US).unwrap().json(&config);
            answers.push((format!("costs {asked}"), cost.to_string()));
            let spread = distribution::ask(reader, &question(&asked), NOW_US).unwrap().json();
            answers.push((format!("distribution {asked}"), spread.to_string()));
            let filter = question::<RacesQuestion>(&asked).window.filter(NOW_US);
            answers.push((format!("left out {asked}"), format!("{:?}", reader.left_out(&filter).unwrap())));
            answers.push((format!("oldest {asked}"), format!("{:?}", reader.oldest(filter.source).unwrap())));
            let page = races::page(reader, &question(&format!("limit=700&{asked}")), NOW_US).unwrap().json();
            answers.push((format!("races {asked}"), page.to_string()));
        }
    }
    // That asks for clients only.
    if more.is_empty() {
        answers.push(("usual".to_owned(), format!("{:?}", incidents::usual(&exact, NOW_US).unwrap())));
    }
    answers
}

/// What replay and the extent read of clients.
fn read(path: &Path) -> String {
    let reader = StoreReader::open(path).unwrap();
    let mut recorded = Vec::new();
    reader.recorded(&RecordedFilter { newest: 400, ..RecordedFilter::default() }, |one| recorded.push(one)).unwrap();
    let Extent { attempts, more, since, rolled_until, .. } = reader.extent().unwrap();
    format!("{recorded:?} {attempts} {more} {since:?} {rolled_until:?}")
}

#[tokio::test]
async fn figures_of_clients_are_the_same_with_and_without_probes_and_benchmarks() {
    let clients = world::records(98, RACES);
    let (_one, alone, _store) = written(&clients).await;
    let (_other, mixed, _store) = written(&[clients, apart()].concat()).await;
    let same = |when: &str| {
        for (of_alone, of_mixed) in answers(&alone, "").into_iter().zip(answers(&mixed, "")) {
            assert_eq!(of_alone, of_mixed, "{when}");
        }
        assert_eq!(read(&alone), read(&mixed), "{when}");
    };
    same("of rows");
    roll(&alone, None);
    roll(&mixed, None);
    same("with roll-ups");
    let keep_from = START_US + (DAYS - 2) * DAY_US + HOUR_US / 2;
    roll(&alone, Some(keep_from));
    roll(&mixed, Some(keep_from));
    same("when old rows are gone");
}

/// The rows that a source means are those of a database with only these.
#[tokio::test]
async fn each_source_is_read_alone_and_together() {
    let as_clients = |wanted: fn(RaceSource) -> bool| {
        let ids: Vec<String> = apart()
            .into_iter()
            .filter_map(|record| match record {
                Record::Race(race) if wanted(race.source) => Some(race.race_id),
                _ => None,
            })
            .collect();
        let mut records = apart();
        records.retain(|record| ids.iter().any(|id| Some(id.as_str()) == record.race_id()));
        records
    };
    let as_client = |records: Vec<Record>| {
        records.into_iter().map(|record| match record {
            Record::Race(race) => Record::Race(Box::new(RaceRecord { source: RaceSource::Client, ..*race })),
            record => record,
        })
    };
    let clients = world::records(98, RACES);
    let (_mixed, mixed, _store) = written(&[clients.clone(), apart()].concat()).await;
    roll(&mixed, None);
    let sources: [(&str, Vec<Record>); 3] = [
        ("probe", as_clients(|source| source == RaceSource::Probe)),
        ("bench", as_clients(|source| source == RaceSource::Bench)),
        ("all", [clients, apart()].concat()),
    ];
    for (source, records) in sources {
        let (_alone, alone, _store) = written(&as_client(records).collect::<Vec<_>>()).await;
        let of_mixed = answers(&mixed, &format!("&source={source}"));
        for ((_, of_alone), (asked, of_mixed)) in answers(&alone, "").into_iter().zip(of_mixed) {
            let of_mixed = ["probe", "bench"]
                .iter()
                .fold(of_mixed, |text, name| text.replace(&format!("\"source\":\"{name}\""), "\"source\":\"client\""));
            assert_eq!(of_alone, of_mixed, "{source}: {asked}");
        }
    }
}
