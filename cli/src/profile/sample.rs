//! A profile of a service that tests share.

use super::facts::Facts;
use super::model::{Frame, Labels, Location, Mapping, Profile, ValueType};

const MEBIBYTE: i64 = 1 << 20;

/// Functions, lines and libraries: main > handle > Cache::put > xmalloc, and others.
const FRAMES: [(&str, &str, u32, &str); 8] = [
    ("main", "/src/main.cc", 10, "service"),
    ("handle(Request const&)", "/src/server.cc", 120, "service"),
    ("Cache::put(std::string const&)", "/src/cache.cc", 42, "service"),
    ("xmalloc", "/src/memory.c", 7, "service"),
    ("parse", "/src/json.c", 300, "libjson.so.1"),
    (
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
        "/usr/include/c++/12/vector",
        9,
        "service",
    ),
    ("(in libgone.so)", "", 0, "libgone.so"),
    ("log_line", "/src/log.cc", 5, "service"),
];

fn value_types() -> Vec<ValueType> {
    let table = include_str!("../../../src/watch/profile_format.def");
    let views = table.lines().filter_map(|line| line.strip_prefix("VIEW(")?.strip_suffix("\")"));
    let pairs = views.filter_map(|view| view.split_once(", \""));
    pairs.map(|(name, unit)| ValueType { name: name.into(), unit: unit.into() }).collect()
}

/// Values of all views from those of what is in use: peak twice, total ten times as much.
fn values(objects: i64, bytes: i64) -> Vec<i64> {
    let (o, b) = (objects, bytes);
    vec![10 * o, 10 * b, o, b, 2 * o, 2 * b, o / 2, b / 2]
}

fn empty() -> Profile {
    let mut profile = Profile::new(value_types());
    assert_eq!(profile.value_types.len(), 8);
    profile.default_type = Some("inuse_space".into());
    profile.period = Some(512 << 10);
    profile.duration_nanos = 60_000_000_000;
    profile.mappings.push(Mapping { file: "/srv/service".into(), ..Mapping::default() });
    for (number, (function, file, line, library)) in FRAMES.into_iter().enumerate() {
        let frame = Frame {
            function: function.into(),
            file: Some(file).filter(|file| !file.is_empty()).map(Into::into),
            line: Some(line).filter(|&line| line > 0),
            library: library.into(),
        };
        let address = 0x1000 + 16 * number as u64;
        profile.locations.push(Location { address, mapping: Some(0), frames: vec![frame] });
    }
    profile.facts = Facts::parse([
        "format primalloc-heap 1",
        "library 0.1.0",
        "program 4711 service",
        "event 0 exit",
        "peak 30000 48234496 4000",
        "timeline 0:0:0 10000:12000000:900 30000:48234496:4000 60000:24117248:2000",
        "live_sizes 64:1000:64000 4096:900:3600000 1048576:20:20447232",
        "alloc_sizes 64:10000:640000 4096:9000:36000000 1048576:200:204472320",
        "lifetimes 16:5000:90000 1024:3000:2000000 67108864:900:90000000",
    ]);
    profile
}

pub fn service() -> Profile {
    let mut profile = empty();
    let worker = Labels { thread: profile.name_number("worker"), ..Labels::default() };
    let main = Labels { thread: profile.name_number("service"), ..Labels::default() };
    let cached = Labels { tag: profile.name_number("cache"), ..worker };
    profile.push([3, 2, 1, 0], values(1000, 12 * MEBIBYTE), cached);
    profile.push([5, 2, 1, 0], values(500, 4 * MEBIBYTE), worker);
    profile.push([4, 4, 1, 0], values(400, 5 * MEBIBYTE), worker);
    profile.push([6, 1, 0], values(100, 2 * MEBIBYTE), main);
    profile
}

/// The same service an hour later: the cache has grown, something new has come, something has gone.
pub fn service_later() -> Profile {
    let mut profile = empty();
    profile.push([3, 2, 1, 0], values(1700, 20 * MEBIBYTE), Labels::default());
    profile.push([5, 2, 1, 0], values(500, 4 * MEBIBYTE), Labels::default());
    profile.push([4, 4, 1, 0], values(300, 4 * MEBIBYTE), Labels::default());
    profile.push([7, 1, 0], values(10, 4096), Labels::default());
    profile
}
