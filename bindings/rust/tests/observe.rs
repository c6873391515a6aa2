//! Options and statistics, as the C library in use has them.

use primalloc::options::{self, OptionError, Thp};
use primalloc::stats::{ClassStats, Form, Stats, report};
use primalloc::{Heap, Primalloc};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Primalloc = Primalloc;

#[test]
fn options_have_their_types() {
    assert_eq!(options::PURGE_DELAY.get(), Duration::from_millis(500));
    assert_eq!(options::PURGE_DELAY.text(), "500 ms");
    assert!(options::PURGE.get());
    assert_eq!((options::THP.get(), options::THP.name()), (Thp::Auto, "thp"));
    assert_eq!(options::MIN_ALIGN.get(), 8);
    assert_eq!(options::STATS_OUTPUT.text(), "not set");
}

#[test]
fn options_change_while_the_program_runs() {
    assert_eq!(options::TRIM_THRESHOLD.get(), None);
    options::TRIM_THRESHOLD.set(Some(1 << 30)).unwrap();
    assert_eq!(options::TRIM_THRESHOLD.get(), Some(1 << 30));
    assert_eq!(options::TRIM_THRESHOLD.text(), "1 GiB");
    options::TRIM_THRESHOLD.set_text("auto").unwrap();
    assert_eq!(options::TRIM_THRESHOLD.get(), None);
    assert_eq!(options::PERTURB.set(1000), Err(OptionError::BadValue));
    assert_eq!(options::PERTURB.set_text("many"), Err(OptionError::BadValue));
    assert_eq!(options::PERTURB.set_text("a\0b"), Err(OptionError::BadValue));
    assert_eq!(options::PERTURB.get(), 0);
}

#[test]
fn statistics_see_what_is_held() {
    let before = Stats::now();
    let held = vec![1u8; 10 << 20];
    let after = Stats::now();
    assert!(after.large_bytes >= before.large_bytes + (10 << 20));
    assert!(after.rss_bytes > 0 && after.elapsed_ms < 1 << 40);
    let classes = ClassStats::all();
    let large = classes.last().unwrap();
    assert_eq!(large.block_bytes, 0);
    assert!(large.live_bytes >= 10 << 20);
    assert!(classes.iter().any(|class| class.block_bytes == 64));
    drop(held);
}

#[test]
fn reports_are_whole() {
    let _heap = Heap::new().unwrap();
    let json = report(Form::Json);
    assert!(json.starts_with('{') && json.trim_end().ends_with('}'));
    assert!(json.contains("\"mapped_bytes\""));
    assert!(report(Form::Xml).contains("</malloc>"));
    assert!(report(Form::OpenMetrics).trim_end().ends_with("# EOF"));
    assert!(report(Form::Text).contains("live"));
}
